"""Questions about minima: how many at an overlap and a loss, and what they are like."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from theory.answers import Printed
from theory.checks import ParameterError, finite, one, positive, ratio
from theory.minima import saddle
from theory.minima.labels import Labels, labels
from theory.minima.saddle import Saddle
from theory.minima.stability import towards_teacher
from theory.model import Network, network

Array = NDArray[np.float64]

STEPS = 0.14, 0.1, 0.07, 0.05  # of the trapezoid, taken until two agree: their difference is the error told
ENOUGH = 1e-7
FLOOR = 1e-14
ALIKE = 1e-3  # difference of two steps above which an extremum is one of the nodes, not of the integrals
_STRIDE = 0.1  # of the logarithm of the loss
_TURNS = 9
_MORE = 4.0  # times alpha, where minima are looked for that are not found at alpha
_EDGE = 1e-6  # probability of the law at the rim of the nodes above which the nodes do not hold it


@dataclass(frozen=True, repr=False)
class Minima(Printed):
    """The minima at one alpha, overlap and (where it was asked for) loss.

    complexity   Sigma, of the mean number exp(N Sigma): annealed, an upper bound of what one sample has
    kind         "stable" (their Hessian has a gap), "marginal" (it has none) or "unresolved"
    overlap      m, with the teacher
    loss         mean loss of a sample
    force        E l'^2
    multiplier   s = alpha E[lambda l'], what the sphere takes off the Hessian: lowest eigenvalues are those of H - s
    instability  largest eigenvalue of s - H towards the teacher, as far as its sign goes: above 0 the minima are saddles
    error        of the complexity, from the step of the nodes
    saddle, step the extremum, and the step of the nodes that hold its law

    NaN where the kind is "unresolved". `label_law` gives the law of their labels.
    """

    complexity: float
    kind: str
    overlap: float
    loss: float
    force: float
    multiplier: float
    instability: float
    error: float
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
    model, alpha, overlap = checked(model, alpha, overlap)
    if loss is not None:
        loss = one("loss", positive("loss", loss))
    found, error, step = _found(model, alpha, overlap, loss, [m.saddle for m in near if m.saddle is not None])
    if found is None:
        nan = math.nan
        return Minima(nan, "unresolved", overlap, nan, nan, nan, nan, nan)
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


def _found(
    model: Network, alpha: float, overlap: float, loss: float | None, near: Sequence[Saddle]
) -> tuple[Saddle | None, float, float]:
    """The highest extremum that stays as the nodes become finer and that they hold; its error, and the step."""
    for first, h in enumerate(
        STEPS[:-1]
    ):  # where the law has a thin border, coarse nodes show other extrema only
        nodes = labels(model, overlap, h)
        begun = near if loss is None or near else _to_loss(nodes, alpha, loss)
        held = saddle.extremum(nodes, alpha, loss, begun) or _followed(model, alpha, overlap, loss, h)
        refined = held and _refined(model, alpha, overlap, loss, held, STEPS[first:])
        if refined:
            return refined
    return None, math.nan, math.nan


def _refined(
    model: Network, alpha: float, overlap: float, loss: float | None, held: Saddle, steps: Sequence[float]
) -> tuple[Saddle, float, float] | None:
    """The extremum at finer nodes, with its last change and step; None where it does not stay."""
    error, step = math.inf, steps[0]
    for h in steps[1:]:
        nodes = labels(model, overlap, h)
        finer = saddle.continued(nodes, alpha, loss, held)
        if finer is None or _rim(nodes, finer) > _EDGE:
            break
        error, step, held = abs(finer.value - held.value) + FLOOR, h, finer
        if error < ENOUGH:
            break
    return (held, error, step) if error < ALIKE else None


def _followed(model: Network, alpha: float, overlap: float, loss: float | None, h: float) -> Saddle | None:
    """The extremum where it is found nowhere else: followed from m = 0 and a larger alpha in small steps."""
    held: list[Saddle] = []
    for turn in np.linspace(0, 1, _TURNS):
        m, more = overlap * math.sin(turn * math.pi / 2), alpha * _MORE ** (1 - turn)
        found = saddle.extremum(labels(model, m, h), more, loss, held)
        if found is None:
            return None
        held = [found]
    return held[0]


def _to_loss(nodes: Labels, alpha: float, loss: float) -> list[Saddle]:
    """The extremum at a loss, followed from that of free loss in small steps; empty where that fails."""
    found = saddle.extremum(nodes, alpha, None)
    if found is None:
        return []
    start = float(found.probability @ nodes.loss)
    steps = max(2, math.ceil(abs(math.log(loss / start)) / _STRIDE))
    for target in np.geomspace(start, loss, steps + 1)[1:]:
        found = saddle.extremum(nodes, alpha, float(target), [found])
        if found is None:
            return []
    return [found]


def _answer(nodes: Labels, alpha: float, found: Saddle, error: float, step: float) -> Minima:
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


def _rim(nodes: Labels, found: Saddle) -> float:
    """Probability of the law next to the end of the nodes."""
    outer = (np.abs(nodes.lam) > 8.5) | (np.abs(nodes.v) > 8.5)
    return float(found.probability[outer].sum())


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
