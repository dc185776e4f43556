"""Covariances Sigma of the inputs x = Sigma^(1/2) xi / sqrt(N): laws of eigenvalues of mean 1 (tr Sigma = N).

A law is given by its quantile function s(x), 0 < x < 1: theory takes nodes and probabilities, samples at one N the
eigenvalues s((i + 1/2)/N), rescaled to mean 1. Students and teachers are isotropic in the eigenbasis.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from theory.checks import ParameterError, count, finite, function, positive, real, shown

Array = NDArray[np.float64]

_NODES = 200  # Gauss-Legendre nodes of a smooth law
_FINE = 100_000  # quantiles by which a law and its samples are compared
_RANKS = 100.0  # of a power law: ratio of the last rank to the first
OWN = "own"
_LARGE = 4096  # N at which the eigenvalues of a function stand for their law


@dataclass(frozen=True)
class Covariance:
    """Law of the eigenvalues of Sigma, hashable; see `covariance` for the specs that make one.

    kind        "levels", "power" or "mp"; "own" of one made by `of_function`
    parameters  levels and own: (eigenvalue, share) pairs in a row; power: exponent, ratio of ranks; mp: the ratio c
    name        what records call a function
    value       n -> n eigenvalues, in any order
    source      hash of what that was made of, where a program has recorded it
    """

    kind: str
    parameters: tuple[float, ...]
    name: str = ""
    value: Callable[[int], Any] | None = field(default=None, hash=False, repr=False)
    source: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        if self.value is not None:
            return
        if self.kind not in _CHECKS:
            raise ParameterError(f"covariance must be levels:, power: or mp:, got {shown(self.kind)}")
        values = np.atleast_1d(finite("covariance", self.parameters))
        object.__setattr__(self, "parameters", _CHECKS[self.kind](values))

    @classmethod
    def of(cls, eigenvalues: ArrayLike, shares: ArrayLike | None = None) -> Covariance:
        """Covariance with these eigenvalues (n,), in equal shares unless told, rescaled to mean 1.

        Raises ParameterError unless they are at least 0 and finite with a positive mean, and shares positive.

        >>> Covariance.of([0.5, 1.5]).spec
        'levels:0.5@0.5,1.5@0.5'
        """
        s = np.atleast_1d(finite("eigenvalues", eigenvalues))
        w = np.ones(s.shape) if shares is None else np.atleast_1d(positive("shares", shares))
        if s.ndim != 1 or w.shape != s.shape:
            raise ParameterError(f"eigenvalues and shares must be (n,), got shapes {s.shape} and {w.shape}")
        values, index = np.unique(s, return_inverse=True)
        pairs = np.stack([values, np.bincount(index, w)], axis=1)
        return cls("levels", tuple(pairs.ravel().tolist()))

    @classmethod
    def of_function(cls, name: str, value: Callable[[int], Any]) -> Covariance:
        """Covariance whose N eigenvalues are value(N), rescaled to mean 1: samples have those, theory those of N = 4096.

        Raises ParameterError where the function fails, gives other than N finite numbers of at least 0 that are not all 0, or
        others when it is called again.

        >>> Covariance.of_function("halves", lambda n: [0.5] * (n // 2) + [1.5] * (n // 2)).law()[0]
        array([0.5, 1.5])
        """
        law = cls(OWN, (), str(name), function("covariance", value))
        values, shares = _gauss(law.eigenvalues(_LARGE))
        if not np.array_equal(law.eigenvalues(_LARGE), law.eigenvalues(_LARGE)):
            raise ParameterError(f"covariance {name} must give the same eigenvalues at every call")
        return cls(OWN, tuple(np.stack([values, shares], axis=1).ravel().tolist()), str(name), value)

    @property
    def spec(self) -> str:
        """The text that `covariance` turns back into this law; the name of a function."""
        if self.kind == OWN:
            return self.name
        if self.kind == "levels":
            pairs = zip(self.parameters[::2], self.parameters[1::2], strict=True)
            return "levels:" + ",".join(f"{s:.17g}@{w:.17g}" for s, w in pairs)
        return f"{self.kind}:" + "@".join(f"{v:.17g}" for v in self.parameters)

    @property
    def is_identity(self) -> bool:
        """Whether every eigenvalue is 1."""
        return self.kind != OWN and bool(np.all(self.law()[0] == 1))

    def law(self) -> tuple[Array, Array]:
        """Eigenvalues (n,) and probabilities (n,) whose averages are those of the law, to 1e-13 for smooth functions."""
        return _law(self)

    def eigenvalues(self, n: int) -> Array:
        """The N = n eigenvalues of a sample, ascending, mean 1: the law's quantiles at (i + 1/2) / n, rescaled.

        Raises ParameterError unless n is a count, and where an eigenvalue has too small a share to be among n eigenvalues:
        samples would be those of another law than theory's (`distance` says by how much the others differ).

        >>> covariance("levels:0.5@0.5,1.5@0.5").eigenvalues(4)
        array([0.5, 0.5, 1.5, 1.5])
        """
        n = count("n", n)
        if self.value is not None:
            return _called(self.name, self.value, n)
        s = _QUANTILES[self.kind](self, (np.arange(n) + 0.5) / n)
        for words, share, present in _parts(self, s):
            if not present:
                raise ParameterError(
                    f"covariance has {words}, share {share:.3g}, for no coordinate of a sample at N = {n}:"
                    f" N must be {math.ceil(1 / share)} or more"
                )
        return s / s.mean()

    def distance(self, n: int) -> float:
        """Mean difference between the N = n eigenvalues of a sample and the law's, in order, in units of their mean 1.

        It is of order 1/n but where the law has a long tail or eigenvalues of small shares. Raises ParameterError as
        `eigenvalues` does.

        >>> round(covariance("levels:0.5@0.6,1.75@0.4").distance(4), 4)
        0.2111
        """
        drawn = self.eigenvalues(n)
        # Quantiles on a fine grid, some for each of the n eigenvalues
        within = max(1, _FINE // n)
        s = _QUANTILES[self.kind](self, (np.arange(n * within) + 0.5) / (n * within))
        raw, w = _LAWS[self.kind](self) if self.value is None else (np.ones(1), np.ones(1))
        return float(np.mean(np.abs(np.repeat(drawn, within) - s * w.sum() / (raw @ w))))


def covariance(given: str | Covariance) -> Covariance:
    """`given` itself, or the law that a text describes:

    levels:0.4@0.667,2.2@0.333   eigenvalues and their shares (both rescaled: shares to sum 1, eigenvalues to mean 1)
    power:1.2 or power:1.2@1000  s = C rank^(-1.2), ranks evenly spread from 1 to 100 (or 1000). Without a last rank the law
                                 would change with N, and for exponents of 1 and more a few directions would hold all
    mp:0.5                       Marchenko-Pastur: eigenvalues of Z Z^T / T, N/T = 0.5; for c > 1 a share 1 - 1/c is 0

    Parameters
    ----------
    given : str or Covariance

    Returns
    -------
    Covariance

    Raises
    ------
    ParameterError
        On anything else.

    >>> covariance("mp:0.5").spec
    'mp:0.5'
    """
    if isinstance(given, Covariance):
        return given
    kind, colon, text = given.partition(":") if isinstance(given, str) else ("", "", "")
    try:
        parts = [[float(v) for v in part.split("@")] for part in text.split(",")]
    except ValueError:
        parts = []
    if not colon or kind not in _CHECKS or not parts or (kind != "levels" and len(parts) > 1):
        raise ParameterError(
            "covariance must be like levels:0.4@0.667,2.2@0.333 or power:1.2 or power:1.2@100 or mp:0.5, "
            "or a Covariance (Covariance.of makes it of eigenvalues, Covariance.of_function of a function of N), "
            f"got {shown(given)}"
        )
    if kind == "levels":
        parts = [part if len(part) > 1 else [*part, 1.0] for part in parts]
        if any(len(part) != 2 for part in parts):
            raise ParameterError(f"levels must be eigenvalue@share, got {shown(given)}")
    return Covariance(kind, tuple(v for part in parts for v in part))


def _check_levels(values: Array) -> tuple[float, ...]:
    if not values.size or values.size % 2:
        raise ParameterError(f"levels must be pairs of eigenvalue and share, got {values.size} numbers")
    s, w = values[::2], values[1::2]
    if np.any(s < 0) or np.any(w <= 0) or s @ w <= 0:
        raise ParameterError("levels must have eigenvalues of at least 0, not all 0, and positive shares")
    w = w / w.sum()
    if abs(s @ w - 1) > 1e-15:  # what has mean 1 already stays as it is, so that a spec read twice is one law
        s = s / (s @ w)
    order = np.argsort(s, kind="stable")
    return tuple(np.stack([s[order], w[order]], axis=1).ravel().tolist())


def _check_power(values: Array) -> tuple[float, ...]:
    if values.size not in (1, 2):
        raise ParameterError(
            f"power must have an exponent and at most a last rank, got {values.size} numbers"
        )
    exponent, ranks = float(values[0]), float(values[1]) if values.size == 2 else _RANKS
    if not abs(exponent) <= 10 or not 1 < ranks <= 1e6:
        raise ParameterError(
            f"power must have an exponent within 10 of 0 and a last rank from 1 to 1e6, got {exponent} and {ranks}"
        )
    return exponent, ranks


def _check_mp(values: Array) -> tuple[float, ...]:
    if values.size != 1 or not 0 < values[0] <= 100:
        raise ParameterError(f"mp must have one ratio c from above 0 to 100, got {shown(values.tolist())}")
    return (float(values[0]),)


_CHECKS: dict[str, Callable[[Array], tuple[float, ...]]] = {
    "levels": _check_levels,
    "power": _check_power,
    "mp": _check_mp,
}


@lru_cache(maxsize=64)
def _law(law: Covariance) -> tuple[Array, Array]:
    s, w = _LAWS[law.kind](law)
    w = w / w.sum()
    if law.kind != "levels":
        s = s / (s @ w)
    s.setflags(write=False)
    w.setflags(write=False)
    return s, w


def _called(name: str, value: Callable[[int], Any], n: int) -> Array:
    """value(n), ascending and of mean 1; ParameterError on what is no n eigenvalues, and where it fails."""
    try:
        found = real(f"eigenvalues of covariance {name}", value(n))
    except ParameterError:
        raise
    except Exception as error:
        raise ParameterError(
            f"covariance {name} fails at N = {n}: {type(error).__name__}: {shown(error)}"
        ) from None
    if found.shape != (n,):
        raise ParameterError(f"covariance {name} must give N = {n} eigenvalues, got shape {found.shape}")
    if not np.all(np.isfinite(found)) or np.any(found < 0) or not np.any(found > 0):
        raise ParameterError(
            f"covariance {name} must give finite eigenvalues of at least 0, not all 0, at N = {n}"
        )
    return np.sort(found / found.mean())


def _gauss(values: Array) -> tuple[Array, Array]:
    """Eigenvalues and shares of the same averages as `values` in equal shares: those themselves where they are few, else the
    nodes of Gauss, exact for polynomials up to degree 2 _NODES - 1: Lanczos' tridiagonal matrix of diag(values) from (1, .., 1)
    """
    distinct, counts = np.unique(values, return_counts=True)
    if len(distinct) <= _NODES:
        return distinct, counts / len(values)
    basis = np.zeros((_NODES, len(distinct)))
    diagonal, beside = np.zeros(_NODES), np.zeros(_NODES)
    vector = np.sqrt(counts / len(values))
    for k in range(_NODES):
        basis[k] = vector
        vector = distinct * vector
        diagonal[k] = vector @ basis[k]
        for _ in range(2):  # orthogonal to all before: once leaves rounding behind
            vector = vector - basis[: k + 1].T @ (basis[: k + 1] @ vector)
        beside[k] = np.linalg.norm(vector)
        vector = vector / beside[k]
    nodes, vectors = np.linalg.eigh(np.diag(diagonal) + np.diag(beside[:-1], 1) + np.diag(beside[:-1], -1))
    return np.clip(nodes, 0, None), vectors[0] ** 2


def _own_law(law: Covariance) -> tuple[Array, Array]:
    if not law.parameters:
        law.eigenvalues(1)  # says why there is none
    return _levels_law(law)


def _own_quantiles(law: Covariance, x: Array) -> Array:
    """Those of the eigenvalues at N = _LARGE, of mean 1."""
    return np.interp(x, (np.arange(_LARGE) + 0.5) / _LARGE, law.eigenvalues(_LARGE))


def _levels_law(law: Covariance) -> tuple[Array, Array]:
    return np.array(law.parameters[::2]), np.array(law.parameters[1::2])


def _power_law(law: Covariance) -> tuple[Array, Array]:
    exponent, ranks = law.parameters
    x, w = np.polynomial.legendre.leggauss(_NODES)
    # Nodes in log rank: eigenvalues span decades.
    log_rank = np.log(ranks) * (1 + x) / 2  # even in rank is weight rank d(log rank)
    return np.exp(-exponent * log_rank), w * np.exp(log_rank)


def _mp_law(law: Covariance) -> tuple[Array, Array]:
    """s = 1 + c + 2 sqrt(c) cos theta turns sqrt edges into a periodic integrand: sin^2 theta / s d theta."""
    (c,) = law.parameters
    theta = (np.arange(_NODES) + 0.5) * np.pi / _NODES
    s = 1 + c + 2 * np.sqrt(c) * np.cos(theta)
    # density ((s_+ - s)(s - s_-))^(1/2) / s times ds ~ sin theta d theta
    w = np.sin(theta) ** 2 / s
    if c <= 1:
        return s, w
    return np.append(0.0, s), np.append(1 - 1 / c, w / w.sum() / c)


def _parts(law: Covariance, drawn: Array) -> list[tuple[str, float, bool]]:
    """What a sample must not lack: words, its share in the law, and whether `drawn` holds some of it."""
    if law.kind == "levels":
        return [
            (f"eigenvalue {s:.6g}", w, bool(np.any(drawn == s)))
            for s, w in zip(*_levels_law(law), strict=True)
        ]
    filled = 1 / law.parameters[0] if law.kind == "mp" else 1.0
    return [("eigenvalues above 0", filled, bool(np.any(drawn > 0)))]


def _levels_quantiles(law: Covariance, x: Array) -> Array:
    s, w = _levels_law(law)
    return s[np.minimum(np.searchsorted(np.cumsum(w), x), len(s) - 1)]


def _power_quantiles(law: Covariance, x: Array) -> Array:
    exponent, ranks = law.parameters
    return np.sort((1 + (ranks - 1) * x) ** -exponent)


def _mp_quantiles(law: Covariance, x: Array) -> Array:
    (c,) = law.parameters
    root = math.sqrt(c)
    empty = max(0.0, 1 - 1 / c)
    # s = 1 + c - 2 c^(1/2) cos theta: the square roots at both edges become smooth in theta.
    theta = np.linspace(0, np.pi, 20_001)  # from the lower edge up
    if c == 1:
        density = (1 + np.cos(theta)) / np.pi
    else:
        density = 2 * np.sin(theta) ** 2 / (np.pi * (1 + c - 2 * root * np.cos(theta)))
    steps = (density[1:] + density[:-1]) * np.diff(theta) / 2
    below = empty + (1 - empty) * np.append(0, np.cumsum(steps) / steps.sum())
    at = np.interp(x, below, theta)
    return np.where(x < empty, 0.0, 1 + c - 2 * root * np.cos(at))


_LAWS: dict[str, Callable[[Covariance], tuple[Array, Array]]] = {
    "levels": _levels_law,
    "power": _power_law,
    "mp": _mp_law,
    OWN: _own_law,
}
_QUANTILES: dict[str, Callable[[Covariance, Array], Array]] = {
    "levels": _levels_quantiles,
    "power": _power_quantiles,
    "mp": _mp_quantiles,
    OWN: _own_quantiles,
}
