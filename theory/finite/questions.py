"""Questions to the law at finite N: at which alpha, in what share of draws, at which N is the overlap above a value?

The law (theory.finite.law) is drawn with the same random numbers at every alpha, so that shares are nearly monotone
in alpha and the root of share = wanted is found by bisection; its error follows from the binomial error of a share and
its slope in alpha.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from theory.answers import Printed
from theory.checks import NotConverged, ParameterError, choice, count, finite, one, positive
from theory.exact.committee import finite_committee
from theory.exact.transition import bbp_threshold
from theory.finite.law import finite_law
from theory.finite.validity import doubt
from theory.model.network import Network

YES_OR_NO = ("informative", "among", "first")
OBSERVABLES = ("overlap", "overlap_lowest", *YES_OR_NO)
_LOWEST, _HIGHEST = 1 / 4096, 64.0  # of alpha_BBP: where alpha is looked for
_STEPS = 10  # bisections in log alpha: 2^-10 of a factor 4
_SIZES = (20, 10_000)  # of N
_LEAST_ORDER = 60  # of p N: below, the law's shares at p = 1 fall with N -> 0 where those of samples rise
_SEEN, _WIDER = 6.0, 4  # binomial errors of the rise of a share that gives its slope; wider steps to see it
_JUMP = 3.0  # binomial errors by which a share may miss the wanted one: beyond, it jumps past it


@dataclass(frozen=True, repr=False)
class Answer(Printed):
    """value and its error, from the finite number of draws; the share of draws found there; why the law may not hold there."""

    value: float
    error: float
    share: float
    doubt: str | None = None


def share_at(
    model: Network,
    alpha: float,
    n: int,
    *,
    q2: float = 0.1,
    of: str = "overlap",
    draws: int = 400,
    seed: int = 0,
) -> Answer:
    """Share of draws at (alpha, N) whose `of` is above q2 (of = "informative", "among", "first": for which it holds).

    of: "overlap" (mean of the p p_star lowest), "overlap_lowest", or one of YES_OR_NO, see FiniteLaw. Raises
    ParameterError, NotConverged.

    >>> share_at(Network(1, 1, 0.5), 4.0, 100, draws=40).share > 0.5
    True
    """
    level = 0.5 if _kind(of) in YES_OR_NO else _fraction("q2", q2)
    share, error = finite_law(model, alpha, n, draws=draws, seed=seed).share_above(level, of)
    return Answer(share, error, share, doubt(model, alpha, n, of))


def quantile(
    model: Network,
    alpha: float,
    n: int,
    share: float,
    *,
    of: str = "overlap",
    draws: int = 400,
    seed: int = 0,
) -> float:
    """Value of an observable below which a share of draws lies at (alpha, N).

    Parameters
    ----------
    model, alpha, n, draws, seed
        As in `theory.finite.law.finite_law`.
    share : float
        Between 0 and 1.
    of : str
        "lowest", "overlap" or another field of FiniteLaw.

    Returns
    -------
    float

    Raises
    ------
    ParameterError, NotConverged
        As `theory.finite.law.finite_law`.

    >>> 0 < quantile(Network(1, 1, 0.5), 4.0, 100, 0.5, draws=40) < 1
    True
    """
    share = _fraction("share", share)
    return float(finite_law(model, alpha, n, draws=draws, seed=seed).quantile(of, share))


def alpha_at(
    model: Network,
    n: int,
    *,
    share: float = 0.9,
    q2: float = 0.1,
    of: str = "overlap",
    draws: int = 400,
    seed: int = 0,
    before: Callable[[float, int], None] | None = None,
) -> Answer:
    """alpha at which a share of the draws at N has `of` above q2, with its error: see `share_at`.

    `before` is called with (alpha, N) ahead of each set of draws, and may refuse it.
    Raises ParameterError on unfit arguments, NotConverged where no alpha up to 64 alpha_BBP has that share.

    >>> found = alpha_at(Network(1, 1, 0.5), 100, share=0.5, draws=40)
    >>> 0.5 < found.value < 4
    True
    """
    wanted, n, centre = _fraction("share", share), count("n", n), bbp_threshold(finite_committee(model)).alpha

    lacks = _lacks(model, wanted, before, q2=q2, of=of, draws=draws, seed=seed)

    def missing(log_alpha: float) -> float:
        return lacks(math.exp(log_alpha), n)

    low, high = _bracket(
        missing, math.log(max(centre * _LOWEST, 1.5 / n)), math.log(centre), math.log(centre * _HIGHEST)
    )
    place, error, share = _root(missing, low, high, wanted, draws, step=0.15, sign=1.0)
    return Answer(math.exp(place), math.exp(place) * error, share, doubt(model, math.exp(place), n, of))


def n_at(
    model: Network,
    alpha: float,
    *,
    share: float = 0.9,
    q2: float = 0.1,
    of: str = "overlap",
    draws: int = 200,
    seed: int = 0,
    before: Callable[[float, int], None] | None = None,
) -> Answer:
    """Smallest N, between max(20, 60 / p) and 10,000, from which a share of the draws at alpha has `of` above q2 (or, where
    overlaps fall with N, the largest N up to which it has); NotConverged where neither end of the range brackets it.
    `before` as in `alpha_at`.
    """
    wanted, alpha = _fraction("share", share), one("alpha", positive("alpha", alpha))
    least, most = max(_SIZES[0], -(-_LEAST_ORDER // int(finite_committee(model).p))), _SIZES[1]

    lacks = _lacks(model, wanted, before, q2=q2, of=of, draws=draws, seed=seed)

    def missing(log_n: float) -> float:
        return lacks(alpha, round(math.exp(log_n)))

    low, high = math.log(least), math.log(most)
    first, last = missing(low), missing(high)
    if first * last > 0:
        told = f"{first + wanted:.3g} at N = {least} and {last + wanted:.3g} at N = {most}"
        raise NotConverged(f"no N between {least} and {most} has that share: it is {told}", None)
    place, error, share = _root(
        missing, low, high, wanted, draws, step=0.3, sign=1.0 if last >= first else -1.0
    )
    n = round(math.exp(place))
    return Answer(float(n), n * error, share, doubt(model, alpha, n, of))


def _lacks(
    model: Network, wanted: float, before: Callable[[float, int], None] | None, **how: Any
) -> Callable[[float, int], float]:
    """(alpha, N) -> the share there less the wanted one."""

    def at(alpha: float, n: int) -> float:
        if before is not None:
            before(alpha, n)
        try:
            return share_at(model, alpha, n, **how).share - wanted
        except NotConverged:
            return -wanted  # too few labels for an edge: nothing to see

    return at


def _root(
    missing: Callable[[float], float],
    low: float,
    high: float,
    wanted: float,
    draws: int,
    *,
    step: float,
    sign: float,
) -> tuple[float, float, float]:
    """(x, its error, the share there) where missing(x), a share less `wanted`, takes `sign` between low and high: bisection.

    The error is the binomial one of the share over its slope, a difference over `step` or more to either side; NaN without one,
    and where the share jumps past the wanted one.
    """
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if sign * missing(middle) < 0 else (low, middle)
    place = (low + high) / 2
    scatter = math.sqrt(max(wanted * (1 - wanted), 0.25 / draws) / draws)
    there = missing(place)
    for _ in range(
        _WIDER
    ):  # a rise within the noise of shares would make the error too small as often as too large
        rise = sign * (missing(place + step) - missing(place - step))
        if rise > _SEEN * scatter:
            break
        step *= 1.6
    slope = rise / (2 * step)
    known = slope > 0 and abs(there) <= _JUMP * scatter
    return place, scatter / slope if known else math.nan, there + wanted


def _bracket(
    missing: Callable[[float], float], least: float, start: float, most: float
) -> tuple[float, float]:
    """Ends with missing < 0 and >= 0, a factor 2 in alpha apart or less, found by the sign from the start outwards."""
    step = math.log(2)
    at, rising = start, missing(start) < 0
    while least < at < most:
        there = at + step if rising else max(at - step, least)
        if (missing(there) < 0) != rising:
            return (at, there) if rising else (there, at)
        at = there
    raise NotConverged(
        f"no alpha between {math.exp(least):.3g} and {math.exp(most):.3g} has that share of draws",
        math.exp(at),
    )


def _kind(of: str) -> str:
    return choice("of", of, OBSERVABLES)


def _fraction(name: str, value: float) -> float:
    number = one(name, finite(name, value))
    if not 0 < number < 1:
        raise ParameterError(f"{name} must lie between 0 and 1, got {value!r}")
    return float(np.float64(number))
