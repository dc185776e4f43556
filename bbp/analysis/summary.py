"""A sweep's samples averaged, beside theory: observables, errors, finite-N theory, curves along alpha, the closing table."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from bbp.analysis.estimates import bootstrap, columns, decimals, fraction, lines
from bbp.experiments import models
from bbp.files.variables import DONE, FAILED, described, own_names
from theory import finite
from theory.checks import ParameterError
from theory.finite.law import has_bulk
from theory.general.spectrum import route
from theory.model import Network

if TYPE_CHECKING:  # bbp.info has no need of JAX
    from sims.sampling import PointResult

Array = NDArray[np.float64]

NAMES = ("lowest", "overlap", "phi", "phi_group", "gap")
_OWN = ("overlaps", "residuals", "max_overlap_rank", "status")
MOST_DRAWS, FEWEST_DRAWS = 100, 12  # of finite-N theory
LABELS = 5_000_000  # drawn in all for one model: some seconds
THEORY_N = ("lowest", "lowest_error", "lowest_std", "overlap", "overlap_error", "overlap_std", "informative")
FINE = {"exact": 300, "nodes": 100}  # points of a curve, by what a point costs: microseconds, 15 ms
# Relative distance from alpha_BBP of a point on either side of it: what the threshold is known to.
SIDE = {"exact": 1e-9, "nodes": 1e-7}


def mean_overlap(model: Network, overlaps: Array) -> Array:
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
    ParameterError where one of these has the name of an average.
    """
    require_names(map(str, sweep.data_vars))
    model, dims = models.of(sweep), sweep.status.dims
    size, done = models.group(model), sweep.status.values == DONE
    values, overlaps = (
        np.where(done[..., None], sweep[name].transpose(*dims, "eigenpair").values, np.nan)
        for name in ("eigenvalues", "overlaps")
    )
    rank = np.where(done, sweep.max_overlap_rank.values, np.nan)
    known = values.shape[-1] > size
    found: dict[str, Any] = {
        "lowest": (dims, values[..., 0]),
        "overlap": (dims, mean_overlap(model, overlaps)),
        "phi": (dims, np.where(np.isnan(rank), np.nan, rank == 0)),
        "phi_group": (dims, np.where(np.isnan(rank), np.nan, rank < size)),
        "gap": (dims, values[..., size] - values[..., size - 1] if known else np.full(done.shape, np.nan)),
        "eigenvalues": ((*dims, "eigenpair"), values),
    }
    for name, more in sweep.data_vars.items():
        own = name in _OWN or name in found or more.dtype.kind not in "fiu"
        if not own and more.dims in (dims, (*dims, "eigenpair")):
            lowest = more.isel(eigenpair=0) if "eigenpair" in more.dims else more
            found[str(name)] = dims, np.where(done, lowest.values, np.nan), more.attrs
    return xr.Dataset(found, {dim: sweep[dim] for dim in dims if dim in sweep.coords})


def require_names(columns: Iterable[str]) -> None:
    """ParameterError where a column of samples is named like another, or like an average made of them, which would hide it."""
    seen: set[str] = set()
    for name in columns:
        if name in NAMES:
            raise ParameterError(
                f"column {name!r} of a sweep must have a name of its own: an average is called so"
            )
        if name in seen:
            raise ParameterError(
                f"column {name!r} of a sweep must have a name of its own: another is called so"
            )
        seen.add(name)


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
    for name in map(str, seen.data_vars):
        how = fraction if name.startswith("phi") else partial(bootstrap, rng=rng, repeats=repeats)
        each = np.apply_along_axis(how, -1, seen[name].values)
        found |= columns(name, ("n", "alpha"), each, seen[name].attrs)
    return xr.Dataset(found, {"n": seen.n, "alpha": seen.alpha})


def summarise(sweep: xr.Dataset) -> xr.Dataset:
    """Averages over the samples of a sweep that are done, (n, alpha), beside the theory.

    samples, failed        numbers of samples
    lowest, overlap, gap   means of bbp.analysis.summary, with NAME_error, the standard error; NaN from fewer samples
                           than it needs; so every other number that the sweep holds of its samples
    phi_group              share, with phi_group_error and the ends _low and _high of its 95 % interval
    theory_edge, ...       what theory says along alpha
    """
    seen = observables(sweep).drop_vars("eigenvalues")
    grid = tuple(str(dim) for dim in seen.lowest.dims if dim != "sample")
    found: dict[str, Any] = {"samples": (grid, (sweep.status == DONE).sum("sample").values)}
    for name in map(str, seen.data_vars):
        values = seen[name].transpose(..., "sample").values
        if name == "phi_group":
            shares = np.apply_along_axis(fraction, -1, values)
            found |= columns(name, grid, shares)
        elif name != "phi":
            mean, error = mean_and_error(values)
            found |= {name: (grid, mean, seen[name].attrs), f"{name}_error": (grid, error)}
    for name in ("edge", "outlier", "overlap"):
        found[f"theory_{name}"] = "alpha", sweep[f"theory_{name}"].values
    found["failed"] = grid, (sweep.status == FAILED).sum("sample").values
    return described(xr.Dataset(found, {dim: sweep[dim].values for dim in grid}, {"ordered": 1}))


def mean_and_error(values: ArrayLike) -> tuple[Array, Array]:
    """Mean and standard error along the last axis, leaving out NaN: (...,), (...,); NaN from none, or from one."""
    values = np.asarray(values, dtype=np.float64)
    found = np.isfinite(values)
    number = found.sum(axis=-1)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.where(found, values, 0).sum(axis=-1) / number
        squares = np.where(found, (values - mean[..., None]) ** 2, 0).sum(axis=-1)
        return mean, np.sqrt(squares / (number - 1) / number)


def table(sweep: xr.Dataset) -> str:
    """The closing table of one model: samples and theory side by side, a block of rows for each n.

    (inf) marks theory at N = infinity; q2 is a mean over the p p_star lowest vectors.
    """
    seen, model = summarise(sweep), models.of(sweep)
    group = models.group(model)
    measured = ["lowest", "overlap", *own_names(seen)]
    digits = {name: _places(seen[f"{name}_error"].values) for name in measured}
    digits |= {f"theory_{name}": digits["lowest"] for name in ("edge", "outlier")}
    digits["theory_overlap"] = digits["overlap"]
    named = {"lowest": "lowest eigenvalue", "overlap": "q2" if group == 1 else f"q2, mean of {group}"}
    heads = [("alpha", "9.6g"), ("samples", "8d"), *((named.get(name, name), ">18") for name in measured)]
    heads[4:4] = [(f"{name}(inf)", ">9") for name in ("edge", "out", "q2")]
    told = [f"{models.words(model)}: {models.threshold_words(sweep.alpha_bbp, sweep.kind)}"]
    for n in seen.n.values:
        rows = []
        for alpha in seen.alpha.values:
            row = {str(name): values.item() for name, values in seen.sel(n=n, alpha=alpha).data_vars.items()}
            cells = [_number(row[name], digits[name], row[f"{name}_error"]) for name in measured]
            theory = ("theory_edge", "theory_outlier", "theory_overlap")
            cells[2:2] = [_number(row[name], digits[name]) for name in theory]
            rows.append([alpha, row["samples"], *cells])
        told += ["", f"N = {n}", *lines(heads, rows)]
    return "\n".join([*told, *(verdict_table(sweep) if "theory_n_verdict" in sweep else [])])


def _places(errors: Array) -> int:
    """Decimals of a column: two digits of a middling error; 4 where no error is known."""
    known = errors[errors > 0]
    places = decimals(float(np.median(known))) if known.size else None
    return 4 if places is None else min(max(places, 0), 15)


def _number(value: float, places: int, error: float = np.nan) -> str:
    alone = "-" if np.isnan(value) else f"{value:.{places}f}"
    return alone if np.isnan(error) or np.isnan(value) else f"{alone} ± {error:.{places}f}"


def verdict_table(found: xr.Dataset) -> list[str]:
    """Lines of a table, of a sweep or comparison on rows of one's own: theory for these rows beside its verdict."""
    heads = [("alpha", "9.6g"), ("verdict", ">10"), ("lowest", ">16"), ("q2", ">14"), ("", "")]
    told = ["", f"inputs {found.attrs['inputs']}: {found.attrs['inputs_source']}"]
    for n in found.n.values:
        rows = []
        for alpha in found.alpha.values:
            at, cells = found.sel(n=n, alpha=alpha), []
            for name in ("theory_n_lowest", "theory_n_overlap"):
                value, error = float(at[name]), float(at[f"{name}_error"])
                cells.append(_number(value, _places(np.array([error])), error))
            rows.append([alpha, at.theory_n_verdict.item(), *cells, at.theory_n_why.item()])
        told += ["", f"N = {n}, theory for these rows", *lines(heads, rows)]
    return told


def finite_theory(model: Network, n: Sequence[int], alpha: Array, seed: int = 0) -> dict[str, NDArray[Any]]:
    """Variables theory_n_NAME of a sweep: those of THEORY_N, each (n, alpha), NaN where they would take too long.

    And `draws` (n,), how many they are means over: as many as LABELS allow, MOST_DRAWS at the most; 0 for sizes for which not
    even FEWEST_DRAWS are possible, which are left out.
    """
    draws = [draws_of(model, n, alpha, size) if has_bulk(model, size) else 0 for size in n]
    rows = [theory_at(model, size, alpha, many, seed) for size, many in zip(n, draws, strict=True)]
    found: dict[str, NDArray[Any]] = {name: np.stack([row[name] for row in rows]) for name in THEORY_N}
    return found | {"draws": np.array(draws, np.int64)}


def theory_at(
    model: Network, n: int, alpha: Array, draws: int, seed: int, threads: int | None = None
) -> dict[str, Array]:
    """Means of finite-N theory along alpha (alpha,) at one N: informative, phi_group; lowest and overlap with their standard
    errors NAME_error and the scatter of a draw NAME_std.

    NaN without draws, and where the law does not exist: for networks, and with too few labels for an edge.
    threads: as many as there are cores where not given.
    """
    if not draws or not model.is_committee or not has_bulk(model, n):
        return dict.fromkeys((*THEORY_N, "phi_group"), np.full(len(alpha), np.nan))
    with theory_threads() as cores:
        law = finite.law(model, alpha, n, draws=draws, seed=seed, threads=threads or cores)
    told = {"informative": law.mean("informative")[0], "phi_group": law.mean("among")[0]}
    for name in ("lowest", "overlap"):
        told[name], told[f"{name}_error"] = law.mean(name)
        told[f"{name}_std"] = law.std(name)
    return told


def draws_of(model: Network, n: Sequence[int], alpha: Array, size: int) -> int:
    """Draws for N = size, one of n; 0 where it would take too long."""
    labels = float(np.sum(alpha)) * size * (int(model.p) + model.p_star) * len(n)
    draws = min(MOST_DRAWS, int(LABELS / labels))
    return draws if draws >= FEWEST_DRAWS else 0


def has_theory_n(found: xr.Dataset) -> bool:
    """Whether a result holds any number of finite-N theory: that of quadratic committees, not of rows of one's own."""
    if "theory_n_verdict" in found:
        return False
    return "theory_n_lowest" in found and bool(np.isfinite(found.theory_n_lowest).any())


@contextlib.contextmanager
def theory_threads() -> Iterator[int]:
    """How many threads of Python there are cores for, while BLAS has one thread.

    >>> with theory_threads() as threads:
    ...     threads >= 1
    True
    """
    # late: JAX, which it brings, is not waited for where files are read and drawn
    from sims import backend, machine

    with backend.one_thread():
        yield machine.allotted()


def theory_curves(source: xr.Dataset) -> xr.Dataset:
    """Curves of the model of a sweep or comparison a little beyond its alphas, with a point on either side of alpha_BBP.

    theory_edge, theory_outlier (alpha) in units of the Hessian, NaN where there is none; theory_overlap with the teacher, as
    the overlaps of samples: 0 without an outlier, NaN where theory is silent. Where a point takes seconds
    (theory.general.spectrum.route "points"), one does not converge, or the model's own function is not at hand,
    they are those of the file, and at alpha_BBP the outlier starts at the edge, between two points of the file.
    """
    model = models.of(source)
    if not models.lacking(model) and route(model) in FINE:
        found = _computed(
            model, float(source.alpha.min()), float(source.alpha.max()), float(source.alpha_bbp)
        )
        if found.theory_edge.notnull().any():
            return found
    return _of_file(source)


@lru_cache(maxsize=8)  # two panels of a figure show it
def _computed(model: Network, low: float, high: float, alpha_bbp: float) -> xr.Dataset:
    margin = 0.03 * (high - low) if high > low else 0.2 * low
    taken = route(model)
    alpha = np.linspace(max(low - margin, low / 2), high + margin, FINE[taken])
    sides = alpha_bbp * np.array([1 - SIDE[taken], 1 + SIDE[taken]])
    alpha = np.sort(np.concatenate([alpha, sides[(sides > alpha[0]) & (sides < alpha[-1])]]))
    found = models.theory_along(model, alpha)
    return _curves(alpha, *(found[name] for name in ("edge", "outlier", "overlap")))


def _of_file(source: xr.Dataset) -> xr.Dataset:
    alpha = source.alpha.values
    edge, outlier, overlap = (source[f"theory_{name}"].values for name in ("edge", "outlier", "overlap"))
    at = int(np.searchsorted(alpha, source.alpha_bbp))
    if not 0 < at < len(alpha) or np.isfinite(outlier[at - 1]):
        return _curves(alpha, edge, outlier, overlap)
    # A jump leaves a gap up to the next point of the file: its height is not known here.
    more = [0.0] if source.kind == "continuous" else [0.0, np.nan]
    start = [float(np.interp(source.alpha_bbp, alpha, edge))] * len(more)
    both = (alpha, [source.alpha_bbp] * len(more)), (edge, start), (outlier, start), (overlap, more)
    return _curves(*(np.insert(whole, at, some) for whole, some in both))


def _curves(alpha: Array, edge: Array, outlier: Array, overlap: Array) -> xr.Dataset:
    overlap = np.where(np.isfinite(edge) & np.isnan(outlier), 0.0, overlap)
    along = {"theory_edge": edge, "theory_outlier": outlier, "theory_overlap": overlap}
    return xr.Dataset({name: ("alpha", values) for name, values in along.items()}, {"alpha": alpha})
