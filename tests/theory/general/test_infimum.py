"""The infimum of the weights, and edges at infima of every kind, against values found by other means."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from theory.general import Network, spectrum, threshold
from theory.general.laws import infimum_of
from theory.model.activations import ACTIVATIONS, Activation

QUARTIC = Activation(
    "quartic",
    lambda x, xp: x**2 - x**4 / 12,
    lambda x, xp: 2 * x - x**3 / 3,
    lambda x, xp: 2 - x**2,
    "even",
    4,
)


@pytest.mark.parametrize("loss", ["squared", "cauchy", "welsch"])
@pytest.mark.parametrize("activation", [*ACTIVATIONS, QUARTIC])
def test_no_weight_lies_below_the_infimum(activation, loss):
    """Weights at places of all scales, by chance and near those where y is off yhat by a few times a."""
    model = Network(activation=activation, loss=loss, a=1.0 if loss == "squared" else 0.7)
    found, rng = infimum_of(model), np.random.default_rng(0)
    lam, u = rng.standard_cauchy((2, 40_000)) * 10 ** rng.uniform(-1, 1, (2, 40_000))
    u[::2] = lam[::2] + rng.standard_cauchy(20_000) * 10 ** rng.uniform(-3, 0, 20_000)
    lowest = model.weights(lam[:, None], model.outputs(u[:, None]))[:, 0, 0].min()
    assert lowest >= found.value - 1e-9 * abs(found.value)
    if np.isfinite(found.value):  # and it is approached
        assert lowest <= found.value + 0.05 * abs(found.value)
    else:
        assert lowest < -20


@pytest.mark.parametrize(
    ("model", "alpha", "edge"),
    [
        (Network(activation="softened_relu", loss="cauchy", a=10.0), 5.0, -2.78242620),  # improbable, inside
        (Network(activation="softplus", loss="welsch", a=1.0), 1.0, -0.442238003),  # along y = yhat + const
        (Network(activation="he3", teacher_activation="tanh", loss="welsch"), 20.0, -62.2165020),  # narrow
    ],
)
def test_edges_at_infima_of_every_kind(model, alpha, edge):
    """Values by independent quadrature, and by 2e6 weights at the end of the support; the first of each is of 9 digits."""
    found = spectrum(model, alpha)
    assert abs(found.edge - edge) < 1e-8 * abs(edge) + 10 * found.edge_error
    assert found.edge_error < 1e-9 * abs(edge)


@pytest.mark.parametrize(
    ("activation", "teacher", "loss", "a", "alpha", "kind"),
    [
        ("softened_relu", None, "cauchy", 9.0, 21.525615, "discontinuous"),
        ("erf", "softplus", "cauchy", 10.0, 6.686325, "discontinuous"),
        ("he3", "tanh", "welsch", 1.0, 13.5760314, "continuous"),  # two trapezoids: 13.57603137, 13.57603144
        ("softplus", "tanh", "cauchy", 1.5, 1.80604758, "continuous"),
    ],
)
def test_thresholds_where_the_infimum_is_improbable(activation, teacher, loss, a, alpha, kind):
    """Thresholds by independent quadrature, to their digits."""
    found = threshold(Network(activation=activation, teacher_activation=teacher, loss=loss, a=a))
    assert abs(found.alpha - alpha) < 1e-6 and found.kind == kind


@pytest.mark.parametrize("activation", ["quadratic", "he3", QUARTIC])
def test_weights_that_fall_without_end_along_a_ridge_have_no_edge(activation):
    """Where y stays near yhat and both grow, l'' s'^2 falls without end, though the loss bounds l' and l''."""
    model = Network(activation=activation, loss="cauchy", a=10.0)
    assert spectrum(model, 2.0).kind == "no edge" and threshold(model).kind == "no edge"


@pytest.mark.parametrize("a", [1.0, 10.0])
def test_the_edge_of_a_matrix_without_full_rank_is_not_above_0(a):
    """Nor left of that of Marchenko and Pastur with every weight at the infimum."""
    model = Network(activation="softened_relu", loss="cauchy", a=a)
    found = spectrum(model, 0.5)
    assert infimum_of(model).value * (1 + np.sqrt(0.5)) ** 2 < found.edge <= 0


def test_activations_that_saturate_slowly_have_ends():
    """arctan comes within 1/x of its ends, a logarithm has none. Twin of the smooth edge: the infimum on a fine line
    where y is at its lower end, and a trapezoid."""
    arctan = Activation(
        "arctan",
        lambda x, xp: xp.arctan(x),
        lambda x, xp: 1 / (1 + x**2),
        lambda x, xp: -2 * x / (1 + x**2) ** 2,
        "odd",
    )
    growing = Activation(
        "log",
        lambda x, xp: xp.log1p(x**2),
        lambda x, xp: 2 * x / (1 + x**2),
        lambda x, xp: (2 - 2 * x**2) / (1 + x**2) ** 2,
        "even",
    )
    np.testing.assert_allclose(arctan.reach, (-np.pi / 2, np.pi / 2), rtol=1e-9)
    assert growing.reach == (0.0, np.inf)
    a, alpha = 20.0, 0.5
    x = np.linspace(-9, 9, 1801)
    arctan = replace(arctan, infimum=-np.pi / 2)

    def weight(lam, y):
        return ((1 - 2 * lam * (np.arctan(lam) - y)) / (1 + lam**2) ** 2) / (a + y)

    q = -weight(np.linspace(-5, 5, 400_001), -np.pi / 2).min()
    f, mass = weight(x[:, None], np.arctan(x)), np.exp(-(x[:, None] ** 2 + x**2) / 2)
    z = alpha * np.sum(mass * f * q / (q + f)) / mass.sum() - q
    found = spectrum(Network(activation=arctan, a=a), alpha)
    assert found.kind == "smooth" and abs(found.edge - z) < 1e-7 * abs(z)


@pytest.mark.parametrize(
    ("activation", "loss", "m"),
    [("tanh", "welsch", -2.0), ("he3", "welsch", 2**0.5), ("tanh", "cauchy", 0.5)],
)
def test_a_student_that_is_a_multiple_of_the_teacher(activation, loss, m):
    """lam = m u: weights of one variable; twin: a fine line, the edge as the maximum of z."""
    model, alpha = Network(activation=activation, loss=loss, overlap=((m,),), gram=((m * m,),)), 3.0
    u = np.linspace(-9, 9, 200_001)
    mass = np.exp(-(u**2) / 2) / np.exp(-(u**2) / 2).sum()
    f = model.weights((m * u)[:, None], model.outputs(u[:, None]))[:, 0, 0]
    low = max(0.0, -f.min())

    def z(t):
        q = low + np.exp(t)
        return q - alpha * float(mass @ (f * q / (q + f)))

    grid = np.linspace(-12, 8, 80)
    at = grid[int(np.argmin([z(t) for t in grid]))]
    best = minimize_scalar(z, bounds=(at - 0.3, at + 0.3), method="bounded", options={"xatol": 1e-9})
    found = spectrum(model, alpha)
    assert infimum_of(model).value == pytest.approx(f.min(), abs=1e-6)
    assert found.kind == "sharp" and found.edge == pytest.approx(-best.fun, rel=1e-7)
