"""One front: routes agree to ten digits, known limits, figures that samples have confirmed, honest answers."""

import math

import numpy as np
import pytest

import theory
from theory import Network, threshold_map
from theory import alpha_zero as of_committee
from theory.checks import ParameterError
from theory.general import alpha_zero, spectrum, threshold
from theory.general.isotropic import Averages, Block, Isotropic, Law
from theory.general.laws import node_law, quadratic_law
from theory.general.spectrum import model_map, route

STEP = 0.08  # of the product rules where they are compared with exact averages


@pytest.mark.parametrize(
    ("model", "alpha"),
    [
        (Network(1, 1, 0.5), 1.3),
        *(
            (Network(1, 1, 2.0), alpha) for alpha in (1.3, 1.5, 1.6)
        ),  # nodes alone call the edge sharp, 0.05 away
        (Network(1, 3, 0.5, noise=0.1), 12.0),
        (Network(1, 1, 1e-4), 3.0),
        (Network(2, 2, 1.0), 10.0),
        (Network(2, 1, 1.0), 0.8),
        (Network(4, 1, 0.5, noise=0.2), 0.4),
        (Network(math.inf, 1, 0.5, noise=0.2), 1.0),
        (Network(1, 1, 0.5, covariance="mp:0.5"), 4.0),
    ],
    ids=lambda v: repr(v)[:40] if isinstance(v, Network) else "",
)
def test_nodes_agree_with_exact_averages(model, alpha):
    """Edge, outliers and thresholds to 1e-10; the same equations on averages from two quite different rules."""
    exact = Isotropic(quadratic_law(model), model.levels())
    nodes = Isotropic(node_law(model, STEP), model.levels())
    (value, kind, q), (value_, kind_, q_) = exact.edge(alpha), nodes.edge(alpha)
    assert kind == kind_
    assert abs(value - value_) < 1e-10
    ours = [o for o in nodes.outliers(alpha, q_) if o.teacher_share == 1]
    theirs = exact.outliers(alpha, q)
    assert len(ours) == len(theirs)
    for one, two in zip(ours, theirs, strict=True):
        assert abs(one.value - two.value) < 1e-10
        assert abs(one.overlap - two.overlap) < 1e-10
    index = [bool(b.teacher[0]) for b in nodes.law.blocks].index(True)
    for (one, _), (two, _) in zip(nodes.thresholds(index), exact.thresholds(0), strict=True):
        assert one.kind == two.kind
        assert abs(one.alpha - two.alpha) < 1e-10 * two.alpha
        assert abs(one.jump - two.jump) < 1e-9


@pytest.mark.parametrize("alpha", [0.4, 1.3, 4.0, 30.0])
def test_equal_eigenvalues_are_no_covariance(alpha):
    """A law of two equal levels takes the way of covariances and must give the numbers without."""
    model = Network(2, 1, 0.7, noise=0.1)
    twice = np.ones(2), np.array([0.3, 0.7])
    problem = Isotropic(quadratic_law(model), twice)
    value, kind, q = problem.edge(alpha)
    plain = spectrum(model, alpha)
    assert kind == plain.kind
    assert abs(value - plain.edge) < 1e-12
    for one, value, overlap in zip(problem.outliers(alpha, q), plain.outliers, plain.overlaps, strict=True):
        assert abs(one.value - value) < 1e-12
        assert abs(one.overlap - overlap) < 1e-12


@pytest.mark.parametrize(
    ("spec", "noise", "edge", "place", "overlap"),
    [
        ("levels:0.4@2,2.2@1", 0.3, None, -0.841, 0.147),
        ("levels:0.1@0.5,1@0.35,4@0.15", 0.0, None, -0.249, 0.166),
    ],
)
def test_covariances_seen_in_samples(spec, noise, edge, place, overlap):
    """p = 1, a = 0.5, alpha = 4, N = 1400: -0.871(38), 0.145(9) and -0.232(45), 0.158(14) found in dense samples."""
    found = spectrum(Network(1, 1, 0.5, noise=noise, covariance=spec), 4.0)
    assert abs(found.outliers[0] - place) < 6e-4
    assert abs(found.overlaps[0] - overlap) < 6e-4


def spiked(s):
    """Weights 1 with one direction of variance s: spiked covariance, the oldest case."""

    def at(q):
        a = q / (1 + q)
        return Averages(a, a * a, lambda _: np.array([[s * a]]), lambda _: np.array([[s * a * a]]))

    return Law(at, (Block(np.array([True]), np.zeros((1, 1))),), 0.0, False, 1.0)


@pytest.mark.parametrize("s", [0.05, 0.3])
def test_spiked_covariance(s):
    """Left of Marchenko-Pastur with c = 1/alpha: edge (1 - sqrt alpha)^2, outlier alpha s + s/(s - 1) of squared overlap
    (1 - c/(s-1)^2)/(1 + c/(s-1)), present for s < 1 - sqrt c (Baik, Ben Arous, Peche; Paul)."""
    problem, threshold_ = Isotropic(spiked(s)), 1 / (1 - s) ** 2
    ((found, _),) = problem.thresholds(0)
    assert abs(found.alpha - threshold_) < 1e-10
    assert found.kind == "continuous"
    for alpha in (0.9 * threshold_ + 0.1, 9.0):
        value, kind, q = problem.edge(alpha)
        assert kind == "sharp"
        assert abs(value - (1 - math.sqrt(alpha)) ** 2) < 1e-12
        outliers = problem.outliers(alpha, q)
        assert len(outliers) == (alpha > threshold_)
        if outliers:
            assert abs(outliers[0].value - (alpha * s + s / (s - 1))) < 1e-12
            c = 1 / alpha
            assert abs(outliers[0].overlap - (1 - c / (s - 1) ** 2) / (1 + c / (s - 1))) < 1e-12
    assert problem.edge(0.5)[1] == "atom"


def test_overlap_seen_in_samples():
    """p = 1, m = 0.8, a = 1, alpha = 3, N = 700: outlier -0.629(21), q2 0.127(14) with the span, 0.076(8) with w*."""
    found = spectrum(Network(a=1.0, overlap=0.8), 3.0)
    assert abs(found.edge + 0.595) < 6e-4
    assert abs(found.outliers[0] + 0.617) < 1e-3
    assert abs(found.overlaps[0] - 0.121) < 6e-4
    assert abs(found.overlaps[0] * found.teacher_share[0] - 0.071) < 1e-3
    assert found.pulled[0].q2 == found.overlaps[0] * found.teacher_share[0]


def test_tanh():
    """Figures of an independent trapezoid in plain lam, u; for a = 50, alpha = 6 samples gave -2.16 to -2.36 times 1/a."""
    assert abs(threshold(Network(a=50.0, activation="tanh")).alpha - 1.8095773) < 1e-7
    assert abs(threshold(Network(a=2.0, activation="tanh")).alpha - 2.50897) < 5e-6
    found = spectrum(Network(a=50.0, activation="tanh"), 6.0)
    assert abs(50 * found.outliers[0] + 2.30) < 5e-3
    assert abs(found.teacher_share[0] - 0.29) < 6e-3
    assert abs(spectrum(Network(a=3.0, activation="tanh"), 6.0).edge + 0.70034) < 6e-5


@pytest.mark.parametrize("name", ["tanh", "erf", "sigmoid", "softplus", "softened_relu", "he2"])
def test_ten_digits_for_every_activation(name):
    model = Network(a=2.0, activation=name)
    found = spectrum(model, 3.0)
    assert route(model) == "nodes"
    assert found.kind in ("sharp", "smooth")
    assert found.edge_error < 1e-10 * abs(found.edge)
    assert np.all(found.outliers_error < 1e-10 * np.abs(found.outliers))
    first = threshold(model)
    assert first.error < 1e-10 * first.alpha


def test_shifted_square_is_another_committee():
    """He2: y and yhat both lose 1, so he2 with a is the committee with a - 1."""
    found, plain = spectrum(Network(a=2.5, activation="he2"), 4.0), spectrum(Network(1, 1, 1.5), 4.0)
    assert abs(found.edge - plain.edge) < 1e-12
    teachers = found.outliers[found.teacher_share > 0.5]
    np.testing.assert_allclose(teachers, plain.outliers, atol=1e-12)
    wide = spectrum(Network(3, 2, a=2.5, activation="he2"), 4.0)
    assert abs(wide.edge - theory.edge(Network(3, 2, 1.5), 4.0).value) < 1e-10


@pytest.mark.parametrize(
    "model",
    [
        Network(activation="he3", loss="squared"),
        Network(loss="squared"),
        Network(activation="tanh", a=1.0),
        Network(2, activation="softplus", loss="squared"),
        Network(2, activation="he2", loss="cauchy"),
    ],
    ids=["he3", "squared", "tanh", "softplus", "cauchy"],
)
def test_weights_without_a_lower_bound_say_so(model):
    found, first = spectrum(model, 3.0), threshold(model)
    assert found.kind == first.kind == "no edge"
    assert math.isnan(found.edge)
    assert found.reason == first.reason == "no left edge: the weight is unbounded below"


def test_an_outlier_may_enter_the_bulk_again():
    """Correlated inputs: between alpha and `until` there is an outlier, outside there is none."""
    model = Network(1, 1, 0.5, covariance="mp:0.5")
    first = threshold(model)
    assert first.kind == "continuous"
    assert first.alpha < first.until < math.inf
    for alpha, many in ((first.alpha * 0.999, 0), (first.alpha * 1.01, 1), (first.until * 0.99, 1)):
        assert len(spectrum(model, alpha).outliers) == many
    assert len(spectrum(model, first.until * 1.01).outliers) == 0


@pytest.mark.parametrize("model", [Network(2, 1, 2.0, activation="tanh")], ids=["p = 2"])
@pytest.mark.slow
def test_clouds_refine(model):
    found = spectrum(model, 3.0)
    assert found.route == "points"
    assert found.edge_error < 1e-6


# --- alpha_0 of networks: that of the committee by other equations, and answers where there is none ---


@pytest.mark.parametrize(
    "model",
    [
        Network(2, 1, 1.0),
        Network(8, 1, 0.5),
        Network(2, 1, 1.0, noise=0.05),
        Network(16, 2, 0.5, noise=0.05),
        Network(math.inf, 1, 0.5, noise=0.05),
    ],
)
def test_tangents(model):
    """One-sided differences along the outlier against derivatives under the integral; the identity as a covariance too."""
    for inputs in (None, (np.ones(2), np.array([0.4, 0.6]))):
        ((first, _),) = Isotropic(quadratic_law(model), inputs).thresholds(0)
        assert abs(first.alpha_0 - of_committee(model)) < 1e-8
    assert alpha_zero(model)[0] == threshold(model).alpha_0 == of_committee(model)


def test_small_jumps():
    """Both estimates agree to 0.2 % where the overlap jumps by little, with noise too."""
    for noise in (0.0, 0.05):
        model = Network(2, 1, 1.0, noise=noise)
        both = [alpha_zero(model, method)[0] for method in ("overlap", "continuation")]
        assert abs(both[0] - both[1]) < 2e-3 * both[0]


def test_infinitely_many_students_of_tanh():
    """Beyond the rare weights lies the law without: the sharp threshold there, as known before rare weights were."""
    model = Network(math.inf, activation="tanh", a=2.0)
    assert abs(alpha_zero(model, "continuation")[0] - 2.8943105461) < 1e-9
    assert "no alpha > 0" in alpha_zero(model)[2]


def test_where_there_is_none():
    assert (
        alpha_zero(Network(activation="tanh", a=2.0))[0] == threshold(Network(activation="tanh", a=2.0)).alpha
    )
    soft = Network(math.inf, activation="softplus", a=2.0)
    for method in ("overlap", "continuation"):
        found = alpha_zero(soft, method)
        assert math.isnan(found[0])
        assert found[2]
    with pytest.raises(ParameterError, match="method"):
        alpha_zero(soft, "tangent")


def test_maps_have_it():
    """With noise alpha_0 rises while alpha_BBP does not move: where the edge is smooth."""
    found = model_map(Network(2, 1, 2.0), noise=[0.0, 0.1, 0.3])
    assert np.ptp(found.alpha) < 1e-12
    assert np.all(np.diff(found.alpha_0) > 0.1)


# --- Maps of thresholds: the points are those of `threshold`, refusals do not stop them ---


def test_a_map_of_committees_is_threshold_map():
    found = model_map(Network(), p=[1, 2, np.inf], a=[0.3, 2.0], noise=[0.0, 0.2])
    wanted = threshold_map(
        np.array([1, 2, np.inf])[:, None, None], 1, np.array([0.3, 2.0])[:, None], np.array([0.0, 0.2])
    )
    np.testing.assert_array_equal(found.alpha, wanted.alpha)
    np.testing.assert_array_equal(found.kind == "discontinuous", wanted.discontinuous)
    assert np.all(found.error == 0)
    # What is of finite N alone is no column: it is not printed.
    assert str(found).startswith("Threshold(alpha=array (3, 2, 2), ") and "share" not in str(found)


def test_any_parameter():
    found = model_map(
        Network(a=2.0, activation="tanh"), teacher_activation=["tanh", "erf"], covariance=[None, "mp:0.5"]
    )
    assert found.alpha[0, 0] == threshold(Network(a=2.0, activation="tanh")).alpha
    assert np.all(found.error < 1e-9 * found.alpha)
    mixed = model_map(Network(activation="tanh"), a=[0.5, 1.0, 2.0], loss=["normalised", "squared"])
    assert mixed.kind.tolist() == [
        ["refused", "refused"],
        ["no edge", mixed.kind[1, 1]],
        ["continuous", "refused"],
    ]
    assert "a must be at least 1" in mixed.reason[0, 0]
