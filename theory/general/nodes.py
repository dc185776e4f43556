"""Networks whose resolvent is a multiple of the identity, at one alpha and along alpha: `theory.general.isotropic` on nodes.

Product rules are refined until nothing moves, the last change is the error. Where they do not settle panels are taken that
resolve the place of the edge (`theory.general.laws`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from theory.answers import Edge, Found, Threshold, changed, changed_threshold, without_edge
from theory.checks import NotConverged
from theory.general.isotropic import Isotropic
from theory.general.laws import across, infimum_of, node_law, panel_law
from theory.model.network import Network

UNBOUNDED = "no left edge: the weight is unbounded below"
STEPS = 0.11, 0.08, 0.057, 0.04  # of the product rules, tried in turn
_STEADY = 2e-12  # relative change from one step to the next at which refinement ends
_ENOUGH = 1e-9  # with which product rules are content
_PANELS = (1e-8, 120_000), (1e-10, 300_000), (1e-12, 700_000)  # tolerances and most nodes, in turn
_NEARER = 8  # times that d is lowered, each time by a factor of 30
Solve = Callable[[Isotropic], tuple[Any, float | None]]
_ALONG = "p = inf: with a loss that is not convex the sum of the students, which is left out, may lie lowest"


def node_spectrum(model: Network, alpha: float) -> Found:
    """G a multiple of the identity: `Isotropic` on nodes, steps are halved until nothing moves."""
    if not math.isfinite(infimum_of(model).value):
        return without_edge("nodes", UNBOUNDED)
    if not across(model):
        return without_edge("nodes", _ALONG, "unresolved")
    return _refined(model, lambda law: found_at(law, alpha, "nodes"), changed)


def node_threshold(model: Network) -> Threshold:
    """The same of its threshold, rare weights counted."""
    if not math.isfinite(infimum_of(model).value):
        return Threshold(math.nan, "no edge", math.nan, route="nodes", reason=UNBOUNDED)
    if not across(model):
        return Threshold(math.nan, "unresolved", math.nan, route="nodes", reason=_ALONG)
    return typical_threshold(model, rare=True)


def typical_threshold(model: Network, rare: bool = False) -> Threshold:
    """The threshold by nodes, at p = inf without the rare weights (`theory.general.extremes`), or with them."""
    return _refined(model, lambda law: first_threshold(law, "nodes"), changed_threshold, rare)


def found_at(problem: Isotropic, alpha: float, taken: str) -> tuple[Found, float]:
    """Edge and outliers, and d at the edge."""
    value, kind, d = problem.edge(alpha)
    # One that is the edge to rounding has not left.
    pulled = [] if kind == "atom" else [o for o in problem.outliers(alpha, d) if o.value < value]
    return Found(Edge(value, kind, 0.0, taken), tuple(pulled)), d


def first_threshold(problem: Isotropic, taken: str) -> tuple[Threshold, float | None]:
    """The first threshold of the blocks that hold teacher directions, where that outlier enters the bulk again, and d of the
    edge there."""
    found: list[tuple[Threshold, float]] = []
    for index, block in enumerate(problem.law.blocks):
        if np.any(block.teacher):
            found += problem.thresholds(index)
    if not found:
        reason = "no outlier at any alpha"
        return Threshold(math.nan, "none", math.nan, route=taken, reason=reason), None
    found.sort(key=lambda each: each[0].alpha)
    (first, d), *later = found
    return replace(first, route=taken, until=later[0][0].alpha if later else math.inf), d


def _refined(model: Network, solve: Solve, merge: Callable[[Any, Any], Any], rare: bool = True) -> Any:
    """Results at finer and finer steps until `merge` of the last two calls them steady; where they do not become so by panels
    that resolve the place of the edge, at finer and finer tolerances."""
    rough, _ = solve(node_problem(model, STEPS[0], rare))
    for step in STEPS[1:]:
        fine, d = solve(node_problem(model, step, rare))
        merged = merge(rough, fine)
        if merged.steady(_STEADY):
            return merged
        rough = fine
    if merged.steady(_ENOUGH) or d is None:
        return merged
    # Product rules do not settle: panels about the edge that they have found.
    rough = None
    for bounds in _PANELS:
        fine, d = _resolved(model, solve, d, bounds, rare)
        if d is None:
            return merged
        if rough is not None:
            merged = merge(rough, fine)
            if merged.steady(_STEADY):
                break
        rough = fine
    return merged


@lru_cache(maxsize=64)
def node_problem(model: Network, step: float, rare: bool) -> Isotropic:
    """The equations on nodes, which know where their line of sharp edges starts: once for every alpha."""
    return Isotropic(node_law(model, step, rare), model.levels())


def _resolved(
    model: Network, solve: Solve, d: float, bounds: tuple[float, int], rare: bool
) -> tuple[Any, float | None]:
    """The solution by panels that resolve d and beyond: nearer to q_min where the edge is not there. Raises NotConverged."""
    for _ in range(_NEARER):
        try:
            return solve(Isotropic(panel_law(model, d, *bounds, rare), model.levels(), d))
        except NotConverged as failure:
            # The edge was not at d or beyond.
            last, d = failure, d / 30
    raise last
