"""alpha_0 of networks: that of the committee by other equations, and answers where there is none."""

import math

import numpy as np
import pytest

from theory import alpha_zero as of_committee
from theory.checks import ParameterError
from theory.general import Network, alpha_zero, model_map, threshold
from theory.general.isotropic import Isotropic
from theory.general.points import point_threshold
from theory.general.spectrum import QuadraticLaw


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
        ((first, _),) = Isotropic(QuadraticLaw(model), inputs).thresholds(0)
        assert abs(first.alpha_0 - of_committee(model)) < 1e-8
    assert alpha_zero(model)[0] == threshold(model).alpha_0 == of_committee(model)


def test_small_jumps():
    """Both estimates agree to 0.2 % where the overlap jumps by little, with noise too."""
    for noise in (0.0, 0.05):
        model = Network(2, 1, 1.0, noise=noise)
        both = [alpha_zero(model, method)[0] for method in ("overlap", "continuation")]
        assert abs(both[0] - both[1]) < 2e-3 * both[0]


def test_tangents_on_clouds():
    found, exact = point_threshold(Network(2, 1, 1.5)), of_committee(Network(2, 1, 1.5))
    assert abs(found.alpha_0 - exact) < 1e-6


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
