"""Gaussian data that are drawn only as far as they are looked at: first-order dynamics in law without a matrix.

A method of first order sees its data X (M, N), independent N(0, 1/N), only through products X v and X' f. After some of them it
knows the images A = X R' of an orthonormal set R (k, N) of vectors and the images C = L X of an orthonormal set L (r, M)
of forces, and nothing else. Given those, X is Gaussian (Bolthausen's conditioning):

    X = L' C + (1 - L' L) A' R + (1 - L' L) X~ (1 - R' R),       X~ independent of all that was seen, entries N(0, 1/N).

So X e for a new unit vector e, orthogonal to R, is L' (C e) + (1 - L' L) xi with xi ~ N(0, 1/N) drawn now: e joins R, the
answer joins A. X' f likewise, with the sides exchanged: one function does both. The answers have exactly the law of those of
a matrix that was drawn beforehand, at finite N and for any method, however it chooses its questions.

Source: Y. M. Lu, "Householder dice: a matrix-free algorithm for simulating dynamics on Gaussian and random orthogonal
ensembles", arXiv 2101.07464; kept here as bases with their images in place of reflections, because they are what `theory.path`
conditions on.

What it costs. Memory (N + M)(k + r) numbers; a product one pass over a basis and its images, two more where there is a new
direction. A matrix takes N M numbers and one pass over them.

Error budget. A vector is new where the part of it outside R is longer than `tolerance` times the vector; a shorter part is left
out of the answer. What is answered is then exact for another vector, |v - v'| <= tolerance |v|: in law, the method runs on a
matrix drawn beforehand and rounds its questions to that accuracy. The vectors themselves are not rounded, so what is left out
does not add up along a slow path: it joins R when it has grown to the tolerance. Rounding of the arithmetic comes on top:
`defect` measures it, in units of an entry of L X R', which is 1/sqrt(N) of an answer's length. At N = 100,000 in float32 it is
1e-3, or 3e-6 of an answer's length, below the tolerance of 1e-5.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from theory.checks import NotConverged, ParameterError, count, generator, one, positive

Array = NDArray[Any]

TOLERANCE = {"float32": 1e-5, "float64": 1e-8}  # some hundred units of the last digit
_ONE_BY_ONE = 3  # vectors up to which products row by row beat one product of matrices, of so few rows


def bytes_needed(m: int, n: int, directions: int, dtype: Any = np.float32) -> int:
    """Bytes of bases and images of M x N data with so many directions on each side, and of the vectors in hand."""
    return np.dtype(dtype).itemsize * (m + n) * (2 * directions + 8)


class Deferred:
    """Data X (M, N), independent N(0, 1/N), drawn as they are asked for: see the module.

    Parameters
    ----------
    m, n : rows and columns of X.
    rng : numpy.random.Generator that draws what is new; its state belongs to that of the data.
    directions : most directions of either side; the memory is reserved, and taken as it is filled.
    dtype : float32 or float64, of bases, images and answers.
    tolerance : relative length from which the new part of a vector counts; None: `TOLERANCE` of the dtype.
    memory : bytes that may be taken; None: no limit.

    Raises
    ------
    ParameterError
        where an argument is unfit, or memory does not hold so many directions; the message says how many it holds.

    >>> data = Deferred(6, 4, np.random.default_rng(0), dtype=np.float64)
    >>> once, again = data.push(np.eye(4)[:1]), data.push(np.eye(4)[:1])
    >>> once.shape, bool(np.allclose(once, again)), data.k, data.r
    ((6, 1), True, 1, 0)
    """

    def __init__(
        self,
        m: int,
        n: int,
        rng: np.random.Generator,
        *,
        directions: int = 1000,
        dtype: Any = np.float32,
        tolerance: float | None = None,
        memory: int | None = None,
    ) -> None:
        self.m, self.n, self.rng = count("m", m), count("n", n), generator("rng", rng)
        self.dtype = np.dtype(dtype)
        if self.dtype.name not in TOLERANCE:
            raise ParameterError(f"dtype must be float32 or float64, got {self.dtype.name}")
        tolerance = TOLERANCE[self.dtype.name] if tolerance is None else tolerance
        self.tolerance = one("tolerance", positive("tolerance", tolerance))
        if not self.tolerance < 1:
            raise ParameterError(f"tolerance must be below 1, got {self.tolerance}")
        self.directions = count("directions", directions)
        if memory is not None:
            self._require_fit(memory)
        self._right = _Side(min(self.directions, self.n), self.n, self.m, self.dtype)
        self._left = _Side(min(self.directions, self.m), self.m, self.n, self.dtype)

    def push(self, vectors: Array) -> Array:
        """X v of b vectors (b, N): (M, b).

        Raises NotConverged where the directions are more than the memory was reserved for; the state is then as before the
        call, and `state` and `resumed` go on with more.
        """
        return self._answer(self._right, self._left, np.asarray(vectors, self.dtype), "vectors").T

    def pull(self, forces: Array) -> Array:
        """X' f of b forces (M, b): (b, N). Raises as `push`."""
        given = np.ascontiguousarray(np.asarray(forces, self.dtype).T)
        return self._answer(self._left, self._right, given, "forces")

    @property
    def k(self) -> int:
        """Number of vectors in R."""
        return self._right.size

    @property
    def r(self) -> int:
        """Number of forces in L."""
        return self._left.size

    @property
    def right(self) -> Array:
        """R (k, N): orthonormal span of the vectors asked for. A view, as the three below."""
        return self._right.basis[: self.k]

    @property
    def images(self) -> Array:
        """A (k, M): X e for each row e of R."""
        return self._right.images[: self.k]

    @property
    def left(self) -> Array:
        """L (r, M): orthonormal span of the forces asked for."""
        return self._left.basis[: self.r]

    @property
    def coimages(self) -> Array:
        """C (r, N): X' l for each row l of L."""
        return self._left.images[: self.r]

    @property
    def nbytes(self) -> int:
        """Bytes of the bases and images in use."""
        return self.dtype.itemsize * (self.m + self.n) * (self.k + self.r)

    def defect(self) -> float:
        """How far the answers are from those of one matrix: the largest of |R R' - 1|, |L L' - 1| and |L A' - C R'| (both are
        L X R'), entry by entry; rounding, whatever the tolerance. Entries of L X R' are about 1/sqrt(N)."""
        gaps = [side @ side.T - np.eye(len(side)) for side in (self.right, self.left) if len(side)]
        if self.k and self.r:
            gaps.append((self.left @ self.images.T - self.coimages @ self.right.T) * np.sqrt(self.n))
        return max((float(np.max(np.abs(gap))) for gap in gaps), default=0.0)

    def state(self) -> dict[str, Array]:
        """All that the next answers depend on, as arrays that numpy.savez takes; `resumed` makes equal data of it."""
        generated = np.array(json.dumps(self.rng.bit_generator.state, default=_plain))
        shape = np.array([self.m, self.n, self.directions])
        found = {"shape": shape, "tolerance": np.array(self.tolerance), "generator": generated}
        return found | {name: getattr(self, name).copy() for name in ("right", "images", "left", "coimages")}

    @classmethod
    def resumed(
        cls, state: Mapping[str, Array], directions: int | None = None, memory: int | None = None
    ) -> Deferred:
        """The data of a `state`, with room for `directions` (None: as many as before).

        Raises ParameterError as the constructor, and where there is no room for those that are known.
        """
        m, n, before = (int(x) for x in state["shape"])
        kept = json.loads(str(state["generator"]))
        bits = getattr(np.random, kept["bit_generator"])()
        bits.state = kept
        data = cls(
            m,
            n,
            np.random.Generator(bits),
            directions=before if directions is None else directions,
            dtype=state["right"].dtype,
            tolerance=float(state["tolerance"]),
            memory=memory,
        )
        known = max(len(state["right"]), len(state["left"]))
        if known > data.directions:
            raise ParameterError(
                f"directions must be at least the {known} known already, got {data.directions}"
            )
        data._right.append(state["right"], state["images"])
        data._left.append(state["left"], state["coimages"])
        return data

    def _require_fit(self, memory: int) -> None:
        need = bytes_needed(self.m, self.n, self.directions, self.dtype)
        if need <= memory:
            return
        fit = (memory // (self.dtype.itemsize * (self.m + self.n)) - 8) // 2
        raise ParameterError(
            f"{self.directions} directions of {self.m} x {self.n} data take {need / 2**30:.3g} GiB, the limit is "
            f"{memory / 2**30:.3g} GiB: {f'{fit} fit' if fit > 0 else 'none fit'}"
        )

    def _answer(self, side: _Side, other: _Side, vectors: Array, what: str) -> Array:
        """The images (b, .) of vectors (b, .) on one side of X; what of them is new is drawn, given the other side."""
        if vectors.ndim != 2 or vectors.shape[1] != side.basis.shape[1]:
            raise ParameterError(
                f"{what} must be (b, {side.basis.shape[1]}), turned for forces, got {vectors.shape}"
            )
        lengths = np.linalg.norm(vectors, axis=1)
        if not np.all(np.isfinite(lengths)):
            raise ParameterError(f"{what} must be finite")
        known, rest = side.split(vectors)
        new = np.flatnonzero(np.linalg.norm(rest, axis=1) > self.tolerance * lengths)
        if not len(new):
            return _rows(known, side.images[: side.size])
        # The first subtraction left rounding of the whole vector's size in a rest that may be much shorter: once more.
        again, shorter = side.split(rest[new])
        known[new] += again
        directions, parts = _orthonormal(shorter, self.tolerance * lengths[new])
        if side.size + len(directions) > len(side.basis):
            raise NotConverged(
                f"the {what} span more than directions = {self.directions}: more memory, a larger tolerance or fewer steps"
            )
        fresh = self._fresh(side, other, directions)
        answers = _rows(known, side.images[: side.size])
        # Known parts from the images, new parts from what was drawn now.
        answers[new] += parts @ fresh
        side.append(directions, fresh)
        return answers

    def _fresh(self, side: _Side, other: _Side, directions: Array) -> Array:
        """The images of new orthonormal directions: what the other side knows of them, and fresh normals beside it."""
        drawn = self.rng.standard_normal((len(directions), side.images.shape[1]), dtype=self.dtype)
        # Entries of variance 1/N.
        drawn /= np.sqrt(self.n).astype(self.dtype)
        basis, images = other.basis[: other.size], other.images[: other.size]
        # (1 - L'L) xi + L' (C e): the part along L is known, not drawn.
        return drawn + _rows(_inner(directions, images) - _inner(drawn, basis), basis)


class _Side:
    """An orthonormal basis (size, d) and its images (size, e), in arrays of `most` rows: pages of them that were never written
    take no memory."""

    def __init__(self, most: int, d: int, e: int, dtype: np.dtype) -> None:
        self.basis, self.images, self.size = np.empty((most, d), dtype), np.empty((most, e), dtype), 0

    def split(self, vectors: Array) -> tuple[Array, Array]:
        """Components (b, size) of vectors (b, d) along the basis, and the rest (b, d)."""
        basis = self.basis[: self.size]
        known = _inner(vectors, basis)
        return known, vectors - _rows(known, basis)

    def append(self, directions: Array, images: Array) -> None:
        """Further rows of basis and images."""
        end = self.size + len(directions)
        self.basis[self.size : end], self.images[self.size : end], self.size = directions, images, end


def _inner(vectors: Array, basis: Array) -> Array:
    """vectors @ basis.T for few vectors: (b, k). A product of matrices copies the basis, which takes longer than to read it."""
    if len(vectors) <= _ONE_BY_ONE:
        return (
            np.stack([basis @ vector for vector in vectors])
            if len(vectors)
            else np.empty((0, len(basis)), basis.dtype)
        )
    return np.ascontiguousarray((basis @ vectors.T).T)


def _rows(coefficients: Array, basis: Array) -> Array:
    """coefficients @ basis for few rows: (b, d)."""
    if len(coefficients) <= _ONE_BY_ONE and len(coefficients):
        return np.stack([row @ basis for row in coefficients])
    return coefficients @ basis


def _orthonormal(vectors: Array, least: Array) -> tuple[Array, Array]:
    """Orthonormal directions (j, d) of vectors (b, d), and the vectors' parts (b, j) along them; a vector adds none where what
    the earlier ones leave of it is not longer than its `least` (b,). Gram-Schmidt, twice."""
    found: list[Array] = []
    for vector, short in zip(vectors, least, strict=True):
        rest = vector.copy()
        # Twice: the first pass leaves rounding of the whole length.
        for e in found + found:
            rest -= (e @ rest) * e
        length = np.linalg.norm(rest)
        if length > short:
            found.append(rest / length)
    directions = np.stack(found) if found else np.empty((0, vectors.shape[1]), vectors.dtype)
    return directions, vectors @ directions.T


def _plain(value: Any) -> Any:
    """What JSON does not know of a generator's state: arrays and NumPy's integers."""
    return value.tolist()
