"""Averages over the samples of each (N, alpha), with bootstrap errors and intervals, and the table that closes a sweep."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from bbp.analysis.bootstrap import PARTS, bootstrap, fraction
from bbp.experiments import models
from bbp.exports.digits import decimals
from bbp.files.variables import DONE, FAILED, described
from theory.model import Network


def summarise(sweep: xr.Dataset) -> xr.Dataset:
    """Averages over the samples of a sweep that are done, (n, alpha), beside the theory.

    samples, failed        numbers of samples
    lowest, overlap, gap   means of bbp.analysis.summary, with NAME_error, the standard error; NaN from fewer samples
                           than it needs; so every other number that the sweep holds of its samples
    phi_group              share, with phi_group_error and the ends _low and _high of its 95 % interval
    theory_edge, ...       what theory says along alpha
    """
    seen = observables(sweep).drop_vars("eigenvalues")
    grid = tuple(dim for dim in seen.lowest.dims if dim != "sample")
    found: dict[str, tuple] = {"samples": (grid, (sweep.status == DONE).sum("sample").values)}
    for name in dict.fromkeys(("lowest", "overlap", "phi_group", "gap", *seen.data_vars)):
        values = seen[name].transpose(..., "sample").values
        if name == "phi_group":
            each = [fraction(row) for row in values.reshape(-1, values.shape[-1])]
            for part in PARTS:
                column = np.array([getattr(e, part) for e in each]).reshape(values.shape[:-1])
                found["phi_group" if part == "value" else f"phi_group_{part}"] = grid, column
        elif name != "phi":
            mean, error = mean_and_error(values)
            found |= {str(name): (grid, mean, seen[name].attrs), f"{name}_error": (grid, error)}
    for name in ("edge", "outlier", "overlap"):
        found[f"theory_{name}"] = "alpha", sweep[f"theory_{name}"].values
    found["failed"] = grid, (sweep.status == FAILED).sum("sample").values
    return described(xr.Dataset(found, {dim: sweep[dim].values for dim in grid}, {"ordered": 1}))


def mean_and_error(values: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean and standard error along the last axis, leaving out NaN: (...,), (...,); NaN from none, or from one."""
    values = np.asarray(values, dtype=np.float64)
    found = np.isfinite(values)
    number = found.sum(axis=-1)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.where(found, values, 0).sum(axis=-1) / number
        squares = np.where(found, (values - mean[..., None]) ** 2, 0).sum(axis=-1)
        return mean, np.sqrt(squares / (number - 1) / number)


def table(sweep: xr.Dataset) -> str:
    """The closing table of one model: samples and theory side by side, a block of rows for each n."""
    seen, model = summarise(sweep), models.of(sweep)
    lines = [f"{models.words(model)}: {models.threshold_words(sweep.alpha_bbp, sweep.kind)}"]
    levels, shares = _places(seen.lowest_error.values), _places(seen.overlap_error.values)
    own = own_names(seen)
    head = "  ".join([_head(models.group(model)), *(f"{name:>18}" for name in own)])
    digits = {name: _places(seen[f"{name}_error"].values) for name in own}
    for n in seen.n.values:
        lines += ["", f"N = {n}", head]
        for alpha in seen.alpha.values:
            row = {name: values.item() for name, values in seen.sel(n=n, alpha=alpha).data_vars.items()}
            cells = [
                f"{alpha:9.6g}",
                f"{row['samples']:8d}",
                _measured(row["lowest"], row["lowest_error"], levels),
                _measured(row["overlap"], row["overlap_error"], shares),
                *(_number(row[name], levels) for name in ("theory_edge", "theory_outlier")),
                _number(row["theory_overlap"], shares),
                *(_measured(row[name], row[f"{name}_error"], digits[name]) for name in own),
            ]
            lines.append("  ".join(cells))
    return "\n".join(lines)


def _head(group: int) -> str:
    """Names of the columns; (inf) marks theory at N = infinity, q2 is a mean over the p p_star = group lowest vectors."""
    overlap = "q2" if group == 1 else f"q2, mean of {group}"
    names = [f"{name:>9}" for name in ("edge(inf)", "out(inf)", "q2(inf)")]
    return "  ".join(["    alpha", " samples", f"{'lowest eigenvalue':>18}", f"{overlap:>18}", *names])


def _places(errors: NDArray[np.float64]) -> int:
    """Decimals of a column: two digits of a middling error; 4 where no error is known."""
    known = errors[errors > 0]
    places = decimals(float(np.median(known))) if known.size else None
    return 4 if places is None else min(max(places, 0), 15)


def _measured(mean: float, error: float, places: int) -> str:
    alone = f"{mean:.{places}f}"
    text = "-" if np.isnan(mean) else alone if np.isnan(error) else f"{alone} ± {error:.{places}f}"
    return f"{text:>18}"


def _number(value: float, places: int) -> str:
    return f"{'-' if np.isnan(value) else f'{value:.{places}f}':>9}"


if TYPE_CHECKING:  # bbp.info has no need of JAX
    from sims.sampling import PointResult

NAMES = ("lowest", "overlap", "phi", "phi_group", "gap")


def mean_overlap(model: Network, overlaps: NDArray[np.float64]) -> NDArray[np.float64]:
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


def own_names(found: xr.Dataset) -> list[str]:
    """The observables of one's own that a sweep, its averages or its comparison hold, by name."""
    return [str(name) for name, values in found.data_vars.items() if "observable" in values.attrs]


_OWN = ("overlaps", "residuals", "max_overlap_rank", "status")


def of_samples(model: Network, found: PointResult) -> xr.Dataset:
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
            attributes = {} if end else seen[name].attrs
            cells = np.array([[getattr(e, part) for e in row] for row in each])
            found[name + end] = ("n", "alpha"), cells, attributes
    return xr.Dataset(found, {"n": seen.n, "alpha": seen.alpha})
