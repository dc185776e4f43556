"""The BBP threshold at finite N: where half of the draws are informative, and where the mean margin of the labels vanishes.

`alpha_bbp_finite` is the statement about samples: P(informative) = 1/2, informative as in theory.finite.law.FiniteLaw,
from draws of labels, levels and couplings. `margin_threshold` is the older one about labels alone: for one draw the mean
margin is edge - tr Xi(edge) / (p p_star), how far, on the average of the p p_star directions of the signal, the signal block
lies beyond the quenched edge. A single outlier exists exactly where its margin is positive. As N -> inf both become
deterministic and are alpha_BBP; where the transition is discontinuous they approach it like 1/log N.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from theory.answers import Threshold
from theory.checks import NotConverged, ParameterError, choice, count, numpy_defaults, shown
from theory.exact.committee import committee_labels, finite_committee
from theory.exact.transition import bbp_threshold
from theory.finite.extreme_labels import WIDEST, LabelTail
from theory.finite.quenched import mean_margin
from theory.finite.questions import alpha_at
from theory.model.network import Network

Array = NDArray[np.floating[Any]]

_LABELS_UP_TO = 3000
_LARGEST = 1e12  # next to the pole of one label the edge is solved to eps sqrt(n), which must stay small
_MEMORY = 4e9  # bytes of labels kept at once
_REST = 4000  # labels that stand for the fluctuation of those that are not extreme
_MARGINS = ("auto", "labels", "extremes")


@numpy_defaults
def alpha_bbp_finite(model: Network, n: ArrayLike, *, draws: int = 100, seed: int = 0) -> Threshold:
    """alpha at which half of the draws of `model` in dimension n, a number or an array from 100 to 1e12, are informative.

    By theory.finite.law at every n: all labels of a draw up to n = 5,000, extreme ones and others that stand for the rest
    beyond (theory.finite.many_labels). `margin_threshold` differs from it for p p_star = 1 by less than the width of the
    transition, for more directions by up to 0.3 at small n.

    Parameters
    ----------
    model : Network
        A quadratic committee of finite p.
    n : int, or an array
        Input dimension N.
    draws, seed : int
        As in `theory.finite.law.finite_law`.

    Returns
    -------
    Threshold
        Of the shape of n: alpha and its standard error from the scatter of the draws; the kind is that at N = infinity, the
        jump is NaN; the reason says why the law is not known to hold there, or is empty (theory.finite.validity).

    Raises
    ------
    ParameterError
        On bad arguments or p = inf.
    NotConverged
        Where no threshold is found.

    >>> found = alpha_bbp_finite(Network(1, 1, 0.5), 100, draws=10)
    >>> bool(0 < found.alpha < 3)
    True
    """
    draws, seed, model = count("draws", draws, 2), count("seed", seed, 0), finite_committee(model)

    def at(size: int) -> tuple[float, float, str]:
        found = alpha_at(model, size, share=0.5, of="informative", draws=draws, seed=seed)
        return found.value, found.error, found.doubt or ""

    return _at_sizes(model, at, n)


@numpy_defaults
def margin_threshold(
    model: Network,
    n: ArrayLike,
    *,
    draws: int = 100,
    seed: int = 0,
    method: str = "auto",
    extremes: int = 2000,
    of: str = "mean",
) -> Threshold:
    """alpha at which the margin over draws of labels vanishes in dimension n: a number or an array, from 100 to 1e12.

    1e8 costs what 1e5 does; beyond 1e12 there is alpha_bbp_typical, which draws nothing.

    draws     independent draws of labels; each serves every alpha, its first round(alpha n) labels being the sample
    method    "labels": every label drawn. "extremes": about `extremes` labels drawn one by one, the rest by its mean and
              Gaussian fluctuation (theory.finite.extreme_labels states the approximation), p <= 8. "auto": labels up to
              n = 3,000 and for p > 8.
    of        "mean": where the mean margin vanishes, with its standard error. "half": where half of the draws have a positive
              margin, by bisection, without an error (NaN)
    Raises ParameterError on bad arguments or p = inf, NotConverged where no threshold is found.

    >>> found = margin_threshold(Network(1, 1, 0.5), 100, draws=2)
    >>> bool(0 < found.alpha < 2)
    True
    """
    draws, extremes = count("draws", draws, 2), count("extremes", extremes, 10)
    model, method = finite_committee(model), choice("method", method, _MARGINS)
    seed, crossing = (
        count("seed", seed, 0),
        {"mean": _mean, "half": _half}[choice("of", of, ("mean", "half"))],
    )

    def at(size: int) -> tuple[float, float, str]:
        labels = method == "labels" or (method == "auto" and (size <= _LABELS_UP_TO or model.p > WIDEST))
        rng = np.random.default_rng(seed)
        centre = bbp_threshold(model).alpha
        for reach in (1.5, 3.0, 8.0):
            margins = (_by_labels if labels else _by_extremes)(
                model, size, reach * centre, draws, extremes, rng
            )
            high, low = 0.999 * reach * centre, 0.2 * centre
            if margins(high).mean() <= 0:
                continue
            while low * size > 2 and margins(low).mean() >= 0:  # far below the limit, where a is large
                high, low = low, low / 3
            if margins(low).mean() < 0:
                return *crossing(margins, low, high), ""
        raise NotConverged(f"no threshold found for n = {size} up to alpha = {8 * centre:.6g}", centre)

    return _at_sizes(model, at, n)


def _at_sizes(model: Network, at: Callable[[int], tuple[float, float, str]], n: Any) -> Threshold:
    try:
        sizes = np.asarray(n)
    except ValueError:
        raise ParameterError(f"n must be a number or an array, got {shown(n)}") from None
    each = [at(size) for size in [_size(v) for v in (sizes.ravel() if sizes.ndim else [n])]]
    alpha, error, reason = zip(*each, strict=True)
    kind, jump = bbp_threshold(model).kind, math.nan
    if not sizes.ndim:
        return Threshold(alpha[0], kind, jump, error[0], route="draws", reason=reason[0])
    at_n = [np.reshape(column, sizes.shape) for column in (alpha, error, reason)]
    kinds, jumps = (np.full(sizes.shape, value) for value in (kind, jump))
    return Threshold(at_n[0], kinds, jumps, at_n[1], route="draws", reason=at_n[2])


def _size(n: Any) -> int:
    size = count("n", n, 100)
    if size > _LARGEST:
        raise ParameterError(
            f"n must be at most {_LARGEST:g} with labels drawn (alpha_bbp_typical has no limit), got {size:g}"
        )
    return size


def _mean(margins: Callable[[float], Array], low: float, high: float) -> tuple[float, float]:
    """Where the mean margin vanishes, and the standard error."""
    from scipy.optimize import brentq

    alpha = brentq(lambda v: margins(v).mean(), low, high, xtol=1e-5 * low)
    step, here = 0.03 * alpha, margins(alpha)
    slope = float((margins(alpha + step) - margins(alpha - step)).mean()) / (2 * step)
    error = here.std(ddof=1) / math.sqrt(len(here)) / slope
    return float(alpha), float(error)


def _half(margins: Callable[[float], Array], low: float, high: float) -> tuple[float, float]:
    """Where the share of draws with a positive margin passes 1/2, by bisection; the middle of what is left."""
    for _ in range(14):
        middle = (low + high) / 2
        low, high = (middle, high) if np.mean(margins(middle) > 0) < 0.5 else (low, middle)
    return (low + high) / 2, math.nan


def _by_labels(
    model: Network, n: int, top: float, draws: int, _: int, rng: np.random.Generator
) -> Callable[[float], Array]:
    needed = 8 * draws * top * n * (model.p + model.p_star)
    if needed > _MEMORY:
        raise ParameterError(
            f"n must be at most {int(n * _MEMORY / needed)} with every label of {draws} draws kept, got {n}"
        )
    samples = [committee_labels(model, math.ceil(top * n) + 1, rng) for _ in range(draws)]
    outputs = [np.mean(u**2, axis=1) for _, u in samples]

    def margins(alpha: float) -> Array:
        m = max(round(alpha * n), 1)
        pairs = zip(samples, outputs, strict=True)
        return np.array([_margin(model, lam[:m], y[:m], 1 / n) for (lam, _), y in pairs])

    return margins


def _by_extremes(
    model: Network, n: int, top: float, draws: int, extremes: int, rng: np.random.Generator
) -> Callable[[float], Array]:
    tail = LabelTail(model, top * n, extremes, _REST)
    samples = [tail.draw(rng) for _ in range(draws)]

    def margins(alpha: float) -> Array:
        labels = (tail.sample(draw, alpha, n) for draw in samples)
        return np.array([_margin(model, v.lam, v.y, v.share) for v in labels])

    return margins


def _margin(model: Network, lam: Array, y: Array, coefficients: Any) -> float:
    """The mean margin; -1 where too few labels make no edge, as nothing is seen there."""
    try:
        return mean_margin(model, lam, y, coefficients)
    except NotConverged:
        return -1.0
