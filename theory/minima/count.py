"""Questions about minima: how many at an overlap and a loss, where most are, when the teacher destabilises them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq, minimize_scalar

from theory.answers import Printed, Threshold
from theory.checks import ParameterError, finite, one, positive, ratio
from theory.minima import saddle
from theory.minima.saddle import Nodes, Saddle, towards_teacher
from theory.model import Network, network

Array = NDArray[np.float64]

_STEPS = 0.14, 0.1, 0.07, 0.05  # of the trapezoid, taken until two agree: their difference is the error told
_ENOUGH = (
    1e-7  # difference of two steps, of the complexity or relative to alpha, at which nodes are fine enough
)
_FLOOR = 1e-14  # least error told: rounding
_ALIKE = 1e-3  # difference of two steps above which an extremum is one of the nodes, not of the integrals
_STRIDE = 0.1  # of the logarithm of the loss
_TURNS = 9  # steps in which an extremum is followed from m = 0 and a larger alpha
_MORE = 4.0  # times alpha, where minima are looked for that are not found at alpha
_EDGE = 1e-6  # probability of the law at the rim of the nodes above which the nodes do not hold it
_GRID = 17  # overlaps that are looked at
_FLAT = 1e-9  # of an overlap, to which the largest complexity is looked for
_FACTOR = 0.25  # of the logarithm of alpha, in whose steps a threshold is looked for


@dataclass(frozen=True, repr=False)
class Minima(Printed):
    """The minima at one alpha, overlap and (where it was asked for) loss: how many there are and what they are like,
    which no answer about one Hessian says.

    complexity   Sigma, of the mean number exp(N Sigma): annealed, an upper bound of what one sample has
    kind         "stable" (their Hessian has a gap), "marginal" (it has none) or "unresolved"
    overlap      m, with the teacher
    loss         mean loss of a sample
    force        E l'^2
    multiplier   s = alpha E[lambda l'], what the sphere takes off the Hessian: lowest eigenvalues are those of H - s
    instability  largest eigenvalue of s - H towards the teacher, as far as its sign goes: above 0 the minima are saddles
    error        of the complexity, from the step of the nodes
    saddle, step the extremum, and the step of the nodes that hold its law

    NaN where the kind is "unresolved". `preactivation_law` gives the law of their preactivations.
    """

    complexity: float
    kind: str
    overlap: float
    loss: float = math.nan
    force: float = math.nan
    multiplier: float = math.nan
    instability: float = math.nan
    error: float = math.nan
    saddle: Saddle | None = field(default=None, repr=False, compare=False)
    step: float = field(default=math.nan, repr=False)


class PreactivationLaw(NamedTuple):
    """The law of (lambda, u) at minima: nodes lam, u, and their probabilities, each (n,)."""

    lam: Array
    u: Array
    probability: Array


def complexity(
    model: Network, alpha: float, overlap: float = 0.0, loss: float | None = None, near: Sequence[Minima] = ()
) -> Minima:
    """The annealed complexity of the minima at an overlap with the teacher, over all losses or at one.

    Parameters
    ----------
    model : Network of p = p_star = 1 without covariance, overlap or Gram matrix; noise of either kind is allowed
    alpha : samples per dimension, M/N
    overlap : m in (-1, 1)
    loss : mean loss of a sample; None for the most numerous
    near : answers close by, from which the equations are solved first

    Returns
    -------
    Minima : complexity, kind, averages over preactivations and an error

    Raises
    ------
    ParameterError on another model, alpha or overlap. See `theory.minima.saddle` for the derivation.

    >>> found = complexity(Network(a=0.5), 4.0)
    >>> found.kind, round(found.complexity, 6), round(found.loss, 5)
    ('marginal', 0.04329, 0.16602)
    """
    model, alpha, overlap = checked(model, alpha, overlap)
    if loss is not None:
        loss = one("loss", positive("loss", loss))
    found, error, step = _found(model, alpha, overlap, loss, [m.saddle for m in near if m.saddle is not None])
    if found is None:
        return Minima(math.nan, "unresolved", overlap)
    return _answer(Nodes.of(model, overlap, step), alpha, found, error, step)


def preactivation_law(minima: Minima, model: Network) -> PreactivationLaw:
    """The law of the preactivations of minima that `complexity` found for the model; ParameterError where it found none."""
    if minima.saddle is None:
        raise ParameterError(f"minima must have a law of labels, got kind {minima.kind!r}")
    nodes = Nodes.of(network(model), minima.overlap, minima.step)
    return PreactivationLaw(nodes.lam, nodes.u, minima.saddle.probability)


def _found(
    model: Network, alpha: float, overlap: float, loss: float | None, near: Sequence[Saddle]
) -> tuple[Saddle | None, float, float]:
    """The highest extremum that stays as the nodes become finer and that they hold; its error, and the step."""
    # Where the law has a thin border, coarse nodes show other extrema only
    for first, h in enumerate(_STEPS[:-1]):
        nodes = Nodes.of(model, overlap, h)
        begun = near if loss is None or near else _to_loss(nodes, alpha, loss)
        known = saddle.extremum(nodes, alpha, loss, begun) or _followed(model, alpha, overlap, loss, h)
        refined = known and _refined(model, alpha, overlap, loss, known, _STEPS[first:])
        if refined:
            return refined
    return None, math.nan, math.nan


def _refined(
    model: Network, alpha: float, overlap: float, loss: float | None, known: Saddle, steps: Sequence[float]
) -> tuple[Saddle, float, float] | None:
    """The extremum at finer nodes, with its last change and step; None where it does not stay."""
    error, step = math.inf, steps[0]
    for h in steps[1:]:
        nodes = Nodes.of(model, overlap, h)
        finer = saddle.continued(nodes, alpha, loss, known)
        # Nodes end at 9 standard deviations: a law with probability there is cut off.
        rim = (np.abs(nodes.lam) > 8.5) | (np.abs(nodes.v) > 8.5)
        if finer is None or finer.probability[rim].sum() > _EDGE:
            break
        error, step, known = abs(finer.value - known.value) + _FLOOR, h, finer
        if error < _ENOUGH:
            break
    return (known, error, step) if error < _ALIKE else None


def _followed(model: Network, alpha: float, overlap: float, loss: float | None, h: float) -> Saddle | None:
    """The extremum where it is found nowhere else: followed from m = 0 and a larger alpha in small steps."""
    known: list[Saddle] = []
    for turn in np.linspace(0, 1, _TURNS):
        m, more = overlap * math.sin(turn * math.pi / 2), alpha * _MORE ** (1 - turn)
        found = saddle.extremum(Nodes.of(model, m, h), more, loss, known)
        if found is None:
            return None
        known = [found]
    return known[0]


def _to_loss(nodes: Nodes, alpha: float, loss: float) -> list[Saddle]:
    """The extremum at a loss, followed from that of free loss in small steps; empty where that fails."""
    found = saddle.extremum(nodes, alpha, None)
    if found is None:
        return []
    start = float(found.probability @ nodes.loss)
    steps = max(2, math.ceil(abs(math.log(loss / start)) / _STRIDE))
    # beta is the multiplier of the loss: 0 at its free value.
    for target in np.geomspace(start, loss, steps + 1)[1:]:
        found = saddle.extremum(nodes, alpha, float(target), [found])
        if found is None:
            return []
    return [found]


def _answer(nodes: Nodes, alpha: float, found: Saddle, error: float, step: float) -> Minima:
    p = found.probability
    return Minima(
        complexity=found.value,
        kind="marginal" if found.rho else "stable",
        overlap=nodes.overlap,
        loss=float(p @ nodes.loss),
        force=found.a,
        multiplier=alpha * float(p @ (nodes.lam * nodes.force)),
        instability=towards_teacher(nodes, alpha, found)[0],
        error=error,
        saddle=found,
        step=step,
    )


def checked(model: Any, alpha: Any, overlap: Any) -> tuple[Network, float, float]:
    """The model, alpha and overlap of a count of minima; ParameterError where such minima have not been counted."""
    model = network(model)
    if model.p != 1 or model.p_star != 1:
        raise ParameterError(f"p and p_star must be 1 to count minima, got {model.p} and {model.p_star}")
    if model.covariance is not None or model.inputs is not None:
        raise ParameterError("covariance and inputs must be None to count minima, got one")
    if model.overlap != 0.0 or model.gram is not None:
        raise ParameterError("overlap must be an argument of its own here, not of the model")
    if model.noise and model.output_noise:
        raise ParameterError("noise and output_noise must not both be given to count minima")
    overlap = one("overlap", finite("overlap", overlap))
    if not -1 < overlap < 1:
        raise ParameterError(f"overlap must lie inside (-1, 1), got {overlap}")
    return replace(model), one("alpha", ratio("alpha", alpha)), overlap


# ---- along the overlap ----


def most_numerous(model: Network, alpha: float, low: float = -0.99, high: float = 0.99) -> Minima:
    """The minima of largest complexity over overlaps with the teacher.

    Parameters
    ----------
    model, alpha
        As in `complexity`.
    low, high : float
        The overlaps lie in [low, high].

    Returns
    -------
    Minima

    Raises
    ------
    ParameterError
        As `complexity`.
    """
    low, high = (one(name, finite(name, value)) for name, value in (("low", low), ("high", high)))
    if not -1 < low < high < 1:
        raise ParameterError(f"low and high must be rising and inside (-1, 1), got {low} and {high}")
    model, alpha, _ = checked(model, alpha, 0.0)
    if model.even_students and low == -high:
        low = 0.0  # m and -m are alike
    # Coarse nodes tell where, as the complexity is flat there; thin laws need finer ones
    for h in _STEPS[1:]:
        grid = np.linspace(low, high, _GRID)
        found = _scanned(model, alpha, grid, h)
        if any(found):
            break
    else:
        return complexity(model, alpha, (low + high) / 2)
    values = [-math.inf if each is None else each.value for each in found]
    best = int(np.argmax(values))
    known = found[best]
    assert known is not None
    m = float(grid[best])

    def less(m: float) -> float:
        at = saddle.continued(Nodes.of(model, m, h), alpha, None, known)
        return math.inf if at is None else -at.value

    left, right = float(grid[max(best - 1, 0)]), float(grid[min(best + 1, len(grid) - 1)])
    # An even function of m with its maximum at 0: nothing to refine.
    if not (m == 0.0 and model.even_students and values[best + 1] < values[best]):
        top = minimize_scalar(less, bounds=(left, right), method="bounded", options={"xatol": _FLAT})
        m = float(top.x) if top.fun < -values[best] else m
    return complexity(model, alpha, m)


def reach(model: Network, alpha: float, start: Minima) -> float:
    """The largest overlap with the teacher up to which there are minima.

    Parameters
    ----------
    model, alpha
        As in `complexity`.
    start : Minima
        Minima there, such as the most numerous.

    Returns
    -------
    float
        Where the complexity passes 0 above the overlap of `start`; NaN where that has none above 0, or no passage is found.

    Raises
    ------
    ParameterError
        As `complexity`.

    >>> model = Network(a=0.5)
    >>> round(reach(model, 4.0, complexity(model, 4.0, overlap=0.4)), 4)
    0.4433
    """
    model, alpha, _ = checked(model, alpha, start.overlap)
    if start.saddle is None or not start.complexity > 0:
        return math.nan
    known = start

    def height(m: float) -> float:
        return complexity(model, alpha, m, near=[known]).complexity

    for m in np.linspace(start.overlap, 0.99, _GRID)[1:]:
        found = complexity(model, alpha, float(m), near=[known])
        if found.saddle is None:
            break
        if found.complexity <= 0:
            return float(brentq(height, known.overlap, found.overlap, xtol=1e-8))
        known = found
    return math.nan


def _scanned(model: Network, alpha: float, grid: Array, h: float) -> list[Saddle | None]:
    """The extremum at every overlap, at nodes of step h; each from the one before."""
    found: list[Saddle | None] = []
    for m in grid:
        near = [each for each in found[-1:] if each is not None]
        found.append(saddle.extremum(Nodes.of(model, float(m), h), alpha, None, near))
    return found


# ---- along alpha ----


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

    >>> found = threshold(Network(a=0.5), low=5.2, high=5.3)
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
    later = next((i for i in range(at + 1, len(pairs)) if pairs[i] == (True, False)), None)
    if later is None:
        return crossing
    back = _crossing(model, overlap, float(grid[later]), float(grid[later + 1]), found[later : later + 2])
    return replace(crossing, until=math.nan if back is None else back.alpha)


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
) -> Threshold | None:
    """Where the instability passes 0 between two alphas, at finer and finer nodes; None where that is not steady."""
    starts = [m.saddle for m in near if m.saddle is not None]

    def at(alpha: float, h: float) -> tuple[Saddle, tuple[float, float]]:
        nodes = Nodes.of(model, overlap, h)
        found = next(filter(None, (saddle.continued(nodes, alpha, None, start) for start in starts)), None)
        if found is None:
            raise ValueError("minima not found")
        return found, towards_teacher(nodes, alpha, found)

    last = error = math.nan
    for h in _STEPS:
        try:
            alpha = brentq(lambda alpha, h=h: at(alpha, h)[1][0], low, high, xtol=1e-12, rtol=1e-13)
            found, (_, share) = at(alpha, h)
        except ValueError:
            break
        last, error = alpha, abs(alpha - last) + _FLOOR * alpha
        if error < _ENOUGH * alpha:
            break
    if not error < _ALIKE * last:
        return None
    # Marginal: the eigenvector's overlap at the edge is 0, and alpha_0 the threshold itself.
    if found.rho:
        return Threshold(last, "continuous", 0.0, error=error, alpha_0=last, route="nodes")
    return Threshold(last, "discontinuous", share, error=error, route="nodes")
