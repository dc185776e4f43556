"""Samples on rows of one's own: what theory says of each, and at each (N, alpha) the verdict by which it may be said."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

import sims
from bbp.experiments.samples import LAWS, ROWS
from bbp.files.variables import DONE
from sims import given as given_rows
from sims import instance
from sims.hessian import hessian
from theory.checks import ParameterError
from theory.given import population
from theory.given.labels import bulk_density
from theory.model import Inputs, Network

MOST = 4000  # order of a whole Hessian
POINTS, REACH = 400, 0.97  # places of a density, up to this share of the eigenvalues
TAIL = 1e-4  # of the largest density: below it nothing is drawn left of the bulk
_NUMBERS = ("lowest", "lowest_error", "overlap", "overlap_error", "misfit", "misfit_error")


def verdicts(found: xr.Dataset, model: Network) -> dict[str, Any]:
    """Variables over (n, alpha): theory's means where a law of the rows holds, the verdict and why."""
    assert model.inputs is not None
    shape = (found.sizes["n"], found.sizes["alpha"])
    numbers = {
        name: np.full(shape, np.nan) for name in (*_NUMBERS, "misfit_overlap", "lowest_std", "overlap_std")
    }
    words = {name: np.full(shape, "", dtype=object) for name in ("verdict", "why")}
    for place in np.ndindex(shape):
        done = found.status.values[place] == DONE
        said = np.concatenate([found[field.name].values[place][done] for field in ROWS], axis=1)
        lowest = found.eigenvalues.values[place][done][:, 0]
        overlap = found.overlaps.values[place][done][:, 0]
        alpha, seed = float(found.alpha.values[place[1]]), int(found.attrs["seed"])
        verdict = given_rows.verdict_of(model, alpha, seed, lowest, overlap, said)
        for name in _NUMBERS:
            numbers[name][place] = getattr(verdict, name)
        numbers["misfit_overlap"][place] = verdict.overlap_misfit
        words["verdict"][place] = verdict.kind
        words["why"][place] = verdict.reason + (": more samples may tell" if verdict.open else "")
        if verdict.kind != "neither":
            law = LAWS.index(verdict.kind.lower())
            for name, column in (("lowest", 0), ("overlap", 2)):
                if np.isfinite(numbers[name][place]):
                    numbers[f"{name}_std"][place] = np.std(said[:, column + law], ddof=1)
    return {f"theory_n_{name}": (("n", "alpha"), values) for name, values in (numbers | words).items()}


def eigenvalues(model: Network, alpha: float, samples: int = 4) -> NDArray[np.float64]:
    """All eigenvalues (samples, p N) of some draws of seed 0."""
    rows = _rows(model)
    if model.p * rows.n > MOST:
        raise ParameterError(
            f"spectrum takes whole Hessians of order {MOST} at most, got p N = {model.p * rows.n:g}"
        )
    drawn = (sims.draw(model, rows.n, alpha, sample=sample) for sample in range(samples))
    return np.stack([np.linalg.eigvalsh(hessian(each)) for each in drawn])


def spectrum(model: Network, alpha: float, seen: NDArray[np.float64]) -> tuple[str, NDArray, NDArray]:
    """The verdict at alpha, and the density (k,) of the bulk of the first draw at places (k,) where eigenvalues `seen` are;
    NaN for "neither"."""
    verdict = given_rows.judged(model, alpha)
    low, high = float(seen.min()), float(np.quantile(seen, REACH))
    places = low + (high - low) * np.linspace(-0.1, 1, POINTS)
    if verdict.kind == "neither":
        return verdict.kind, places, np.full(POINTS, np.nan)
    drawn, rows = sims.draw(model, _rows(model).n, alpha), _rows(model)
    taken = rows.take(instance.chosen(drawn.words, rows.count, drawn.m))
    student, teacher = np.asarray(drawn.student, np.float64), np.asarray(drawn.teacher, np.float64)
    y, scaled = instance.outputs(drawn), verdict.kind == "elliptical"
    rho = bulk_density(model, population(rows), taken, student, teacher, places, y, scaled=scaled)
    good = np.isfinite(rho) & (np.arange(POINTS) >= np.argmax(rho > TAIL * np.nanmax(rho)) - 1)
    return verdict.kind, places[good], rho[good]


def rank(model: Network) -> int:
    """In how many directions the rows vary."""
    return len(population(_rows(model)).s)


def _rows(model: Network) -> Inputs:
    assert model.inputs is not None
    return model.inputs
