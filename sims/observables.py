"""Observables of one's own: numbers of a sample, or of each of its eigenpairs, that a function makes of what a solve gave.

A function takes, by their names, any of

    values   (k,) lowest eigenvalues, rising, in units of the Hessian
    vectors  (p N, k) their unit eigenvectors, block-major: row l N + i is coordinate i of student l
    teacher  (p_star, N) and student (p, N): rows of norm sqrt(N)

as NumPy arrays, and gives one number, or k of them. It may be written with NumPy or JAX.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sims.backend import pinned
from theory.checks import ParameterError, shown

MOST = 2**22  # entries of the vectors that a function is tried on


@dataclass(frozen=True)
class Observable:
    """A function with what it gives.

    name      of the variable that keeps it
    value     called with values=, vectors=, teacher=, student=; one that wants some of them alone is wrapped
    of_pairs  whether it gives a number for each eigenpair, rather than one for the sample
    """

    name: str
    value: Callable[..., Any]
    of_pairs: bool

    def of(
        self, values: NDArray, vectors: NDArray, teacher: NDArray, student: NDArray
    ) -> NDArray[np.float64]:
        """Its numbers of one sample, () or (k,); ParameterError where it fails or gives others."""
        found = called(self.name, self.value, values, vectors, teacher, student)
        if (found.ndim == 1) != self.of_pairs:
            raise ParameterError(
                f"observable {self.name} must always give as many numbers, got shape {found.shape}"
            )
        return found


@pinned
def tried(name: str, value: Callable[..., Any], p: int, p_star: int, n: int, k: int) -> Observable:
    """The observable that this function is, by calling it with arrays of the shapes of a sample; ParameterError if none."""
    n = max(p_star, -(-k // p), min(n, MOST // (p * k)))
    rng = np.random.default_rng(0)
    vectors = np.linalg.qr(rng.standard_normal((p * n, k)))[0]
    rows = rng.standard_normal((p + p_star, n))
    rows *= np.sqrt(n) / np.linalg.norm(rows, axis=1, keepdims=True)
    found = called(name, value, np.linspace(-1.0, -0.5, k), vectors, rows[p:], rows[:p])
    return Observable(name, value, found.ndim == 1)


def called(
    name: str,
    value: Callable[..., Any],
    values: NDArray,
    vectors: NDArray,
    teacher: NDArray,
    student: NDArray,
) -> NDArray[np.float64]:
    """What the function gives, () or (k,)."""
    try:
        given = value(values=values, vectors=vectors, teacher=teacher, student=student)
        found = np.asarray(given)
    except ParameterError:
        raise
    except Exception as error:
        raise ParameterError(
            f"observable {name} fails: {type(error).__name__}: {shown(str(error))}"
        ) from None
    if found.dtype.kind not in "biuf":
        raise ParameterError(f"observable {name} must give real numbers, got {shown(given)}")
    if found.shape not in ((), values.shape):
        raise ParameterError(
            f"observable {name} must give a number, or one for each of {len(values)} eigenpairs, got shape {found.shape}"
        )
    return found.astype(np.float64)
