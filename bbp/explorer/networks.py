"""Models with options (activation, loss, noise, covariance, overlap): their numbers at once, their curves in a worker."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np

from bbp.explorer.state import State
from theory.checks import ParameterError
from theory.general.network import Network
from theory.general.results import ModelThreshold, Spectrum
from theory.general.spectrum import lowest_branch, route, spectrum, threshold

Message = dict[str, Any]

REACH = 3.0  # the axis of alpha ends at this times alpha_BBP
NO_THRESHOLD = 6.0  # or here, where there is none
POINTS, AT_ONCE = 40, 4  # of a curve, and between two looks at whether it is still wanted


@lru_cache(maxsize=256)
def at(model: Network, alpha: float) -> Spectrum:
    """Edge and outliers. Raises ParameterError where that would take longer than a page should wait."""
    if route(model) == "points":
        raise ParameterError(
            "the theory of this combination takes too long for a page: choose p = 1, or leave the overlap at 0 and the "
            "activation quadratic; theory.general.spectrum computes it"
        )
    return spectrum(model, alpha)


@lru_cache(maxsize=256)
def threshold_of(model: Network) -> ModelThreshold:
    """alpha_BBP of a model that `at` takes."""
    return threshold(model)


def axis_end(model: Network, alpha: float) -> float:
    """Where the axis of alpha ends: in steps of two, so that it stands still while alpha moves a little."""
    start = threshold_of(model).alpha
    end = REACH * start if math.isfinite(start) else NO_THRESHOLD
    return end * 2.0 ** max(0, math.ceil(math.log2(1.02 * alpha / end)))


def branch(request: Message) -> Iterator[Message]:
    """Edge, lowest outlier and overlap along alpha, a few points at a time. request: "state" (values)."""
    state = State.of(request["state"])
    model = state.model
    if not isinstance(model, Network):
        raise ParameterError("a committee without options has its curves already")
    end = axis_end(model, state.alpha)
    alphas, rows = np.linspace(end / POINTS, end, POINTS), []
    for first in range(0, POINTS, AT_ONCE):
        part = alphas[first : first + AT_ONCE]
        found = lowest_branch(model, part)
        teacher = np.nan_to_num(found.overlap * found.teacher_share)
        rows.append(np.array([part, found.edge, found.outlier, teacher]))
        yield {"kind": "progress", "done": (first + AT_ONCE) / POINTS, "text": "edge and outlier against α"}
    table = np.concatenate(rows, axis=1)
    yield {
        "kind": "result",
        "columns": dict(zip(("alpha", "edge", "outlier", "overlap"), table, strict=True)),
    }
