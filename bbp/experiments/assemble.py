"""From units to sweeps: the arrays of the file, the theory beside them, and where it all came from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bbp.engine.tasks import ARRAYS, Point, Result, Results
from bbp.experiments import schedule
from bbp.experiments.sweep import Config
from bbp.files import provenance
from bbp.store import NOT_RUN, Sweep
from sims.instance import STREAM
from theory.outliers import teacher_branch
from theory.transition import bbp_threshold


def sweeps(config: Config, results: Results) -> list[Sweep]:
    """One `Sweep` a model, of all that has been run; samples not run are NaN with status 0."""
    return [_sweep(config, results, index) for index in range(len(config.models))]


def _sweep(config: Config, results: Results, index: int) -> Sweep:
    model, grid = config.models[index], schedule.alphas(config, results, index)
    threshold, branch = bbp_threshold(model), teacher_branch(model, np.array(grid))
    arrays = _arrays(config, results, index, grid)
    units = [unit for unit in results.units if unit.point.model == index]
    done = all(schedule.complete(config, results, Point(index, n, alpha)) for n in config.n for alpha in grid)
    return Sweep(
        model=model,
        alpha_bbp=threshold.alpha,
        kind=threshold.kind,
        n=np.array(config.n),
        alpha=np.array(grid),
        sample=np.arange(config.samples),
        eigenpair=np.arange(config.eigenpairs[index]),
        **arrays,
        edge=branch.edge,
        outlier=branch.outlier,
        overlap=branch.overlap,
        config=config.record(index),
        provenance=_provenance(units),
        attributes={
            "seed": config.seed,
            "dtype": config.dtype,
            "device": ", ".join(sorted({unit.device for unit in units if unit.device})) or "none",
            "prng": STREAM,
            "finished": int(done),
        }
        | provenance.record(),
    )


def _arrays(config: Config, results: Results, index: int, grid: Sequence[float]) -> dict[str, NDArray[Any]]:
    shape = (len(config.n), len(grid), config.samples)
    pairs = (*shape, config.eigenpairs[index])
    arrays: dict[str, NDArray[Any]] = {
        "eigenvalues": np.full(pairs, np.nan),
        "overlaps": np.full(pairs, np.nan),
        "residuals": np.full(pairs, np.nan),
        "max_overlap_rank": np.full(shape, -1, dtype=np.int64),
        "status": np.full(shape, NOT_RUN, dtype=np.int8),
        "reason": np.full(shape, "", dtype=object),
    }
    for i, n in enumerate(config.n):
        for j, alpha in enumerate(grid):
            point = Point(index, n, alpha)
            number = schedule.wanted(config, results, point)
            for sample, (result, row) in results.done(point).items():
                if sample < number:
                    for name in ARRAYS:
                        arrays[name][i, j, sample] = getattr(result, name)[row]
    return arrays


def _provenance(units: Sequence[Result]) -> dict[str, NDArray[Any]]:
    units = sorted(units, key=lambda unit: (unit.point, unit.first, unit.count))
    return {
        "n": np.array([unit.point.n for unit in units], dtype=np.int64),
        "alpha": np.array([unit.point.alpha for unit in units], dtype=np.float64),
        "first": np.array([unit.first for unit in units], dtype=np.int64),
        "count": np.array([unit.count for unit in units], dtype=np.int64),
        "seconds": np.array([unit.seconds for unit in units], dtype=np.float64),
        "host": np.array([unit.host for unit in units], dtype=object),
        "device": np.array([unit.device for unit in units], dtype=object),
    }
