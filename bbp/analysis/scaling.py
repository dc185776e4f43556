"""How results scale with N: every law of `bbp.analysis.laws` through what samples of several sizes say."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from bbp.analysis.bootstrap import FEWEST, PARTS, Estimate, fraction
from bbp.analysis.finite_size import rise
from bbp.analysis.laws import FREE, SHAPES, Verdict, fit_law, verdict
from bbp.analysis.recovery import recovery
from bbp.analysis.summary import mean_and_error, observables
from bbp.experiments import models
from bbp.files import dataset, variables
from bbp.files.variables import described, words_of
from theory.checks import ParameterError, shown
from theory.exact.transition import bbp_threshold
from theory.model import Committee

Array = NDArray[np.float64]

FORMAT = "bbp-fit"
DEFAULT = ("lowest", "overlap", "threshold", "width")
LIMITS = ("theory", "free")
NUMBERS = ("limit", "coefficient", "exponent")  # of a fit
ENDS = {part: "" if part == "value" else f"_{part}" for part in PARTS}


@dataclass(frozen=True)
class Series:
    """One number at several N.

    name, alpha     what it is, and at which alpha (NaN where over all)
    words           the same, for a reader
    n, values, errors, freedom, samples   (size,) see `laws.fit_law`
    limit           theory's, at N = infinity; NaN where there is none
    """

    name: str
    alpha: float
    words: str
    n: Array
    values: Array
    errors: Array
    freedom: Array
    samples: NDArray[np.int64]
    limit: float


def fit(
    source: xr.Dataset,
    *,
    of: Sequence[str] | None = None,
    alpha: Sequence[float] | None = None,
    limit: str | float = "theory",
    seed: int = 0,
) -> xr.Dataset:
    """Laws in N of what a result of one model says.

    Parameters
    ----------
    source
        A sweep or descents with several N, of one model, or a phase diagram with thresholds at several N.
    of
        What to fit. Of a sweep: "lowest" (smallest eigenvalue, less the outlier or the edge of theory) and "overlap" (q2) at
        every alpha, "threshold" (alpha at which phi of the p p* lowest is 1/2), "width" (of the rise of phi about it, towards
        0), or any other observable of the file, at every alpha. Of descents: "threshold" (alpha at which half of the samples
        recover). Of a phase diagram: "threshold". Where not given, all of these but the other observables.
    alpha
        Only these of the file's.
    limit
        At N = infinity: "theory", where it is known; "free": fitted; or a number.
    seed
        Of the resampling that gives thresholds their errors.

    Returns
    -------
    xarray.Dataset
        Rows (row): quantity, at_alpha, words, theory_limit, taken_limit (NaN: fitted), verdict (the law, "" where none is
        singled out), why; value, error, samples (row, n); limit, coefficient, exponent (row, law) of y(N) = limit +
        coefficient f(N), with NAME_error and the ends NAME_low and NAME_high of 95 % intervals; chi2, degrees, p_value
        (row, law).

    Raises
    ------
    ParameterError
        For several models, an unknown quantity, alpha or limit, and where nothing has two sizes.
    """
    if "model" in source.dims:
        raise ParameterError(
            f"choose one of {source.sizes['model']} models: bbp.files.product.one(dataset, index)"
        )
    given = _limit(limit)
    rng = np.random.default_rng(seed)
    rows = list(_series(source, of, _alphas(source, alpha), rng))
    if not any(len(row.n) > 1 for row in rows):
        raise ParameterError(
            "nothing has two sizes N with an error to fit (sizes of several files: give all of them, or bbp.join); a size "
            f"counts with {FEWEST} samples or more, a threshold within the grid of alpha"
        )
    sizes = np.unique(np.concatenate([row.n for row in rows])).astype(np.int64)
    found = _filled(rows, sizes, given)
    config: dict[str, Any] = {
        "of": None if of is None else list(of),
        "alpha": None if alpha is None else list(map(float, alpha)),
    }
    config |= {"limit": limit, "seed": seed}
    own: dict[str, Any] = {k: v for k, v in source.attrs.items() if k in ("p_star", "alpha_bbp", "kind")}
    own |= models.record(models.of(source)) if "p" in source.attrs else {}
    own |= {"format": FORMAT, "config": json.dumps(config), "finished": 1}
    return described(found.assign_attrs(variables.provenance() | own))


def _limit(limit: str | float) -> float | None:
    """The limit given, NaN for a free one, None for theory's."""
    if isinstance(limit, str) and limit in LIMITS:
        return None if limit == "theory" else math.nan
    try:
        found = math.nan if isinstance(limit, bool) else float(limit)
    except (TypeError, ValueError):
        found = math.nan
    if not math.isfinite(found):
        raise ParameterError(f"limit must be theory, free or a number, got {shown(limit)}")
    return found


def _alphas(source: xr.Dataset, asked: Sequence[float] | None) -> list[int]:
    """Which alphas of the file are meant."""
    held = source.alpha.values if "alpha" in source.coords else np.zeros(0)
    if asked is None:
        return list(range(len(held)))
    found = []
    for value in asked:
        near = np.flatnonzero(np.isclose(held, float(value), rtol=1e-5))
        if not near.size:
            have = ", ".join(f"{one:g}" for one in held[:12]) + (", ..." if len(held) > 12 else "")
            raise ParameterError(f"alpha must be of the file ({have or 'none'}), got {shown(value)}")
        found.append(int(near[0]))
    return sorted(set(found))


def _series(
    source: xr.Dataset, of: Sequence[str] | None, alphas: list[int], rng: np.random.Generator
) -> Iterator[Series]:
    form = str(source.attrs.get("format"))
    kinds = {"bbp-sweep": _of_sweep, "bbp-descent": _of_descents, "bbp-phase": _of_phase}
    if form not in kinds:
        raise ParameterError(f"a {form} result has no sizes to fit: sweeps, descents and phase diagrams have")
    if isinstance(of, str):
        raise ParameterError(f"of must be a list of quantities, got {shown(of)}")
    return kinds[form](source, of, alphas, rng)


def _known(asked: Sequence[str] | None, names: Sequence[str], default: Sequence[str]) -> list[str]:
    if asked is not None and "overlap" in names and "q2" not in names:
        asked = ["overlap" if name == "q2" else name for name in asked]  # as tables and figures call it
    for name in asked or ():
        if name not in names:
            raise ParameterError(f"of must be among {', '.join(names)} for this file, got {shown(name)}")
    if asked is not None and not asked:
        raise ParameterError("of names no quantity")
    return list(dict.fromkeys(default if asked is None else asked))


def _of_sweep(
    sweep: xr.Dataset, of: Sequence[str] | None, alphas: list[int], rng: np.random.Generator
) -> Iterator[Series]:
    seen = observables(sweep).drop_vars("eigenvalues").transpose("n", "alpha", "sample", ...)
    names = list(dict.fromkeys((*DEFAULT, *map(str, seen.data_vars))))
    held = sweep.alpha.values
    for name in _known(of, names, DEFAULT):
        if name in ("threshold", "width"):
            hits = seen.phi_group.values[:, alphas]
            limit = 0.0 if name == "width" else float(sweep.alpha_bbp)
            yield from _rises(name, sweep.n.values, held[alphas], hits, limit, rng)
            continue
        for j in alphas:
            words = f"{words_of(name) or name}, alpha = {held[j]:.6g}"
            rows = seen[name].values[:, j]
            yield _means(name, float(held[j]), words, sweep.n.values, rows, _theory(sweep, name, j))


def _theory(sweep: xr.Dataset, name: str, j: int) -> float:
    """What theory says of an observable at N = infinity; NaN where it says nothing. The file's, whose digits are its machine's,
    unless theory takes microseconds."""
    parts = ("edge", "outlier", "overlap")
    edge, outlier, overlap = (float(sweep[f"theory_{part}"].values[j]) for part in parts)
    if models.of(sweep).is_committee:
        found = models.theory_along(models.of(sweep), sweep.alpha.values[j : j + 1])
        edge, outlier, overlap = (float(found[part][0]) for part in parts)
    if name == "lowest":
        return outlier if math.isfinite(outlier) else edge
    if name == "overlap":
        return 0.0 if math.isfinite(edge) and math.isnan(outlier) else overlap
    return math.nan


def _means(name: str, alpha: float, words: str, n: Array, rows: Array, limit: float) -> Series:
    """Means over samples (n, sample); those of shares have Wilson's error."""
    samples = np.isfinite(rows).sum(axis=1)
    value, error = mean_and_error(rows)
    freedom = np.maximum(samples - 1.0, 1.0)
    if name.startswith("phi"):
        error, freedom = np.array([fraction(row).error for row in rows]), np.full(len(n), np.inf)
    return _kept(Series(name, alpha, words, n.astype(float), value, error, freedom, samples, limit))


def _rises(
    name: str,
    n: Array,
    alpha: Array,
    hits: Array,
    limit: float,
    rng: np.random.Generator,
    what: str = "phi of the p p* lowest",
) -> Iterator[Series]:
    """Where shares (n, alpha, sample) are 1/2, or how wide their rise is; of alphas that have samples."""
    found, samples = [], []
    for rows in hits:
        has = np.isfinite(rows).sum(axis=1)
        at = has > 0
        enough = at.sum() > 2 and has[at].mean() >= FEWEST
        found.append(
            rise(alpha[at], rows[at], rng)[name == "width"] if enough else Estimate(*(math.nan,) * 4)
        )
        samples.append(int(has.sum()))
    value, error = (np.array([getattr(each, part) for each in found]) for part in ("value", "error"))
    words = (
        f"alpha at which {what} is 1/2" if name == "threshold" else f"width in alpha of the rise of {what}"
    )
    known = np.full(len(n), np.inf)
    kept = np.where(np.isfinite(value * error), FEWEST, 0)  # the samples of all alphas count together
    series = Series(name, math.nan, words, n.astype(float), value, error, known, kept, limit)
    yield _kept(series, np.array(samples))


def _of_descents(
    found: xr.Dataset, of: Sequence[str] | None, alphas: list[int], rng: np.random.Generator
) -> Iterator[Series]:
    _known(of, ["threshold"], ["threshold"])
    part = found.isel(alpha=alphas)
    for start in part.start.values.tolist():
        seen = [recovery(part, int(n), start).midpoint for n in part.n.values]
        value, error = (np.array([getattr(each, name) for each in seen]) for name in ("value", "error"))
        samples = (part.status.sel(start=start) == 1).sum(["alpha", "sample"]).values
        words, known = f"alpha at which half of the descents from {start} recover", np.full(len(seen), np.inf)
        yield _kept(
            Series(
                "threshold",
                math.nan,
                words,
                part.n.values.astype(float),
                value,
                error,
                known,
                samples,
                math.nan,
            )
        )
    del rng


def _of_phase(
    phase: xr.Dataset, of: Sequence[str] | None, alphas: list[int], rng: np.random.Generator
) -> Iterator[Series]:
    _known(of, ["threshold"], ["threshold"])
    if "alpha_bbp_n" not in phase:
        raise ParameterError("the phase diagram has no thresholds at finite N (bbp phase --n)")
    draws = int(dataset.config(phase).get("draws", FEWEST))
    for p, a in ((p, a) for p in phase.p.values for a in phase.finite_a.values):
        at = phase.sel(p=p, finite_a=a)
        limit = bbp_threshold(Committee(p, int(phase.attrs["p_star"]), float(a))).alpha
        n = phase.n.values.astype(float)
        words, known = f"alpha_BBP(N) of theory, p = {p:g}, a = {a:g}", np.full(len(n), max(draws - 1.0, 1.0))
        value, error = at.alpha_bbp_n.values, at.alpha_bbp_n_error.values
        yield _kept(
            Series("threshold", math.nan, words, n, value, error, known, np.full(len(n), draws), limit)
        )
    del rng, alphas


def _kept(series: Series, samples: NDArray[np.int64] | None = None) -> Series:
    """The sizes that have an error, of FEWEST samples or more."""
    with np.errstate(invalid="ignore"):
        good = (
            np.isfinite(series.values)
            & (series.errors > 0)
            & np.isfinite(series.errors)
            & (series.samples >= FEWEST)
        )
    parts = {name: getattr(series, name)[good] for name in ("n", "values", "errors", "freedom", "samples")}
    if samples is not None:
        parts["samples"] = samples[good]
    return replace(series, **parts)


def _filled(rows: Sequence[Series], sizes: NDArray[np.int64], given: float | None) -> xr.Dataset:
    """Every law through every series."""
    laws = list(SHAPES)
    table: dict[str, Array] = {
        f"{name}{end}": np.full((len(rows), len(laws)), np.nan) for name in NUMBERS for end in ENDS.values()
    }
    table |= {name: np.full((len(rows), len(laws)), np.nan) for name in ("chi2", "p_value")}
    degrees = np.zeros((len(rows), len(laws)), dtype=np.int64)
    values, errors = (np.full((len(rows), len(sizes)), np.nan) for _ in range(2))
    samples = np.zeros((len(rows), len(sizes)), dtype=np.int64)
    taken, said = [], []
    for i, row in enumerate(rows):
        at = np.searchsorted(sizes, row.n)
        values[i, at], errors[i, at], samples[i, at] = row.values, row.errors, row.samples
        limit = row.limit if given is None else given
        taken.append(limit)
        fits = []
        for k, law in enumerate(laws):
            if len(row.n) < max(2, 1 + math.isnan(limit) + (law == FREE)):
                continue
            one = fit_law(
                law,
                row.n,
                row.values,
                row.errors,
                limit=None if math.isnan(limit) else limit,
                freedom=row.freedom,
            )
            fits.append(one)
            table["chi2"][i, k], table["p_value"][i, k], degrees[i, k] = (
                one.chi2,
                one.probability,
                one.degrees,
            )
            for name in NUMBERS:
                for part, end in ENDS.items():
                    table[name + end][i, k] = getattr(getattr(one, name), part)
        few = "1 size has" if len(row.n) == 1 else f"{len(row.n)} sizes have"
        whole = len(fits) == len(laws)
        said.append(verdict(fits) if whole else Verdict("", f"{few} an error, too few to fit every law"))

    def text(values: list[str]) -> Any:
        return "row", np.array(values, dtype=object)

    own: dict[str, Any] = {
        name: (("row", "law"), found) for name, found in (*table.items(), ("degrees", degrees))
    }
    own |= {
        "value": (("row", "n"), values),
        "error": (("row", "n"), errors),
        "samples": (("row", "n"), samples),
    }
    own |= {"quantity": text([row.name for row in rows]), "words": text([row.words for row in rows])}
    own |= {"verdict": text([one.law for one in said]), "why": text([one.reason for one in said])}
    own |= {"at_alpha": ("row", np.array([row.alpha for row in rows]))}
    own |= {
        "theory_limit": ("row", np.array([row.limit for row in rows])),
        "taken_limit": ("row", np.array(taken)),
    }
    return xr.Dataset(own, {"row": np.arange(len(rows)), "n": sizes, "law": np.array(laws, dtype=object)})
