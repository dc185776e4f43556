"""Theory behind the panels: numbers, density, branches over alpha, phases; cached, every call bounded in size.

All numbers are in units of the Hessian ((p/2) H for p = inf), as in `theory`. Of the quadratic committee everything is there at
once (`committee_density`, `committee_branch`). Of a model with options the numbers are, and its curves are computed beside the
page (`general_density`, `branch`); where students mix, each edge solves for p x p matrices, and the numbers take long too
(`is_slow`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bbp.explorer.state import WIDTHS
from theory.answers import Found, Threshold
from theory.checks import NotConverged, ParameterError
from theory.exact.transition import alpha_zero_map, critical_normalisation, threshold_map
from theory.general.density import atom, curve_places, density, density_curve
from theory.general.spectrum import route, solve, spectrum, threshold
from theory.model import Network

Array = NDArray[np.float64]
Columns = dict[str, Any]

BRANCH_POINTS = 90
ZOOM_POINTS = 60
DENSITY_POINTS = 150
DIGITS = 9  # of the density: the curve is right to 3e-5 of its maximum at worst (a sharp edge), 1e-9 in the median of models
MASS = 0.8  # of the bulk that the panel shows; the rest is a long tail to the right
REACH = 3.0  # the axis of alpha ends at this times alpha_BBP, or at twice, four times... that, to hold the present alpha
NO_THRESHOLD = 6.0  # or here, where there is none
GENERAL_POINTS, WIDEST = 120, 8  # of a density; the width that a page takes where students mix
A_RANGE, COLUMNS, TABLE = (
    (0.01, 30.0),
    240,
    3,
)  # of the picture of the phases; every third column is in its table
BELOW, BETWEEN, CONTINUOUS, DISCONTINUOUS = 0, 1, 2, 3  # phases


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


@lru_cache(maxsize=256)
def continued_zero(model: Network) -> float:
    """alpha_0 of a committee by continuation of its branch, NaN where there is none."""
    first = threshold_of(model)
    return float(alpha_zero_map(model.p, model.p_star, model.a, "continuation", thresholds=first))


@lru_cache(maxsize=256)
def critical(p: float, p_star: int, noise: float) -> float:
    """a_c, 0 where every transition is discontinuous."""
    return float(critical_normalisation(p, p_star, noise))


def axis_end(model: Network, alpha: float) -> float:
    """Where the axis of alpha ends: it moves in steps of two, so that it stands still while alpha moves a little."""
    start = math.nan if is_slow(model) else threshold_of(model).alpha
    end = REACH * start if math.isfinite(start) else NO_THRESHOLD
    return end * 2.0 ** max(0, math.ceil(math.log2(1.02 * alpha / end)))


def branch(model: Network, alphas: Array) -> Columns:
    """Edge, outlier (NaN: none) and q2 with the teacher (0: none) at these alphas."""
    found = spectrum(model, alphas)
    overlap = np.nan_to_num(found.overlap * found.teacher_share)
    return {"alpha": alphas, "edge": found.edge, "outlier": found.outlier, "overlap": overlap}


@lru_cache(maxsize=64)
def committee_branch(model: Network, end: float) -> Columns:
    """The branch of a committee from alpha = end/200 to `end`, with alpha_BBP itself twice, for the jump and the kink there."""
    start = threshold_of(model).alpha
    below = np.linspace(end / 200, start, 1 + max(20, int(BRANCH_POINTS * start / end)))[:-1]
    beyond = start + (end - start) * np.linspace(0, 1, BRANCH_POINTS - 40) ** 2
    beyond[0] = start * (1 + 1e-9)
    return branch(model, np.concatenate([below, [start * (1 - 1e-9)], beyond]))


def general_density(model: Network, alpha: float, here: Found) -> tuple[Columns, float] | str:
    """Density and the mass of the atom at 0 of any model whose edge is known; or why there is none."""
    try:
        curve = density_curve(model, alpha, GENERAL_POINTS, MASS, known=here)
    except (ParameterError, NotConverged) as error:
        return str(error)
    return {"lam": curve.lam, "rho": curve.rho}, curve.atom


@lru_cache(maxsize=64)
def committee_density(model: Network, alpha: float) -> tuple[Columns, float, Columns]:
    """Density of a committee, the mass of its atom, and the density at the edge, from left of all as far as right of it."""
    here = at(model, alpha)
    edge, lowest = here.edge, min([here.edge, *here.outliers])
    near = max(1.5 * (edge - lowest), 0.25 * abs(edge), 1e-3 * abs(lowest))
    close = edge + near * np.linspace(0, 1, ZOOM_POINTS) ** 2
    far = curve_places(model, alpha, edge, DENSITY_POINTS, MASS, DIGITS)
    rho = density(model, alpha, np.concatenate([far, close]), digits=DIGITS)
    # The pole at 0, if any, is left out.
    rho_far, rho_close = np.split(np.where(np.isfinite(rho), rho, np.nan), [len(far)])
    good = np.isfinite(rho_far)
    whole, window = {"lam": far[good], "rho": rho_far[good]}, {"lam": close, "rho": rho_close}
    return whole, float(atom(model, alpha)), window


def shares(model: Network, alpha: float, count: int) -> tuple[Array, Array]:
    """Distances from the edge of a committee where shares of the mass are reached, and the density there (count,); the last one
    `MASS`.

    The shares 2 x^3 - x^4, x even, lie evenly in the bulk and crowd at the edge, where the density is a root, in places
    that move smoothly with the model.
    """
    curve = density_curve(model, alpha, DENSITY_POINTS, MASS, digits=DIGITS)
    edge, rho = curve.spectrum.edge, curve.rho
    far = curve.lam - edge
    held = np.concatenate([[0.0], np.cumsum(np.diff(far) * (rho[1:] + rho[:-1]) / 2)])
    rising = np.concatenate([[True], np.diff(held) > 0])
    x = np.arange(1, count + 1) / count
    nodes = np.interp((2 * x**3 - x**4) * held[-1], held[rising], far[rising])
    height = density(model, alpha, edge + nodes, digits=DIGITS)
    good = np.isfinite(height)
    return nodes, np.interp(nodes, nodes[good], height[good])


@dataclass(frozen=True)
class PhaseMap:
    """Thresholds over (p, a) of one p_star, p in the order of WIDTHS, a as in `a` (columns,).

    alpha_bbp, alpha_0   (widths, columns); alpha_0 by the tangent of the overlap, alpha_BBP itself where continuous, NaN where
                         there is none
    a_c                  (widths,), 0 where every transition is discontinuous, as for p = inf without noise
    table                the same as columns p, a, alpha_bbp, alpha_0, a_c, at one in TABLE of the a
    """

    a: Array
    alpha_bbp: Array
    alpha_0: Array
    a_c: Array
    table: Columns


def phase_map(p_star: int, noise: float = 0.0) -> PhaseMap:
    """Thresholds over the widths and normalisations of the phase diagram: a sixth of a second."""
    p, a = np.array(WIDTHS, dtype=np.float64)[:, None], np.geomspace(*A_RANGE, COLUMNS)
    found, a_c = threshold_map(p, p_star, a, noise), np.asarray(critical_normalisation(p, p_star, noise))
    zero = alpha_zero_map(p, p_star, a, noise=noise, thresholds=found)
    rows = dict(
        zip(
            ("p", "a", "alpha_bbp", "alpha_0", "a_c"),
            np.broadcast_arrays(p, a, found.alpha, zero, a_c),
            strict=True,
        )
    )
    table = {name: values[:, ::TABLE].ravel() for name, values in rows.items()}
    return PhaseMap(a, found.alpha, zero, a_c[:, 0], table)


def phases(found: PhaseMap, alpha: float) -> NDArray[np.uint8]:
    """The phase at every (p, a): BELOW alpha_BBP and alpha_0, BETWEEN them, or above, by the kind of transition passed."""
    jumps = found.a >= found.a_c[:, None]
    above = np.where(jumps, DISCONTINUOUS, CONTINUOUS)
    below = np.where(jumps & (alpha >= found.alpha_0), BETWEEN, BELOW)
    return np.where(alpha > found.alpha_bbp, above, below).astype(np.uint8)


def nearest_row(p: float) -> float:
    """Where width p lies on the axis of rows: between two rows where it is none of WIDTHS, linear in log p."""
    if math.isinf(p):
        return len(WIDTHS) - 1.0
    finite = np.array(WIDTHS[:-1])
    return float(np.interp(math.log(p), np.log(finite), np.arange(len(finite))))
