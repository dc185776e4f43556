"""Observables of samples: what each says, and the averages of one (N, alpha) with their bootstrap errors and intervals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from bbp.analysis.bootstrap import PARTS, bootstrap, fraction
from bbp.experiments import models
from bbp.experiments.models import Model
from bbp.files.variables import DONE

if TYPE_CHECKING:  # bbp.info has no need of JAX
    from sims.sampling import PointResult

NAMES = ("lowest", "overlap", "phi", "phi_group", "gap")


def mean_overlap(model: Model, overlaps: NDArray[np.float64]) -> NDArray[np.float64]:
    """q2 of each sample: the mean of overlaps (..., eigenpair) over the p p_star lowest eigenvectors,
    of the lowest alone where they are unlike (`models.group`)."""
    return overlaps[..., : models.group(model)].mean(axis=-1)


def observables(sweep: xr.Dataset) -> xr.Dataset:
    """What each sample says, over the dimensions of `status`; NaN where one was not run, failed or cannot say.

    Variables of the answer:

    eigenvalues   (..., eigenpair) the lowest, in units of the Hessian
    lowest        smallest eigenvalue, in units of the Hessian
    overlap       mean squared overlap q2 of the p p_star lowest eigenvectors with the signal space
    phi           1 where the eigenvector of largest overlap is that of the smallest eigenvalue (the paper's order parameter)
    phi_group     1 where it is among the p p_star lowest: the same for p = p_star = 1, and what survives degeneracy
    gap           distance from the p p_star lowest eigenvalues to the next one, in units of the Hessian

    and every other number over the samples that the sweep holds, by its own name; of one over eigenpairs the lowest's.
    """
    model = models.of(sweep)
    size, done = models.group(model), sweep.status.values == DONE
    dims = sweep.status.dims
    values, overlaps = (
        np.where(done[..., None], sweep[name].transpose(*dims, "eigenpair").values, np.nan)
        for name in ("eigenvalues", "overlaps")
    )
    rank = np.where(done, sweep.max_overlap_rank.values, np.nan)
    gap = (
        values[..., size] - values[..., size - 1] if values.shape[-1] > size else np.full(done.shape, np.nan)
    )
    found: dict[str, Any] = {
        "lowest": (dims, values[..., 0]),
        "overlap": (dims, mean_overlap(model, overlaps)),
        "phi": (dims, np.where(np.isnan(rank), np.nan, rank == 0)),
        "phi_group": (dims, np.where(np.isnan(rank), np.nan, rank < size)),
        "gap": (dims, gap),
        "eigenvalues": ((*dims, "eigenpair"), values),
    }
    for name, more in sweep.data_vars.items():
        own = name in _OWN or name in found or more.dtype.kind not in "fiu"
        if not own and more.dims in (dims, (*dims, "eigenpair")):
            lowest = more.isel(eigenpair=0) if "eigenpair" in more.dims else more
            found[str(name)] = dims, np.where(done, lowest.values, np.nan), more.attrs
    return xr.Dataset(found, {dim: sweep[dim] for dim in dims if dim in sweep.coords})


_OWN = ("overlaps", "residuals", "max_overlap_rank", "status")


def of_samples(model: Model, found: PointResult) -> xr.Dataset:
    """`observables` of one point's samples, each (sample,)."""
    pairs = {name: (("sample", "eigenpair"), getattr(found, name)) for name in ("eigenvalues", "overlaps")}
    rank = np.where(found.max_overlap_rank < 0, np.nan, found.max_overlap_rank)
    alone = {"status": ("sample", found.status), "max_overlap_rank": ("sample", rank)}
    return observables(xr.Dataset(pairs | alone, attrs=models.record(model)))


def estimates(sweep: xr.Dataset, *, repeats: int = 1000, seed: int = 0) -> xr.Dataset:
    """Averages over the samples of every (n, alpha): NAME, NAME_error, NAME_low, NAME_high of each observable, of any name.

    The bootstrap's own seed makes it repeatable.
    """
    rng = np.random.default_rng(seed)
    seen = observables(sweep).drop_vars("eigenvalues").transpose(..., "sample")
    found: dict[str, Any] = {}
    for name in dict.fromkeys((*NAMES, *map(str, seen.data_vars))):
        rows = seen[name].values
        each = [
            [
                fraction(cell) if name.startswith("phi") else bootstrap(cell, rng, repeats=repeats)
                for cell in row
            ]
            for row in rows
        ]
        for part in PARTS:
            end = "" if part == "value" else f"_{part}"
            found[name + end] = ("n", "alpha"), np.array([[getattr(e, part) for e in row] for row in each])
    return xr.Dataset(found, {"n": seen.n, "alpha": seen.alpha})
