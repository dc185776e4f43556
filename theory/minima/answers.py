"""Questions about minima: how many at an overlap and a loss, what they are like, and when they become unstable towards the
teacher."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from theory.checks import ParameterError, finite, one, positive, ratio, shown
from theory.late_scipy import brentq, minimize_scalar
from theory.minima import saddle
from theory.minima.labels import Labels, infimum, labels
from theory.minima.saddle import Saddle
from theory.model import Network, network

Array = NDArray[np.float64]

STEPS = 0.14, 0.1, 0.07, 0.05  # of the trapezoid, taken until two agree: their difference is the error told
_ENOUGH = 1e-7
_FLOOR = 1e-14
_ALIKE = 1e-3  # difference of two steps above which an extremum is one of the nodes, not of the integrals
_STRIDE = 0.1  # of the logarithm of the loss
_TURNS = 9
_FACTOR = 0.25  # of the logarithm of alpha, in whose steps a threshold is looked for
_EDGE = 1e-6  # probability of the law at the rim of the nodes above which the nodes do not hold it


@dataclass(frozen=True)
class Minima:
    """The minima at one alpha, overlap and (where it was asked for) loss.

    complexity   Sigma, of the mean number exp(N Sigma): annealed, an upper bound of what one sample has
    kind         "stable" (their Hessian has a gap), "marginal" (it has none), "no edge" (weights without a lower bound:
    the Hessian has
                 no lowest eigenvalue at N = infinity, hence no minima by this count) or "unresolved"
    overlap      m, with the teacher
    loss         mean loss of a sample
    force        E l'^2
    multiplier   s = alpha E[lambda l'], what the sphere takes off the Hessian: lowest eigenvalues are those of H - s
    instability  largest eigenvalue of s - H towards the teacher, as far as its sign goes: above 0 the minima are saddles
    error        of the complexity, from the step of the nodes
    smooth       whether the edge is a smooth one, r at its end
    saddle, step the extremum, and the step of the nodes that hold its law

    NaN where the kind is none of the first two. `label_law` gives the law of their labels.
    """

    complexity: float
    kind: str
    overlap: float
    loss: float
    force: float
    multiplier: float
    instability: float
    error: float
    smooth: bool = False
    saddle: Saddle | None = field(default=None, repr=False, compare=False)
    step: float = field(default=math.nan, repr=False)


class LabelLaw(NamedTuple):
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
    Minima : complexity, kind, labels' averages and an error

    Raises
    ------
    ParameterError on another model, alpha or overlap. See `theory.minima.saddle` for the derivation.

    >>> found = complexity(Network(a=0.5), 4.0)
    >>> found.kind, round(found.complexity, 6), round(found.loss, 5)
    ('marginal', 0.04329, 0.16602)
    """
    model, alpha, overlap = _checked(model, alpha, overlap)
    if loss is not None:
        loss = one("loss", positive("loss", loss))
    if not math.isfinite(infimum(model).value):
        return _none("no edge", overlap)
    found, error, step = _found(model, alpha, overlap, loss, [m.saddle for m in near if m.saddle is not None])
    if found is None:
        return _none("unresolved", overlap)
    return _answer(labels(model, overlap, step), alpha, found, error, step)


def label_law(minima: Minima, model: Network) -> LabelLaw:
    """The law of the labels of minima.

    Parameters
    ----------
    minima : Minima
        What `complexity` found for the model.
    model : Network

    Returns
    -------
    LabelLaw

    Raises
    ------
    ParameterError
        Where it found none.
    """
    if minima.saddle is None:
        raise ParameterError(f"minima must have a law of labels, got kind {minima.kind!r}")
    nodes = labels(network(model), minima.overlap, minima.step)
    return LabelLaw(nodes.lam, nodes.u, minima.saddle.probability)


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
    held: list[Minima] = []

    def at(m: float) -> float:
        found = complexity(model, alpha, m, near=held[-1:])
        if found.saddle is not None:
            held.append(found)
        return -found.complexity if found.saddle is not None else math.inf

    grid = np.linspace(low, high, 17)
    values = np.array([at(float(m)) for m in grid])
    if not held:
        return complexity(model, alpha, float(grid[8]))
    best = int(np.argmin(values))
    left, right = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
    found = minimize_scalar(at, bounds=(left, right), method="bounded", options={"xatol": 1e-9})
    m = float(found.x) if found.fun <= values[best] else float(grid[best])
    return complexity(model, alpha, m, near=held[-1:])


def threshold(
    model: Network, overlap: float = 0.0, low: float = 0.3, high: float = 60.0
) -> tuple[float, float, str]:
    """alpha from which on the most numerous minima at an overlap are unstable towards the teacher, its error, and their kind.

    Parameters
    ----------
    model, overlap
        As in `complexity`.
    low, high : float
        Between which alpha are looked at.

    Returns
    -------
    tuple of alpha, error, kind
        The kind is "none" where the stability does not change between low and high, "unresolved" where the minima could not be
        told, "no edge" for weights without a lower bound; alpha and error are NaN then.

    Raises
    ------
    ParameterError
        As `complexity`.

    >>> alpha, error, kind = threshold(Network(a=0.5), low=4.8, high=5.7)
    >>> round(alpha, 2), kind
    (5.25, 'marginal')
    """
    model, _, overlap = _checked(model, low, overlap)
    if not math.isfinite(infimum(model).value):
        return math.nan, math.nan, "no edge"
    low, high = one("low", ratio("low", low)), one("high", ratio("high", high))
    if not low < high:
        raise ParameterError(f"low and high must be rising, got {low} and {high}")
    grid = np.geomspace(low, high, 2 + math.ceil(math.log(high / low) / _FACTOR))
    found = _along(model, grid[::-1], overlap)[::-1]
    signs = [m.instability > 0 if m.saddle is not None else None for m in found]
    for i in range(len(grid) - 1):
        if signs[i] is False and signs[i + 1]:
            return _crossing(model, overlap, float(grid[i]), float(grid[i + 1]), found[i : i + 2])
    return math.nan, math.nan, "none" if None not in signs else "unresolved"


def _along(model: Network, grid: Array, overlap: float) -> list[Minima]:
    found: list[Minima] = []
    for alpha in grid:
        near = [m for m in found[-1:] if m.saddle is not None]
        found.append(complexity(model, float(alpha), overlap, near=near))
    return found


def _crossing(
    model: Network, overlap: float, low: float, high: float, near: Sequence[Minima]
) -> tuple[float, float, str]:
    """The alpha between low and high where the instability passes 0, at finer and finer nodes."""
    held = [m.saddle for m in near if m.saddle is not None]

    def at(alpha: float, h: float) -> float:
        nodes = labels(model, overlap, h)
        found = next(filter(None, (saddle.continued(nodes, alpha, None, start) for start in held)), None)
        if found is None:
            raise ValueError("minima not found")
        return _instability(nodes, alpha, found)

    last = error = math.nan
    for h in STEPS:
        try:
            alpha = brentq(lambda alpha, h=h: at(alpha, h), low, high, xtol=1e-12, rtol=1e-13)
        except ValueError:
            break
        last, error = alpha, abs(alpha - last) + _FLOOR * alpha
        if error < _ENOUGH * alpha:
            break
    return (last, error, near[-1].kind) if error < _ALIKE * last else (math.nan, math.nan, "unresolved")


def _found(
    model: Network, alpha: float, overlap: float, loss: float | None, near: Sequence[Saddle]
) -> tuple[Saddle | None, float, float]:
    """The highest extremum that stays as the nodes become finer and that they hold; its error, and the step."""
    first = labels(model, overlap, STEPS[0])
    if loss is not None and not near:
        near = _to_loss(first, alpha, loss)
    for found in saddle.extrema(first, alpha, loss, near) or _from_orthogonal(model, alpha, overlap, loss):
        error, step, held = math.inf, STEPS[0], found
        for h in STEPS[1:]:
            nodes = labels(model, overlap, h)
            finer = saddle.continued(nodes, alpha, loss, held)
            if finer is None or _rim(nodes, finer) > _EDGE:
                break
            error, step, held = abs(finer.value - held.value) + _FLOOR, h, finer
            if error < _ENOUGH:
                break
        if error < _ALIKE:
            return held, error, step
    return None, math.nan, math.nan


def _from_orthogonal(model: Network, alpha: float, overlap: float, loss: float | None) -> list[Saddle]:
    """The extrema at an overlap, followed from m = 0 in small steps where they are found nowhere else."""
    held: list[Saddle] = []
    for m in overlap * np.sin(np.linspace(0, math.pi / 2, _TURNS)):
        held = saddle.extrema(labels(model, float(m), STEPS[0]), alpha, loss, held[:1])
        if not held:
            return []
    return held


def _to_loss(nodes: Labels, alpha: float, loss: float) -> list[Saddle]:
    """The extrema at a loss, followed from those of free loss in small steps."""
    held = saddle.extrema(nodes, alpha, None)
    if not held:
        return []
    start = float(held[0].probability @ nodes.loss)
    steps = max(2, math.ceil(abs(math.log(loss / start)) / _STRIDE))
    for target in np.geomspace(start, loss, steps + 1)[1:]:
        held = saddle.extrema(nodes, alpha, float(target), held[:1])
        if not held:
            return []
    return held


def _answer(nodes: Labels, alpha: float, found: Saddle, error: float, step: float) -> Minima:
    p = found.probability
    return Minima(
        complexity=found.value,
        kind="marginal" if found.rho else "stable",
        overlap=nodes.overlap,
        loss=float(p @ nodes.loss),
        force=found.a,
        multiplier=alpha * float(p @ (nodes.lam * nodes.force)),
        instability=_instability(nodes, alpha, found),
        error=error,
        smooth=found.end,
        saddle=found,
        step=step,
    )


def _instability(nodes: Labels, alpha: float, found: Saddle) -> float:
    """s less the energy of the teacher's direction, which the gradient's own direction has a share in (conditioned theory
    of paths
    with one force): s - alpha E[v^2 F B] - r (alpha E[v l' F B])^2 / (alpha E[l'^2 B]), B = 1/(1 + rF)."""
    p, one_ = found.probability, 1 + found.r * nodes.weight
    b = np.divide(1, one_, out=np.zeros_like(one_), where=(one_ > 0) & (p > 0))
    v, f, force = nodes.v, nodes.weight, nodes.force
    plain = alpha * float(p @ (v**2 * f * b))
    shared = found.r * (alpha * float(p @ (v * force * f * b))) ** 2 / (alpha * float(p @ (force**2 * b)))
    return alpha * float(p @ (nodes.lam * force)) - plain - shared


def _rim(nodes: Labels, found: Saddle) -> float:
    """Probability of the law next to the end of the nodes."""
    outer = (np.abs(nodes.lam) > 8.5) | (np.abs(nodes.v) > 8.5)
    return float(found.probability[outer].sum())


def _none(kind: str, overlap: float) -> Minima:
    nan = math.nan
    return Minima(nan, kind, overlap, nan, nan, nan, nan, nan)


def _checked(model: Any, alpha: Any, overlap: Any) -> tuple[Network, float, float]:
    model = network(model)
    if model.p != 1 or model.p_star != 1:
        raise ParameterError(f"p and p_star must be 1 to count minima, got {model.p} and {model.p_star}")
    if model.covariance is not None:
        raise ParameterError(f"covariance must be None to count minima, got {shown(model.covariance)}")
    if model.overlap != 0.0 or model.gram is not None:
        raise ParameterError("overlap must be an argument of its own here, not of the model")
    if model.noise and model.output_noise:
        raise ParameterError("noise and output_noise must not both be given to count minima")
    overlap = one("overlap", finite("overlap", overlap))
    if not -1 < overlap < 1:
        raise ParameterError(f"overlap must lie inside (-1, 1), got {overlap}")
    return replace(model), one("alpha", ratio("alpha", alpha)), overlap
