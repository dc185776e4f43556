"""Questions to the law at finite N: at which alpha, in what share of draws, at which N is the overlap above a value, and where
are half of the draws informative (`threshold`)?

The law (theory.finite.law) is drawn with the same random numbers at every alpha, so that shares are nearly monotone
in alpha and the root of share = wanted is found by bisection; its error follows from the binomial error of a share and
its slope in alpha. As N -> inf the threshold is alpha_BBP; where the transition is discontinuous it approaches it like 1/log N.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from theory.answers import Threshold
from theory.checks import (
    NotConverged,
    ParameterError,
    choice,
    count,
    finite,
    numpy_defaults,
    one,
    positive,
    shown,
)
from theory.exact import finite_committee
from theory.finite.law import doubt, law
from theory.general.spectrum import threshold as at_infinity
from theory.model.network import Network

YES_OR_NO = ("informative", "among", "first")
OBSERVABLES = ("overlap", "overlap_lowest", *YES_OR_NO)
_LARGEST = 1e12  # N of a threshold
_LOWEST, _HIGHEST = 1 / 4096, 64.0  # of alpha_BBP: where alpha is looked for
_STEPS = 10  # bisections in log alpha: 2^-10 of a factor 4
_SIZES = (20, 10_000)  # of N
_LEAST_ORDER = 60  # of p N: below, the law's shares at p = 1 fall with N -> 0 where those of samples rise
_SEEN, _WIDER = 6.0, 4  # binomial errors of the rise of a share that gives its slope; wider steps to see it
_JUMP = 3.0  # binomial errors by which a share may miss the wanted one: beyond, it jumps past it


@numpy_defaults
def threshold(model: Network, n: ArrayLike, *, draws: int = 100, seed: int = 0) -> Threshold:
    """alpha at which half of the draws of `model` in dimension n, a number or an array from 100 to 1e12, are informative.

    By theory.finite.law at every n. Up to n = 5,000 all data points of a draw are drawn; beyond, the extreme ones and others
    that stand for the rest (theory.finite.large_n).

    Parameters
    ----------
    model : Network
        A quadratic committee of finite p.
    n : int, or an array
        Input dimension N.
    draws, seed : int
        As in `theory.finite.law`.

    Returns
    -------
    Threshold
        Of the shape of n: alpha and its standard error from the scatter of the draws; the kind is that at N = infinity, the
        jump is NaN; the reason says why the law is not known to hold there, or is empty (`theory.finite.law.doubt`).

    Raises
    ------
    ParameterError
        On bad arguments or p = inf.
    NotConverged
        Where no threshold is found.

    >>> found = threshold(Network(1, 1, 0.5), 100, draws=10)
    >>> bool(0 < found.alpha < 3)
    True
    """
    model = finite_committee(model)
    try:
        sizes = np.asarray(n)
    except ValueError:
        raise ParameterError(f"n must be a number or an array, got {shown(n)}") from None
    if not sizes.size:
        raise ParameterError(f"n must be a number or an array of at least one, got {shown(n)}")
    asked: dict[str, Any] = {
        "share": 0.5,
        "of": "informative",
        "draws": count("draws", draws, 2),
        "seed": count("seed", seed, 0),
    }
    checked = [
        _size(size) for size in (sizes.ravel() if sizes.ndim else [n])
    ]  # all, before the first takes its time
    each = [answer(model, n=size, **asked) for size in checked]
    columns: dict[str, Any] = {
        name: np.reshape([getattr(one, name) for one in each], sizes.shape)[()]
        for name in ("alpha", "kind", "jump", "error", "reason", "n", "share")
    }
    return Threshold(**columns, route="draws")


def _size(n: Any) -> int:
    size = count("n", n, 100)
    if size > _LARGEST:
        raise ParameterError(
            f"n must be at most {_LARGEST:g} with labels drawn (alpha_bbp_typical has no limit), got {size:g}"
        )
    return size


@numpy_defaults
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
        As in `theory.finite.law`.
    share : float
        Between 0 and 1.
    of : str
        "lowest", "overlap" or another field of `Law`.

    Returns
    -------
    float

    Raises
    ------
    ParameterError, NotConverged
        As `theory.finite.law`.

    >>> 0 < quantile(Network(1, 1, 0.5), 4.0, 100, 0.5, draws=10) < 1
    True
    """
    share = _fraction("share", share)
    return float(law(model, one("alpha", alpha), n, draws=draws, seed=seed).quantile(of, share))


def answer(
    model: Network,
    *,
    alpha: float | None = None,
    n: int | None = None,
    share: float | None = None,
    q2: float = 0.1,
    of: str = "overlap",
    draws: int = 400,
    seed: int = 0,
    before: Callable[[float, int], None] | None = None,
) -> Threshold:
    """The third of alpha, n and the share of draws there whose `of` is above q2, or for which it holds, from the other two.

    Parameters
    ----------
    model : Network
        A quadratic committee of finite p.
    alpha, n, share : float, int, float
        Two of them. alpha is looked for up to 64 alpha_BBP; N between max(20, 60 / p) and 10,000: the smallest from which the
        share of draws has it, or, where overlaps fall with N, the largest up to which it has.
    q2 : float
        Squared overlap to exceed.
    of : str
        "overlap" (mean of the p p_star lowest), "overlap_lowest", or "informative", "among", "first": see `Law`.
    draws, seed : int
        As in `theory.finite.law`.
    before : function
        Called with (alpha, N) ahead of each set of draws; may refuse it.

    Returns
    -------
    Threshold
        alpha, n and the share of the draws found there, with the error of the one that was asked for, from the finite number of
        draws: NaN where it is not determined. The kind is that at N = infinity; the reason says why the law may not hold there.

    Raises
    ------
    ParameterError
        On unfit arguments.
    NotConverged
        Where nothing in the range has that share, or the law does not exist.

    >>> answer(Network(1, 1, 0.5), alpha=4.0, n=100, draws=10).share > 0.5
    True
    >>> 0.5 < answer(Network(1, 1, 0.5), n=100, share=0.5, draws=10).alpha < 4
    True
    """
    if [alpha, n, share].count(None) != 1:
        raise ParameterError("give two of alpha, n and share: the third is the answer")
    above = 0.5 if choice("of", of, OBSERVABLES) in YES_OR_NO else _fraction("q2", q2)
    p, limit = int(finite_committee(model).p), at_infinity(model)

    def told(alpha: float, n: int, share: float, error: float, asked: str) -> Threshold:
        reason = doubt(model, alpha, n, of) or ""
        return Threshold(
            alpha, limit.kind, math.nan, error, route="draws", reason=reason, n=n, share=share, asked=asked
        )

    def share_at(alpha: float, n: int) -> tuple[float, float]:
        if before is not None:
            before(alpha, n)
        return law(model, alpha, n, draws=draws, seed=seed).share_above(above, of)

    if alpha is not None and n is not None:
        return told(alpha, n, *share_at(one("alpha", alpha), n), "share")
    wanted = _fraction("share", 0.0 if share is None else share)

    def missing(alpha: float, n: int) -> float:
        try:
            return share_at(alpha, n)[0] - wanted
        except NotConverged:
            return -wanted  # too few data points for an edge: nothing to see

    if alpha is None:
        size, centre = count("n", n), limit.alpha

        def at(x: float) -> float:
            return missing(math.exp(x), size)

        # At least two samples: round(alpha N) >= 2 above 1.5 / N
        least = math.log(max(centre * _LOWEST, 1.5 / size))
        low, high = _bracket(at, least, math.log(centre), math.log(centre * _HIGHEST))
        place, error, share = _root(at, low, high, wanted, draws, step=0.15, sign=1.0)
        alpha = math.exp(place)
        return told(alpha, size, share, alpha * error, "alpha")
    ratio = one("alpha", positive("alpha", alpha))

    def there(x: float) -> float:
        return missing(ratio, round(math.exp(x)))

    # Overlaps rise or fall with N: the ends tell which.
    least, most = max(_SIZES[0], -(-_LEAST_ORDER // p)), _SIZES[1]
    first, last = there(math.log(least)), there(math.log(most))
    if first * last > 0:
        ends = f"{first + wanted:.3g} at N = {least} and {last + wanted:.3g} at N = {most}"
        raise NotConverged(f"no N between {least} and {most} has that share: it is {ends}", None)
    sign = 1.0 if last >= first else -1.0
    place, error, share = _root(there, math.log(least), math.log(most), wanted, draws, step=0.3, sign=sign)
    size = round(math.exp(place))
    return told(ratio, size, share, size * error, "n")


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
    # binomial, of half a draw at the least
    scatter = math.sqrt(max(wanted * (1 - wanted), 0.25 / draws) / draws)
    there = missing(place)
    # A rise within the noise of shares would make the error too small as often as too large.
    for _ in range(_WIDER):
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


def _fraction(name: str, value: float) -> float:
    number = one(name, finite(name, value))
    if not 0 < number < 1:
        raise ParameterError(f"{name} must lie between 0 and 1, got {value!r}")
    return float(np.float64(number))
