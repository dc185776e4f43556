"""Models with options (activation, loss, noise, covariance, overlap): their numbers at once, their curves in a worker."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np

from bbp.explorer.state import State
from theory.checks import NotConverged, ParameterError
from theory.general.density import density_curve
from theory.general.network import Network
from theory.general.results import ModelThreshold, Spectrum
from theory.general.spectrum import lowest_branch, route, spectrum, threshold

Message = dict[str, Any]

REACH = 3.0  # the axis of alpha ends at this times alpha_BBP
NO_THRESHOLD = 6.0  # or here, where there is none
BRANCH = ("alpha", "edge", "outlier", "overlap")
DENSITY_POINTS, MASS = 120, 0.8
POINTS, AT_ONCE = 40, 4  # of a curve, and between two looks at whether it is still wanted


@lru_cache(maxsize=256)
def at(model: Network, alpha: float) -> Spectrum:
    """Edge and outliers. Raises ParameterError where that would take longer than a page should wait."""
    if route(model) == "points":
        raise ParameterError(
            f"the theory of this combination takes too long for a page: at p = {model.p:g} its students mix, and every edge "
            "solves for p × p matrices, seconds to minutes. Choose p = 1, or leave the overlap at 0 and the activation "
            "quadratic; theory.general.spectrum computes it"
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


def curves(request: Message) -> Iterator[Message]:
    """Density, then edge, lowest outlier and overlap along alpha, a few points at a time.

    request: "state" (values), "branch" (whether the curves along alpha are wanted). One message carries "density" (columns) and
    "atom", or "reason" (why there is none), the last one "columns" (None if they were not wanted).
    """
    state = State.of(request["state"])
    model = state.model
    if not isinstance(model, Network):
        raise ParameterError("a committee without options has its curves already")
    yield {"kind": "progress", "done": 0.05, "text": "density"}
    yield {"kind": "progress", "done": 0.2, "text": "density"} | _density(model, state.alpha)
    rows = []
    if request["branch"]:
        end = axis_end(model, state.alpha)
        alphas = np.linspace(end / POINTS, end, POINTS)
        for first in range(0, POINTS, AT_ONCE):
            part = alphas[first : first + AT_ONCE]
            found = lowest_branch(model, part)
            teacher = np.nan_to_num(found.overlap * found.teacher_share)
            rows.append(np.array([part, found.edge, found.outlier, teacher]))
            done = 0.2 + 0.8 * (first + AT_ONCE) / POINTS
            yield {"kind": "progress", "done": done, "text": "edge and outlier against α"}
    columns = dict(zip(BRANCH, np.concatenate(rows, axis=1), strict=True)) if rows else None
    yield {"kind": "result", "columns": columns}


def _density(model: Network, alpha: float) -> Message:
    try:
        curve = density_curve(model, alpha, DENSITY_POINTS, MASS, known=at(model, alpha))
    except (ParameterError, NotConverged) as error:
        return {"reason": str(error)}
    return {"density": {"lam": curve.lam, "rho": curve.rho}, "atom": curve.atom}
