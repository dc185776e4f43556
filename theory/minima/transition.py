"""The alpha from which on the most numerous minima are unstable towards the teacher."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq

from theory.answers import Threshold
from theory.checks import ParameterError, one, ratio
from theory.minima import saddle
from theory.minima.answers import ALIKE, ENOUGH, FLOOR, STEPS, Minima, checked, complexity
from theory.minima.labels import labels
from theory.minima.saddle import Saddle
from theory.minima.stability import towards_teacher
from theory.model import Network

_FACTOR = 0.25  # of the logarithm of alpha, in whose steps a threshold is looked for


class _Crossing(NamedTuple):
    """Where the instability passes 0: alpha, its error, the overlap with the teacher there, whether minima are marginal."""

    alpha: float
    error: float
    overlap: float
    marginal: bool


def threshold(model: Network, overlap: float = 0.0, low: float = 1.2, high: float = 60.0) -> Threshold:
    """Above which alpha the most numerous minima at an overlap are unstable towards the teacher.

    Parameters
    ----------
    model, overlap
        As in `complexity`.
    low, high : float
        Between which alpha are looked at.

    Returns
    -------
    Threshold
        alpha, its error, and its kind: "continuous" where the minima there are marginal (the eigenvector's overlap with the
        teacher grows from 0), "discontinuous" where they have a gap (it is `jump` as soon as its eigenvalue passes 0), "none"
        where no stable minima become unstable between low and high, "unresolved" where minima could not be told; `reason` says
        more. `until`: where they are stable again, inf where they are not below high.

    Raises
    ------
    ParameterError
        As `complexity`.

    >>> found = threshold(Network(a=0.5), low=4.8, high=5.7)
    >>> round(found.alpha, 2), found.kind
    (5.25, 'continuous')
    """
    low, high = one("low", ratio("low", low)), one("high", ratio("high", high))
    model, _, overlap = checked(model, low, overlap)
    if not low < high:
        raise ParameterError(f"low and high must be rising, got {low} and {high}")
    grid = np.geomspace(low, high, 2 + math.ceil(math.log(high / low) / _FACTOR))
    found: list[Minima] = []
    for alpha in grid[::-1]:
        found.insert(0, complexity(model, float(alpha), overlap, near=found[:1]))
    signs = [m.instability > 0 if m.saddle is not None else None for m in found]
    pairs = list(pairwise(signs))
    if (False, True) not in pairs:
        return _without(signs, low, high)
    at = pairs.index((False, True))
    crossing = _crossing(model, overlap, float(grid[at]), float(grid[at + 1]), found[at : at + 2])
    if crossing is None:
        return _lacking("unresolved", f"nodes show no steady threshold near alpha = {grid[at]:.3g}")
    until = math.inf
    later = next((i for i in range(at + 1, len(pairs)) if pairs[i] == (True, False)), None)
    if later is not None:
        back = _crossing(model, overlap, float(grid[later]), float(grid[later + 1]), found[later : later + 2])
        until = math.nan if back is None else back.alpha
    return Threshold(
        crossing.alpha,
        "continuous" if crossing.marginal else "discontinuous",
        0.0 if crossing.marginal else crossing.overlap,
        error=crossing.error,
        alpha_0=crossing.alpha if crossing.marginal else math.nan,
        route="nodes",
        until=until,
    )


def _without(signs: Sequence[bool | None], low: float, high: float) -> Threshold:
    between = f"between alpha = {low:g} and {high:g}"
    if None in signs:
        return _lacking(
            "unresolved", f"{signs.count(None)} of {len(signs)} alphas {between} showed no minima"
        )
    return _lacking("none", f"{'unstable' if any(signs) else 'stable'} towards the teacher {between}")


def _lacking(kind: str, reason: str) -> Threshold:
    return Threshold(math.nan, kind, math.nan, route="nodes", reason=reason)


def _crossing(
    model: Network, overlap: float, low: float, high: float, near: Sequence[Minima]
) -> _Crossing | None:
    """Where the instability passes 0 between two alphas, at finer and finer nodes; None where that is not steady."""
    starts = [m.saddle for m in near if m.saddle is not None]

    def at(alpha: float, h: float) -> tuple[Saddle, tuple[float, float]]:
        nodes = labels(model, overlap, h)
        found = next(filter(None, (saddle.continued(nodes, alpha, None, start) for start in starts)), None)
        if found is None:
            raise ValueError("minima not found")
        return found, towards_teacher(nodes, alpha, found)

    last = error = math.nan
    for h in STEPS:
        try:
            alpha = brentq(lambda alpha, h=h: at(alpha, h)[1][0], low, high, xtol=1e-12, rtol=1e-13)
            found, (_, share) = at(alpha, h)
        except ValueError:
            break
        last, error = alpha, abs(alpha - last) + FLOOR * alpha
        if error < ENOUGH * alpha:
            break
    return _Crossing(last, error, share, bool(found.rho)) if error < ALIKE * last else None
