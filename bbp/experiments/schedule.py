"""Which samples are still to run: a function of the configuration and of the samples themselves.

Nothing here depends on the order, size or place of the units, so a sweep that stops points early (`target_error`) or
adds points where the overlap changes most (`refine`) still gives the same numbers on one machine or many.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from bbp.analysis.summary import mean_and_error
from bbp.console.grids import rounded
from bbp.engine.tasks import Point, Results, Unit, blocks
from bbp.experiments.sweep import Config

CHECK = 8  # with target_error a point is judged after every CHECK samples
LARGEST_BLOCK = 256
UNIT_SECONDS = 4.0  # what a crash may cost; long against the few milliseconds that storing a unit takes
SECONDS_PER_CUBE = 1e-9  # one dense sample takes about this times (p n)^3 on one core


@dataclass(frozen=True)
class Division:
    """How the work is cut. None of it changes a number.

    block       samples a unit; None: as many as take about UNIT_SECONDS
    batch       samples diagonalised together, passed on to the sampler
    parallel    units that run at once: cut finer where there would be too few
    index, count  this is task `index` of `count` (from 1): every count-th piece is its share
    """

    block: int | None = None
    batch: int | None = None
    parallel: int = 1
    index: int = 1
    count: int = 1

    def size(self, config: Config, point: Point) -> int:
        """Samples a unit at this point."""
        if self.block is not None:
            return min(self.block, config.samples)
        seconds = SECONDS_PER_CUBE * float(config.models[point.model].p * point.n) ** 3
        return max(1, min(int(UNIT_SECONDS / seconds), LARGEST_BLOCK, config.samples))


def pending(config: Config, results: Results, division: Division) -> list[Unit]:
    """Units that can run now; empty when every sample (of this task's share) is there.

    Call again after they have run: points may ask for more samples, and refinement adds points.
    """
    missing: list[tuple[Point, list[int]]] = []
    position = 0
    for point in points(config, results):
        held = results.done(point)
        # A point that may stop early is judged as a whole, so all of it is one task's.
        piece = division.size(config, point) if config.target_error is None else config.samples
        missing.append(
            (
                point,
                [
                    sample
                    for sample in range(wanted(config, results, point))
                    if sample not in held
                    and (position + sample // piece) % division.count == division.index - 1
                ],
            )
        )
        position += -(-config.samples // piece)
    fair = -(-sum(len(samples) for _, samples in missing) // (4 * division.parallel))
    return [
        unit(config, point, first, count, division.batch)
        for point, samples in missing
        for first, count in blocks(samples, _unit_size(config, point, division, fair))
    ]


def unit(config: Config, point: Point, first: int, count: int, batch: int | None = None) -> Unit:
    """The unit of these samples of this point."""
    return Unit(
        point=point,
        first=first,
        count=count,
        model=config.models[point.model],
        seed=config.seed,
        eigenpairs=config.eigenpairs[point.model],
        dtype=config.dtype,
        solver=config.solver,
        batch=batch,
    )


def points(config: Config, results: Results) -> list[Point]:
    """Every point known so far: those of the grid, and those that refinement has added."""
    return [
        Point(index, n, alpha)
        for index in range(len(config.models))
        for n, alpha in product(config.n, alphas(config, results, index))
    ]


def alphas(config: Config, results: Results, index: int) -> list[float]:
    """alpha of the model with this index, rising: the grid, and one round of refinement for each complete one."""
    found = list(config.alphas[index])
    for _ in range(config.refine):
        if not all(
            complete(config, results, Point(index, n, alpha)) for n, alpha in product(config.n, found)
        ):
            break
        found = sorted({*found, *(_steepest(config, results, index, n, found) for n in config.n)})
    return found


def wanted(config: Config, results: Results, point: Point) -> int:
    """How many samples the point asks for, as far as those it has can tell."""
    if config.target_error is None:
        return config.samples
    held = results.done(point)
    for number in range(CHECK, config.samples, CHECK):
        if any(sample not in held for sample in range(number)):
            return number
        if error(config, results, point, number) <= config.target_error:
            return number
    return config.samples


def complete(config: Config, results: Results, point: Point) -> bool:
    """Whether every sample that the point asks for has been run."""
    held = results.done(point)
    return all(sample in held for sample in range(wanted(config, results, point)))


def error(config: Config, results: Results, point: Point, number: int) -> float:
    """The larger of the standard errors of lowest eigenvalue and overlap over the first samples; inf below 2."""
    lowest = results.first(point, number, "eigenvalues")
    spread = float(mean_and_error(lowest[:, 0] if len(lowest) else [])[1])
    errors = np.array([spread, _overlap(config, results, point, number)[1]])
    return float(np.nan_to_num(errors, nan=np.inf).max())


def _steepest(config: Config, results: Results, index: int, n: int, grid: Sequence[float]) -> float:
    """The middle of the step of the grid over which the mean overlap changes most."""
    means = [_overlap(config, results, Point(index, n, alpha), config.samples)[0] for alpha in grid]
    if len(grid) < 2:
        return grid[0]
    step = int(np.argmax(np.nan_to_num(np.abs(np.diff(means)))))
    return rounded((grid[step] + grid[step + 1]) / 2)


def _overlap(config: Config, results: Results, point: Point, number: int) -> tuple[float, float]:
    """Mean and standard error of q2 over the first `number` samples, each averaged over the p p_star lowest pairs."""
    values = results.first(point, number, "overlaps")
    size = int(config.models[point.model].degeneracy)
    mean, spread = mean_and_error(values[:, :size].mean(axis=1) if len(values) else [])
    return float(mean), float(spread)


def _unit_size(config: Config, point: Point, division: Division, fair: int) -> int:
    size = division.size(config, point)
    return max(1, min(size, fair)) if division.parallel > 1 and division.block is None else size
