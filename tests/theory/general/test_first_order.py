"""The gradient's overlap with the teacher: against samples, in closed form, and where it is nothing."""

import math

import numpy as np
import pytest

from theory.general import Activation, Network, gradient_overlap, threshold
from theory.general.first_order import carried_by_gradient


@pytest.mark.parametrize(
    "model",
    [
        Network(1, activation="tanh", a=2.0, noise=0.2),
        Network(3, activation="softplus", a=2.0),
        Network(1, a=1.0, overlap=0.5),
        Network(1, activation="tanh", a=2.0, covariance="levels:0.4@2,2.2@1"),
    ],
    ids=["noise", "three students", "overlap", "covariance"],
)
def test_samples(model):
    """24 draws at N = 200: within 5 sigma and 2/N; false-alarm rate 5e-5 each, fixed seed."""
    found = np.array([_sample(model, 2.0, 200, np.random.default_rng(seed)) for seed in range(24)])
    error = found.std(ddof=1) / math.sqrt(24)
    assert abs(found.mean() - gradient_overlap(model, 2.0)) < 5 * error + 2 / 200


def _sample(model, alpha, n, rng):
    """Squared overlap of the first student's spherical gradient with what the sphere leaves of the teacher."""
    p = int(model.p)
    s = np.ones(n)
    if model.covariance is not None:
        levels, weights = model.levels()
        s = np.repeat(levels, np.round(weights * n).astype(int))
    rows = np.linalg.qr(rng.standard_normal((n, 1 + p)))[0].T * math.sqrt(n)
    x = rng.standard_normal((round(alpha * n), n)) * np.sqrt(s / n)
    w = model.mixing() @ rows
    lam, u = x @ w.T, x @ rows[:1].T
    y = model.outputs(u, rng.standard_normal(u.shape))
    yhat = model.student.value(lam, np).mean(axis=1)
    c = model.rule.first(y, yhat, model.a, np) * model.student.first(lam[:, 0], np)
    gradient, student, teacher = c @ x, w[0] / math.sqrt(n), rows[0] / math.sqrt(n)
    gradient = gradient - (gradient @ student) * student
    teacher = teacher - (teacher @ student) * student
    return (gradient @ teacher) ** 2 / (gradient @ gradient) / (teacher @ teacher)


def test_a_linear_teacher_in_closed_form():
    """tanh, squared loss, p = inf: c = -tanh(u) s'(lam), so overlap = alpha E[u tanh u]^2 E[s']^2 / (E[tanh^2] E[s'^2] + the
    same)."""
    x = np.linspace(-9, 9, 721)
    weight = np.exp(-(x**2) / 2) / np.exp(-(x**2) / 2).sum()
    slope = 1 - np.tanh(x) ** 2
    signal = (weight @ (x * np.tanh(x)) * (weight @ slope)) ** 2
    noise = weight @ np.tanh(x) ** 2 * (weight @ slope**2)
    model = Network(math.inf, activation="tanh", loss="squared")
    assert abs(gradient_overlap(model, 3.0) - 3 * signal / (noise + 3 * signal)) < 1e-10


def test_even_teachers_show_nothing():
    """The quadratic gradient knows nothing, the tanh one does; alpha_BBP exists in both."""
    for model, carried in ((Network(2, a=0.5), False), (Network(1, activation="tanh", a=2.0), True)):
        assert carried_by_gradient(model) == carried
        assert math.isfinite(threshold(model).alpha)


def test_a_student_at_its_teacher_has_no_gradient():
    assert gradient_overlap(Network(overlap=1.0), 2.0) == 0
    assert threshold(Network(overlap=1.0)).reason == "no outlier at any alpha"


def test_linear_students():
    """Linear regression: the Hessian is x x^T, no outlier says anything, and the gradient knows the teacher at every alpha."""
    linear = Activation(
        "linear", lambda x, xp: x, lambda x, xp: xp.ones_like(x), lambda x, xp: xp.zeros_like(x), "odd", 1
    )
    found = threshold(Network(activation=linear, loss="squared"))
    assert found.kind == "none"
    assert "first-order part carries the signal already" in found.reason
    assert abs(gradient_overlap(Network(activation=linear, loss="squared"), 2.0) - 2 / 4) < 1e-9
