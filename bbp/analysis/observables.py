"""Observables of a sweep: what samples of one (N, alpha) say, each number with its bootstrap error."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bbp.analysis.bootstrap import Estimate, bootstrap, fraction
from bbp.experiments.models import Model
from bbp.store import DONE, Sweep

if TYPE_CHECKING:  # bbp.info has no need of JAX
    from sims.sampling import PointResult

Array = NDArray[np.float64]

NAMES = ("lowest", "overlap", "phi", "phi_group", "gap")


@dataclass(frozen=True)
class Observables:
    """Per-sample observables of one model, each (n, alpha, sample) or, of one point, (sample,); NaN where a sample was not run,
    failed or cannot say.

    eigenvalues  (..., eigenpair) the lowest, units of the Hessian
    lowest     smallest eigenvalue, units of the Hessian
    overlap    mean squared overlap q2 of the p p_star lowest eigenvectors with the signal space
    phi        1 where the eigenvector of largest overlap is that of the smallest eigenvalue (paper's order parameter)
    phi_group  1 where it is among the p p_star lowest: the same for p = p_star = 1, and what survives degeneracy
    gap        distance from the p p_star lowest eigenvalues to the next one, units of the Hessian
    """

    eigenvalues: Array
    lowest: Array
    overlap: Array
    phi: Array
    phi_group: Array
    gap: Array


def mean_overlap(model: Model, overlaps: Array) -> Array:
    """q2 of each sample: the mean of overlaps (..., eigenpair) over the p p_star lowest eigenvectors."""
    return overlaps[..., : int(model.degeneracy)].mean(axis=-1)


def observables(sweep: Sweep) -> Observables:
    """Per-sample observables of a sweep."""
    return of_samples(sweep.model, sweep)


def of_samples(model: Model, found: Sweep | PointResult) -> Observables:
    """Per-sample observables of what samples of one model gave: a sweep's arrays, or one point's (sample,)."""
    size = int(model.degeneracy)
    done = found.status == DONE
    rank = np.where(done & (found.max_overlap_rank >= 0), found.max_overlap_rank.astype(np.float64), np.nan)
    values, overlaps = (np.where(done[..., None], a, np.nan) for a in (found.eigenvalues, found.overlaps))
    known = np.isfinite(rank)
    gap = np.full(done.shape, np.nan)
    if values.shape[-1] > size:
        gap = values[..., size] - values[..., size - 1]
    return Observables(
        eigenvalues=values,
        lowest=values[..., 0],
        overlap=mean_overlap(model, overlaps),
        phi=np.where(known, rank == 0, np.nan),
        phi_group=np.where(known, rank < size, np.nan),
        gap=gap,
    )


def estimates(sweep: Sweep, *, repeats: int = 1000, seed: int = 0) -> dict[str, list[list[Estimate]]]:
    """Every observable's estimate, by name and then [n][alpha]; the bootstrap's own seed makes it repeatable."""
    rng = np.random.default_rng(seed)
    per_sample = observables(sweep)
    table: dict[str, list[list[Estimate]]] = {}
    for name in NAMES:
        rows = getattr(per_sample, name)
        if name.startswith("phi"):
            table[name] = [[fraction(cell) for cell in row] for row in rows]
        else:
            table[name] = [[bootstrap(cell, rng, repeats=repeats) for cell in row] for row in rows]
    return table
