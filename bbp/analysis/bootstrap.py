"""Bootstrap over samples: estimates with a standard error and a percentile interval."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from theory.checks import ParameterError, count

Array = NDArray[np.float64]

LEVEL = 0.95
REPEATS = 1000


@dataclass(frozen=True)
class Estimate:
    """A number with its standard error and its interval at `LEVEL`; NaN where there were too few samples."""

    value: float
    error: float
    low: float
    high: float

    def sigmas(self, other: float) -> float:
        """Distance from `other` in standard errors."""
        return (self.value - other) / self.error


NOTHING = Estimate(np.nan, np.nan, np.nan, np.nan)


def from_replicates(value: float, replicates: ArrayLike) -> Estimate:
    """Estimate whose spread is that of bootstrap replicates (r,); replicates that are not finite are left out."""
    kept = np.asarray(replicates, dtype=np.float64)
    kept = kept[np.isfinite(kept)]
    if kept.size < 10 or not np.isfinite(value):
        return Estimate(float(value), np.nan, np.nan, np.nan)
    low, high = np.quantile(kept, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Estimate(float(value), float(kept.std(ddof=1)), float(low), float(high))


def bootstrap(
    values: ArrayLike,
    rng: np.random.Generator,
    statistic: Callable[..., Array] = np.mean,
    repeats: int = REPEATS,
) -> Estimate:
    """Bootstrap of statistic(values, axis=-1) over samples, values (sample,); NaN marks a sample that is missing.

    The spread of the replicates is widened by sqrt(n / (n - 1)), without which the bootstrap of n samples is too narrow (for
    the mean exactly so). Fewer than two samples give the value without an error. Raises ParameterError on other shapes.
    """
    given: Array = np.asarray(values, dtype=np.float64)
    if given.ndim != 1:
        raise ParameterError(f"values must have shape (sample,), got {given.shape}")
    kept = given[np.isfinite(given)]
    if not kept.size:
        return NOTHING
    value = float(statistic(kept, axis=-1))
    if kept.size < 2:
        return Estimate(value, np.nan, np.nan, np.nan)
    drawn = kept[rng.integers(kept.size, size=(count("repeats", repeats, minimum=10), kept.size))]
    spread = statistic(drawn, axis=-1) - value
    return from_replicates(value, value + math.sqrt(kept.size / (kept.size - 1)) * spread)


def bootstrap_fraction(hits: ArrayLike, rng: np.random.Generator, repeats: int = REPEATS) -> Estimate:
    """Bootstrap of the fraction of hits (sample,), entries 0, 1 or NaN (missing).

    Where all samples agree the bootstrap has no width: the interval there is Wilson's (J. Am. Stat. Assoc. 22 (1927)
    209) and the error half the width that it has at one sigma.
    """
    estimate = bootstrap(hits, rng, repeats=repeats)
    trials = int(np.isfinite(np.asarray(hits, dtype=np.float64)).sum())
    if not trials or estimate.value not in (0.0, 1.0):
        return replace(estimate, low=max(0.0, estimate.low), high=min(1.0, estimate.high))
    low, high = wilson(estimate.value, trials, 1.959964)
    near, far = wilson(estimate.value, trials, 1.0)
    return Estimate(estimate.value, (far - near) / 2, low, high)


def wilson(fraction: float, trials: int, sigmas: float) -> tuple[float, float]:
    """Wilson's score interval of a fraction of `trials`, at `sigmas` standard normal deviations."""
    z2 = sigmas**2 / trials
    centre = (fraction + z2 / 2) / (1 + z2)
    half = np.sqrt(fraction * (1 - fraction) * z2 + z2**2 / 4) / (1 + z2)
    return max(0.0, centre - half), min(1.0, centre + half)
