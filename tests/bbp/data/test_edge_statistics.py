"""Edge statistics: the Kolmogorov-Smirnov distance, and one small sweep drawn and scaled."""

import numpy as np
import pytest

import bbp
from bbp.sweep import main
from benchmarks.spiked_edge import _distances, edge_statistics
from theory.checks import ParameterError
from theory.finite.tracy_widom import tracy_widom_cdf


def test_distance_is_small_for_the_law_itself_and_large_for_another():
    """400 Tracy-Widom quantiles at random probabilities: below the 1e-4 point of the Kolmogorov law, 2.225/sqrt(400).

    Quantiles by interpolation between 300 values of the law, within 1e-3: a hundredth of that bound.
    """
    rng, grid = np.random.default_rng(0), np.linspace(-6, 5, 300)
    values = np.interp(rng.uniform(0.001, 0.999, 400), tracy_widom_cdf(grid), grid)
    assert _distances(values) < 2.225 / 20
    assert _distances(values + 1) > 0.2


def test_samples_of_a_sharp_edge(tmp_path):
    """40 samples at N = 100: scaled mean within -3 to 0 and the labels explain between 0.2 and 1.2 of the variance."""
    path = tmp_path / "sweep.h5"
    options = ["--alpha-grid", "0.8", "--a", "0.5", "--n", "100", "--samples", "40", "--out", str(path), "-q"]
    assert main(options) == 0
    sweep = bbp.open(path)
    found = edge_statistics(sweep, 100, 0.8)
    assert len(found.scaled) == 40 and -3 < found.mean.value < 0
    assert np.corrcoef(found.lowest, found.edges)[0, 1] > 0.5
    assert 0.2 < found.share.value < 1.2
    with pytest.raises(ParameterError, match="no point"):
        edge_statistics(sweep, 200, 0.8)
    with pytest.raises(ParameterError, match="draw labels again"):
        edge_statistics(sweep.assign_attrs(prng="threefry2x32"), 100, 0.8)
