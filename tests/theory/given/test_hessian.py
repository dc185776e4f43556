"""Theory for given rows against a slow twin of its equations (p = 1), and against dense Hessians of rows whose law is known."""

import numpy as np
import pytest
from scipy.optimize import brentq

from tests.theory import samples
from theory import Inputs, Network, ParameterError
from theory.given import given, population


def rows_of(kind, m, n, rng):
    x = rng.standard_normal((m, n)) * np.sqrt(np.where(np.arange(n) < 2 * n / 3, 0.4, 2.2))
    return x * np.sqrt(rng.gamma(1.0, 1.0, m))[:, None] if kind == "elliptical" else x


def twin_edge(model, found, rows, student, teacher):
    """The left edge for p = 1 and tau = 1, written out: z(g) walked until it falls, with Sigma of the population."""
    n = rows.shape[1]
    x = rows / np.sqrt(n)
    lam, u = x @ student.T, x @ teacher.T
    f = model.weights(lam, model.outputs(u))[:, 0, 0]
    root = found.vectors * np.sqrt(found.s) @ found.vectors.T
    basis = np.linalg.qr(root @ np.concatenate([teacher, student]).T)[0]
    outside = np.eye(n) - basis @ basis.T
    s = np.linalg.eigvalsh(outside @ root @ root @ outside)[2:]

    def z(g):
        kappa = np.sum(f / (1 - g * f)) / n
        top = float(np.min(s * kappa))
        low = top - 1e9
        return brentq(lambda z: np.sum(s / (z - s * kappa)) / n - g, low, top - 1e-12, xtol=1e-13)

    grid = [z(g) for g in np.linspace(-1e-3, 0.999 / f.min(), 2000)]
    return max(grid)


@pytest.mark.parametrize("kind", ["Gaussian", "elliptical"])
def test_a_mean_of_draws_is_that_of_dense_hessians(kind):
    """Nine draws, N = 80, alpha = 4, a covariance of two eigenvalues: lambda_1 and q2 differ in the mean by at most 4 standard
    errors plus 1/N of the spectrum's scale (terms of order 1/N are left out); without tau lambda_1 is off by more than 5.
    """
    rng = np.random.default_rng(3)
    n, model = 80, Network(a=0.5)
    inputs = Inputs.of(rows_of(kind, 2400, n, rng))
    found = population(inputs)
    off = []
    for _ in range(9):
        rows = inputs.take(rng.choice(inputs.count, 4 * n, replace=False))
        student, teacher = samples.rows(2, n, rng)[:, None]
        (value,), (q2,) = samples.lowest(model, rows / np.sqrt(n), student, teacher)
        gaussian, elliptical = given(model, found, rows, student, teacher)
        off.append([gaussian.lowest - value, elliptical.lowest - value, elliptical.overlap - q2])
    mean, error = np.mean(off, axis=0), np.std(off, axis=0, ddof=1) / 3
    assert abs(mean[1]) < 4 * error[1] + 0.1
    assert abs(mean[2]) < 4 * error[2] + 0.02
    if kind == "elliptical":
        assert mean[0] > 5 * error[0] > 0


def test_the_edge_is_that_of_the_slow_twin():
    rng = np.random.default_rng(0)
    n, model = 40, Network(a=0.5)
    inputs = Inputs.of(rows_of("Gaussian", 1200, n, rng))
    found, rows = population(inputs), inputs.take(np.arange(120))
    assert found.apart == 0
    student, teacher = samples.rows(2, n, rng)[:, None]
    gaussian, _ = given(model, found, rows, student, teacher)
    twin = twin_edge(model, found, rows, student, teacher)
    assert gaussian.edge >= twin - 1e-9  # the walk has steps
    assert gaussian.edge == pytest.approx(twin, rel=1e-3)


def test_more_students_and_teachers():
    """p = 2, p* = 2: the mean of four draws within 4 standard errors plus 0.1 of dense Hessians."""
    rng = np.random.default_rng(5)
    n, model = 60, Network(2, 2, 1.0)
    inputs = Inputs.of(rows_of("elliptical", 1200, n, rng))
    found, off = population(inputs), []
    for _ in range(4):
        rows = inputs.take(rng.choice(inputs.count, 3 * n, replace=False))
        student, teacher = samples.rows(2, n, rng), samples.orthogonal(2, n, rng)
        value, _ = samples.lowest(model, rows / np.sqrt(n), student, teacher)
        off.append(given(model, found, rows, student, teacher)[1].lowest - value)
    assert abs(np.mean(off)) < 4 * np.std(off, ddof=1) / 2 + 0.1


def test_constant_columns_and_few_directions():
    rng = np.random.default_rng(4)
    x = rng.standard_normal((300, 30))
    x[:, :9] = 7.0
    inputs = Inputs.of(x)
    found = population(inputs)
    assert len(found.s) == 21
    rows = inputs.take(np.arange(150))
    student, teacher = samples.rows(2, 30, rng)[:, None]
    gaussian, _ = given(Network(a=0.5), found, rows, student, teacher)
    assert gaussian.lowest <= 0
    with pytest.raises(ParameterError, match="4 directions"):
        population(Inputs.of(np.outer(rng.standard_normal(50), np.ones(8))))
    with pytest.raises(ParameterError, match="columns"):
        given(Network(a=0.5), found, rows[:, :20], student, teacher)
