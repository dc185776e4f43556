"""Theory at N = infinity along alpha, fine enough to draw: edge, outlier and overlap with the start of the outlier in place."""

from __future__ import annotations

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from bbp.experiments import models
from theory.general.spectrum import route
from theory.model import Network

Array = NDArray[np.float64]

FINE = {"exact": 300, "nodes": 100}  # points of a curve, by what a point costs: microseconds, 15 ms
# Relative distance from alpha_BBP of a point on either side of it: what the threshold is known to.
SIDE = {"exact": 1e-9, "nodes": 1e-7}


def theory_curves(source: xr.Dataset) -> xr.Dataset:
    """Curves of the model of a sweep or comparison a little beyond its alphas, with a point on either side of alpha_BBP.

    theory_edge, theory_outlier (alpha) in units of the Hessian, NaN where there is none; theory_overlap with the teacher, as
    the overlaps of samples: 0 without an outlier, NaN where theory is silent. Where a point takes seconds
    (theory.general.spectrum.route "points"), one does not converge, or the model's own function is not at hand,
    they are those of the file, and at alpha_BBP the outlier
    starts at the edge, between two points of the file.
    """
    model = models.of(source)
    found = None if models.lacking(model) or _slow(model) else _computed(source, model)
    return _of_file(source) if found is None or not found.theory_edge.notnull().any() else found


def _slow(model: Network) -> bool:
    return not model.is_committee and route(model) not in FINE


def _computed(source: xr.Dataset, model: Network) -> xr.Dataset:
    low, high = float(source.alpha.min()), float(source.alpha.max())
    margin = 0.03 * (high - low) if high > low else 0.2 * low
    taken = "exact" if model.is_committee else route(model)
    alpha = np.linspace(max(low - margin, low / 2), high + margin, FINE[taken])
    sides = source.alpha_bbp * np.array([1 - SIDE[taken], 1 + SIDE[taken]])
    alpha = np.sort(np.concatenate([alpha, sides[(sides > alpha[0]) & (sides < alpha[-1])]]))
    found = models.theory_along(model, alpha)
    edge, outlier = found["edge"], found["outlier"]
    return _curves(alpha, edge, outlier, _filled(edge, outlier, found["overlap"]))


def _of_file(source: xr.Dataset) -> xr.Dataset:
    alpha, edge, outlier = source.alpha.values, source.theory_edge.values, source.theory_outlier.values
    overlap = _filled(edge, outlier, source.theory_overlap.values)
    at = int(np.searchsorted(alpha, source.alpha_bbp))
    if not 0 < at < len(alpha) or np.isfinite(outlier[at - 1]):
        return _curves(alpha, edge, outlier, overlap)
    # A jump leaves a gap up to the next point of the file: its height is not known here.
    start = float(np.interp(source.alpha_bbp, alpha, edge))
    places, edges, outliers, overlaps = [source.alpha_bbp], [start], [start], [0.0]
    if source.kind != "continuous":
        places, edges, outliers, overlaps = places * 2, edges * 2, outliers * 2, [0.0, np.nan]
    both = ((alpha, places), (edge, edges), (outlier, outliers), (overlap, overlaps))
    return _curves(*(np.insert(whole, at, more) for whole, more in both))


def _curves(alpha: Array, edge: Array, outlier: Array, overlap: Array) -> xr.Dataset:
    columns = {"theory_edge": edge, "theory_outlier": outlier, "theory_overlap": overlap}
    return xr.Dataset({name: ("alpha", values) for name, values in columns.items()}, {"alpha": alpha})


def _filled(edge: Array, outlier: Array, overlap: Array) -> Array:
    return np.where(np.isfinite(edge) & np.isnan(outlier), 0.0, overlap)
