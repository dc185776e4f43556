"""Finite-size scaling of samples: crossings of phi, the law of the edge's shift, alpha_0 from the square-root law."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import chdtrc, stdtrit

from bbp.analysis.bootstrap import FEWEST, LEVEL, NOTHING, Estimate, from_replicates
from theory.checks import ParameterError

Array = NDArray[np.float64]

LAWS = {"power": lambda n: n ** (-2 / 3), "logarithm": lambda n: 1 / np.log(n)}
SURE = 0.9  # share of bootstrap fits that must cross for a crossing to be determined
NARROW = 0.5  # and the part of the range of alpha that its interval may cover
DECISIVE = 9.21  # of chi-square: a likelihood ratio of 100
REJECTED = 0.01  # probability of a chi-square as large, below which a law is rejected


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


@dataclass(frozen=True)
class ShiftFit:
    """One-parameter fits shift = c law(N) of the edge's shift from N = inf.

    coefficient, error, chi2   by law ("power": N^(-2/3), sharp edge; "logarithm": 1/log N, smooth edge)
    preferred                  law of smaller chi-square
    decisive                   whether that law is not itself rejected and the chi-squares differ by more than 9.21, a
                               likelihood ratio of 100
    exponent                   of the free fit shift = c N^(-x), with its error
    degrees                    degrees of freedom of each one-parameter fit
    """

    coefficient: dict[str, float]
    error: dict[str, float]
    chi2: dict[str, float]
    preferred: str
    decisive: bool
    exponent: float
    exponent_error: float
    degrees: int


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


def shift_law(n: ArrayLike, shift: ArrayLike, error: ArrayLike) -> ShiftFit:
    """Which law the shift (size,) of the edge from its N = inf value follows, with standard errors (size,).

    Both laws have one coefficient, so their chi-squares compare directly: the smaller is preferred. The preference is called
    decisive where they differ by more than 9.21 (a likelihood ratio of 100) and the preferred law itself describes the data
    (`rejected`). Raises ParameterError with fewer than two different sizes, or errors that are not positive.
    """
    n, shift, error = (np.asarray(v, dtype=np.float64) for v in (n, shift, error))
    if n.ndim != 1 or len(n) < 2 or n.shape != shift.shape or n.shape != error.shape:
        raise ParameterError(
            f"a fit needs n, shift and error of one shape (size,), at least two sizes, got {n.shape}"
        )
    if np.unique(n).size < 2:
        raise ParameterError(f"a fit needs at least two different sizes, got {n[0]:g} only")
    if not (np.all(np.isfinite(shift)) and np.all(error > 0)):
        raise ParameterError("shifts must be finite and their errors positive")
    coefficient, spread, chi2 = {}, {}, {}
    for name, law in LAWS.items():
        x = law(n) / error
        coefficient[name] = float(x @ (shift / error) / (x @ x))
        spread[name] = float(1 / np.sqrt(x @ x))
        chi2[name] = float(np.sum((shift / error - coefficient[name] * x) ** 2))
    preferred = min(chi2, key=lambda name: chi2[name])
    decisive = is_decisive(chi2, len(n) - 1)
    exponent, exponent_error = _exponent(n, shift, error)
    return ShiftFit(coefficient, spread, chi2, preferred, decisive, exponent, exponent_error, len(n) - 1)


def rejected(chi2: float, degrees: int) -> bool:
    """Whether a fit of this chi-square is too bad to be chance, at the level REJECTED.

    >>> rejected(35.0, 3), rejected(3.0, 3)
    (True, False)
    """
    return degrees > 0 and float(chdtrc(degrees, chi2)) < REJECTED


def is_decisive(chi2: Mapping[str, float], degrees: int) -> bool:
    """Whether one law is preferred beyond doubt: it is not rejected, and the other is worse by DECISIVE."""
    best, other = sorted(chi2.values())
    return other - best > DECISIVE and not rejected(best, degrees)


def verdict(chi2: Mapping[str, float], degrees: int) -> str:
    """What the chi-squares of the laws say, in words.

    >>> verdict({"power": 2.0, "logarithm": 40.0}, 3)
    'power law preferred, decisively'
    >>> verdict({"power": 35.0, "logarithm": 90.0}, 3)
    'no law fits: both are rejected'
    """
    best = min(chi2, key=lambda law: chi2[law])
    if rejected(chi2[best], degrees):
        return "no law fits: both are rejected"
    return f"{best} law preferred, {'decisively' if is_decisive(chi2, degrees) else 'not decisively'}"


def _exponent(n: Array, shift: Array, error: Array) -> tuple[float, float]:
    """x and its error in shift = c N^(-x), by weighted least squares on logarithms; NaN where shifts differ in sign."""
    if not (np.all(shift > 0) or np.all(shift < 0)):
        return np.nan, np.nan
    weight = np.abs(shift) / error
    design = np.stack([np.ones_like(n), -np.log(n)], axis=1) * weight[:, None]
    covariance = np.linalg.inv(design.T @ design)
    solution = covariance @ design.T @ (np.log(np.abs(shift)) * weight)
    return float(solution[1]), float(np.sqrt(covariance[1, 1]))


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
