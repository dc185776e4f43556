"""Finite-size scaling of samples: crossings of phi, where and how it rises, alpha_0 from the square-root law."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import stdtrit

from bbp.analysis.estimates import FEWEST, LEVEL, NOTHING, Estimate, from_replicates
from theory.checks import ParameterError

Array = NDArray[np.float64]

SURE = 0.9  # share of bootstrap fits that must cross for a crossing to be determined
NARROW = 0.5  # and the part of the range of alpha that its interval may cover


@dataclass(frozen=True)
class Crossing:
    """Where the fractions phi of two sizes cross: alpha with its error, and the share of bootstrap fits that cross at all."""

    sizes: tuple[int, int]
    alpha: Estimate
    found: float

    def doubt(self, reach: float) -> str:
        """Why it is not determined by samples over a range of alpha of this length, in words, or "".

        Where too few bootstrap fits cross, or the interval covers too much of the range, the ends of the range speak.
        """
        if self.found < SURE:
            return f"{self.found:.0%} of bootstrap fits cross, {SURE:.0%} are needed"
        if np.isfinite(self.found) and self.alpha.high - self.alpha.low > NARROW * reach:
            return f"its interval covers more than {NARROW:.0%} of the grid of alpha"
        return self.alpha.doubt


def phi_crossing(
    alpha: ArrayLike,
    hits: tuple[ArrayLike, ArrayLike],
    sizes: tuple[int, int],
    rng: np.random.Generator,
    repeats: int = 400,
) -> Crossing:
    """Crossing of the fractions of two sizes N1 < N2: alpha (alpha,), hits two arrays (alpha, sample) of 0, 1 or NaN.

    Each curve is fitted by logit phi = quadratic in alpha (binomial maximum likelihood); the crossing is where the fit of
    the larger size overtakes that of the smaller from below. Errors by resampling the counts; resamplings that do not
    cross within the range of alpha count as its ends, half of them each. With fewer than FEWEST samples at an alpha, on
    average, the crossing has no error: the counts say too little of the spread of a fit.
    Raises ParameterError with fewer than four values of alpha or sizes out of order.
    """
    alpha = np.asarray(alpha, dtype=np.float64)
    if alpha.ndim != 1 or np.unique(alpha).size < 4:
        raise ParameterError(f"a crossing needs at least four values of alpha, got {np.unique(alpha).size}")
    if not sizes[0] < sizes[1]:
        raise ParameterError(f"sizes must be increasing, got {sizes}")
    counted = [np.asarray(h, dtype=np.float64) for h in hits]
    trials = [np.isfinite(h).sum(axis=1) for h in counted]
    successes = [np.nansum(h, axis=1) for h in counted]
    x = (alpha - alpha.mean()) / np.ptp(alpha)

    def fitted(drawn: list[Array]) -> Array:
        small, large = (logit_fit(x, s, t) for s, t in zip(drawn, trials, strict=True))
        found = [_overtaking(difference, x.min(), x.max()) for difference in np.atleast_2d(large - small)]
        return alpha.mean() + np.ptp(alpha) * np.array(found)

    value = float(fitted(successes)[0])
    if min(t.mean() for t in trials) < FEWEST:
        return Crossing(sizes, Estimate(value, np.nan, np.nan, np.nan), np.nan)
    fractions = [
        (s + 0.5) / (t + 1) for s, t in zip(successes, trials, strict=True)
    ]  # Jeffreys: no empty resampling
    drawn = [[rng.binomial(t, f) for t, f in zip(trials, fractions, strict=True)] for _ in range(repeats)]
    replicates = fitted([np.array(counts) for counts in zip(*drawn, strict=True)])
    missing = np.flatnonzero(~np.isfinite(replicates))
    found = 1 - missing.size / repeats
    # A resampling without a crossing in the window says only that it may lie beyond either end.
    replicates[missing] = np.where(np.arange(missing.size) % 2, alpha.min(), alpha.max())
    return Crossing(sizes, from_replicates(value, replicates), found)


def midpoint(alpha: Array, hits: Array, rng: np.random.Generator, repeats: int = 200) -> Estimate:
    """alpha at which half of the samples (alpha, sample) are hits: `rise`, without its width."""
    return rise(alpha, hits, rng, repeats)[0]


def rise(
    alpha: Array, hits: Array, rng: np.random.Generator, repeats: int = 200
) -> tuple[Estimate, Estimate]:
    """alpha at which half of the samples (alpha, sample) hit, NaN where the grid does not hold it; and the width of the rise.

    By the fit logit(fraction) = (alpha - middle) / width (binomial maximum likelihood): the first crossing of the line through
    measured fractions comes too early, since of several noisy points the first to exceed 1/2 is taken (by 0.04 at 12 samples a
    point). Errors by resampling the counts. A crossing so near an end of the grid that one in ten misses it has no error.
    """
    trials = np.isfinite(hits).sum(axis=1).astype(np.float64)
    if np.any(trials < 2):
        return NOTHING, NOTHING
    successes = np.nansum(hits, axis=1)
    scale = float(np.ptp(alpha)) or 1.0
    x = (alpha - alpha.mean()) / scale

    def fitted(counts: Array) -> Array:
        level, slope = logit_fit(x, counts, trials, degree=1).T
        with np.errstate(divide="ignore", invalid="ignore"):
            at, width = (
                np.where(slope > 0, value / slope, np.nan) for value in (-level, np.ones_like(level))
            )
        inside = (x.min() < at) & (at < x.max())
        return np.where(inside, np.stack([alpha.mean() + scale * at, scale * width]), np.nan)

    values = fitted(successes)
    jeffreys = (successes + 0.5) / (trials + 1)
    drawn = rng.binomial(trials.astype(np.int64), jeffreys, size=(repeats, len(trials)))
    replicates = fitted(drawn.astype(np.float64))
    if np.mean(np.isfinite(replicates[0])) < 0.9:
        return Estimate(float(values[0]), np.nan, np.nan, np.nan), NOTHING
    middle, width = (from_replicates(float(v), r) for v, r in zip(values, replicates, strict=True))
    return middle, width


def logit_fit(x: Array, successes: Array, trials: Array, degree: int = 2, ridge: float = 1e-2) -> Array:
    """Coefficients (..., degree + 1), lowest order first, of logit phi in powers of x by penalised maximum likelihood.

    x, trials (alpha,); successes (..., alpha), each row a fit of its own. The small ridge keeps the coefficients finite where
    all samples of an end agree; Newton's method on a concave function, all rows side by side.
    """
    powers = np.vander(x, degree + 1, increasing=True)
    counts = np.asarray(successes, dtype=np.float64).reshape(-1, len(x))
    overall = (counts.sum(axis=1) + 0.5) / (max(float(trials.sum()), 1.0) + 1)
    beta = np.zeros((len(counts), degree + 1))
    beta[:, 0] = np.log(overall / (1 - overall))
    penalty = ridge * np.array([0.0] + [1.0] * degree)

    def objective(b: Array, rows: Any) -> Array:
        line = b @ powers.T
        return np.sum(counts[rows] * line - trials * np.logaddexp(0, line), axis=1) - b**2 @ penalty / 2

    rows = np.arange(len(counts))  # that have not converged
    for _ in range(100):
        at = beta[rows]
        phi = 1 / (1 + np.exp(-(at @ powers.T)))
        slope = (counts[rows] - trials * phi) @ powers - at * penalty
        weighted = (trials * phi * (1 - phi))[:, :, None] * powers
        curvature = powers.T @ weighted + np.diag(penalty) + 1e-12 * np.eye(degree + 1)
        step, best = np.linalg.solve(curvature, slope[..., None])[..., 0], objective(at, rows)
        scale = np.ones((len(rows), 1))
        while np.any(worse := (objective(at + scale * step, rows) < best) & (scale[:, 0] > 1e-8)):
            scale[worse] /= 2
        beta[rows] = at + scale * step
        rows = rows[np.abs(scale * step).max(axis=1) >= 1e-10]
        if not rows.size:
            break
    return beta.reshape(*np.shape(successes)[:-1], degree + 1)


def _overtaking(difference: Array, low: float, high: float) -> float:
    """The root in [low, high] at which the polynomial (lowest order first) turns positive; NaN where it never does."""
    roots = np.roots(difference[::-1])
    real = roots[np.abs(roots.imag) < 1e-12].real
    slope = difference[1] + 2 * difference[2] * real
    inside = real[(real >= low) & (real <= high) & (slope > 0)]
    return float(inside[np.argmin(np.abs(inside))]) if inside.size else np.nan


def alpha_zero_sampled(alpha: ArrayLike, overlaps: ArrayLike) -> Estimate:
    """alpha_0 from samples: where the straight line through mean q2 vanishes, q2 ~ alpha - alpha_0 (square-root law of q).

    alpha (alpha,) above the threshold and close to it, overlaps (alpha, sample) squared overlaps, NaN where missing.
    The root is a ratio of two means, whose interval is Fieller's (Biometrika 32 (1940) 117): it has no end, and is NaN, where
    the slope is not told from 0. The variance at an alpha of fewer than FEWEST samples is pooled over all alphas; samples
    without any spread in common give no error. Raises ParameterError with fewer than two values of alpha.
    """
    alpha, overlaps = np.asarray(alpha, dtype=np.float64), np.asarray(overlaps, dtype=np.float64)
    if alpha.ndim != 1 or np.unique(alpha).size < 2 or overlaps.ndim != 2 or len(overlaps) != len(alpha):
        raise ParameterError(
            f"alpha (alpha,) of two values or more and overlaps (alpha, sample) needed, got {alpha.shape}, {overlaps.shape}"
        )
    rows = [row[np.isfinite(row)] for row in overlaps]
    if any(row.size == 0 for row in rows):
        return NOTHING
    means = np.array([row.mean() for row in rows])
    centred = alpha - alpha.mean()
    weights = centred / (centred @ centred)
    slope, level = float(weights @ means), float(means.mean())
    if slope <= 1e-12 * np.abs(means).max() / np.ptp(alpha):  # a flat line, to rounding, or a falling one
        return NOTHING
    value = float(alpha.mean()) - level / slope
    variances, degrees = _variances_of_means(rows)
    if not degrees or not np.any(variances > 0):
        return Estimate(value, np.nan, np.nan, np.nan)
    ratio = level / slope
    v_level, v_slope, v_both = (
        variances.mean() / len(rows),
        weights**2 @ variances,
        weights @ variances / len(rows),
    )
    error = np.sqrt(v_level - 2 * ratio * v_both + ratio**2 * v_slope) / slope
    quantile2 = float(stdtrit(degrees, (1 + LEVEL) / 2)) ** 2
    # Fieller: the r with (level - r slope)^2 <= quantile^2 (v_level - 2 r v_both + r^2 v_slope)
    a, b, c = (
        slope**2 - quantile2 * v_slope,
        level * slope - quantile2 * v_both,
        level**2 - quantile2 * v_level,
    )
    inside = b**2 - a * c
    if a <= 0 or inside < 0:
        return Estimate(value, float(error), np.nan, np.nan)
    low, high = (b - np.sqrt(inside)) / a, (b + np.sqrt(inside)) / a
    return Estimate(value, float(error), float(alpha.mean() - high), float(alpha.mean() - low))


def _variances_of_means(rows: list[Array]) -> tuple[Array, int]:
    """Variances of the means of rows of samples, and degrees of freedom; short rows share what all rows say."""
    sizes = np.array([row.size for row in rows])
    degrees = int((sizes - 1).sum())
    squares = np.array([((row - row.mean()) ** 2).sum() for row in rows])
    pooled = squares.sum() / max(degrees, 1)
    own = squares / np.maximum(sizes - 1, 1)
    return np.where(sizes < FEWEST, pooled, own) / sizes, degrees
