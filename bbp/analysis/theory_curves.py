"""Theory at N = infinity along alpha, fine enough to draw: edge, outlier and overlap with the start of the outlier in place."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bbp.analysis.comparison import Comparison
from bbp.experiments import models
from bbp.experiments.models import Model
from bbp.store import Sweep
from theory.general.spectrum import route

Array = NDArray[np.float64]

FINE = {"exact": 300, "nodes": 100}  # points of a curve, by what a point costs: microseconds, 15 ms
SIDE = 1e-9  # relative distance of two points from alpha_BBP, one on either side of it


@dataclass(frozen=True)
class TheoryCurves:
    """Curves over alpha (alpha,), rising.

    edge, outlier  units of the Hessian, NaN where there is none
    overlap        with the teacher, as the overlaps of samples: 0 without an outlier, NaN where theory is silent
    """

    alpha: Array
    edge: Array
    outlier: Array
    overlap: Array


def theory_curves(source: Sweep | Comparison) -> TheoryCurves:
    """Curves of the source's model a little beyond its range of alpha, with a point on either side of alpha_BBP.

    Where a point takes seconds (theory.general.spectrum.route "points"), or one does not converge, they are those of the
    file, and at alpha_BBP the outlier starts at the edge, between two points of the file.
    """
    found = None if _slow(source.model) else _computed(source)
    return _of_file(source) if found is None or np.all(np.isnan(found.edge)) else found


def _slow(model: Model) -> bool:
    return not model.is_committee and route(model) not in FINE


def _computed(source: Sweep | Comparison) -> TheoryCurves:
    low, high = float(source.alpha.min()), float(source.alpha.max())
    margin = 0.03 * (high - low) if high > low else 0.2 * low
    number = FINE["exact"] if source.model.is_committee else FINE[route(source.model)]
    alpha = np.linspace(max(low - margin, low / 2), high + margin, number)
    sides = source.alpha_bbp * np.array([1 - SIDE, 1 + SIDE])
    alpha = np.sort(np.concatenate([alpha, sides[(sides > alpha[0]) & (sides < alpha[-1])]]))
    found = models.theory_along(source.model, alpha)
    return TheoryCurves(alpha, found.edge, found.outlier, _filled(found.edge, found.outlier, found.overlap))


def _of_file(source: Sweep | Comparison) -> TheoryCurves:
    alpha, edge, outlier = source.alpha, source.edge, source.outlier
    overlap = _filled(edge, outlier, source.overlap)
    at = int(np.searchsorted(alpha, source.alpha_bbp))
    if not 0 < at < len(alpha) or np.isfinite(outlier[at - 1]):
        return TheoryCurves(alpha, edge, outlier, overlap)
    # A jump leaves a gap up to the next point of the file: its height is not known here.
    start = float(np.interp(source.alpha_bbp, alpha, edge))
    places, edges, outliers, overlaps = [source.alpha_bbp], [start], [start], [0.0]
    if source.kind != "continuous":
        places, edges, outliers, overlaps = places * 2, edges * 2, outliers * 2, [0.0, np.nan]
    return TheoryCurves(
        *(
            np.insert(whole, at, more)
            for whole, more in ((alpha, places), (edge, edges), (outlier, outliers), (overlap, overlaps))
        )
    )


def _filled(edge: Array, outlier: Array, overlap: Array) -> Array:
    return np.where(np.isfinite(edge) & np.isnan(outlier), 0.0, overlap)
