"""The matrix route on points gives the numbers of the exact routes: quite other equations on quite other nodes."""

import numpy as np
import pytest

from theory.general import Network, spectrum, threshold
from theory.general.points import point_spectrum, point_threshold
from theory.general.spectrum import route

SLOW = pytest.mark.slow
TWO = Network(2, 1, 1.5)
INPUTS = {
    law: Network(2, 1, 1.5, covariance=law) for law in ("power:1", "levels:0.4@2,2.2@1", "mp:2", "mp:0.5")
}


@pytest.mark.parametrize(
    ("model", "alpha", "kind", "of_edge", "error"),
    [
        (TWO, 0.5, "smooth", 1e-9, 1e-9),
        pytest.param(TWO, 1.2, "smooth", 1e-9, 1e-9, marks=SLOW),
        (TWO, 4.0, "sharp", 1e-9, 1e-9),
        (INPUTS["mp:2"], 0.4, "smooth", 1e-12, 1e-11),
        pytest.param(INPUTS["power:1"], 0.4, "smooth", 1e-12, 1e-11, marks=SLOW),
        pytest.param(INPUTS["levels:0.4@2,2.2@1"], 0.8, "smooth", 1e-12, 1e-11, marks=SLOW),
        pytest.param(INPUTS["mp:0.5"], 4.0, "sharp", 1e-12, 1e-11, marks=SLOW),
        *(pytest.param(INPUTS[law], 4.0, "sharp", 1e-11, 1e-11, marks=SLOW) for law in [*INPUTS][:3]),
    ],
)
def test_spectra(model, alpha, kind, of_edge, error):
    exact, found = spectrum(model, alpha), point_spectrum(model, alpha)
    assert found.kind == exact.kind == kind
    assert abs(found.edge - exact.edge) < of_edge
    for name in ("outliers", "overlaps"):
        np.testing.assert_allclose(getattr(found, name), getattr(exact, name), rtol=0, atol=error)
    assert list(found.multiplicity) == list(exact.multiplicity)


@pytest.mark.parametrize(
    "model",
    [
        TWO,
        Network(1, 1, 1.0, overlap=0.4),
        Network(1, 1, 2.0, activation="tanh"),
        Network(1, 1, 0.5, noise=0.3),
        *(pytest.param(INPUTS[law], marks=SLOW) for law in [*INPUTS][:3]),
    ],
    ids=["committee", "overlap", "tanh", "noise", *[*INPUTS][:3]],
)
def test_thresholds(model):
    exact, found = threshold(model), point_threshold(model)
    assert route(model) != found.route == "points"
    assert found.kind == exact.kind
    assert abs(found.alpha - exact.alpha) < 2 * found.error < 1e-7 * found.alpha
    assert found.alpha == pytest.approx(exact.alpha, rel=1e-10)
    assert abs(found.jump - exact.jump) < 1e-10
    assert abs(found.alpha_0 - exact.alpha_0) < 1e-6
