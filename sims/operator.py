"""The Hessian as an operator: H V from the data and the weights, never forming H.

With F = diag(d) + c g g^T for each sample (`sims.hessian`), a block V of k vectors costs two products with the data,

    Y = X V,    Z_q = d_q Y_q + c g_q (sum_r g_r Y_r),    H V = X^T Z,

and O(M p k) between them, whatever the activation and the loss. The data are held as blocks of rows, each an array of its own,
and one compiled step adds the share of one block: its shape, and so its compilation, does not depend on alpha, and nothing is
ever sliced out of a large array (a slice of the data inside a compiled loop is a copy, three times the traffic). Rows of zeros
in the last block carry weight zero. Blocks are stored, or drawn again from their key whenever they are needed.

Inputs of covariance Sigma are the same rows with columns scaled: Sigma^(1/2) is applied to V before and to X^T Z after.

Several Hessians that share their data (the same draw at several alpha or a) are served by one pass: their vectors stand side
by side as columns of V, each with its own weights. Each has a unit, a power of two near its largest weight, in which d, c and
the products are kept: where a is very large or small, weights under- and overflow in float32, and squares of products in
float64. `operator(V)` alone is H V itself.

Vectors stand as columns (N, sets p k). For one set that is the same memory as (p N, k) with rows ordered i p + q, the order
in which the solvers keep their vectors.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from numpy.typing import NDArray

from sims.backend import pinned, power_of_two
from sims.checks import finite_p, of_type, reals
from sims.hessian import form
from sims.instance import Instance, teacher_noise
from sims.rows import Block, Part, Rows, rows_of, single, times
from theory.checks import ParameterError, shown
from theory.model.network import Network


@dataclass(frozen=True)
class HessianOperator:
    """Hessians (sets of them) on shared data. `operator(V)` is H V.

    rows   the data
    parts  for each block of rows: d (sets, size, p), c (sets, size), g (size, p), d and c in `units` and zero where a set has
           no such row
    p      student width
    units  (sets,) powers of two

    `selected` keeps the operators of some of the sets that `select` made; every copy starts with none.
    """

    rows: Rows
    parts: tuple[Part, ...]
    p: int
    units: tuple[float, ...] = (1.0,)
    selected: dict[tuple[int, ...], HessianOperator] = field(
        default_factory=dict, init=False, compare=False, repr=False
    )

    @property
    def sets(self) -> int:
        """How many Hessians the operator holds."""
        return self.parts[0][0].shape[0]

    @property
    def n(self) -> int:
        """Input dimension N."""
        return self.rows.n

    @property
    def order(self) -> int:
        """Order p N of each Hessian."""
        return self.p * self.rows.n

    @property
    def atom(self) -> float:
        """Share of the order that is in the null space for certain: the rank is p M at most, and p for each coordinate of the
        inputs that varies."""
        roots = self.rows.roots
        varying = self.n if roots is None else int(np.count_nonzero(np.asarray(roots)))
        return 1 - min(self.rows.m, varying) / self.n

    @property
    def dtype(self) -> np.dtype:
        """Of the data and the products."""
        return self.rows.dtype

    @pinned
    def columns(self, columns: jax.Array) -> jax.Array:
        """H V in `units` for V as a matrix (N, sets p k), columns ordered by set, then student row, then vector."""
        roots = self.rows.roots
        if roots is None:
            return self.rows.product(self.parts, columns)
        return _scaled(self.rows.product(self.parts, _scaled(columns, roots)), roots)

    @pinned
    def __call__(self, vectors: Any) -> jax.Array:
        """H V for V (p, N, k) of one Hessian, or (sets, p, N, k) of several: the same shape, in the run's dtype."""
        vectors = reals("vectors", vectors)
        wanted = (self.p, self.n) if self.sets == 1 and vectors.ndim == 3 else (self.sets, self.p, self.n)
        if vectors.shape[:-1] != wanted:
            raise ParameterError(f"vectors must have shape {(*wanted, 'k')}, got {vectors.shape}")
        products = self.columns(_to_columns(vectors, (self.sets, self.p), str(self.dtype)))
        return _from_columns(products, np.asarray(self.units, self.dtype), vectors.shape)

    @pinned
    def product(self, chosen: Sequence[int], blocks: Sequence[jax.Array]) -> list[jax.Array]:
        """H V in the set's unit for one block V (order, k), rows i p + q, of each chosen set, in one pass over the data."""
        columns = _beside(tuple(blocks), self.n)
        return _apart(self.select(chosen).columns(columns), len(blocks), self.order)

    @pinned
    def select(self, chosen: Sequence[int]) -> HessianOperator:
        """The operator of the chosen sets, on the same data."""
        key = tuple(chosen)
        if key == tuple(range(self.sets)):
            return self
        if key not in self.selected:
            # Kept: searches that are still running ask for the same few subsets again and again.
            index = np.asarray(key)
            self.selected[key] = replace(
                self,
                parts=tuple((d[index], c[index], g) for d, c, g in self.parts),
                units=tuple(self.units[i] for i in key),
            )
        return self.selected[key]

    def ordered(self, vectors: NDArray) -> NDArray:
        """Vectors (p N, k) with rows i p + q to block-major rows q N + i."""
        return np.ascontiguousarray(interleaved(vectors, self.n))

    @pinned
    def lowered(self) -> Self | None:
        """The same operator with data and weights rounded to float32; None where rows are not stored.

        The operator itself if it is of float32.
        """
        if self.dtype == np.float32:
            return self
        rows = self.rows.lowered()
        if rows is None:
            return None
        return replace(self, rows=rows, parts=single(self.parts))


@pinned
def hessian_operator(
    instance: Instance,
    *,
    stored: bool = True,
    size: int | None = None,
    mesh: Mesh | None = None,
    points: Sequence[tuple[Network, int]] | None = None,
    rows: Rows | None = None,
) -> HessianOperator:
    """The operator of one instance. stored = False: rows are drawn again at every product.

    mesh    `sims.rows.row_mesh(devices)`, over which the rows are spread; None: on one device
    size    as in `sims.rows.rows_of`
    points  (model, samples M), a set each, with M at most the instance's: the first M rows count. Models have the instance's p
            and p_star, and differ in a and in the variances of their noise alone; None: the instance's own
    rows    those of the instance, where they are at hand

    Raises ParameterError on unfit points.

    >>> from sims.instance import draw
    >>> from theory.model import Network
    >>> operator = hessian_operator(draw(Network(2, 1, 1.0), 12, 2.5, seed=1))
    >>> operator.order, operator(np.ones((1, 2, 12, 3))).shape
    (24, (1, 2, 12, 3))
    """
    rows = rows_of(instance, stored=stored, size=size, mesh=mesh) if rows is None else rows
    points = [(instance.model, instance.m)] if points is None else points
    student, teacher = instance.student, instance.teacher
    p, p_star = len(student), len(teacher)
    for model, m in points:
        if (finite_p(model), model.p_star) != (p, p_star):
            raise ParameterError(f"points must share p = {p}, p_star = {p_star}, got {shown(model)}")
        if not 1 <= m <= rows.m:
            raise ParameterError(f"samples of a point must lie in 1..{rows.m}, got {m}")
    models = [model for model, _ in points]
    shared = _shared_form(models)
    both = np.concatenate([np.asarray(student), np.asarray(teacher)]).astype(rows.dtype)
    if rows.roots is not None:
        # Sigma^(1/2) on the weights is the same as on the rows, which are drawn without it.
        both = both * np.asarray(rows.roots)
    numbers = tuple(
        np.array([float(value) for value in column])
        for column in zip(*((n.a, n.noise, n.output_noise) for n in models), strict=True)
    )
    reach = np.array([m for _, m in points])
    # Normals are drawn once for all sets, of every kind that one of them has; each scales them by its own variance.
    loudest = max(models, key=lambda n: (n.noise > 0) + (n.output_noise > 0))
    parts, largest = [], []
    for i, (block, _) in enumerate(rows):
        start = i * rows.size
        noise = teacher_noise(loudest, instance.key, start, rows.size)
        made, size = _parts(shared, block, both, numbers, noise, reach, start, p)
        parts.append(made)
        largest.append(size)
    units = tuple(power_of_two(float(size)) for size in np.max(np.asarray(largest), axis=0))
    kept = tuple(rows.beside(_in_units(*part, np.array(units), str(rows.dtype))) for part in parts)
    return HessianOperator(rows, kept, p, units)


def one_set(operator: Any) -> HessianOperator:
    """`operator`, a HessianOperator of one set; else ParameterError."""
    if of_type("operator", operator, HessianOperator).sets != 1:
        raise ParameterError(f"operator must be an operator of one set, got {operator.sets}")
    return operator


def _shared_form(models: Sequence[Network]) -> Network:
    """The form that all models have; ParameterError unless they differ in a and noise alone."""
    first = form(models[0])
    for model in models[1:]:
        if form(model) != first:
            raise ParameterError(
                "points must share activation, teacher_activation, loss, readout, bias and target"
            )
        for name in ("overlap", "gram", "covariance", "inputs"):
            if getattr(model, name) != getattr(models[0], name):
                raise ParameterError(f"points must share {name}")
    return first


def interleaved(vectors: NDArray, p: int) -> NDArray:
    """Block-major vectors (p N, k), rows q N + i, with rows in the operator's order i p + q; its inverse with N for p."""
    return vectors.reshape(p, -1, vectors.shape[1]).transpose(1, 0, 2).reshape(vectors.shape)


@functools.partial(jax.jit, static_argnums=(1, 2))
def _to_columns(vectors: jax.Array, sets_and_p: tuple[int, int], dtype: str) -> jax.Array:
    """(sets, p, N, k), or (p, N, k), -> (N, sets p k)."""
    n, k = vectors.shape[-2:]
    return jnp.transpose(vectors.reshape(*sets_and_p, n, k), (2, 0, 1, 3)).reshape(n, -1).astype(dtype)


@functools.partial(jax.jit, static_argnums=2)
def _from_columns(columns: jax.Array, units: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    """The inverse, of columns in units (sets,)."""
    products = jnp.transpose(columns.reshape(len(columns), len(units), -1, shape[-1]), (1, 2, 0, 3))
    return (products * units[:, None, None, None]).reshape(shape)


@functools.partial(jax.jit, static_argnums=1)
def _beside(blocks: tuple[jax.Array, ...], n: int) -> jax.Array:
    """Blocks (order, k), rows i p + q, as columns (N, sets p k)."""
    return jnp.concatenate([block.reshape(n, -1) for block in blocks], axis=1)


@functools.partial(jax.jit, static_argnums=(1, 2))
def _apart(columns: jax.Array, number: int, order: int) -> list[jax.Array]:
    """The inverse of `_beside`."""
    return [part.reshape(order, -1) for part in jnp.split(columns, number, axis=1)]


@jax.jit
def _scaled(columns: jax.Array, roots: jax.Array) -> jax.Array:
    return columns * roots[:, None]


@functools.partial(jax.jit, static_argnums=(0, 7))
def _parts(
    shared: Network,
    block: Block,
    both: jax.Array,
    numbers: tuple[jax.Array, jax.Array, jax.Array],
    noise: tuple[jax.Array | None, jax.Array | None],
    m: jax.Array,
    start: jax.Array | int,
    p: int,
) -> tuple[Part, jax.Array]:
    """d (sets, size, p), c (sets, size), g (size, p) of one block in float64, zero on rows from m on, and the largest weight of
    each set; numbers: a, noise, output_noise (sets,), noise: their normals (size, p_star) and (size,)."""
    # Weights in float64 whatever the data: until their unit is known they may lie beyond the range of float32.
    products = times(block, both.T).astype(jnp.float64)
    lam, u = products[:, :p], products[:, p:]
    zeta, xi = noise

    def one(a: jax.Array, before: jax.Array, after: jax.Array) -> tuple[jax.Array, jax.Array]:
        heard = u if zeta is None else u + jnp.sqrt(before) * zeta
        y = shared.outputs(heard, xp=jnp)
        y = y if xi is None else y + jnp.sqrt(after) * xi
        d, c, _ = shared.weight_parts(lam, y, a, jnp)
        return d, c

    d, c = jax.vmap(one)(*numbers)
    g = shared.slopes(lam, jnp)
    # A set of smaller alpha stops earlier in the same rows.
    inside = start + jnp.arange(len(lam)) < m[:, None]
    d, c = jnp.where(inside[:, :, None], d, 0), jnp.where(inside, c, 0)
    # A bound on |F| of the rows: |diag(d)| + |c| |g|^2.
    largest = jnp.max(jnp.abs(d), axis=(1, 2)) + jnp.max(jnp.abs(c) * jnp.sum(g**2, axis=-1), axis=1)
    return (d, c, g), largest


@functools.partial(jax.jit, static_argnums=4)
def _in_units(d: jax.Array, c: jax.Array, g: jax.Array, units: jax.Array, dtype: str) -> Part:
    d, c = d / units[:, None, None], c / units[:, None]
    return d.astype(dtype), c.astype(dtype), g.astype(dtype)
