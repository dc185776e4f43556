"""Arrays as they come, floating-point settings of others, and points where formulas are singular: right, or one line."""

import math

import numpy as np
import pytest

import theory
from theory import (
    Network,
    ParameterError,
    atom,
    density,
    edge,
    moment,
    outliers,
    spectrum,
    stieltjes,
    threshold_map,
)
from theory.finite.quenched import quenched
from theory.finite.tracy_widom import tracy_widom_cdf, tracy_widom_sf

MODEL = Network(1, 1, 1.0)
FORMS = {
    "big-endian": lambda x: x.astype(">f8"),
    "narrow": lambda x: x.astype(np.int8),
    "half": lambda x: x.astype(np.float16),
    "masked, nothing hidden": np.ma.array,
    "list": lambda x: x.tolist(),
    "strided": lambda x: np.repeat(x, 2, axis=0)[::2],
}
CALLS = {
    "spectrum": lambda x: spectrum(MODEL, x).edge,
    "threshold_map": lambda x: threshold_map(1, 1, x).alpha,
    "atom": lambda x: atom(MODEL, x),
    "density": lambda x: density(MODEL, 1.5, x),
    "moment": lambda x: moment(MODEL, x, 2),
    "stieltjes": lambda x: stieltjes(MODEL, x, 1 + 1j),
    "weights": lambda x: MODEL.weights(x[:, None] if hasattr(x, "shape") else [[v] for v in x], x),
    "outputs": lambda x: MODEL.outputs(x[:, None] if hasattr(x, "shape") else [[v] for v in x]),
    "quenched": lambda x: quenched(MODEL, *[np.tile(x, 40)[:, None]] * 2, 100).edge,
}


@pytest.mark.parametrize("call", CALLS)
def test_any_form_of_an_array_gives_the_same_numbers(call):
    values = np.array([1.0, 2.0, 100.0])
    right = CALLS[call](values)
    for name, form in FORMS.items():
        if (call, name) != ("quenched", "list"):
            np.testing.assert_array_equal(CALLS[call](form(values)), right, err_msg=name)


@pytest.mark.parametrize("call", CALLS)
def test_hidden_entries_are_refused(call):
    with pytest.raises(ParameterError, match="must have no masked entries"):
        CALLS[call](np.ma.array([1.0, 2.0], mask=[False, True])) if call != "quenched" else quenched(
            MODEL, np.ma.array(np.ones((9, 1)), mask=np.eye(9, 1) > 0), np.ones((9, 1)), 100
        )


def test_sizes_as_numpy_integers():
    model = Network(np.uint8(2), np.array(1, ">i4"), np.float16(0.5))
    assert model == Network(2, 1, 0.5)
    with pytest.raises(ParameterError, match="p must be an integer"):
        Network(np.ma.masked, 1, 0.5)
    lam = np.random.default_rng(0).standard_normal((300, 1))
    assert quenched(MODEL, lam, lam[::-1], np.uint8(200)).edge == quenched(MODEL, lam, lam[::-1], 200).edge


def test_overlaps_that_are_none():
    rng = np.random.default_rng(0)
    lam, u, w = rng.standard_normal((300, 1)), rng.standard_normal((300, 1)), rng.standard_normal((2, 200))
    assert math.isfinite(quenched(MODEL, lam, u, 200, gram=w @ w.T / 200).edge)


def test_floating_point_errors_may_raise():
    with np.errstate(all="raise"):
        for a in (1e-100, 0.5, 1e60):
            for p in (1, math.inf):
                found = theory.threshold(Network(p, 1, a))
                outliers(Network(p, 1, a), 2 * found.alpha)
                edge(Network(p, 1, a), 0.5 * found.alpha)
        density(MODEL, 0.5, [-3.0, 0.0, 1e-120, 1e50])
        tracy_widom_sf([-30.0, 14.0, 100.0, 1e9])
        moment(MODEL, 1.5, 8)


@pytest.mark.slow
def test_density_next_to_alpha_one():
    """t ~ lambda^(-1/2) at alpha = 1, with a logarithm for p = p* = 1; 0 takes c/(alpha - 1) from alpha > 1 on."""
    lam = np.array([-1.0, 1e-80, 1e-40, 1e-23, 1e-21, 0.5])
    for model in (MODEL, Network(math.inf, 1, 0.5)):
        at = density(model, 1.0, lam)
        for alpha in (1 + 2.3e-16, 1 - 1.2e-16):
            np.testing.assert_array_equal(density(model, alpha, lam), at)
        assert density(model, 1 + 2.3e-16, 0.0) == math.inf
        scaled = (at * np.sqrt(np.abs(lam)))[1:5]
        assert np.all(np.diff(scaled) < 0) if model == MODEL else np.ptp(scaled) < 1e-6 * scaled[0]
        near = [e * density(model, 1 + e, 0.0) for e in (1e-8, 1e-10)]
        assert near[0] == pytest.approx(near[1], rel=0.3 if model == MODEL else 1e-6)
    below = [(1 - alpha) * density(Network(2, 3, 0.5), alpha, 0.0) for alpha in (1 - 1e-8, 1 - 1e-12)]
    assert below[0] == pytest.approx(below[1], rel=1e-6)


def test_overlaps_and_tails_at_their_ends():
    for a in np.linspace(0.05, 1.1, 40):
        model = Network(1, 1, float(a))
        branch = theory.spectrum(model, theory.threshold(model).alpha * (1 + 1e-15 * np.arange(-8, 9)))
        assert np.nanmin(branch.overlap, initial=0.0) >= 0
    # 1 - F1(s) = Tr of Ai((x + y)/2 + s) to first order: 3.2e-90 at 45 (Airy asymptotics)
    assert tracy_widom_sf(45.0) == pytest.approx(3.2e-90, rel=0.01)
    assert tracy_widom_sf(1e9) == 0 and tracy_widom_cdf(1e9) == 1


def test_moments_whose_terms_cancel_are_refused_or_right():
    model, k = Network(math.inf, 1, 3.0), 60
    lam = np.linspace(edge(model, 1.5).value, 2.0, 20_001)
    assert moment(model, 1.5, k) == pytest.approx(
        np.trapezoid(density(model, 1.5, lam) * lam**k, lam), rel=1e-4
    )
    with pytest.raises(ParameterError, match=r"no digits|overflows"):
        moment(model, 1.5, 256)
    with pytest.raises(ParameterError, match="overflows"):
        moment(MODEL, 1.5, 250)
