"""Which samples are still to run, cut into units: a function of the experiment and of the samples themselves.

Nothing here depends on the order, size or place of the units, so a run that stops points early or adds points as it goes
still gives the same numbers on one machine or many. Units are made as they are asked for: a plan of 10^9 samples is small.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bbp.engine.experiment import Experiment
from bbp.engine.tasks import Point, Results, Unit

LARGEST_BLOCK = 256
UNIT_SECONDS = 4.0  # what a crash may cost; long against the few milliseconds that storing a unit takes


@dataclass(frozen=True)
class Division:
    """How the work is cut. None of it changes a number.

    block       samples a unit; None: as many as take about UNIT_SECONDS
    hints       passed on to what computes: `batch`, `threads`
    parallel    units that run at once: cut finer where there would be too few
    index, count  this is task `index` of `count` (from 1): every count-th piece is its share
    """

    block: int | None = None
    hints: Mapping[str, Any] = field(default_factory=dict)
    parallel: int = 1
    index: int = 1
    count: int = 1

    def size(self, experiment: Experiment, point: Point) -> int:
        """Samples a unit at this point."""
        wanted = experiment.block(point) if self.block is None else self.block
        return max(1, min(wanted, experiment.samples))


class Pending:
    """The units that can run now, in order; `samples` counts them, iterating makes them."""

    def __init__(self, experiment: Experiment, results: Results, division: Division):
        self._experiment, self._results, self._division = experiment, results, division
        self.samples = sum(stop - start for _, spans in self._spans() for start, stop in spans)

    def __iter__(self) -> Iterator[Unit]:
        for point, start, stop in self.blocks():
            yield self._experiment.unit(point, start, stop - start, self._division.hints)

    def blocks(self) -> Iterator[tuple[Point, int, int]]:
        """Each unit's point, first sample and the one after its last."""
        fair = -(-self.samples // (4 * self._division.parallel))
        for point, spans in self._spans():
            size = self._size(point, fair)
            for start, stop in spans:
                for first in range(start, stop, size):
                    yield point, first, min(first + size, stop)

    def counts(self) -> Iterator[tuple[Point, int, int]]:
        """Of each point: how many units and samples are to run."""
        fair = -(-self.samples // (4 * self._division.parallel))
        for point, spans in self._spans():
            size, units, samples = self._size(point, fair), 0, 0
            for start, stop in spans:
                units += -(-(stop - start) // size)
                samples += stop - start
            yield point, units, samples

    def _size(self, point: Point, fair: int) -> int:
        size = self._division.size(self._experiment, point)
        finer = self._division.parallel > 1 and self._division.block is None
        return max(1, min(size, fair)) if finer else size

    def _spans(self) -> Iterator[tuple[Point, Iterable[tuple[int, int]]]]:
        """Each point with (start, stop) of its runs of missing samples that are this task's."""
        position = 0
        for point in self._experiment.points(self._results):
            # A point that may stop early is judged as a whole, so all of it is one task's.
            most = self._experiment.samples
            piece = most if self._experiment.whole else self._division.size(self._experiment, point)
            yield point, self._missing(point, piece, position)
            position += -(-most // piece)

    def _missing(self, point: Point, piece: int, position: int) -> Iterable[tuple[int, int]]:
        number, division = self._experiment.wanted(self._results, point), self._division
        if not self._results.any(point):
            if division.count == 1:
                return [(0, number)] if number else []
            own = (division.index - 1 - position) % division.count
            return (
                (start, min(start + piece, number))
                for start in range(own * piece, number, division.count * piece)
            )
        samples = self._results.missing(point, number)
        samples = samples[(position + samples // piece) % division.count == division.index - 1]
        return runs(samples)


def runs(samples: Any) -> Iterator[tuple[int, int]]:
    """(start, stop) of the runs of consecutive numbers in a rising sequence."""
    if len(samples) == 0:
        return
    breaks = np.flatnonzero(np.diff(samples) > 1)
    starts, stops = [0, *(breaks + 1)], [*breaks, len(samples) - 1]
    for start, stop in zip(starts, stops, strict=True):
        yield int(samples[start]), int(samples[stop]) + 1


def pending(experiment: Experiment, results: Results, division: Division) -> Pending:
    """Units that can run now; none when every sample (of this task's share) is there.

    Call again after they have run: points may ask for more samples, and refinement adds points.
    """
    return Pending(experiment, results, division)
