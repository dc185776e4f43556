"""Finite-N curves for the page, as a generator of messages (dictionaries), in a worker's process.

A message has "kind": "progress" (with "done" from 0 to 1 and "text"), or "result" and what belongs to it.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from bbp.explorer.state import State
from theory.checks import NotConverged, ParameterError
from theory.finite.law import finite_law
from theory.finite.validity import UNKNOWN, doubts
from theory.model import Network

Message = dict[str, Any]

CURVE_POINTS = 24
MOST_LABELS = 400_000  # M p of one draw of a finite-N curve
WORK = 1.5e7  # labels drawn for one curve
DRAWS = 20, 60  # least and most: a curve takes some seconds
SEED = 0


def draws_of(state: State, top: float) -> int:
    """Draws of labels that a finite-N curve up to alpha = top affords. Raises ParameterError where even a few are too many."""
    if not state.model.is_committee:
        raise ParameterError("finite-N curves are known for the quadratic committee without options")
    if math.isinf(state.p):
        raise ParameterError("finite-N curves need a finite p")
    entries = state.n * top * state.p
    if entries > MOST_LABELS:
        largest = int(MOST_LABELS / (top * state.p))
        raise ParameterError(f"finite-N curves are drawn up to N = {largest} for this model")
    return int(np.clip(WORK / (entries * CURVE_POINTS), *DRAWS))


def finite_curve(request: Message) -> Iterator[Message]:
    """Mean and standard deviation of one sample's lowest eigenvalue and q2 along alpha (`finite_law`), point by point.

    request: "state" (values), "alphas". The result has columns alpha, lowest, lowest_low, ...; points without a law are left
    out.
    """
    state, alphas = State.of(request["state"]), [float(alpha) for alpha in request["alphas"]]
    draws = draws_of(state, alphas[-1])
    model, rows = Network(state.p, state.p_star, state.a), list[list[float]]()
    said = f": {UNKNOWN}" if doubts(model, alphas, [state.n]) else ""
    for index, alpha in enumerate(alphas):
        with contextlib.suppress(NotConverged):
            law = finite_law(model, alpha, state.n, draws=draws, seed=SEED)
            rows.append([alpha])
            for name in ("lowest", "overlap"):
                middle, spread = law.mean(name)[0], law.std(name)
                rows[-1] += [middle, middle - spread, middle + spread]
        yield {
            "kind": "progress",
            "done": (index + 1) / len(alphas),
            "text": f"finite-N curve, {draws} draws{said}",
        }
    names = ("alpha", "lowest", "lowest_low", "lowest_high", "overlap", "overlap_low", "overlap_high")
    table = np.array(rows).reshape(-1, len(names))
    yield {"kind": "result", "columns": dict(zip(names, table.T, strict=True)), "draws": draws, "doubt": said}
