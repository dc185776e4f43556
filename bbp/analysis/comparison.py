"""Finite N against theory for one model: observables with errors, finite-N theory beside them, scaling with N."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bbp.analysis.bootstrap import FEWEST, Estimate
from bbp.analysis.finite_size import Crossing, ShiftFit, alpha_zero_sampled, phi_crossing, shift_law
from bbp.analysis.observables import NAMES, estimates, observables
from bbp.analysis.threads import theory_threads
from bbp.experiments.models import Model
from bbp.store import DONE, Sweep
from theory.checks import ParameterError
from theory.exact.alpha_zero import alpha_zero
from theory.exact.bulk import bulk_edge
from theory.finite.law import finite_curve, has_bulk

Array = NDArray[np.float64]

THEORY_N = ("lowest", "lowest_error", "overlap", "overlap_error", "present", "lowest_std", "overlap_std")
PARTS = ("value", "error", "low", "high")
WINDOW = 1.25  # alpha_0 is read off samples with alpha_BBP < alpha < WINDOW alpha_BBP


@dataclass(frozen=True)
class TheoryN:
    """Finite-N theory averaged over draws, each (n, alpha), with standard errors: see theory.finite.law.FiniteCurve.

    lowest   lowest eigenvalue
    overlap  mean squared overlap of the p p_star lowest eigenvectors
    present  share of draws in which the largest overlap is among these (predicted phi)
    lowest_std, overlap_std  scatter of one draw; NaN from files of before they were kept
    reason   why a point could not be computed, or ""
    """

    lowest: Array
    lowest_error: Array
    overlap: Array
    overlap_error: Array
    present: Array
    lowest_std: Array
    overlap_std: Array
    reason: NDArray[np.object_]


@dataclass(frozen=True)
class Comparison:
    """What samples of one model say beside theory.

    n (n,), alpha (alpha,), samples (n, alpha) numbers of samples done
    edge, outlier, overlap (alpha,)  theory at N = inf, NaN where there is none
    measured    by observable (bbp.analysis.observables.NAMES): columns value, error, low, high, each (n, alpha)
    theory_n    predictions of finite-N theory, or None where they were not asked for
    crossings   of phi for successive sizes
    shifts      by alpha below alpha_BBP: edge kind and the fit of the lowest eigenvalue's shift from the edge
    alpha_zero  theory's two estimates by name, NaN for "no root"
    alpha_zero_sampled  by size, where at least two alphas lie in the window above alpha_BBP
    config, finished    what decided the numbers, and whether all draws were made (of what is read from a file)
    """

    model: Model
    alpha_bbp: float
    kind: str
    n: NDArray[np.int64]
    alpha: Array
    edge: Array
    outlier: Array
    overlap: Array
    samples: NDArray[np.int64]
    measured: dict[str, dict[str, Array]]
    theory_n: TheoryN | None
    crossings: list[Crossing]
    shifts: list[tuple[float, str, ShiftFit]]
    alpha_zero: dict[str, float]
    alpha_zero_sampled: dict[int, Estimate] = field(default_factory=dict)
    config: dict[str, Any] = field(default_factory=dict)
    finished: bool = True


def compare(
    sweep: Sweep,
    *,
    draws: int = 16,
    repeats: int = 1000,
    seed: int = 0,
    theory_n: TheoryN | None = None,
) -> Comparison:
    """Compare one sweep with theory. draws = 0 leaves finite-N theory out; `seed` is that of bootstrap and labels.

    theory_n   its draws, where they have been made already (bbp.experiments.compare does that in parts). Raises
               ParameterError where no sample is done.
    """
    require_samples(sweep)
    if theory_n is None and draws:
        theory_n = theory_n_curve(sweep, draws, seed)
    table = estimates(sweep, repeats=repeats, seed=seed)
    measured = {
        name: {part: np.array([[getattr(e, part) for e in row] for row in table[name]]) for part in PARTS}
        for name in NAMES
    }
    rng = np.random.default_rng([seed, 1])
    return Comparison(
        model=sweep.model,
        alpha_bbp=sweep.alpha_bbp,
        kind=sweep.kind,
        n=sweep.n,
        alpha=sweep.alpha,
        edge=sweep.edge,
        outlier=sweep.outlier,
        overlap=sweep.overlap,
        samples=(sweep.status == DONE).sum(axis=-1),
        measured=measured,
        theory_n=theory_n,
        crossings=_crossings(sweep, rng, repeats),
        shifts=_shifts(sweep, measured["lowest"]),
        alpha_zero={method: _alpha_zero(sweep, method) for method in ("overlap", "continuation")},
        alpha_zero_sampled=_sampled_zeros(sweep),
    )


def has_theory_n(comparison: Comparison) -> bool:
    """Whether it holds any number of finite-N theory, which is that of quadratic committees only."""
    found = comparison.theory_n
    return found is not None and bool(np.any(np.isfinite(found.lowest)))


def require_samples(sweep: Sweep) -> None:
    """ParameterError where no sample is done."""
    if not np.any(sweep.status == DONE):
        raise ParameterError("the sweep holds no finished sample to compare")


def theory_n_curve(sweep: Sweep, draws: int, seed: int = 0) -> TheoryN:
    """Finite-N theory at every (n, alpha) of a sweep, averaged over `draws` draws; NaN for networks."""
    rows = [theory_n_row(sweep.model, int(n), sweep.alpha, draws, seed) for n in sweep.n]
    return TheoryN(
        **{name: np.stack([row[name] for row in rows]) for name in THEORY_N},
        reason=np.full((len(sweep.n), len(sweep.alpha)), "", dtype=object),
    )


def theory_n_row(
    model: Model, n: int, alpha: Array, draws: int, seed: int, threads: int | None = None
) -> dict[str, Array]:
    """Fields of TheoryN along alpha (alpha,) at one N, by name; NaN where the law does not exist.

    threads: as many as there are cores where not given.

    That is for networks, where there are more directions of the signal than levels, and with too few labels for an edge.
    """
    if not model.is_committee or not has_bulk(model, n):
        return {name: np.full(len(alpha), np.nan) for name in THEORY_N}
    with theory_threads() as cores:
        curve = finite_curve(model, alpha, n, draws=draws, seed=seed, threads=threads or cores)
    return {name: getattr(curve, "among" if name == "present" else name) for name in THEORY_N}


def _crossings(sweep: Sweep, rng: np.random.Generator, repeats: int) -> list[Crossing]:
    phi = observables(sweep).phi_group
    found = []
    for small, large in pairwise(range(len(sweep.n))):
        both = np.isfinite(phi[small]).any(axis=-1) & np.isfinite(phi[large]).any(axis=-1)
        if both.sum() >= 4:
            sizes = int(sweep.n[small]), int(sweep.n[large])
            hits = phi[small][both], phi[large][both]
            found.append(phi_crossing(sweep.alpha[both], hits, sizes, rng, repeats=min(repeats, 400)))
    return found


def _shifts(sweep: Sweep, lowest: dict[str, Array]) -> list[tuple[float, str, ShiftFit]]:
    """Below alpha_BBP the lowest eigenvalue is the bulk's: its shift from the edge, fitted over sizes with enough samples."""
    found: list[tuple[float, str, ShiftFit]] = []
    if not sweep.model.is_committee:
        return found  # both laws are the committee's
    for j, alpha in enumerate(sweep.alpha):
        enough = (sweep.status[:, j] == DONE).sum(axis=-1) >= FEWEST
        known = enough & np.isfinite(lowest["value"][:, j]) & (lowest["error"][:, j] > 0)
        if alpha < sweep.alpha_bbp and known.sum() >= 2:
            edge = bulk_edge(sweep.model, float(alpha))
            shift = lowest["value"][known, j] - edge.value
            found.append(
                (float(alpha), edge.kind, shift_law(sweep.n[known], shift, lowest["error"][known, j]))
            )
    return found


def _alpha_zero(sweep: Sweep, method: str) -> float:
    found = alpha_zero(sweep.model, method=method) if sweep.model.is_committee else None
    return math.nan if found is None else float(found)


def _sampled_zeros(sweep: Sweep) -> dict[int, Estimate]:
    overlap = observables(sweep).overlap
    above = (sweep.alpha > sweep.alpha_bbp) & (sweep.alpha < WINDOW * sweep.alpha_bbp)
    zeros = {}
    for i, n in enumerate(sweep.n):
        chosen = above & np.isfinite(overlap[i]).any(axis=-1)
        if chosen.sum() >= 2:
            zeros[int(n)] = alpha_zero_sampled(sweep.alpha[chosen], overlap[i][chosen])
    return zeros
