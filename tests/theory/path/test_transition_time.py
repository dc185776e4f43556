"""When the outlier is lost along gradient flow at N = infinity."""

import math

import numpy as np
import pytest

from theory.checks import ParameterError
from theory.model import Network
from theory.path import bbp_time
from theory.path.transition_time import _crossing, _Flow


def test_the_time_of_a_quadratic_student():
    """p = 1, a = 0.5, alpha = 2; expected from 2^17 samples (benchmarks/path_times.py: plain matrices at N = 2,000 agree).
    Within 4 standard errors, which are below a tenth."""
    found = bbp_time(Network(a=0.5), 2.0, samples=2**12, scramblings=4, until=1.0)
    assert found.kind == "lost" and found.margin > 0 and found.error < 0.1
    assert abs(found.time - 0.301) < 4 * found.error


def test_what_does_not_happen_has_a_name():
    brief = {"samples": 256, "scramblings": 4}
    found = bbp_time(Network(a=0.5), 5.0, until=0.1, **brief)
    assert found.kind == "none" and math.isnan(found.time) and found.until == 0.1
    assert bbp_time(Network(loss="squared"), 0.5, until=0.1, **brief).kind == "no edge"
    near = bbp_time(
        Network(a=0.5), 1.38, until=0.02, **brief
    )  # at the threshold itself, to what 256 samples see
    assert near.kind == "unresolved" and "runs cross" in near.reason
    for model, words in (
        (Network(p=math.inf), "p must be finite"),
        (Network(covariance="mp:0.5"), "covariance and inputs None"),
    ):
        with pytest.raises(ParameterError, match=words):
            bbp_time(model, 2.0)
    with pytest.raises(ParameterError, match="scramblings must be an integer of at least 4"):
        bbp_time(Network(), 2.0, scramblings=2)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_crossing_is_found_to_the_accuracy_of_its_points(sign):
    times = np.arange(0, 2, 0.1)
    asked = []
    curve = ((asked.append(t) or t, sign * (1 - t**2)) for t in times)
    time, start = _crossing(curve)
    assert time == pytest.approx(1.0, abs=2e-3) and start == sign
    assert asked[-1] == pytest.approx(1.1)  # and no more of the curve is made
    assert math.isnan(_crossing((t, 1.0 + t) for t in times)[0])


@pytest.mark.parametrize("p", [1, 2])
def test_a_flow_with_its_teacher_is_that_without(p):
    """Random students: the margin with the teacher's direction and all forces known is the plain one as N grows. Four runs of
    1,024 samples, after 8 steps: means within 4 standard errors and 0.05, which directions of order 1/N may move."""
    plain, whole = [], []
    for seed in range(4):
        for overlap, found in ((0.0, plain), (1e-12, whole)):
            model = Network(p, 1, 0.5, overlap=overlap)
            flow = _Flow(model, 3.0, 1024, [seed])
            for _ in range(8):
                flow.advance(0.005)
            found.append(flow.margin(model.weights(flow.lam, flow.y)))
        part = flow.w + flow.data.pull(flow.total)
        along = np.sum(part * flow.start, axis=1, keepdims=True) / flow.n
        assert (
            np.abs(part - along * flow.start).max() < 1e-6
        )  # the sum of the forces is what has moved the students
    spread = math.hypot(np.std(plain, ddof=1), np.std(whole, ddof=1)) / 2
    assert abs(np.mean(plain) - np.mean(whole)) < 4 * spread + 0.05
