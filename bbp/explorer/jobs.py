"""Finite-N curves for the page, as a generator of messages (dictionaries), in a worker's process.

A message has "kind": "progress" (with "done" from 0 to 1 and "text"), or "result" and what belongs to it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from bbp.explorer.state import State
from theory.checks import ParameterError
from theory.finite_n.quenched import quenched

Message = dict[str, Any]

CURVE_POINTS = 24
MOST_LABELS = 400_000  # M p of one draw of a finite-N curve
WORK = 3e8  # label entries that one curve may touch
DRAWS = 4, 24  # least and most


def draws_of(state: State, top: float) -> int:
    """Draws of labels that a finite-N curve up to alpha = top affords. Raises ParameterError where even a few are too many."""
    if math.isinf(state.p):
        raise ParameterError("finite-N curves need a finite p")
    entries = state.n * top * state.p
    if entries > MOST_LABELS:
        largest = int(MOST_LABELS / (top * state.p))
        raise ParameterError(f"finite-N curves are drawn up to N = {largest} for this model")
    return int(np.clip(WORK / (entries * CURVE_POINTS * 30 * state.p), *DRAWS))


def finite_curve(request: Message) -> Iterator[Message]:
    """Quenched mean and standard deviation over draws of labels along alpha, point by point.

    request: "state" (values), "alphas". The result has columns alpha, lowest, lowest_low, ... as far as they are known.
    """
    state, alphas = State.of(request["state"]), np.asarray(request["alphas"], dtype=np.float64)
    draws, rng = draws_of(state, float(alphas[-1])), np.random.default_rng(0)
    rows: list[list[float]] = []
    for index, alpha in enumerate(alphas):
        m = max(1, round(alpha * state.n))
        found = [quenched(state.model, *state.model.draw_labels(m, rng), state.n) for _ in range(draws)]
        lowest = np.array([draw.lowest for draw in found])
        overlap = np.array([np.mean(np.nan_to_num(draw.overlaps)) for draw in found])
        rows.append([alpha])
        for values in (lowest, overlap):
            middle, spread = values.mean(), values.std(ddof=1)
            rows[-1] += [middle, middle - spread, middle + spread]
        yield {
            "kind": "progress",
            "done": (index + 1) / len(alphas),
            "text": f"finite-N curve, {draws} draws",
        }
    table = np.array(rows)
    names = ("alpha", "lowest", "lowest_low", "lowest_high", "overlap", "overlap_low", "overlap_high")
    yield {"kind": "result", "columns": dict(zip(names, table.T, strict=True)), "draws": draws}
