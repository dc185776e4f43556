"""The lowest eigenvalue at a sharp edge, sample by sample: what the labels move, and the Tracy-Widom rest.

Each sample's labels give its quenched edge and scale kappa; (edge - lowest) kappa should then follow the Tracy-Widom law of
beta = 1 as N grows, while the raw variance of the lowest eigenvalue is that of the edge itself, of order 1/N.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from bbp.analysis.estimates import Estimate, bootstrap
from bbp.experiments import models
from bbp.files.variables import DONE
from theory.checks import ParameterError
from theory.finite.quenched import Quenched, quenched
from theory.finite.tracy_widom import tracy_widom_cdf
from theory.model import Network

Array = NDArray[np.float64]


class EdgeStatistics(NamedTuple):
    """Lowest eigenvalues of one (N, alpha) about their quenched edges.

    scaled        (sample,) (edge - lowest) kappa
    lowest, edges (sample,) units of the Hessian
    mean, variance of `scaled`, with bootstrap errors (Tracy-Widom: -1.2065, 1.6078)
    distance      Kolmogorov-Smirnov distance of `scaled` from Tracy-Widom, with its bootstrap error
    share         variance of the quenched edges over that of the lowest eigenvalues: what the labels alone explain
    """

    n: int
    scaled: Array
    lowest: Array
    edges: Array
    mean: Estimate
    variance: Estimate
    distance: Estimate
    share: Estimate


def edge_statistics(sweep: xr.Dataset, n: int, alpha: float, seed: int = 0) -> EdgeStatistics:
    """Statistics of the samples that are done at (n, alpha) of a sweep below its threshold, where no outlier is expected.

    Draws every sample's data again, for its labels. Raises ParameterError where the sweep has no such point or fewer than
    two samples there, and where its samples cannot be drawn again (another random stream).
    """
    here = (sweep.n.values == n)[:, None] & np.isclose(sweep.alpha.values, alpha, rtol=1e-12)
    if not here.any():
        raise ParameterError(f"the sweep has no point N = {n}, alpha = {alpha}")
    i, j = map(int, np.argwhere(here)[0])
    done = np.flatnonzero(sweep.status.values[i, j] == DONE)
    if done.size < 2:
        raise ParameterError(
            f"edge statistics need two finished samples at N = {n}, alpha = {alpha}, got {done.size}"
        )
    lowest = sweep.eigenvalues.values[i, j, done, 0]
    found = [_quenched(sweep, n, float(sweep.alpha[j]), int(k)) for k in done]
    edges, scales = (np.array(column) for column in zip(*found, strict=True))
    scaled = (edges - lowest) * scales
    rng = np.random.default_rng([seed, n])
    pairs = np.arange(done.size, dtype=np.float64)  # resampled together: samples keep their edges

    def share(index: Array, axis: int = -1) -> Array:
        which = index.astype(np.int64)
        return edges[which].var(axis=axis, ddof=1) / lowest[which].var(axis=axis, ddof=1)

    return EdgeStatistics(
        n=n,
        scaled=scaled,
        lowest=lowest,
        edges=edges,
        mean=bootstrap(scaled, rng),
        variance=bootstrap(scaled, rng, lambda v, axis: v.var(axis=axis, ddof=1)),
        distance=bootstrap(scaled, rng, _distances, repeats=200),
        share=bootstrap(pairs, rng, share),
    )


def _quenched(sweep: xr.Dataset, n: int, alpha: float, k: int) -> tuple[float, float]:
    from sims.instance import STREAM  # late: it brings JAX

    stream, model = sweep.attrs.get("prng"), models.of(sweep)
    if stream != STREAM:
        raise ParameterError(
            f"edge statistics draw labels again, from the random stream {STREAM}: these samples are of {stream}"
        )
    if not model.is_committee:
        raise ParameterError("edge statistics know the quadratic committee only")
    joined = "seed" in sweep.coords  # samples of several seeds, each with its number there
    seed, sample = (sweep.seed[k], sweep.draw[k]) if joined else (sweep.attrs["seed"], sweep.sample[k])
    found = quenched_sample(model, n, alpha, int(seed), int(sample))
    return found.edge, found.scale


def quenched_sample(model: Network, n: int, alpha: float, seed: int, sample: int) -> Quenched:
    """Quenched theory of the labels of one sample, drawn again. Raises ParameterError, NotConverged."""
    from sims.instance import draw, labels

    found = draw(model, n, alpha, seed=seed, sample=sample)
    lam, u = labels(found)
    return quenched(model, lam, u, n)


def _distances(values: Array, axis: int = -1) -> Array:
    """Kolmogorov-Smirnov distance from Tracy-Widom (beta = 1) along the last axis."""
    ordered = np.sort(values, axis=axis)
    grid = np.linspace(-9, 7, 400)
    law = np.interp(ordered, grid, tracy_widom_cdf(grid), left=0.0, right=1.0)
    count = ordered.shape[-1]
    steps = np.arange(count + 1) / count
    return np.maximum(steps[1:] - law, law - steps[:-1]).max(axis=-1)
