"""Estimates with a standard error and a 95 % interval from independent samples, honest at few samples too; and their digits.

Percentile bootstrap intervals of a mean cover 84 % at n = 4 and 78 % for lognormal data at n = 8. Here

* intervals are studentised bootstrap intervals (Hall, The Bootstrap and Edgeworth Expansion, 1992, chapter 3), which are
  second-order correct: t* = (theta* - theta) / error* replaces the quantiles of Student's law;
* what they leave at small n is the third moment, underestimated by samples that miss their tail. Their tails are taken
  further out by 10^(-(8/n) excess), excess = |skewness| - (8/n)^(1/4) / 2 of the sample where positive (found by measurement:
  benchmarks/intervals.py prints the coverage for normal, exponential and lognormal data);
* samples at two places (some descents have recovered, the others have not) are a share times a distance: resamples with few
  of either have no error of their own, and t* has no law. Their share has Wilson's interval, to which the scatter at either
  place is added (as of two independent parts);
* no error of a resample is taken to be below that of the sample by more than the square root of n, as if it held one sample
  more with the whole scatter: quantiles of t* stay finite;
* samples without any scatter say nothing of it: no interval, unless the range of what they may be is known (`bounds`). Then up
  to 1 - n/(n + 1.96^2) of the law, Wilson's end for a share of 1, may lie unseen at either end of it;
* below FEWEST samples no interval is given, only the standard error: no method knows the tail from them;
* fractions have Wilson's interval, which needs no resampling.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri, stdtrit

from theory.checks import ParameterError, count

Array = NDArray[np.float64]

LEVEL = 0.95
ENDS = ("", "_error", "_low", "_high")  # of the names of an estimate's numbers, in order
REPEATS = 1000
FEWEST = 16  # samples below which an interval is not determined: lognormal data would have it cover 90 % at 8
MANY = 1000  # samples from which on a mean has Student's interval: the corrections are below a percent of it
APART = 8.0  # standard deviations within two places from one to the other: less may be a long tail
CHUNK = 2**22  # numbers resampled at a time


class Estimate(NamedTuple):
    """A number with its standard error and its interval at `LEVEL`; NaN where there were too few samples for it."""

    value: float
    error: float
    low: float
    high: float

    def sigmas(self, other: float) -> float:
        """Distance from `other` in standard errors; NaN without an error, or with none (constant data)."""
        return (self.value - other) / self.error if self.error > 0 else math.nan

    @property
    def doubt(self) -> str:
        """Why its value is not determined, in words, or ""."""
        return "its error is larger than itself" if self.error > abs(self.value) else ""


NOTHING = Estimate(np.nan, np.nan, np.nan, np.nan)


def columns(
    name: str, dims: Sequence[str], estimates: Any, attrs: dict[str, Any] | None = None
) -> dict[str, Any]:
    """NAME, NAME_error, NAME_low, NAME_high over dims, from nested lists of estimates."""
    cells = np.array(estimates, dtype=np.float64)
    cells = cells if cells.ndim > len(dims) else np.empty((*cells.shape, 4))
    return {name + end: (dims, cells[..., k], {} if end else attrs or {}) for k, end in enumerate(ENDS)}


def held(found: xr.Dataset, names: Sequence[str]) -> list[Estimate]:
    """The estimates whose numbers, in order, are in these variables of one dimension."""
    return [Estimate(*row) for row in zip(*(found[name].values.tolist() for name in names), strict=True)]


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
    repeats: int = REPEATS,
    bounds: tuple[float, float] | None = None,
) -> Estimate:
    """The mean over samples, values (sample,), with error and interval; NaN marks a missing sample.

    The error is s / sqrt(n). Fewer than two samples give the value alone, fewer than FEWEST no interval; constant data have
    error 0 and no interval. bounds: where the values are known to lie: the interval stays there, and has room for what was
    not seen. Raises ParameterError on other shapes.
    """
    given: Array = np.asarray(values, dtype=np.float64)
    if given.ndim != 1:
        raise ParameterError(f"values must have shape (sample,), got {given.shape}")
    repeats = count("repeats", repeats, minimum=10)
    kept = given[np.isfinite(given)]
    if not kept.size:
        return NOTHING
    value = float(np.mean(kept))
    if kept.size < 2:
        return Estimate(value, np.nan, np.nan, np.nan)
    found = _mean(kept, value, rng, repeats)
    return found if bounds is None else _bounded(found, kept, bounds)


def fraction(hits: ArrayLike) -> Estimate:
    """The share of hits (sample,), entries 0, 1 or NaN (missing), with Wilson's interval (J. Am. Stat. Assoc. 22 (1927) 209).

    Its error is half the width of that interval at one standard deviation, hence never 0.
    """
    kept = np.asarray(hits, dtype=np.float64)
    kept = kept[np.isfinite(kept)]
    if not kept.size:
        return NOTHING
    value = float(kept.mean())
    low, high = wilson(value, kept.size, float(ndtri((1 + LEVEL) / 2)))
    near, far = wilson(value, kept.size, 1.0)
    return Estimate(value, (far - near) / 2, low, high)


def wilson(share: float, trials: int, sigmas: float) -> tuple[float, float]:
    """Wilson's score interval of a share of `trials`, at `sigmas` standard normal deviations."""
    z2 = sigmas**2 / trials
    centre = (share + z2 / 2) / (1 + z2)
    half = np.sqrt(share * (1 - share) * z2 + z2**2 / 4) / (1 + z2)
    # The ends lie on either side of the share; rounding may not say otherwise.
    return min(max(0.0, centre - half), share), max(min(1.0, centre + half), share)


def _mean(kept: Array, value: float, rng: np.random.Generator, repeats: int) -> Estimate:
    n = kept.size
    error = float(kept.std(ddof=1) / math.sqrt(n))
    if n < FEWEST or not error > 0:
        return Estimate(value, error, np.nan, np.nan)
    ends = _two_places(kept)
    if ends is not None:
        return Estimate(value, error, *ends)
    if n >= MANY:
        half = float(stdtrit(n - 1, (1 + LEVEL) / 2)) * error
        return Estimate(value, error, value - half, value + half)
    means, errors = np.empty(repeats), np.empty(repeats)
    at_once = max(1, CHUNK // n)
    for start in range(0, repeats, at_once):
        some = slice(start, min(start + at_once, repeats))
        drawn = kept[rng.integers(n, size=(some.stop - start, n))]
        means[some], errors[some] = drawn.mean(axis=1), drawn.std(axis=1, ddof=1) / math.sqrt(n)
    errors, tail = np.sqrt((n * errors**2 + error**2) / (n + 1)), _tail(kept)
    low, high = np.quantile((means - value) / errors, [tail, 1 - tail])
    return Estimate(value, error, float(value - high * error), float(value - low * error))


def _two_places(kept: Array) -> tuple[float, float] | None:
    """The interval of the mean of samples at two places, far apart; None where they are not at two places.

    The mean is low + share (high - low): Wilson's ends for the share, and the scatter at either place, two independent parts.
    """
    ordered, n = np.sort(kept), kept.size
    many = int(np.argmax(np.diff(ordered))) + 1
    gap, near, far = float(ordered[many] - ordered[many - 1]), ordered[:many], ordered[many:]
    within = math.sqrt((near.var() * near.size + far.var() * far.size) / max(n - 2, 1))
    if gap <= max(np.ptp(ordered) / 2, APART * within):
        return None
    sigmas = float(ndtri((1 + LEVEL) / 2))
    scatter = sigmas * within / math.sqrt(n)
    value, step = float(ordered.mean()), float(far.mean() - near.mean())
    ends = [float(near.mean()) + step * share for share in wilson(far.size / n, n, sigmas)]
    return value - math.hypot(value - ends[0], scatter), value + math.hypot(ends[1] - value, scatter)


def _bounded(found: Estimate, kept: Array, bounds: tuple[float, float]) -> Estimate:
    """The interval within the range of the values, with room for places where none of the samples is."""
    low, high = bounds
    below, above = found.low, found.high
    if kept.size >= FEWEST and 2 * np.ptp(kept) <= high - low:
        unseen = 1 - wilson(1.0, kept.size, float(ndtri((1 + LEVEL) / 2)))[0]
        below = float(np.fmin(below, found.value - unseen * (found.value - low)))
        above = float(np.fmax(above, found.value + unseen * (high - found.value)))
    return Estimate(found.value, found.error, max(below, low), min(above, high)) if below == below else found


def _tail(sample: Array) -> float:
    """Nominal probability at either end, from the skewness of the sample."""
    n = sample.size
    centred = sample - sample.mean()
    spread = float(np.mean(centred**2))
    skewness = float(np.mean(centred**3)) / spread**1.5 if spread > 0 else 0.0
    excess = max(0.0, abs(skewness) - (8 / n) ** 0.25 / 2)
    return (1 - LEVEL) / 2 * 10 ** (-(8 / n) * excess)


def decimals(error: float) -> int | None:
    """Decimals that show two digits of an error (negative: tens); None where it has none.

    >>> [decimals(e) for e in (0.0123, 0.00999, 4.5, 120.0, 0.0, math.nan)]
    [3, 3, 1, -1, None, None]
    """
    if not math.isfinite(error) or error <= 0:
        return None
    return -int(f"{error:.1e}".partition("e")[2]) + 1


def matched(value: float, error: float, digits: int = 12) -> tuple[str, str]:
    """A value and its error in plain digits, both to two digits of the error.

    >>> matched(0.374216, 0.0113)
    ('0.374', '0.011')
    >>> matched(1234.5, 120.0)
    ('1230', '120')
    """
    places = decimals(error)
    if places is None or not math.isfinite(value):
        return plain(value, digits), plain(error, digits)
    return tuple(f"{round(x, places):.{max(places, 0)}f}" for x in (value, error))  # type: ignore[return-value]


def plain(value: Any, digits: int = 12) -> str:
    """A number to so many digits, whole ones as they are; text as it is; nothing for an unknown number.

    >>> plain(1 / 3), plain(7), plain(math.nan), plain(-math.inf), plain("sharp")
    ('0.333333333333', '7', '', '-inf', 'sharp')
    """
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, float | np.floating):
        return "" if math.isnan(value) else f"{value:.{digits}g}"
    return str(value)


def lines(columns: Sequence[tuple[str, str]], rows: Iterable[Sequence[Any]], gap: str = "  ") -> list[str]:
    """A table of fixed columns (head, format) as text; a dash stands for an unknown number, and text takes the same room.

    >>> lines([("alpha", "7.4g"), ("kind", "<6"), ("jump", "6.3f")], [[1.25, "none", math.nan], [2, "sharp", 0.5]])
    ['  alpha  kind      jump', '   1.25  none         -', '      2  sharp    0.500']
    """
    forms = [form for _, form in columns]
    places = [re.sub(r"[.a-z].*", "", form) for form in forms]
    places = [place if place[:1] in ("<", ">") else f">{place}" for place in places]

    def cell(value: Any, form: str, place: str) -> str:
        if isinstance(value, str):
            return f"{value:{place}}"
        return f"{'-':{place}}" if np.isnan(value) else f"{value:{form}}"

    heads = gap.join(f"{head:{place}}" for (head, _), place in zip(columns, places, strict=True))
    told = (gap.join(map(cell, row, forms, places)) for row in rows)
    return [line.rstrip() for line in (heads, *told)]


def ranged(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows of text as lines, every column as wide as the widest of its cells; a row may end early.

    >>> ranged([("f", "chi2", "c"), ("1/N", "2")])
    ['f    chi2  c', '1/N  2']
    """
    wide = [max(len(row[k]) for row in rows if k < len(row)) for k in range(len(rows[0]))]
    return ["  ".join(f"{cell:<{wide[k]}}" for k, cell in enumerate(row)).rstrip() for row in rows]


def with_interval(value: float, low: float, high: float) -> str:
    """A share and its interval, to two digits of the interval's length and no fewer than two decimals.

    >>> with_interval(1.0, 0.8787, 1.0), with_interval(0.5, 0.4912, 0.5088), with_interval(math.nan, math.nan, math.nan)
    ('1.00 [0.88, 1.00]', '0.500 [0.491, 0.509]', '-')
    """
    if not math.isfinite(value):
        return "-"
    places = max(decimals(high - low) or 0, 2)
    return f"{value:.{places}f} [{low:.{places}f}, {high:.{places}f}]"
