"""Finite N against theory for one model: observables with errors, finite-N theory beside them, scaling with N."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from bbp.analysis.bootstrap import PARTS, Estimate
from bbp.analysis.finite_size import Crossing, alpha_zero_sampled, phi_crossing
from bbp.analysis.finite_theory import theory_threads
from bbp.analysis.summary import estimates, observables
from bbp.experiments import models
from bbp.files import variables
from bbp.files.variables import DONE, described
from theory.checks import ParameterError
from theory.exact.transition import alpha_zero
from theory.finite.law import finite_curve, has_bulk
from theory.model import Network

Array = NDArray[np.float64]

FORMAT = "bbp-compare"
# Finite-N theory averaged over draws of labels, with their names in theory.finite.law.FiniteCurve.
THEORY_N = {
    "lowest": "lowest",
    "lowest_error": "lowest_error",
    "overlap": "overlap",
    "overlap_error": "overlap_error",
    "phi_group": "among",
    "lowest_std": "lowest_std",
    "overlap_std": "overlap_std",
}
WINDOW = 1.25  # alpha_0 is read off samples with alpha_BBP < alpha < WINDOW alpha_BBP


def compare(
    sweep: xr.Dataset,
    *,
    draws: int = 16,
    repeats: int = 1000,
    seed: int = 0,
    theory_n: Mapping[str, NDArray[Any]] | None = None,
) -> xr.Dataset:
    """What samples of one model say beside theory.

    Parameters
    ----------
    sweep
        One model's (bbp.store).
    draws
        Of labels, for finite-N theory; 0 leaves it out.
    repeats, seed
        Of the bootstrap; `seed` is also that of the labels.
    theory_n
        Finite-N theory by name of THEORY_N, each (n, alpha), where it was drawn already (bbp.experiments.compare does that in
        parts), with "reason" where draws failed.

    Returns
    -------
    xarray.Dataset
        lowest, overlap, phi, phi_group, gap (n, alpha) and every other observable of the sweep, with NAME_error and the ends
        NAME_low and NAME_high of 95 % intervals; samples, numbers of them; theory_edge, theory_outlier, theory_overlap
        (alpha); theory_n_NAME (n, alpha) for those of THEORY_N; crossing_* (crossing), of phi for successive sizes;
        alpha_zero_sampled_* (alpha_zero_n), by size, where at least two alphas lie in the window above alpha_BBP. Attributes
        alpha_zero_overlap and alpha_zero_continuation are theory's two estimates, NaN for no root.

    Raises
    ------
    ParameterError
        Where no sample is done.
    """
    require_samples(sweep)
    if theory_n is None and draws:
        theory_n = theory_n_curve(sweep, draws, seed)
    found = estimates(sweep, repeats=repeats, seed=seed)
    grid = ("n", "alpha")
    more: dict[str, Any] = {"samples": (grid, (sweep.status == DONE).sum("sample").transpose(*grid).values)}
    more |= {
        f"theory_{name}": ("alpha", sweep[f"theory_{name}"].values) for name in ("edge", "outlier", "overlap")
    }
    for name, values in (theory_n or {}).items():
        if name != "reason" or np.any(values != ""):
            more[f"theory_n_{name}"] = grid, values
    if "theory_n_verdict" in sweep:  # of rows of one's own: as the sweep has it
        held = [str(name) for name in sweep.data_vars if str(name).startswith("theory_n_")]
        more |= {name: (grid, sweep[name].values) for name in held}
    rng = np.random.default_rng([seed, 1])
    more |= _crossings(_all_crossings(sweep, rng, repeats))
    more |= _zeros(_sampled_zeros(sweep))
    own = models.record(models.of(sweep)) | {"alpha_bbp": sweep.alpha_bbp, "kind": sweep.kind}
    own |= {f"alpha_zero_{method}": _alpha_zero(sweep, method) for method in ("overlap", "continuation")}
    own |= {"config": json.dumps({"draws": draws, "repeats": repeats, "seed": seed}), "finished": 1}
    return described(found.assign(more).assign_attrs({"format": FORMAT} | variables.provenance() | own))


def has_theory_n(comparison: xr.Dataset) -> bool:
    """Whether it holds any number of finite-N theory, which is that of quadratic committees only (not of rows of one's own)."""
    if "theory_n_verdict" in comparison:
        return False
    return "theory_n_lowest" in comparison and bool(np.isfinite(comparison.theory_n_lowest).any())


def require_samples(sweep: xr.Dataset) -> None:
    """ParameterError where no sample is done."""
    if not bool((sweep.status == DONE).any()):
        raise ParameterError("the sweep holds no finished sample to compare")


def theory_n_curve(sweep: xr.Dataset, draws: int, seed: int = 0) -> dict[str, Array]:
    """Finite-N theory at every (n, alpha) of a sweep, averaged over `draws` draws, by name of THEORY_N; NaN for networks."""
    model = models.of(sweep)
    rows = [theory_n_row(model, int(n), sweep.alpha.values, draws, seed) for n in sweep.n.values]
    return {name: np.stack([row[name] for row in rows]) for name in THEORY_N}


def theory_n_row(
    model: Network, n: int, alpha: Array, draws: int, seed: int, threads: int | None = None
) -> dict[str, Array]:
    """Finite-N theory along alpha (alpha,) at one N, by name of THEORY_N; NaN where the law does not exist.

    That is for networks, where there are more directions of the signal than levels, and with too few labels for an edge.
    threads: as many as there are cores where not given.
    """
    if not model.is_committee or not has_bulk(model, n):
        return {name: np.full(len(alpha), np.nan) for name in THEORY_N}
    with theory_threads() as cores:
        curve = finite_curve(model, alpha, n, draws=draws, seed=seed, threads=threads or cores)
    return {name: getattr(curve, there) for name, there in THEORY_N.items()}


def crossings(comparison: xr.Dataset) -> list[Crossing]:
    """The crossings of phi that a comparison holds."""
    c = comparison
    return [
        Crossing(
            (int(c.crossing_n_small[i]), int(c.crossing_n_large[i])),
            Estimate(*(float(c[_end("crossing_alpha", part)][i]) for part in PARTS)),
            float(c.crossing_found[i]),
        )
        for i in range(c.sizes["crossing"])
    ]


def zeros(comparison: xr.Dataset) -> dict[int, Estimate]:
    """alpha_0 of samples that a comparison holds, by N."""
    names = [f"alpha_zero_sampled_{part}" for part in PARTS]
    rows = zip(*(comparison[name].values.tolist() for name in names), strict=True)
    return {n: Estimate(*row) for n, row in zip(comparison.alpha_zero_n.values.tolist(), rows, strict=True)}


def _all_crossings(sweep: xr.Dataset, rng: np.random.Generator, repeats: int) -> list[Crossing]:
    phi, sizes, alpha = observables(sweep).phi_group.values, sweep.n.values, sweep.alpha.values
    found = []
    for small, large in pairwise(range(len(sizes))):
        both = np.isfinite(phi[small]).any(axis=-1) & np.isfinite(phi[large]).any(axis=-1)
        if both.sum() >= 4:
            hits, pair = (phi[small][both], phi[large][both]), (int(sizes[small]), int(sizes[large]))
            found.append(phi_crossing(alpha[both], hits, pair, rng, repeats=min(repeats, 400)))
    return found


def _alpha_zero(sweep: xr.Dataset, method: str) -> float:
    model = models.of(sweep)
    found = alpha_zero(model, method=method) if model.is_committee else None
    return math.nan if found is None else float(found)


def _sampled_zeros(sweep: xr.Dataset) -> dict[int, Estimate]:
    overlap, alpha = observables(sweep).overlap.values, sweep.alpha.values
    above = (alpha > sweep.alpha_bbp) & (alpha < WINDOW * sweep.alpha_bbp)
    found = {}
    for i, n in enumerate(sweep.n.values.tolist()):
        chosen = above & np.isfinite(overlap[i]).any(axis=-1)
        if chosen.sum() >= 2:
            found[n] = alpha_zero_sampled(alpha[chosen], overlap[i][chosen])
    return found


def _end(name: str, part: str) -> str:
    return name if part == "value" else f"{name}_{part}"


def _crossings(found: Sequence[Crossing]) -> dict[str, Any]:
    columns = {_end("crossing_alpha", part): [getattr(each.alpha, part) for each in found] for part in PARTS}
    columns["crossing_found"] = [each.found for each in found]
    own: dict[str, Any] = {
        name: ("crossing", np.array(values, dtype=float)) for name, values in columns.items()
    }
    for name, which in (("small", 0), ("large", 1)):
        own[f"crossing_n_{name}"] = (
            "crossing",
            np.array([each.sizes[which] for each in found], dtype=np.int64),
        )
    return own | {"crossing": np.arange(len(found))}


def _zeros(found: Mapping[int, Estimate]) -> dict[str, Any]:
    own: dict[str, Any] = {"alpha_zero_n": np.array(list(found), dtype=np.int64)}
    for part in PARTS:
        values = np.array([getattr(each, part) for each in found.values()], dtype=float)
        own[f"alpha_zero_sampled_{part}"] = "alpha_zero_n", values
    return own
