"""Random instances for the tests of the matrix-free path, with their dense Hessians."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.typing import NDArray

from sims.backend import power_of_two
from sims.dynamics.problem import Matrix as Data
from sims.dynamics.problem import problem_of, row_products, tangent
from sims.dynamics.run import Path, descend_batch
from sims.hessian import dense_blas
from sims.instance import Instance, draw_on_host, outputs, preactivations
from sims.operator import HessianOperator
from theory.model import Committee
from theory.model.network import Network


def quick_rows(names: str, *quick: Any, slow: Any) -> pytest.MarkDecorator:
    """The test for each of these rows of a table, and for the slow ones where those are asked for."""
    several = "," in names
    marked = [pytest.param(*(row if several else [row]), marks=pytest.mark.slow) for row in slow]
    return pytest.mark.parametrize(names, [*quick, *marked], ids=str)


def host_draw(
    model: Network, n: int, alpha: float, *, sample: int = 0, seed: int = 0, dtype: str = "float64"
) -> Instance:
    """The instance of `draw`, bit for bit and as NumPy arrays, by a program that is compiled for N alone."""
    return next(draw_on_host(model, n, alpha, [sample], seed=seed, dtype=dtype))


def descended(*given: Any, **options: Any) -> Path:
    """What `descend` returns, as NumPy arrays: of which a part is no program to be compiled."""
    return Path(*map(np.asarray, descend_batch(*given, **options)))


def descents(
    model: Network, n: int, alpha: float, samples: int, seed: int = 0
) -> tuple[Network, NDArray, NDArray, NDArray, NDArray]:
    """Model, data (S, M, N), labels (S, M), students, teachers, on the host: no shape is compiled but those of descents."""
    draws = [host_draw(model, n, alpha, seed=seed, sample=s) for s in range(samples)]
    data, student, teacher = (
        np.stack([np.asarray(getattr(d, name)) for d in draws]) for name in ("data", "student", "teacher")
    )
    return model, data, np.mean(np.einsum("smi,sqi->smq", data, teacher) ** 2, axis=-1), student, teacher


def loss_of(model: Network, student: Any, teacher: Any, data: Any, y: Any = None) -> Any:
    """The loss written out for JAX to differentiate; y without noise unless given."""
    y = model.outputs(data @ teacher.T, xp=jnp) if y is None else jnp.asarray(y)
    return jnp.sum(model.losses(data @ student.T, y, jnp))


def second_derivative(drawn: Instance) -> NDArray:
    """Of the loss written out, (p N, p N)."""
    data, y = drawn.data[: drawn.m], outputs(drawn)  # type: ignore[index]

    def flat(w: Any) -> Any:
        return loss_of(drawn.model, w.reshape(drawn.student.shape), drawn.teacher, data, y)

    return np.asarray(jax.jit(jax.hessian(flat))(drawn.student.ravel()))


@dataclass(frozen=True)
class Case:
    """A point, its seed, and the number of pairs asked for."""

    n: int
    p: int
    p_star: int
    a: float
    alpha: float
    seed: int
    k: int

    @property
    def model(self) -> Committee:
        return Committee(p=self.p, p_star=self.p_star, a=self.a)

    def instance(self, dtype: str = "float64") -> Instance:
        """Its instance."""
        return host_draw(self.model, self.n, self.alpha, seed=self.seed, dtype=dtype)


def dense_hessian(instance: Instance) -> NDArray[np.float64]:
    """(p N, p N), block-major, from the stored data, in float64."""
    data = np.asarray(instance.data, np.float64)[: instance.m]
    lam, u = preactivations(instance)
    return np.asarray(dense_blas(data, instance.model.weights(lam, instance.model.outputs(u))))


def random_cases(shapes: list[tuple[int, int]], number: int, seed: int) -> list[Case]:
    """`number` instances at each (N, p): p_star = 1..3, a on both sides of a_c, alpha near and far from threshold."""
    rng = np.random.default_rng(seed)
    cases = []
    for n, p in shapes:
        for _ in range(number):
            p_star = int(rng.integers(1, min(3, n) + 1))
            a = float(rng.choice([0.05, 0.3, 1.0, 3.0]))
            alpha = float(rng.choice([0.3, 0.9, 1.2, 1.8, 4.0])) + (1.0 if n < 4 else 0.0)
            k = int(rng.integers(1, min(p * n, 8) + 1))
            cases.append(Case(n, p, p_star, a, alpha, int(rng.integers(2**31)), k))
    return cases


def projector_error(
    values: NDArray, found: NDArray, all_values: NDArray, all_vectors: NDArray, width: float
) -> float:
    """Largest norm of the part of a found vector outside the eigenvectors within `width` of its value."""
    worst = 0.0
    for value, vector in zip(values, found.T, strict=True):
        near = all_vectors[:, np.abs(all_values - value) <= width]
        worst = max(worst, float(np.linalg.norm(vector - near @ (near.T @ vector))))
    return worst


def riemannian_gradient(student: Any, data: Any, y: Any, model: Network) -> Any:
    """Gradient (p, N) of the loss on the product of spheres at student (p, N)."""
    problem = problem_of(model, Data(data), y)
    return problem.unit * tangent(student, problem.gradient(problem.preactivations(student)))


def hessian_product(student: Any, vector: Any, data: Any, lam: Any, y: Any, model: Network) -> Any:
    """Riemannian Hessian times a tangent vector (p, N), without forming the matrix (see sims.dynamics.problem)."""
    problem = problem_of(model, Data(data), y)
    along = row_products(student, problem.gradient(lam))
    return problem.unit * problem.product(student, vector, lam, along)


class Matrix(HessianOperator):
    """A dense symmetric matrix as an operator of one set, to put any spectrum before the solver."""

    order, dtype, sets, atom, units = 0, np.dtype(float), 1, 0.0, (1.0,)

    def __init__(self, matrix: Any, unit: float | None = None):
        """unit: what the matrix is in units of; None: those near its size are found."""
        if unit is None:
            unit = power_of_two(float(np.max(np.abs(matrix))))
            matrix = matrix / unit
        known = {"matrix": jnp.asarray(matrix), "order": len(matrix), "dtype": matrix.dtype, "units": (unit,)}
        vars(self).update(known)

    def product(self, chosen: Any, blocks: Any) -> Any:
        return [self.matrix @ block for block in blocks]

    def lowered(self) -> Any:
        return Matrix(self.matrix.astype(jnp.float32), self.units[0])

    def ordered(self, vectors: Any) -> Any:
        return vectors


@functools.cache
def _rotation(n: int, seed: int) -> NDArray:
    return np.linalg.qr(np.random.default_rng(seed).standard_normal((n, n)))[0]


def with_spectrum(values: NDArray, seed: int = 0) -> tuple[NDArray, NDArray]:
    """A matrix with these eigenvalues and random eigenvectors, and the vectors."""
    q = _rotation(len(values), seed)
    return (q * values) @ q.T, q
