"""Readouts, biases and targets: weights against the loss, records, refusals, spectra against the slow twin and closed cases."""

import numpy as np
import pytest

from theory.checks import ParameterError
from theory.general.any_weight import general_spectrum
from theory.general.clouds import invariant_span, orbit_labels
from theory.general.first_order import gradient_overlap
from theory.general.spectrum import route, solve, threshold
from theory.minima.saddle import Nodes
from theory.model import Network, Target
from theory.path.used import force

PRODUCT = Target("product", lambda u, xp: xp.tanh(2 * u[..., 0] * u[..., 1]), -1.0, 1.0)
OPPOSED = Network(
    2, 2, activation="tanh", loss="squared", readout=(1, -1), bias=(0.5, -0.5), target=PRODUCT, noise=0.1
)


def test_weights_and_forces_are_derivatives_of_the_loss_written_out():
    lam, u, _ = OPPOSED.draw_labels(20, np.random.default_rng(0))
    y = np.tanh(2 * u[:, 0] * u[:, 1])
    np.testing.assert_array_equal(OPPOSED.outputs(u), y)

    def loss(lam):
        return (y - np.tanh(lam[:, 0] + 0.5) + np.tanh(lam[:, 1] - 0.5)) ** 2 / 2

    np.testing.assert_allclose(OPPOSED.losses(lam, y), loss(lam), rtol=1e-13)
    step = 1e-4 * np.eye(2)
    slopes = np.stack([loss(lam + e) - loss(lam - e) for e in step], axis=1) / 2e-4
    np.testing.assert_allclose(force(OPPOSED, lam, y), slopes, atol=1e-7)
    bends = [
        [sum(s * t * loss(lam + s * e + t * f) for s in (1, -1) for t in (1, -1)) / 4e-8 for e in step]
        for f in step
    ]
    np.testing.assert_allclose(OPPOSED.weights(lam, y), np.moveaxis(bends, 2, 0), atol=1e-6)


def test_the_usual_readout_is_none_and_records_stay_as_they_were():
    plain = Network(2, 1, 0.5)
    assert Network(2, 1, 0.5, readout=[0.5, 0.5], bias=[0, 0]) == plain
    assert plain.is_committee and not {"readout", "bias", "target"} & set(plain.record())
    record = OPPOSED.record()
    assert (record["readout"], record["bias"], record["target"]) == ([1.0, -1.0], [0.5, -0.5], "product")
    assert Network.of(record, targets=[PRODUCT]) == OPPOSED
    assert hash(OPPOSED) == hash(Network.of(record, targets=[PRODUCT])) and route(OPPOSED) == "points"
    assert route(Network(2, 1, 0.5, readout=(0.4, 0.6))) == "points"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"readout": (1.0,)}, "readout must be one number for each of 2 students, got shape (1,)"),
        ({"bias": (1.0, np.nan)}, "bias must"),
        ({"p": np.inf, "readout": (1.0, 1.0)}, "readout must not be given for p = inf"),
        ({"target": "product"}, "target must be a Target"),
        ({"target": PRODUCT, "p_star": 1}, "value of product must be a function"),
        ({"target": Target("u", lambda u, xp: u)}, "value of u must be one finite number"),
        ({"target": Target("u1", lambda u, xp: u[..., 0], -0.5)}, "infimum and supremum of u1 must bound"),
        ({"target": PRODUCT, "a": 0.5, "loss": "normalised"}, "a must be at least 1 for a product teacher"),
        ({"target": PRODUCT, "teacher_activation": "erf"}, "teacher_activation must be left"),
    ],
)
def test_what_does_not_fit_is_refused_in_a_line(options, words):
    with pytest.raises(ParameterError) as error:
        Network(**{"p": 2, "p_star": 2, "loss": "squared", "activation": "tanh"} | options)
    assert str(error.value).startswith(words) and "\n" not in str(error.value)


def test_targets_are_refused_in_a_line():
    with pytest.raises(ParameterError, match="infimum of t must lie below its supremum"):
        Target("t", lambda u, xp: u[..., 0], 1.0, -1.0)


def test_the_mean_of_activations_as_a_target_is_the_teacher():
    """Two ways to the same numbers: the teachers are then one block, not two, on the same points."""
    mean = Target("mean", lambda u, xp: xp.mean(xp.tanh(u), axis=-1), -1.0, 1.0)
    options = {"p": 1, "p_star": 2, "a": 2.0, "activation": "tanh"}
    one, other = solve(Network(**options), 12.0), solve(Network(**options, target=mean), 12.0)
    np.testing.assert_allclose(other.edge, one.edge, rtol=1e-8)
    np.testing.assert_allclose(other.outliers, one.outliers, rtol=1e-8)
    np.testing.assert_allclose(other.overlaps, one.overlaps, rtol=1e-8)


def test_a_student_that_counts_for_nothing_leaves_the_other_alone():
    """c = (1, 0) is the network of one student with a block of zeros beside it: the same outlier, where that is negative."""
    alone = solve(Network(1, 1, activation="tanh", loss="squared"), 6.0)
    beside = solve(Network(2, 1, activation="tanh", loss="squared", readout=(1.0, 0.0)), 6.0)
    np.testing.assert_allclose(beside.outliers[0], alone.outliers[0], rtol=1e-7)
    np.testing.assert_allclose(beside.overlaps[0], alone.overlaps[0], rtol=1e-6)


def test_students_of_unlike_readout_are_not_averaged_over_their_permutations():
    for unlike in ({"readout": (1.0, 0.3)}, {"bias": (0.3, 0.0)}):
        assert orbit_labels(Network(2, 1, **unlike), 1, 2) is None
        assert invariant_span(Network(2, 1, **unlike)) is None
    assert invariant_span(Network(2, 1, readout=(1.0, 1.0))).shape == (3, 1)
    assert invariant_span(Network(2, 1, bias=(1.0, 1.0))).shape == (3, 2)


def test_outliers_against_the_weight_written_out():
    """The general route of any weight, points of its own: within three of both errors, which 95 % lie within two of."""

    def weight(lam, u, xi):
        x, c = lam + np.array([0.5, -0.5]), np.array([1.0, -1.0])
        slope, gap = 1 - np.tanh(x) ** 2, (c * np.tanh(x)).sum(axis=1) - np.tanh(2 * u[:, 0] * u[:, 1])
        bend = -2 * c * np.tanh(x) * slope * gap[:, None]
        return bend[:, :, None] * np.eye(2) + np.einsum("ni,nj->nij", c * slope, c * slope)

    model = Network(
        2, 2, activation="tanh", loss="squared", readout=(1, -1), bias=(0.5, -0.5), target=PRODUCT
    )
    found, twin = solve(model, 20.0), general_spectrum(weight, 20.0, 2, 2, points=2**12, scramblings=4)
    assert found.kind == twin.kind == "sharp" and len(found.outliers) == 1
    assert abs(found.outliers[0] + 10.382) < 0.003
    assert abs(found.edge - twin.edge) < 3 * np.hypot(found.edge_error, twin.edge_error)
    error = 3 * np.hypot(found.outliers_error[0], twin.outliers_error[0])
    assert abs(found.outliers[0] - twin.outliers[0]) < error


@pytest.mark.parametrize(
    "model",
    [
        Network(2, 1, loss="squared", readout=(1.0, -1.0)),  # yhat has no lower bound
        Network(1, 2, loss="squared", target=Target("u1 u2", lambda u, xp: u[..., 0] * u[..., 1])),
    ],
)
def test_unbounded_weights_have_no_edge(model):
    assert solve(model, 3.0).kind == threshold(model).kind == "no edge"


def test_first_order_and_minima_know_readouts_and_biases():
    """Of an even student with a bias, l' s' = 2 x (x^2 - tanh u) with x = lam + 1 gives moments in closed form."""
    model = Network(1, 1, teacher_activation="tanh", loss="squared", bias=(1.0,))
    u, weight = np.polynomial.hermite_e.hermegauss(80)
    weight = weight / weight.sum()
    signal = (2 * weight @ (u * np.tanh(u))) ** 2
    size = 4 * 76 + 4 * 2 * weight @ np.tanh(u) ** 2
    np.testing.assert_allclose(gradient_overlap(model, 3.0), 3 * signal / (size + 3 * signal), rtol=1e-9)
    shifted = Nodes.of(Network(1, 1, activation="tanh", loss="squared", bias=(0.7,)), 0.3, 0.5)
    u = 0.3 * shifted.lam + np.sqrt(1 - 0.3**2) * shifted.v
    slope = 1 - np.tanh(shifted.lam + 0.7) ** 2
    gap = np.tanh(shifted.lam + 0.7) - np.tanh(u)
    np.testing.assert_allclose(shifted.force, gap * slope, atol=1e-14)
