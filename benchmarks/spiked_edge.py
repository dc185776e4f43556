"""How far samples at a sharp edge still are from Tracy-Widom, and the part of the teacher's direction in it.

    python benchmarks/spiked_edge.py data/finite_size/far*.h5 [data/finite_size/tw*.h5]

Below its threshold the teacher's direction is a spike that has not come out. At distance d from criticality it moves the lowest
eigenvalue as long as w = N^(1/3) d is not large: the law is then that of the stochastic Airy operator with f'(0) = w f(0)
(Bloemendal and Virag, Probab. Theory Relat. Fields 156, 795 (2013)), which tends to Tracy-Widom with a mean larger by 1/w.
With S(g) = A(g) - z(g), A(g) = alpha E[F u^2 / (1 - g F)] the eigenvalue of the teacher's direction, an outlier would lie at a
distance X = w^2 in units of 1/kappa for w < 0, which gives

    w = (S / |A'|) (|z''| kappa / 2)^(1/2)    at the edge.

Printed for p = p_star = 1 and each N: w, the mean of that law (4,000 draws of the tridiagonal beta ensemble near its edge), the
shift 2 kappa / (N g) of an edge of N - 2 dimensions (student and teacher set apart), their sum, and what the sweep shows: each
sample's preactivations give its quenched edge and scale kappa, and (edge - lowest) kappa should follow the Tracy-Widom law of
beta = 1 as N grows, while the raw variance of the lowest eigenvalue is that of the edge itself, of order 1/N.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import xarray as xr
from numpy.typing import NDArray
from scipy import stats
from scipy.linalg import eigh_tridiagonal

import theory
from bbp import join
from bbp.analysis.estimates import Estimate, bootstrap
from bbp.analysis.spectrum import quenched_sample
from bbp.experiments import models
from bbp.files.product import split
from bbp.files.variables import DONE
from sims.instance import STREAM
from theory.checks import ParameterError
from theory.exact.bulk import edge_resolvent, z_of_g
from theory.finite.edge import finite_edge, output_law
from theory.finite.tracy_widom import tracy_widom_cdf
from theory.model import Network

Array = NDArray[np.float64]


class EdgeStatistics(NamedTuple):
    """Lowest eigenvalues of one (N, alpha) about their quenched edges.

    scaled        (sample,) (edge - lowest) kappa
    lowest, edges (sample,) units of the Hessian
    mean, variance of `scaled`, with bootstrap errors (Tracy-Widom: -1.2065, 1.6078)
    distance      Kolmogorov-Smirnov distance of `scaled` from Tracy-Widom, with its bootstrap error
    share         variance of the quenched edges over that of the lowest eigenvalues: what the preactivations alone explain
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

    Draws every sample's data again, for its preactivations. Raises ParameterError where the sweep has no such point or fewer
    than two samples there, and where its samples cannot be drawn again (another random stream).
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
        variance=_resampled(scaled, rng, lambda v, axis: v.var(axis=axis, ddof=1)),
        distance=_resampled(scaled, rng, _distances, repeats=200),
        share=_resampled(pairs, rng, share),
    )


def _resampled(
    values: Array, rng: np.random.Generator, statistic: Callable[..., Array], repeats: int = 1000
) -> Estimate:
    """A smooth statistic of samples with its error and interval by the bootstrap, corrected for bias and acceleration."""
    found = stats.bootstrap((values,), statistic, n_resamples=repeats, random_state=rng)
    return Estimate(
        float(statistic(values, axis=-1)), float(found.standard_error), *map(float, found.confidence_interval)
    )


def _quenched(sweep: xr.Dataset, n: int, alpha: float, k: int) -> tuple[float, float]:
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


@functools.cache
def _tracy_widom() -> tuple[Array, Array]:
    """Arguments and values of the law (beta = 1), to be interpolated."""
    grid = np.linspace(-9, 7, 400)
    return grid, tracy_widom_cdf(grid)


def _distances(values: Array, axis: int = -1) -> Array:
    """Kolmogorov-Smirnov distance from Tracy-Widom (beta = 1) along the last axis."""
    ordered = np.sort(values, axis=axis)
    law = np.interp(ordered, *_tracy_widom(), left=0.0, right=1.0)
    count = ordered.shape[-1]
    steps = np.arange(count + 1) / count
    return np.maximum(steps[1:] - law, law - steps[:-1]).max(axis=-1)


def spike(model: Network, alpha: float, n: int) -> float:
    """w of the teacher's direction."""
    edge, g = theory.edge(model, alpha), edge_resolvent(model, alpha)
    yhat, y, weight = output_law(1, 1)  # lam^2 and u^2
    f = 2 * (3 * yhat - y) / (model.a + y)
    teacher = alpha * np.sum(weight * f * y / (1 - g * f))
    slope = alpha * np.sum(weight * f**2 * y / (1 - g * f) ** 2)
    curvature = abs(z_of_g(model, alpha, g, derivative=2))
    return float((teacher - edge.value) / slope * np.sqrt(curvature * finite_edge(model, alpha, n).scale / 2))


def spiked_mean(w: float, draws: int = 4000, n: int = 10**6) -> tuple[float, float]:
    """Mean of the largest eigenvalue, scaled, of a Gaussian orthogonal ensemble with a spike 1 - w n^(-1/3); its error."""
    rng = np.random.default_rng(1)
    size = int(10 * n ** (1 / 3))
    freedom = n - np.arange(1, size)
    values = np.empty(draws)
    for k in range(draws):
        d = rng.standard_normal(size) * np.sqrt(2 / n)
        d[0] += 1 - w * n ** (-1 / 3)
        top = eigh_tridiagonal(
            d,
            np.sqrt(rng.chisquare(freedom) / n),
            eigvals_only=True,
            select="i",
            select_range=(size - 1,) * 2,
        )
        values[k] = (top[0] - 2) * n ** (2 / 3)
    return float(values.mean()), float(values.std() / np.sqrt(draws))


def main(paths: list[str]) -> None:
    for sweep in split(join(paths)):
        model = models.of(sweep)
        for alpha in sweep.alpha.values.tolist():
            print(
                f"p = p* = 1, a = {model.a:g}, alpha = {alpha:g}; Tracy-Widom mean -1.2065, variance 1.6078"
            )
            g = edge_resolvent(model, alpha)
            for n in sweep.n.values.tolist():
                w, seen = spike(model, alpha, n), edge_statistics(sweep, n, alpha)
                mean, error = spiked_mean(w)
                shift = 2 * finite_edge(model, alpha, n).scale / (n * g)
                print(
                    f"  N = {n:5d}: w {w:.2f}, spiked law {mean:.3f} ± {error:.3f}, N - 2: {shift:+.3f}, "
                    f"sum {mean + shift:.3f}; "
                    f"{len(seen.scaled)} samples: mean {seen.mean.value:.3f} ± {seen.mean.error:.3f}, variance "
                    f"{seen.variance.value:.3f} ± {seen.variance.error:.3f}, KS {seen.distance.value:.3f} ± "
                    f"{seen.distance.error:.3f}, labels' share of the raw variance {seen.share.value:.2f}",
                    flush=True,
                )


if __name__ == "__main__":
    main(sys.argv[1:])
