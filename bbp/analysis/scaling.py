"""How results scale with N: every law of `bbp.analysis.laws` through what samples of several sizes say, and the table of it."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from bbp.analysis.estimates import ENDS, FEWEST, NOTHING, columns, decimals, fraction, matched, ranged
from bbp.analysis.finite_size import rise
from bbp.analysis.laws import FREE, REJECTED, SHAPES, fit_law, verdict
from bbp.analysis.recovery import recovery
from bbp.analysis.summary import mean_and_error, observables
from bbp.experiments import models
from bbp.files import dataset, product, variables
from bbp.files.variables import described, words_of
from theory.checks import ParameterError, shown
from theory.general.spectrum import threshold
from theory.model import Network

Array = NDArray[np.float64]

FORMAT = "bbp-fit"
DEFAULT = ("lowest", "overlap", "threshold", "width")
NUMBERS = ("limit", "coefficient", "exponent")  # of a fit
Series = tuple[Any, ...]  # one number at several N: what `_fitted` takes after the limit


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
        For several models, an unknown quantity or alpha, and where nothing has two sizes.
    """
    product.require_one(source)
    given = {"theory": None, "free": math.nan}[limit] if isinstance(limit, str) else limit
    form = str(source.attrs.get("format"))
    kinds = {"bbp-sweep": _of_sweep, "bbp-descent": _of_descents, "bbp-phase": _of_phase}
    if form not in kinds:
        raise ParameterError(f"a {form} result has no sizes to fit: sweeps, descents and phase diagrams have")
    asked = kinds[form](source, of, _alphas(source, alpha), np.random.default_rng(seed))
    rows = [_fitted(given, *row) for row in asked]
    if not any(row.sizes["n"] > 1 for row in rows):
        raise ParameterError(
            "nothing has two sizes N with an error to fit (sizes of several files: give all of them, or bbp.join); a size "
            f"counts with {FEWEST} samples or more, a threshold within the grid of alpha"
        )
    found = _over_rows(rows)
    config: dict[str, Any] = {
        "of": None if of is None else list(of),
        "alpha": None if alpha is None else list(map(float, alpha)),
    }
    config |= {"limit": limit, "seed": seed}
    own: dict[str, Any] = {k: v for k, v in source.attrs.items() if k in ("p_star", "alpha_bbp", "kind")}
    own |= models.record(models.of(source)) if "p" in source.attrs else {}
    own |= {"format": FORMAT, "config": json.dumps(config), "finished": 1}
    return described(found.assign_attrs(variables.provenance() | own))


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
    held, n = sweep.alpha.values, sweep.n.values
    for name in _known(of, names, DEFAULT):
        if name in ("threshold", "width"):
            yield _rise(name, sweep, alphas, seen.phi_group.values[:, alphas], rng)
            continue
        for j in alphas:
            words = f"{words_of(name) or name}, alpha = {held[j]:.6g}"
            rows = seen[name].values[:, j]
            samples, (value, error) = np.isfinite(rows).sum(axis=1), mean_and_error(rows)
            freedom = np.maximum(samples - 1.0, 1.0)
            if name.startswith("phi"):  # shares have Wilson's error
                error, freedom = np.array([fraction(row).error for row in rows]), np.full(len(n), np.inf)
            limit = _theory(sweep, name, j)
            yield name, float(held[j]), words, limit, n, value, error, samples, freedom


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


def _rise(name: str, sweep: xr.Dataset, alphas: list[int], hits: Array, rng: np.random.Generator) -> Series:
    """Where shares (n, alpha, sample) are 1/2, or how wide their rise is; of alphas that have samples."""
    alpha, found, samples = sweep.alpha.values[alphas], [], []
    for rows in hits:
        has = np.isfinite(rows).sum(axis=1)
        at = has > 0
        enough = at.sum() > 2 and has[at].mean() >= FEWEST
        found.append(rise(alpha[at], rows[at], rng)[name == "width"] if enough else NOTHING)
        samples.append(int(has.sum()) if enough else 0)  # the samples of all alphas count together
    value, error, *_ = np.array(found).T
    what, limit = "alpha at which {} is 1/2", float(sweep.alpha_bbp)
    if name == "width":
        what, limit = "width in alpha of the rise of {}", 0.0
    words = what.format("phi of the p p* lowest")
    return name, math.nan, words, limit, sweep.n.values, value, error, np.array(samples)


def _of_descents(
    found: xr.Dataset, of: Sequence[str] | None, alphas: list[int], rng: np.random.Generator
) -> Iterator[Series]:
    del rng
    _known(of, ["threshold"], ["threshold"])
    part = found.isel(alpha=alphas)
    for start in part.start.values.tolist():
        seen = [recovery(part, int(n), start) for n in part.n.values]
        value, error = (
            np.array([float(one[name]) for one in seen]) for name in ("midpoint", "midpoint_error")
        )
        samples = (part.status.sel(start=start) == 1).sum(["alpha", "sample"]).values
        words = f"alpha at which half of the descents from {start} recover"
        yield "threshold", math.nan, words, math.nan, part.n.values, value, error, samples


def _of_phase(
    phase: xr.Dataset, of: Sequence[str] | None, alphas: list[int], rng: np.random.Generator
) -> Iterator[Series]:
    del rng, alphas
    _known(of, ["threshold"], ["threshold"])
    if "alpha_bbp_n" not in phase:
        raise ParameterError("the phase diagram has no thresholds at finite N (bbp phase --n)")
    draws = int(dataset.config(phase).get("draws", FEWEST))
    n, samples = phase.n.values, np.full(phase.sizes["n"], draws)
    for p, a in ((p, a) for p in phase.p.values for a in phase.finite_a.values):
        at = phase.sel(p=p, finite_a=a)
        limit = threshold(Network(p, int(phase.attrs["p_star"]), float(a))).alpha
        words = f"alpha_BBP(N) of theory, p = {p:g}, a = {a:g}"
        value, error, freedom = at.alpha_bbp_n.values, at.alpha_bbp_n_error.values, max(draws - 1.0, 1.0)
        yield "threshold", math.nan, words, limit, n, value, error, samples, freedom


def _fitted(
    given: float | None,
    name: str,
    alpha: float,
    words: str,
    limit: float,
    n: Array,
    values: Array,
    errors: Array,
    samples: NDArray[np.int64],
    freedom: ArrayLike = math.inf,
) -> xr.Dataset:
    """Every law through one number at several N: only the sizes that have an error, of FEWEST samples or more, are kept.

    given           the limit asked for, NaN for a free one, None for theory's
    name, alpha     what it is, and at which alpha (NaN where over all); words: the same, for a reader
    limit           theory's, at N = infinity; NaN where there is none
    n, values, errors, samples, freedom   (size,) see `laws.fit_law`; freedom inf: the errors are known
    """
    with np.errstate(invalid="ignore"):
        good = np.isfinite(values) & (errors > 0) & np.isfinite(errors) & (samples >= FEWEST)
    freedom = np.broadcast_to(np.asarray(freedom, dtype=np.float64), good.shape)[good]
    n, values, errors, samples = n[good], values[good], errors[good], samples[good]
    taken, size = limit if given is None else given, len(n)
    known = None if math.isnan(taken) else taken
    fits = {
        law: fit_law(law, n, values, errors, limit=known, freedom=freedom)
        for law in SHAPES
        if size >= max(2, 1 + (known is None) + (law == FREE))
    }
    few = "1 size has" if size == 1 else f"{size} sizes have"
    law, why = "", f"{few} an error, too few to fit every law"
    if len(fits) == len(SHAPES):
        law, why = verdict(list(fits.values()))
    every, own = [fits.get(law) for law in SHAPES], dict[str, Any]()
    for part in NUMBERS:
        own |= columns(part, ["law"], [getattr(one, part, NOTHING) for one in every])
    own["chi2"] = "law", [getattr(one, "chi2", math.nan) for one in every]
    own["p_value"] = "law", [getattr(one, "probability", math.nan) for one in every]
    own["degrees"] = "law", [getattr(one, "degrees", 0) for one in every]
    own |= {"value": ("n", values), "error": ("n", errors), "samples": ("n", samples)}
    own |= {"quantity": name, "words": words, "verdict": law, "why": why}
    own |= {"at_alpha": alpha, "theory_limit": limit, "taken_limit": taken}
    return xr.Dataset(own, {"n": n.astype(np.int64), "law": np.array(list(SHAPES), dtype=object)})


def _over_rows(each: Sequence[xr.Dataset]) -> xr.Dataset:
    """The fits of several series, over the union of their sizes."""
    found = xr.concat(each, "row", join="outer", fill_value={"value": np.nan, "error": np.nan, "samples": 0})
    texts = {name: found[name].astype(object) for name in ("quantity", "words", "verdict", "why")}
    axes = {"row": np.arange(len(each)), "n": found.n.values, "law": found.law.values}
    return xr.Dataset({name: values.variable for name, values in found.assign(texts).data_vars.items()}, axes)


HEAD = f"y(N) = limit + c f(N), [95 % intervals]; rejected: a chi-square as large has probability below {REJECTED:g}"
EFFECTIVE = "the exponent of these sizes, which corrections to another law may make"


def table(found: xr.Dataset) -> str:
    """The whole table of one model's fits: every law through every series, what was fitted, how well, and which is left."""
    name = [models.words(models.of(found))] if "p" in found.attrs else []
    return "\n".join(
        [*name, HEAD, *(line for i in range(found.sizes["row"]) for line in ["", *_row(found.isel(row=i))])]
    )


def _row(row: xr.Dataset) -> list[str]:
    known = np.isfinite(row.value.values)
    sizes = ", ".join(map(str, row.n.values[known].tolist()))
    if known.sum() < 2:
        return [f"{row.words.item()}: not fitted, {row.why.item()}"]
    limit, theory = float(row.taken_limit), float(row.theory_limit)
    free = math.isnan(limit)
    whose = "theory's" if limit == theory else "given"
    words = f"limit {limit:.6g} ({whose})"
    if free:
        words = "limit fitted" + (f" (theory: {theory:.6g})" if math.isfinite(theory) else "")
    data = [matched(float(row.value[i]), float(row.error[i])) for i in np.flatnonzero(known)]
    lines = [f"{row.words.item()}; N = {sizes}; {words}"]
    lines.append("  " + ", ".join(f"{value} ± {error}" for value, error in data))
    cells = [["f", "chi2/degrees", "probability", *(["limit"] if free else []), "c", "x"]]
    cells += [[law, *_cells(row.sel(law=law), law, free)] for law in row.law.values.tolist()]
    lines += [f"  {line}" for line in ranged(cells)]
    law, why = row.verdict.item(), row.why.item()
    if not law:
        return [*lines, f"  not decided: {why}"]
    end = f", x = {_interval(row.sel(law=FREE), 'exponent')}: {EFFECTIVE}" if law == FREE else ""
    return [*lines, f"  {law}: {why}{end}"]


def _cells(one: xr.Dataset, law: str, free: bool) -> list[str]:
    chi2, degrees, p = float(one.chi2), int(one.degrees), float(one.p_value)
    if math.isnan(chi2):
        return ["too few sizes"]
    cells = [f"{chi2:.3g}/{degrees}", "-" if math.isnan(p) else f"{p:.2g}"]
    if p < REJECTED:
        return [*cells, "rejected"]
    names = [*(["limit"] if free else []), "coefficient", *(["exponent"] if law == FREE else [])]
    return [*cells, *(_interval(one, name) for name in names)]


def _interval(one: xr.Dataset, name: str) -> str:
    value, error, low, high = (float(one[f"{name}{end}"]) for end in ENDS)
    if not math.isfinite(low) and not math.isfinite(high):
        return f"{value:.3g} [not determined]"
    places = max(decimals((high - low) / 4 if math.isfinite(high - low) else error) or 0, 0)
    ends = ["..." if math.isnan(end) else f"{end:.{places}f}" for end in (low, high)]
    return f"{value:.{places}f} [{ends[0]}, {ends[1]}]"
