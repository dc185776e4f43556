"""Samples of the Hessian for the page: all eigenvalues of a small one, the lowest of a larger one, and its quenched theory.

Runs in a worker's process: importing it loads JAX.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bbp.experiments import models
from bbp.explorer.limits import sampling_of
from bbp.explorer.state import State
from sims import instance, sampling
from theory.finite.quenched import quenched
from theory.model import Network

Message = dict[str, Any]


def draw_sample(request: Message) -> Iterator[Message]:
    """One sample with index request["sample"] and its own labels' prediction; eigenvalues, overlaps, edge, outliers.

    request: "state" (values), "seed", "sample". The result: "eigenvalues" (k,) of "order", "lowest", "overlap" (mean of those
    that carry the teacher: `models.group`), "predicted" with edge, outliers, overlap (None for a model with options);
    "complete" if these are all eigenvalues.
    """
    state = State.of(request["state"])
    pairs, solver = sampling_of(state)
    model = state.model
    order, size = int(state.p) * state.n, models.group(model)
    predicted = None
    if model.is_committee:
        yield {"kind": "progress", "done": 0.15, "text": "quenched theory of its labels"}
        predicted = _predicted(model, state, request)
    what = "diagonalising" if solver == "dense" else "lowest eigenvalues of"
    yield {"kind": "progress", "done": 0.4, "text": f"{what} a matrix of order {order}"}
    found = sampling.sample_point(
        model, state.n, state.alpha, [request["sample"]], request["seed"], eigenpairs=pairs, solver=solver
    )
    if found.status[0] != sampling.DONE:
        yield {"kind": "failed", "text": f"the sample failed: {found.reasons[0]}"}
        return
    values, overlaps = found.eigenvalues[0], found.overlaps[0]
    yield {
        "kind": "result",
        "eigenvalues": values,
        "order": order,
        "complete": len(values) == order,
        "lowest": float(values[0]),
        "overlap": float(np.mean(overlaps[:size])),
        "predicted": predicted,
        "below": int(np.sum(values < predicted["edge"])) if predicted else 0,
    }


def _predicted(model: Network, state: State, request: Message) -> dict[str, float | NDArray[np.float64]]:
    """Edge, outliers and overlap that quenched theory gives for the labels of the sample."""
    drawn = instance.draw(model, state.n, state.alpha, seed=request["seed"], sample=request["sample"])
    lam, u = instance.labels(drawn)
    found = quenched(model, np.asarray(lam), np.asarray(u), state.n)
    return {
        "edge": found.edge,
        "outliers": found.outliers[np.isfinite(found.outliers)],
        "overlap": float(np.mean(np.nan_to_num(found.overlaps))),
    }
