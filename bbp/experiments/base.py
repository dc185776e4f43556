"""What an experiment is, which programs run (`bbp.experiments.program`) and the engine carries out (`bbp.engine.run`)."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from bbp.engine.run import Point, Result, Results, Unit
from bbp.experiments.columns import Computation
from bbp.files import dataset, variables
from bbp.files.product import split

LARGEST_BLOCK = 256
UNIT_SECONDS = 4.0  # what a crash may cost; long against the few milliseconds that storing a unit takes


@dataclass(frozen=True)
class Cost:
    """What a sample of a point takes, as far as that is known before.

    row      of the dry run's table that the point belongs to, in a few words
    work     in any unit: estimates of time scale with it
    probe    a point like this one, small enough to be timed
    seconds  about, here on one core; None if it keeps several cores busy by itself, or nobody knows
    closing  about the seconds that putting the point into the file takes, shared by all cores, beside reading and writing
    bytes    that one unit takes; 0 where it hardly matters
    """

    row: str
    work: float
    probe: Point
    seconds: float | None = None
    closing: float = 0.0
    bytes: int = 0


class Experiment(ABC):
    """Points, computation and file of one program's run.

    name        in messages and in the plan of an unfinished run: "sweep"
    form        of its file: "bbp-sweep"
    settings    the checked options that decide the numbers, by name
    defaults    of these options: files and parts from before an option existed do not name it, and were made with its default
    unit_of     what a sample is called: "samples"
    whole       a point may stop early, and is judged as a whole: all of it is one task's
    in_threads  units of a run of which nothing is kept run one after another, each in threads (the hint `threads`)
    note        a line more for the dry run
    """

    name: str
    form: str
    settings: dict[str, Any]
    defaults: Mapping[str, Any]
    unit_of: str = "samples"
    whole: bool = False
    in_threads: bool = False
    note: str = ""

    @property
    def samples(self) -> int:
        """Samples a point, at most."""
        return self.settings["samples"]

    @property
    def records(self) -> list[dict[str, Any]]:
        """What two runs must agree on, as plain data, one record a model."""
        return [self.settings]

    @abstractmethod
    def points(self, results: Results) -> Iterable[Point]:
        """Every point known so far, in a fixed order."""

    @abstractmethod
    def computation(self, point: Point) -> Computation:
        """What is computed at this point."""

    @abstractmethod
    def record_of(self, point: Point) -> dict[str, Any]:
        """All that decides the numbers at this point, as plain data; ValueError or TypeError for none of this run."""

    def wanted(self, results: Results, point: Point) -> int:
        """How many samples the point asks for, as far as those it has can tell."""
        return self.samples

    def block(self, point: Point) -> int:
        """Samples a unit where the user does not say: some seconds of work, which is what a crash may cost."""
        return self.samples

    @abstractmethod
    def cost(self, point: Point, hints: Mapping[str, Any]) -> Cost:
        """What a sample at this point takes."""

    def check_memory(self, hints: Mapping[str, Any], processes: int) -> None:
        """ParameterError, with the bytes needed and what would fit, if the largest unit does not fit here."""
        return

    @abstractmethod
    def words(self, point: Point) -> str:
        """The point in a few words."""

    @abstractmethod
    def assemble(self, results: Results) -> Any:
        """What the file is to hold, of all that has been run: a Dataset, or a list of several that no file holds."""

    @abstractmethod
    def table(self, found: Any) -> str:
        """The closing table."""

    def save(self, path: Path, found: Any) -> None:
        """Write the file."""
        dataset.write(path, found)

    def load(self, path: Path, locking: dataset.Locking) -> tuple[xr.Dataset, list[dict[str, Any]]]:
        """What the file holds, and its records; FileError."""
        found = dataset.open(path, self.form, locking=locking)
        # Names of the files that were compared are stored too: their contents count.
        configs = (dataset.config(each) for each in split(found))
        return found, [{k: v for k, v in config.items() if k != "files"} for config in configs]

    def reasons(self, found: Any) -> list[str]:
        """Why samples of a result failed, in order."""
        whys = [
            each[name].values
            for each in each_model(found)
            for name in each
            if name == "reason" or str(name).endswith("_reason")
        ]
        return [text for why in whys if why.dtype == object for text in why.ravel() if text]

    def unit(self, point: Point, first: int, count: int, hints: Mapping[str, Any] | None = None) -> Unit:
        """The unit of these samples of this point."""
        return Unit(self.computation(point), point, self.record_of(point), first, count, hints or {})

    def complete(self, results: Results, point: Point) -> bool:
        """Whether every sample that the point asks for has been run."""
        return not results.lacking(point, self.wanted(results, point))

    def over(
        self, results: Results, points: Sequence[Point], axes: Mapping[str, Any], outer: Sequence[str]
    ) -> xr.Dataset:
        """Columns of these points, which run over the axes `outer`; what was not run is missing, of status 0.

        axes   coordinates by name: `outer` and those of the columns
        """
        sizes = {name: len(values) for name, values in axes.items()}
        fields = self.computation(points[0]).fields
        found = {field.name: field.empty(sizes, outer) for field in fields}
        for index, point in zip(np.ndindex(*(sizes[name] for name in outer)), points, strict=True):
            table = results.at(point, self.wanted(results, point))
            for name, values in found.items() if len(table["sample"]) else ():
                values[index][table["sample"]] = table[name]
        columns = {f.name: ((*outer, *f.dims), found[f.name], f.attributes) for f in fields}
        return xr.Dataset(columns, dict(axes))

    def origin(self, results: Results, points: Iterable[Point], record: Mapping[str, Any]) -> dict[str, Any]:
        """Attributes: what the file of these points is, whether it is complete, its configuration, and what made it."""
        own = set(points)
        made = [unit.made for unit in results.units if unit.point in own and unit.made]
        finished = int(all(self.complete(results, point) for point in own))
        config = {"format": self.form, "finished": finished, "config": json.dumps(record)}
        return config | variables.provenance(made)


def each_model(found: Any) -> list[xr.Dataset]:
    """The results, one a model, of what `Experiment.assemble` gives."""
    return split(found) if isinstance(found, xr.Dataset) else found


def devices(units: Iterable[Result]) -> str:
    """The devices that computed, in words."""
    return ", ".join(sorted({unit.device for unit in units if unit.device})) or "none"
