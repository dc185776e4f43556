"""Every public function of the theory answers a wrong argument with one line that names it: ParameterError, no other.

Warnings are errors here as everywhere, so overflow and the like fail too.
"""

import math
from functools import partial

import numpy as np
import pytest

import theory
from theory import (
    Network,
    alpha_zero,
    alpha_zero_map,
    atom,
    critical_normalisation,
    critical_width,
    edge_gap,
    moment,
    riemannian_shift,
    stieltjes,
    student_margins,
    threshold_map,
    z_of_g,
)
from theory.checks import ParameterError, count, finite, positive, shown, width, widths
from theory.exact.bulk import edges
from theory.exact.density import level_overlap
from theory.finite import answer, law, quenched
from theory.finite import threshold as threshold_at
from theory.finite.edge import (
    alpha_bbp_typical,
    critical_amplitude,
    finite_edge,
    kernel_variance,
    pole_probability,
    typical_edge,
)
from theory.finite.tracy_widom import tracy_widom_cdf, tracy_widom_quantile
from theory.general import density_curve
from theory.general.any_weight import general_spectrum
from theory.general.density import density
from theory.general.dyson import Dyson
from theory.general.isotropic import given_law
from theory.general.quadrature import chi_square_law
from theory.general.spectral_methods import (
    Preprocessing,
    optimal,
    optimal_at,
    spectral_edge,
    spectral_outlier,
    spectral_threshold,
    subset,
    trimmed,
)
from theory.general.spectrum import model_map, solve
from theory.minima import complexity, most_numerous
from theory.minima import threshold as threshold_of_minima
from theory.path import Used, closure, conditioned

MODEL = Network(2, 1, 0.3)
ONES = np.ones((5, 2)), np.ones((5, 1))
HUGE = 10**400


def difference(lam, u, xi):
    return lam[:, 0] - u[:, 0]


def rng():
    return np.random.default_rng(0)


def refused(call, *arguments, name=None, **keywords):
    """One line, which starts with the name of the argument where that is given."""
    with pytest.raises(ParameterError) as caught:
        call(*arguments, **keywords)
    message = str(caught.value)
    assert "\n" not in message and len(message) < 300
    if name is not None:
        assert message.startswith(f"{name} must"), message


AT_ALPHA = {
    "edge": lambda m, a: theory.edge(m, a),
    "z_of_g": lambda m, a: z_of_g(m, a, -0.5),
    "riemannian_shift": lambda m, a: riemannian_shift(m, a),
    "outliers": lambda m, a: theory.outliers(m, a),
    "spectrum": lambda m, a: theory.spectrum(m, a),
    "edge_gap": lambda m, a: edge_gap(m, a),
    "student_margins": lambda m, a: student_margins(m, a),
    "density": lambda m, a: density(m, a, 0.5),
    "stieltjes": lambda m, a: stieltjes(m, a, 1j),
    "moment": lambda m, a: moment(m, a, 2),
    "atom": lambda m, a: atom(m, a),
    "finite law": lambda m, a: law(m, a, 100, draws=2),
    "finite_edge": lambda m, a: finite_edge(m, a, 100),
}
OF_A_MODEL = {
    **{name: lambda m, call=call: call(m, 1.0) for name, call in AT_ALPHA.items()},
    "threshold": lambda m: theory.threshold(m),
    "alpha_zero": lambda m: alpha_zero(m),
    "quenched": lambda m: quenched(m, *ONES, 10),
    "finite threshold": lambda m: threshold_at(m, 1000),
    "kernel_variance": lambda m: kernel_variance(m, -0.5),
}


@pytest.mark.parametrize("function", OF_A_MODEL.values(), ids=OF_A_MODEL.keys())
def test_model(function):
    for model in (None, "x", 3, (1, 1, 1.0), np.ones(3), Network):
        refused(function, model, name="model")


OF_ALPHA = {name: partial(call, MODEL) for name, call in AT_ALPHA.items()}
ONE_ALPHA = {
    **{name: OF_ALPHA[name] for name in ("outliers", "student_margins", "finite_edge")},
    "spectral_edge": lambda a: spectral_edge(subset(), a),
    "spectral_outlier": lambda a: spectral_outlier(subset(), a),
    "optimal_at": lambda a: optimal_at(a),
    "general_spectrum": lambda a: general_spectrum(difference, a, points=64),
}
MASKED = np.ma.array([1.0, 2.0], mask=[False, True])
NUMBERS = [0, -1.0, math.nan, math.inf, 1j, HUGE]
NOT_POSITIVE = [MASKED, None, "1", True, [1.0, -2.0], [[1.0], [1.0, 2.0]], *NUMBERS]


@pytest.mark.parametrize("function", (OF_ALPHA | ONE_ALPHA).values(), ids=(OF_ALPHA | ONE_ALPHA).keys())
def test_alpha(function):
    for alpha in NOT_POSITIVE:
        refused(function, alpha, name="alpha")


def test_alpha_whose_square_overflows():
    for function in OF_ALPHA.values():
        refused(function, 1e200, name="alpha")


def test_one_alpha():
    for function in ONE_ALPHA.values():
        for alpha in ([], [2.0], [[1.0, 2.0]]):
            refused(function, alpha, name="alpha")


def test_largest_alpha_works():
    """Far above the threshold the outlier is alpha E[y f] with overlap 1: here E[y f] within the width of the weights."""
    found = theory.outliers(Network(1, 1, 1.0), 1e100)[0]
    assert found.overlap == pytest.approx(1, abs=1e-12) and np.isfinite(found.value)
    assert theory.outliers(Network(1, 1, 1.0), 1e99)[0].value == pytest.approx(found.value / 10, rel=1e-9)


@pytest.mark.parametrize("function", [trimmed, subset])
def test_cut(function):
    for cut in (*NOT_POSITIVE, [], [1.0]):
        refused(function, cut, name="cut")


@pytest.mark.parametrize(
    "arguments",
    [
        {"p": 0}, {"p": 1.5}, {"p": "1"}, {"p": None}, {"p": True}, {"p": [1, 2]}, {"p": np.ones(1)}, {"p": HUGE},
        {"p": 10**5000}, {"p_star": 0}, {"p_star": HUGE}, {"p_star": math.inf}, {"p_star": 10**41}, {"p_star": 1j}, {"a": 0.0},
        {"a": 1e-320}, {"a": 1e-101}, {"a": 1e61}, {"a": math.nan}, {"a": "1"}, {"a": [0.5]}, {"a": []}, {"a": HUGE},
    ],
    ids=shown,
)  # fmt: skip
def test_committee(arguments):
    refused(Network, **arguments, name=next(iter(arguments)))


@pytest.mark.parametrize("a", [1e-100, 1e-30, 1e30, 1e60])
@pytest.mark.parametrize("p", [1, 2, 7, math.inf])
def test_extreme_normalisations_work(p, a):
    model = Network(p, 2, a)
    found = theory.threshold(model)
    assert np.isfinite(found.alpha) and found.kind == (
        "discontinuous" if a > 1 or p == math.inf else "continuous"
    )
    assert (
        theory.outliers(model, 0.9 * found.alpha) == ()
        and 0 < theory.outliers(model, 2 * found.alpha)[0].overlap <= 1
    )


@pytest.mark.parametrize(
    "call",
    [
        lambda: threshold_map(HUGE), lambda: threshold_map(1, HUGE), lambda: threshold_map(1, 1, 1e-320),
        lambda: threshold_map([1, 2], [1, 2, 3]), lambda: threshold_map("1"), lambda: threshold_map(1, 1, [True]),
        lambda: threshold_map(1e301), lambda: threshold_map(1, 1e41), lambda: critical_normalisation(HUGE),
        lambda: critical_normalisation([[1], [1, 2]]),
        lambda: critical_width(1e-320), lambda: critical_width(1e-13), lambda: critical_width(None),
        lambda: critical_width(1.0, HUGE), lambda: alpha_zero_map(1, 1, "x"), lambda: alpha_zero_map(1, 1, 1.0, None),
        lambda: alpha_zero(MODEL, []), lambda: alpha_zero(MODEL, {}), lambda: alpha_zero(MODEL, 1),
        lambda: alpha_zero(MODEL, "x\ny"), lambda: z_of_g(MODEL, [1.0, 2.0], [-0.1, -0.2, -0.3]),
        lambda: z_of_g(MODEL, 1.0, "g"), lambda: z_of_g(MODEL, 1.0, 0.5), lambda: z_of_g(MODEL, 1.0, -0.5, 3),
        lambda: z_of_g(MODEL, 1.0, -0.5, "1"), lambda: density(MODEL, [1.0, 2.0], [1.0, 2.0, 3.0]),
        lambda: density(MODEL, 1.0, None), lambda: stieltjes(MODEL, 1.0, None),
        lambda: stieltjes(MODEL, 1.0, [[1j], [1j, 2j]]),
        lambda: moment(MODEL, 1.0, HUGE), lambda: density(Network(10**9), 1.0, 1.0), lambda: atom(None, 1.0),
        lambda: moment(MODEL, 1.0, None), lambda: moment(MODEL, 1.0, -1), lambda: moment(Network(1, 1, 1e-4), 1.0, 90),
        lambda: stieltjes(MODEL, 1.0, 0.5), lambda: stieltjes(MODEL, 1.0, 0.5 - 1j),
        lambda: stieltjes(MODEL, 1.0, [1j, math.nan]),
    ],
)  # fmt: skip
def test_maps(call):
    refused(call)


def test_seeds():
    for seed in (None, True, "1", math.nan, -1, 1.5, [1], 1j, np.ones(1)):
        refused(threshold_at, MODEL, 1000, seed=seed, name="seed")
        refused(general_spectrum, difference, 2.0, points=64, seed=seed, name="seed")
        refused(MODEL.draw_labels, 3, seed, name="rng")


def test_dimensions():
    for n in (None, True, "10", 0, -1, 10.5, math.nan, math.inf, [], [100, 200], HUGE):
        refused(finite_edge, MODEL, 1.0, n, name="n")
        refused(law, MODEL, 1.0, n, draws=2, name="n")
        refused(quenched, MODEL, *ONES, n, name="n")
        if not isinstance(n, list):
            refused(threshold_at, MODEL, n, name="n")


def test_dimensions_too_large_to_draw():
    with pytest.raises(ParameterError, match=r"^n must be at most 1e\+12 .*alpha_bbp_typical.*, got 1e\+15$"):
        threshold_at(MODEL, 10**15)


@pytest.mark.parametrize(
    "call",
    [
        lambda: threshold_at(MODEL, 1000, draws=None), lambda: threshold_at(MODEL, [1000, 5]),
        lambda: threshold_at(MODEL, [[1000], [1, 2]]), lambda: law(MODEL, [[1.0]], 100), lambda: law(MODEL, 1.0, 100, draws=1),
        lambda: finite_edge(Network(math.inf), 1.0, 100), lambda: kernel_variance(MODEL, [-0.5]),
        lambda: kernel_variance(MODEL, None), lambda: kernel_variance(MODEL, -2.0),
        lambda: MODEL.draw_labels(-1, rng()), lambda: MODEL.draw_labels(None, rng()),
        lambda: Network(math.inf).draw_labels(1, rng()), lambda: MODEL.weights(np.ones((5, 3)), np.ones(5)),
        lambda: MODEL.weights(*ONES), lambda: MODEL.weights(ONES[0], np.ones(4)),
        lambda: MODEL.weights(ONES[0], np.full(5, np.nan)), lambda: MODEL.weights(None, np.ones(5)),
        lambda: MODEL.weights(1.0, 1.0), lambda: MODEL.weights([[1.0], [1.0, 2.0]], np.ones(2)),
        lambda: law(Network(math.inf), 1.0, 50), lambda: law(MODEL, 1.0, 2), lambda: law(MODEL, 1.0, 50, draws=2).mean("x"),
        lambda: threshold_at(MODEL, []), lambda: quenched(Network(math.inf), *ONES, 10),
        lambda: quenched(MODEL, ONES[1], ONES[1], 10), lambda: quenched(MODEL, ONES[0], np.ones((4, 1)), 10),
        lambda: quenched(MODEL, np.nan * ONES[0], ONES[1], 10), lambda: quenched(MODEL, *ONES, 10, np.eye(2)),
        lambda: quenched(MODEL, *ONES, 10, 2 * np.ones((3, 3)) - np.eye(3)), lambda: quenched(MODEL, None, None, 10),
        lambda: quenched(MODEL, "x", ONES[1], 10), lambda: Dyson(np.ones((3, 1, 1)), 0.1).solve([1.0]),
        lambda: chi_square_law(1, None), lambda: chi_square_law(1, [-1.0]), lambda: chi_square_law(1, "1"),
        lambda: chi_square_law(1, [math.nan]), lambda: chi_square_law(HUGE), lambda: chi_square_law(10**9),
        lambda: chi_square_law(None), lambda: MODEL.weights([[1e200, 1.0]], [1.0]), lambda: stieltjes(MODEL, 1.5, 10**400),
        lambda: law(MODEL, [], 50), lambda: moment(MODEL, 1.0, 2**53),
    ],
)  # fmt: skip
def test_finite_size(call):
    refused(call)


@pytest.mark.parametrize(
    "call",
    [
        lambda: Preprocessing("t", None, 1.0), lambda: Preprocessing("t", np.sin, None),
        lambda: Preprocessing("t", np.sin, "1"),
        lambda: Preprocessing("t", np.sin, math.nan), lambda: Preprocessing("t", np.sin, -math.inf),
        lambda: Preprocessing("t", np.sin, [1.0]), lambda: Preprocessing("t", np.sin, 1.0, None),
        lambda: Preprocessing("t", np.sin, 1.0, (-1.0,)), lambda: Preprocessing("t", np.sin, 1.0, "1"),
        lambda: optimal_at(1.0, "1"), lambda: optimal_at(1.0, 2),
        lambda: given_law([1.0, 2.0], [1.0, 2.0, 3.0], 0.5), lambda: given_law(None, 1.0, 1.0),
        lambda: given_law([], [], []), lambda: given_law(1.0, 1.0, 1.0, "0"), lambda: given_law(1.0, 1.0, 1.0, [0.0]),
        lambda: given_law(1.0, 1.0, 1.0, math.nan),
    ],
)  # fmt: skip
def test_laws(call):
    refused(call)


@pytest.mark.parametrize("function", [spectral_edge, spectral_outlier, spectral_threshold])
def test_methods(function):
    alpha = () if function is spectral_threshold else (1.0,)
    for method in (None, "x", np.sin, 3):
        refused(function, method, *alpha, name="method")
    for p_star in (0, None, "1", math.inf, HUGE):
        refused(function, optimal(), *alpha, p_star, name="p_star")
    for given in (None, "x", 1.0, [1.0], 1j, math.nan):
        refused(function, Preprocessing("t", lambda y, v=given: v, 1.0), *alpha)
    for given in ("x", 1j, math.nan, math.inf, 2.0, -math.inf, None):
        refused(function, Preprocessing("t", lambda y, v=given: np.array([v] * len(y)), 1.0), *alpha)
    refused(function, Preprocessing("t", lambda y: y[:, None], 1.0), *alpha)


@pytest.mark.parametrize(
    "arguments",
    [
        {"infimum": "1"}, {"infimum": math.nan}, {"infimum": [-5.0]}, {"infimum": 1j}, {"weight": None}, {"weight": "x"},
        {"weight": lambda *_: None}, {"weight": lambda lam, u, xi: difference(lam, u, xi) * 1j},
        {"weight": lambda *_: [[1.0], [1.0, 2.0]]}, {"weight": lambda *_: 1.0}, {"weight": lambda *_: "x"},
        {"weight": lambda lam, u, xi: difference(lam, u, xi) * np.nan}, {"p": HUGE}, {"p": 30_000}, {"p_star": None},
        {"noise": "1"}, {"noise": -1}, {"points": HUGE}, {"points": "64"}, {"points": 2**31}, {"scramblings": None},
        {"scramblings": 1.5},
    ],
)  # fmt: skip
def test_general(arguments):
    refused(general_spectrum, **({"weight": difference, "alpha": 2.0, "points": 64} | arguments))


def test_messages_are_short_and_in_one_line():
    assert shown("a\nb") == r"'a\nb'" and len(shown(10**400)) == 60
    assert shown(10**5000) == "int too long to print"
    for value in (np.ones((50, 50), dtype=bool), [[1.0], [1.0, 2.0]] * 100, "x" * 1000):
        for check in (positive, finite, width, widths, count):
            refused(check, "value", value, name="value")


def test_large_python_integers_are_numbers():
    assert positive("alpha", 10**30) == 1e30 and widths("p", 10**30) == 1e30
    assert critical_normalisation(10**30) == pytest.approx(5e-30, rel=1e-15)
    assert Network(10**30).p == 10**30


@pytest.mark.parametrize("p", [1, 10**6, 10**300, math.inf])
@pytest.mark.parametrize("p_star", [1, 10**40])
def test_extreme_widths_work(p, p_star):
    model = Network(p, p_star, 1.0)
    found = theory.threshold(model)
    assert found.alpha >= p_star / 2 and 0 < theory.outliers(model, 2 * found.alpha)[0].overlap < 1
    assert np.isfinite(theory.edge(model, found.alpha).value) and np.isfinite(
        critical_normalisation(p, p_star)
    )


def test_largest_dimension_works():
    assert finite_edge(MODEL, 1.0, 10**300).lowest_error < 1e-140


def test_typical_draws_want_a_model_of_finite_width():
    for model in (None, "x", 3, (1, 1, 1.0), Network(math.inf, 1, 1.0)):
        for call, arguments in ((typical_edge, (1.0, 100)), (alpha_bbp_typical, (1e8,))):
            with pytest.raises(ParameterError, match=r"^(model must be a Network|p must be finite)"):
                call(model, *arguments)


def test_typical_draws_want_numbers():
    for bad in (0, -1.0, math.nan, "1", None, 1j):
        refused(typical_edge, MODEL, bad, 100)
        refused(typical_edge, MODEL, 1.0, bad)
        refused(alpha_bbp_typical, MODEL, bad)
        refused(pole_probability, MODEL, bad)
    with pytest.raises(ParameterError, match="alpha must be one number"):
        typical_edge(MODEL, [1.0], 100)


def used(**change):
    """What is known of five data points in three directions."""
    fields = {"images": np.zeros((5, 3)), "teacher": np.ones((3, 1)), "students": np.ones((3, 1)), "n": 9}
    return Used(**fields | {"forces": np.zeros((5, 0))} | change)


W = np.random.default_rng(0).standard_normal((2, 200))
SAID = {
    "p must be an integer of at least 1 or inf, got 1.5": [lambda: threshold_map([1, 1.5])],
    "p_star must be an integer of at least 1, got inf": [lambda: threshold_map(1, math.inf)],
    "a must be positive and finite, got": [
        lambda: threshold_map(1, 1, [0.5, 0.0]),
        lambda: critical_width(-1.0),
    ],
    "a must be large enough": [lambda: critical_width(1e-20)],
    "p, p_star, a and noise must broadcast, got shapes": [lambda: threshold_map([1, 2, 3], 1, [0.5, 0.6])],
    "method must be one of overlap, continuation, got 'tangent'": [lambda: alpha_zero(MODEL, "tangent")],
    "p must be": [lambda: critical_normalisation(0)],
    "see theory.edge": [
        lambda: edges(Network(activation="tanh", a=2.0), 2.0),
        lambda: edges(Network(covariance="mp:0.5"), 2.0),
        lambda: edges(Network(overlap=0.3), 2.0),
    ],
    "model must be a Network": [lambda: solve("tanh", 1.0)],
    "alpha must be": [lambda: solve(Network(), -1.0)],
    "p must be finite": [
        lambda: solve(Network(math.inf, 2, activation="tanh", a=2.0, covariance="mp:0.5"), 1.0),
        lambda: density(Network(math.inf, activation="tanh", p_star=2), 6.0, 1.0),
    ],
    "axes must be among": [lambda: model_map(Network(), width=[1])],
    "noise must be a list": [lambda: model_map(Network(), noise=[])],
    "unbounded above": [lambda: spectral_threshold(Preprocessing("identity", lambda y: y, np.inf))],
    "below 1": [lambda: spectral_threshold(Preprocessing("wrong", lambda y: y, 1.0))],
    "alpha must exceed": [lambda: optimal_at(0.4)],
    "cut must be positive": [lambda: trimmed(-1.0)],
    "p_star": [lambda: spectral_threshold(optimal(), 0)],
    "mass must lie": [lambda: density_curve(Network(), 6.0, mass=1.0)],
    "digits must be": [lambda k=k: theory.density(MODEL, 2.0, 1.0, digits=k) for k in (7, 16, 9.5)],
    "sum to 1": [lambda s=s: given_law([1.0, 2.0], 1.0, s) for s in ([0.5, 0.6], [1.5, -0.5])],
    "finite": [
        lambda: given_law([1.0, np.nan], 1.0, 0.5),
        lambda: Dyson(np.full((3, 1, 1), np.nan), 1.0),
        lambda: complexity(Network(), 3.0, math.nan),
    ],
    "must be (n,)": [lambda: given_law(np.ones((2, 2)), 1.0, 0.25)],
    "infimum": [lambda: given_law([1.0, 2.0], 1.0, 0.5, 1.5)],
    "shape": [
        lambda: Dyson(np.ones((3, 2)), 1.0),
        lambda: Dyson(np.ones((0, 2, 2)), 1.0),
        lambda: Dyson(np.ones((3, 1, 1)), np.ones(2)),
    ],
    "positive": [lambda: Dyson(np.ones((3, 1, 1)), -1.0)],
    "symmetric": [lambda: Dyson(np.array([[[0.0, 1.0], [0.0, 0.0]]]), 1.0)],
    "weight must take three arguments": [
        lambda: general_spectrum(lambda lam, u: lam, 1.0),
        lambda: general_spectrum(lambda lam, u, xi, more: lam, 1.0),
    ],
    "infimum must bound": [lambda: general_spectrum(difference, 2.0, points=64, infimum=5.0)],
    "must return shape": [lambda: general_spectrum(difference, 2.0, p=2, points=64)],
    "of must be one of": [lambda: answer(MODEL, alpha=1.0, n=50, of="phi")],
    "share must lie between": [lambda: answer(MODEL, n=50, share=1.0)],
    "give two of alpha, n and share": [lambda: answer(MODEL, n=50)],
    "s must be finite": [lambda: tracy_widom_cdf(np.nan)],
    "probability must lie": [lambda: tracy_widom_quantile(1.0)],
    "must be continuous": [lambda: critical_amplitude(Network(1, 1, 2.0))],
    "p p_star must be at most": [lambda: critical_amplitude(Network(1, 9, 0.5))],
    "k must be at most": [lambda: level_overlap(Network(1, 1, 0.5), 0.8, 100, 90)],
    "k must be a positive integer": [lambda: level_overlap(Network(1, 1, 0.5), 0.8, 100, 0)],
    "gram must be W W^T / n": [lambda: quenched(Network(), *[np.ones((9, 1))] * 2, 200, gram=W @ W.T)],
    "gram must be symmetric": [
        lambda: quenched(Network(), *[np.ones((9, 1))] * 2, 200, gram=[[1, 0.3], [0, 1]])
    ],
    "p and p_star must be 1": [
        lambda: complexity(Network(p=2), 3.0),
        lambda: complexity(Network(p_star=2), 3.0),
    ],
    "must be None to count minima": [lambda: complexity(Network(covariance="mp:0.5"), 3.0)],
    "argument of its own": [lambda: complexity(Network(overlap=0.2), 3.0)],
    "alpha must be positive": [lambda: complexity(Network(), -1.0)],
    "inside": [lambda: complexity(Network(), 3.0, 1.0)],
    "loss must be positive": [lambda: complexity(Network(), 3.0, loss=0.0)],
    "rising": [
        lambda: most_numerous(Network(), 3.0, 0.5, 0.2),
        lambda: threshold_of_minima(Network(), low=5.0, high=5.0),
    ],
    "students and teacher must have 1 and 1 rows, got (2, 1)": [
        lambda: conditioned(Network(), used(students=np.zeros((3, 2))))
    ],
    "n and M must be above what is used": [lambda: conditioned(Network(), used(n=3))],
    "forces must have 5 rows": [
        lambda: closure(np.ones((5, 4)), np.ones((1, 4)), np.ones((1, 4)), [np.ones((4, 1))])
    ],
    "rows of one length": [lambda: closure(np.ones((5, 4)), np.ones((1, 4)), np.ones((1, 3)))],
}


@pytest.mark.parametrize("words", SAID)
def test_a_refusal_says_what_is_wrong(words):
    for call in SAID[words]:
        with pytest.raises(ParameterError) as caught:
            call()
        assert words in str(caught.value) and "\n" not in str(caught.value)
