"""Maps of thresholds: the points are those of `threshold`, refusals do not stop them."""

import numpy as np
import pytest

from theory import threshold_map
from theory.checks import ParameterError
from theory.general import Network, threshold
from theory.general.spectrum import model_map


def test_a_map_of_committees_is_threshold_map():
    found = model_map(Network(), p=[1, 2, np.inf], a=[0.3, 2.0], noise=[0.0, 0.2])
    wanted = threshold_map(
        np.array([1, 2, np.inf])[:, None, None], 1, np.array([0.3, 2.0])[:, None], np.array([0.0, 0.2])
    )
    np.testing.assert_array_equal(found.alpha, wanted.alpha)
    np.testing.assert_array_equal(found.kind == "discontinuous", wanted.discontinuous)
    assert np.all(found.error == 0)


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


def test_bad_axes():
    with pytest.raises(ParameterError, match="axes must be among"):
        model_map(Network(), width=[1])
    with pytest.raises(ParameterError, match="noise must be a list"):
        model_map(Network(), noise=[])
