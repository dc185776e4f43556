"""The compiled programs of `sims` with the shapes of a run, for `gpu_compile.py` and for the test that each lowers for CUDA."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import jax
import numpy as np

import sims
from sims.dynamics.flow import Rules
from sims.dynamics.problem import nodes_of
from sims.hessian import form
from sims.instance import padded
from sims.krylov import Plan, Settings
from sims.threefry import gemm_width
from theory.model import Network, network

COMPILED = type(jax.jit(lambda: 0))
HALVES = "sims.threefry.row_halves"


class Program(NamedTuple):
    """A compiled function, by its module and name, and the arguments of one call: shapes for arrays, values for static ones."""

    name: str
    arguments: tuple[Any, ...]
    options: Mapping[str, Any] = MappingProxyType({})

    @property
    def function(self) -> Any:
        """The compiled function itself."""
        module, _, name = self.name.rpartition(".")
        return unwrapped(getattr(importlib.import_module(module), name))

    def lowered(self, **how: Any) -> Any:
        """It, traced and lowered with these arguments."""
        return self.function.trace(*self.arguments, **self.options).lower(**how)


def unwrapped(function: Any) -> Any:
    """The compiled function in what wraps it; None where there is none."""
    while function is not None and not isinstance(function, COMPILED):
        function = getattr(function, "__wrapped__", None)
    return function


def compiled_functions() -> Iterator[str]:
    """Module and name of every compiled function that a module of `sims` defines."""
    for module in pkgutil.walk_packages(sims.__path__, "sims."):
        for name, value in vars(importlib.import_module(module.name)).items():
            found = unwrapped(value)
            if found is not None and found.__module__ == module.name:
                yield f"{module.name}.{name}"


def programs(
    n: int,
    alpha: float,
    p: int,
    dtype: str,
    *,
    block: int = 8,
    size: int = 256,
    sets: int = 1,
    sharding: Any = None,
) -> list[Program]:
    """Every compiled function but the descent's with the shapes of one run on a GPU.

    Parameters
    ----------
    n, alpha, p, dtype : of the run, p_star = 1
    block : vectors of a Krylov block
    size : rows of a block of the data
    sets : Hessians on the same data
    sharding : of every argument (`jax.sharding.SingleDeviceSharding`), None for the default
    """

    def shape(*sizes: int, of: Any = dtype) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(sizes, of, sharding=sharding)

    model = network(Network(p, 1, 0.3))
    shared, order, m = form(model), p * n, padded(round(alpha * n))
    plan = Plan.of(order, np.dtype(dtype), min(4, block), p, Settings(block=block))
    width, k = plan.width, plan.block
    key = jax.ShapeDtypeStruct((), jax.random.key(0).dtype, sharding=sharding)
    word, whole, real = (shape(of=of) for of in (np.uint32, np.int64, dtype))
    some64 = shape(8, 128, of=np.float64)
    mixing64 = shape(k, k, of=np.float64), shape(k, of=np.float64)
    both, reach = shape(p + 1, n), shape(sets, of=np.int64)
    numbers64 = (shape(sets, of=np.float64),) * 3
    halves = (shape(size, gemm_width(-(-n // 2))),) * 2
    parts = shape(sets, size, p), shape(sets, size), shape(size, p)
    parts64 = tuple(shape(*part.shape, of=np.float64) for part in parts)
    columns, vectors = shape(n, sets * p * k), shape(order, k)
    rows, mirror = shape(width, gemm_width(order)), None
    operator, krylov = "sims.operator.", "sims.krylov."
    return [
        Program(HALVES, (key, word), {"count": size, "n": n, "dtype": dtype}),
        Program(f"{operator}_parts", (shared, halves, both, numbers64, (None, None), reach, whole, p)),
        Program(f"{operator}_in_units", (*parts64, shape(sets, of=np.float64), dtype)),
        Program("sims.rows._add_block", (None, halves, mirror, columns, *parts)),
        Program("sims.rows._add_block", (columns, halves, mirror, columns, *parts)),
        Program("sims.rows.single", (parts,)),
        Program(f"{operator}_to_columns", (shape(sets, p, n, k), (sets, p), dtype)),
        Program(f"{operator}_from_columns", (columns, shape(sets), (sets, p, n, k))),
        Program(f"{operator}_beside", ((vectors, vectors), n)),
        Program(f"{operator}_apart", (shape(n, 2 * p * k), 2, order)),
        Program(f"{operator}_scaled", (columns, shape(n))),
        Program(f"{krylov}basis._empty", (order, width, dtype, False)),
        Program(f"{krylov}basis._laid", (shape(order, width),)),
        Program(f"{krylov}basis._gram", (vectors,)),
        Program(f"{krylov}basis._mixed", (vectors, shape(k, k))),
        Program(f"{krylov}basis._project", (rows, mirror, vectors)),
        Program(f"{krylov}basis._new_block", ((vectors, vectors), vectors)),
        Program(f"{krylov}basis.beside", ((vectors, vectors),)),
        Program(f"{krylov}basis.apart", (shape(order, 2 * k), k)),
        Program(f"{krylov}basis._add_combination", (vectors, rows, mirror, shape(width, k), order)),
        Program(f"{krylov}basis._write", (rows, mirror, vectors, whole)),
        Program(f"{krylov}solver._small", (vectors, vectors)),
        Program(f"{krylov}solver._rotate", (vectors, vectors, *mixing64)),
        Program("sims.signal._overlaps", (vectors, shape(1, n))),
        Program("sims.density._advance", (shape(32, order, 4), shape(order, 4), shape(order, 4), word)),
        Program("sims.hessian._block", (shape(m, n), shape(m))),
        Program("sims.hessian._joined", ({(k, j): shape(n, n) for k in range(p) for j in range(k, p)},)),
        Program("sims.tridiagonal._sweep", (some64, some64, shape(2, 8, 128, of=np.float64), some64)),
        Program("sims.threefry.row_block", (key, word), {"count": size, "n": n, "dtype": dtype}),
        Program("sims.instance._normals", (key, word, size, 1)),
        Program("sims.instance._spread", (shape(size, n), shape(n))),
        Program("sims.instance._place", (shape(m, n), shape(128, n), whole, whole)),
        Program("sims.threefry._rows", (shape(size, 2, of=np.uint32), shape(size, of=np.uint32)), {"n": n, "dtype": dtype}),
        Program("sims.dynamics.hessians._split", (shape(n, p * k), shape(n, p, 1))),
        Program(
            "sims.dynamics.hessians._joined",
            (shape(n, p * k), shape(n, p * k), shape(1, p, k), shape(n, p, 1), shape(1, p, 1), real),
        ),
    ]  # fmt: skip


def solves(order: int, together: int, dtype: str, *, sharding: Any = None) -> Program:
    """The eigensolver of so many matrices at once."""
    stack = jax.ShapeDtypeStruct((together, order, order), dtype, sharding=sharding)
    return Program("jax.numpy.linalg.eigh", (stack,))


def descents(
    n: int, alpha: float, p: int, number: int, dtype: str, *, dynamics: str = "flow", sharding: Any = None
) -> Program:
    """Descents of so many samples side by side, with the arguments that `sims.dynamics.run.descend_batch` gives on a GPU."""

    def shape(*sizes: int, of: Any = dtype) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(sizes, of, sharding=sharding)

    m, rules = padded(round(alpha * n)), Rules(dynamics=dynamics)
    rows, each = shape(number, m, of=np.float64), shape(number, of=np.float64)
    numbers = jax.tree.map(lambda x: shape(*x.shape, of=x.dtype), rules.numbers(np.dtype(dtype)))
    model = Network(p, 1, 0.3)
    nodes = nodes_of(model, 0.3)
    arrays = shape(number, m, n), (rows, rows, each, each), shape(number, p, n), numbers
    return Program("sims.dynamics.run._descend", (*arrays, number, form(model), nodes, rules.dynamics, False))
