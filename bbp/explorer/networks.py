"""Models with options (activation, loss, noise, covariance, overlap): their numbers at once, their curves in a worker; the
numbers too where students mix, as each edge then solves for p x p matrices."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np

from bbp.explorer.state import State
from theory.answers import Threshold
from theory.checks import NotConverged, ParameterError
from theory.general.density import density_curve
from theory.general.results import Found, without_edge
from theory.general.spectrum import route, solve, spectrum, threshold
from theory.model.network import Network

Message = dict[str, Any]

REACH = 3.0  # the axis of alpha ends at this times alpha_BBP
NO_THRESHOLD = 6.0  # or here, where there is none
BRANCH = ("alpha", "edge", "outlier", "overlap")
DENSITY_POINTS, MASS = 120, 0.8
POINTS, AT_ONCE = 40, 4  # of a curve, and between two looks at whether it is still wanted
SLOW_POINTS, WIDEST = 12, 8  # where students mix: points of a curve, and the width that a page takes


def is_slow(model: Network) -> bool:
    """Whether edge and outliers take seconds to minutes. Raises ParameterError where they take longer than anyone waits."""
    if route(model) != "points":
        return False
    if model.p > WIDEST:
        raise ParameterError(
            f"the theory of this combination takes too long for a page: at p = {model.p:g} its students mix, and every edge "
            f"solves for p × p matrices. Choose p up to {WIDEST}, or leave the overlap at 0 and the activation quadratic; "
            "theory.general.spectrum computes it"
        )
    return True


@lru_cache(maxsize=256)
def at(model: Network, alpha: float) -> Found:
    """Edge and outliers."""
    return solve(model, alpha)


@lru_cache(maxsize=256)
def threshold_of(model: Network) -> Threshold:
    """alpha_BBP of a model that is not slow."""
    return threshold(model)


def axis_end(model: Network, alpha: float) -> float:
    """Where the axis of alpha ends: in steps of two, so that it stands still while alpha moves a little."""
    start = math.nan if is_slow(model) else threshold_of(model).alpha
    end = REACH * start if math.isfinite(start) else NO_THRESHOLD
    return end * 2.0 ** max(0, math.ceil(math.log2(1.02 * alpha / end)))


def curves(request: Message) -> Iterator[Message]:
    """Density, then edge, lowest outlier and overlap along alpha, a few points at a time.

    request: "state" (values), "branch" (whether the curves along alpha are wanted). Messages carry "here" (edge and outliers),
    one "density" (columns) and "atom", or "reason" (why there is none), the last one "columns" (None if they were not wanted);
    those of a slow model come as far as they are known.
    """
    state = State.of(request["state"])
    model = state.model
    if model.is_committee:
        raise ParameterError("a committee without options has its curves already")
    slow = is_slow(model)
    yield {"kind": "progress", "done": 0.02, "text": "edge and outliers"}
    here = _found(model, state.alpha)
    yield {"kind": "progress", "done": 0.1, "text": "density", "here": here}
    yield {"kind": "progress", "done": 0.2, "text": "density", "here": here} | _density(
        model, state.alpha, here
    )
    columns = None
    if request["branch"]:
        end = axis_end(model, state.alpha)
        count, step = (SLOW_POINTS, 1) if slow else (POINTS, AT_ONCE)
        alphas, rows = np.linspace(end / count, end, count), []
        for first in range(0, count, step):
            part = alphas[first : first + step]
            found = spectrum(model, part)
            teacher = np.nan_to_num(found.overlap * found.teacher_share)
            rows.append(np.array([part, found.edge, found.outlier, teacher]))
            columns = dict(zip(BRANCH, np.concatenate(rows, axis=1), strict=True))
            done = 0.2 + 0.8 * (first + step) / count
            known = {"columns": columns} if slow else {}
            yield {"kind": "progress", "done": done, "text": "edge and outlier against α"} | known
    yield {"kind": "result", "columns": columns}


def _found(model: Network, alpha: float) -> Found:
    try:
        return at(model, alpha)
    except NotConverged as error:
        return without_edge("points", str(error))


def _density(model: Network, alpha: float, here: Found) -> Message:
    try:
        curve = density_curve(model, alpha, DENSITY_POINTS, MASS, known=here)
    except (ParameterError, NotConverged) as error:
        return {"reason": str(error)}
    return {"density": {"lam": curve.lam, "rho": curve.rho}, "atom": curve.atom}
