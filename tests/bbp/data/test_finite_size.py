"""The finite-size claims, checked statistically on the sweeps stored under data/finite_size."""

import functools
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

import bbp
from bbp import join
from bbp.analysis.finite_size import phi_crossing
from bbp.analysis.summary import observables
from bbp.experiments import models
from bbp.files.variables import NOT_RUN
from bbp.sweep import main
from benchmarks.spiked_edge import _distances, _tracy_widom, edge_statistics
from theory.checks import ParameterError
from theory.finite.threshold import threshold
from theory.finite.tracy_widom import MEAN, VARIANCE

DATA = Path(__file__).parents[3] / "data" / "finite_size"


@functools.cache
def stored(pattern: str) -> xr.Dataset:
    return join(sorted(DATA.glob(pattern)))


@functools.cache
def crossings(pattern: str) -> list:
    sweep = stored(pattern)
    phi = observables(sweep).phi.values
    rng = np.random.default_rng(0)
    sizes = [int(n) for n in sweep.n.values]
    return [
        phi_crossing(
            sweep.alpha.values,
            (phi[i][:, : _most(phi[i])], phi[j][:, : _most(phi[j])]),
            (sizes[i], sizes[j]),
            rng,
        )
        for i, j in pairwise(range(len(sizes)))
    ]


def _most(phi: np.ndarray) -> int:
    return int(np.isfinite(phi).sum(axis=1).max())


def test_continuous_crossings_sit_at_the_threshold():
    """Successive N = 200 ... 1600 cross within 4 standard errors of alpha_BBP (false alarm 6e-5 each)."""
    sweep = stored("c*.h5")
    assert sweep.n.values.tolist() == [200, 400, 800, 1600]
    found = [c for c in crossings("c*.h5") if c.found > 0.5 and np.isfinite(c.alpha.value)]
    assert found
    for crossing in found:
        assert abs(crossing.alpha.sigmas(sweep.alpha_bbp)) < 4


def test_discontinuous_crossings_sit_well_below_the_threshold():
    """Weighted mean of the crossings found (400, 800; 800, 1600) over 2.5 standard errors below alpha_BBP = 1.6904."""
    sweep = stored("d*.h5")
    found = [c.alpha for c in crossings("d*.h5") if c.found > 0.5 and np.isfinite(c.alpha.value)]
    weights = np.array([e.error**-2 for e in found])
    mean = np.sum(weights * [e.value for e in found]) / weights.sum()
    assert len(found) >= 2 and mean < sweep.alpha_bbp - 2.5 * weights.sum() ** -0.5


@pytest.mark.parametrize("samples", [200, pytest.param(600, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("pattern", "alpha"), [pytest.param("far*.h5", 1.2, marks=pytest.mark.slow), ("tw*.h5", 0.8)]
)
def test_labels_dominate_the_raw_variance_and_the_rest_is_of_tracy_widoms_size(pattern, alpha, samples):
    """N = 200: labels explain over a third of the variance, and about each sample's quenched edge the lowest eigenvalue has
    the Tracy-Widom variance within 4 standard errors and its mean within 3 and 0.1 (benchmarks/spiked_edge.py says why).
    """
    sweep = stored(pattern)
    status = sweep.status.where(sweep.sample < samples, NOT_RUN)
    found = edge_statistics(sweep.assign(status=status), 200, alpha)
    assert found.share.value - 2 * found.share.error > 1 / 3
    assert abs(found.variance.sigmas(VARIANCE)) < 4
    assert abs(found.mean.value - MEAN) < 0.1 + 3 * found.mean.error
    assert found.distance.value < 0.12


def test_quenched_threshold_meets_the_discontinuous_crossing():
    """The crossing of N = 400 and 800 within 3 standard errors of the threshold there, which lies far below alpha_BBP."""
    sweep = stored("d*.h5")
    predicted = threshold(models.of(sweep), 800, draws=100)
    position = sweep.n.values.tolist().index(400)
    crossing = crossings("d*.h5")[position]
    assert abs(crossing.alpha.value - predicted.alpha) < 3 * np.hypot(crossing.alpha.error, predicted.error)
    assert sweep.alpha_bbp - predicted.alpha > 5 * predicted.error


def test_distance_is_small_for_the_law_itself_and_large_for_another():
    """400 Tracy-Widom quantiles at random probabilities: below the 1e-4 point of the Kolmogorov law, 2.225/sqrt(400).

    Quantiles by interpolation between 400 values of the law, within 1e-3: a hundredth of that bound.
    """
    rng, (grid, law) = np.random.default_rng(0), _tracy_widom()
    values = np.interp(rng.uniform(0.001, 0.999, 400), law, grid)
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
