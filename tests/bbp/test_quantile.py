"""bbp quantile: answers of the finite-N law, checked by samples; bad input."""

import functools
import re
import sys

import numpy as np
import pytest

from bbp import quantile
from bbp.quantile import sampled
from theory import Committee
from theory.finite.threshold import _root, answer


def test_three_questions_with_one_answer(bbp):
    words = ["quantile", "--a", "0.5", "--draws", "40", "--q2", "0.1"]
    found = bbp(*words, "--n", "60", "--share", "0.6")
    assert found.code == 0 and found.out.startswith("alpha = ")
    alpha = float(re.match(r"alpha = (\S+)", found.out)[1])
    share = bbp(*words, "--n", "60", "--alpha", alpha)
    assert share.code == 0 and abs(float(re.match(r"share = (\S+)", share.out)[1]) - 0.6) < 0.1


def test_samples_check_the_answer(bbp):
    said = bbp("quantile", "--a", "0.5", "--n", "60", "--alpha", "2", "--draws", "40", "--samples", "20")
    assert said.code == 0 and "samples: share = " in said.out and "95 % interval" in said.out


def test_a_share_that_jumps_past_the_wanted_one_has_no_error(bbp):
    """N = 7: the share of draws goes from 0, no level left of 0, to 0.8; small N is said to be beyond the law."""
    jump = _root(lambda x: -0.5 if x < 0.3 else 0.4, 0, 1, 0.5, 100, step=0.15, sign=1)
    assert jump[0] == pytest.approx(0.3, abs=1e-3) and np.isnan(jump[1])
    even = _root(lambda x: x - 0.3, 0, 1, 0.5, 100, step=0.15, sign=1)
    assert even[1] == pytest.approx(0.05)
    assert (
        "not known to hold here: p N = 7 is below 100"
        in bbp("quantile", "--n", "7", "--alpha", "3", "--draws", "10").out
    )


@pytest.fixture(scope="module")
def drawn_once():
    """All questions are asked of the same samples and of the same law."""
    with pytest.MonkeyPatch.context() as patch:
        for place, name in ((quantile, "sample_point"), (sys.modules[answer.__module__], "law")):
            patch.setattr(place, name, functools.cache(getattr(place, name)))
        yield


@pytest.mark.parametrize("of", ["overlap", "overlap_lowest", "informative", "among", "first"])
def test_shares_of_samples_are_those_of_the_law(drawn_once, of):
    """p = 1, a = 0.5, N = 100, alpha = 2: 100 samples and 100 draws agree within 4 sigma of both and the law's own 0.08."""
    model = Committee(1, 1, 0.5)
    found = sampled(model, 2.0, 100, 100, q2=0.1, of=of, seed=0)
    law = answer(model, alpha=2.0, n=100, of=of, draws=100)
    assert abs(found.value - law.share) < 0.08 + 4 * np.hypot(found.error, law.error)
