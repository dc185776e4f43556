"""The verdict: it names a law only where that law's theory meets the Hessians."""

import numpy as np
import pytest

from theory import Inputs, ParameterError
from theory.given import Heavy, enough, judge, marks, settled
from theory.given.verdict import DRAWS, Marks

ROUND, BROAD = Marks(0.0, 0.01, 0.01, 0), Marks(1.0, 0.05, 0.01, 0)
FOUND = -2 + 0.2 * np.sin(np.arange(16.0))
Q2 = np.full(16, 0.4)


def judged(found, gaussian, elliptical, q2, gaussian_q2, elliptical_q2, own, **options):
    """`judge` of columns."""
    pairs = zip((found, gaussian, elliptical), (q2, gaussian_q2, elliptical_q2), strict=True)
    return judge(*map(np.column_stack, pairs), own, **options)


def test_the_law_that_meets_the_hessians_is_named():
    off = FOUND + 1.5
    assert judged(FOUND, FOUND + 0.05, FOUND, Q2, Q2, Q2, ROUND).kind == "Gaussian"
    assert judged(FOUND, FOUND + 0.05, FOUND, Q2, Q2, Q2, BROAD).kind == "elliptical"
    assert judged(FOUND, off, FOUND + 0.05, Q2, Q2, Q2, BROAD).kind == "elliptical"
    verdict = judged(FOUND, off, off, Q2, Q2, Q2, BROAD)
    assert verdict.kind == "neither" and np.isnan(verdict.lowest) and "+1.5" in verdict.reason
    assert judged(FOUND, FOUND, off, Q2, Q2, Q2, BROAD).kind == "neither"


def test_errors_hold_the_misfit_and_the_covariance():
    verdict = judged(FOUND, FOUND + 0.1, FOUND + 0.1, Q2, Q2, Q2, ROUND)
    assert 0.1 < verdict.lowest_error < 0.12
    wider = judged(FOUND, FOUND + 0.1, FOUND + 0.1, Q2, Q2, Q2, ROUND, halves=[[0.8, 0.0]])
    assert wider.lowest_error == pytest.approx(np.hypot(verdict.lowest_error, 0.4))


def test_one_heavy_draw_decides_nothing():
    """Its draw alone makes the mean right to a percent, the others are off by half."""
    found, said = FOUND.copy(), FOUND - 1.0
    found[3] = said[3] = -1000.0
    assert judged(found, said, said, Q2, Q2, Q2, ROUND).kind == "neither"


def test_a_law_needs_a_mean_that_is_known():
    """Of 64 draws with scatter, skewed ones, and some that heavy rows may hide."""
    verdict = judged(FOUND, FOUND, FOUND, Q2, Q2, Q2, ROUND)
    more = np.column_stack([-2 + 0.3 * np.sin(np.arange(64.0)), np.full(64, 0.4)])
    said = settled(verdict, more, 16)
    assert said.kind == "Gaussian" and said.lowest == pytest.approx(more[:, 0].mean())
    assert said.lowest_error == pytest.approx(more[:, 0].std(ddof=1) / 8) and said.overlap == pytest.approx(
        0.4
    )
    wide = settled(verdict, more * [1, 0] + [[5 * np.sin(k), 0.4] for k in range(64)], 16)
    assert wide.kind == "neither" and "not known to 20%" in wide.reason and np.isnan(wide.lowest)
    skewed = more.copy()
    skewed[40, 0] = -7.0
    assert "two of 64" in settled(verdict, skewed, 16).reason
    lacking = more.copy()
    lacking[40] = np.nan
    assert "no answer for 1 of 64" in settled(verdict, lacking, 16).reason
    rare, often, slight = Heavy(3, 0.01, 100.0), Heavy(3, 0.5, 100.0), Heavy(3, 0.01, 1.0)
    assert "large norm" in settled(verdict, more, 16, (slight, rare)).reason
    assert settled(verdict, more, 16, (often, slight)).kind == "Gaussian"


def test_draws_are_made_until_the_mean_is_known():
    draws = -2 + 0.9 * np.sin(np.arange(512.0))
    assert [enough(draws[:k]) for k in (16, 64, 500, 512)] == [False, False, True, True]
    assert enough(-2 + 0.1 * np.sin(np.arange(16.0)))
    assert not enough(-2 + 0.1 * np.sin(np.arange(16.0)), (Heavy(3, 0.01, 100.0),))
    assert enough(-2 + 10 * (draws[:64] + 2))  # no number of draws will do


def test_few_draws_are_no_verdict():
    few = slice(0, DRAWS - 1)
    verdict = judged(FOUND[few], FOUND[few], FOUND[few], Q2[few], Q2[few], Q2[few], ROUND)
    assert verdict.kind == "neither" and f"{DRAWS}" in verdict.reason
    lacking = FOUND.copy()
    lacking[2] = np.nan  # theory fails where it is hardest
    assert judged(FOUND, lacking, lacking, Q2, Q2, Q2, ROUND).kind == "neither"


def test_an_overlap_is_given_where_it_is_shown_to_be_right():
    assert judged(FOUND, FOUND, FOUND, Q2, Q2 + 0.01, Q2, ROUND).overlap == pytest.approx(0.41)
    assert judged(FOUND, FOUND, FOUND, Q2, Q2 + 0.2, Q2 + 0.2, ROUND).kind == "neither"
    low = judged(FOUND, FOUND, FOUND, Q2 - 0.35, Q2 - 0.28, Q2 - 0.3, ROUND)
    assert low.kind == "Gaussian" and np.isnan(low.overlap)
    noisy = Q2 + 0.5 * np.cos(np.arange(16.0))
    assert np.isnan(judged(FOUND, FOUND, FOUND, Q2, noisy, Q2, ROUND).overlap)


def test_marks_tell_rows_apart():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2000, 50))
    plain = marks(Inputs.of(x, name="plain"))
    scaled = marks(Inputs.of(x * np.sqrt(rng.gamma(0.5, 2.0, 2000))[:, None], name="scaled"))
    one_hot = marks(Inputs.of(np.eye(50)[rng.integers(0, 50, 2000)], name="one hot"))
    assert abs(plain.spread) < 0.02 and plain.raw < 0.03 and plain.whitened < 0.03
    assert scaled.spread > 0.5 and scaled.raw > 2 * scaled.whitened
    assert one_hot.whitened > 0.05


def test_arrays_of_other_lengths_are_refused():
    with pytest.raises(ParameterError, match="one length"):
        judge(np.ones((16, 2)), np.ones((4, 2)), np.ones((16, 2)), ROUND)
