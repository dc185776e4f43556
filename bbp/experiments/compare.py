"""A comparison as an experiment: its points are rows along alpha, one a model and N, of finite-N theory's draws.

What the engine calls a sample is here one alpha of a row. The samples themselves are read, not made: the record states their
checksum, so that draws go on only beside the same samples.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import xarray as xr

from bbp.analysis import comparison, summary
from bbp.analysis.comparison import THEORY_N
from bbp.console.messages import FileError
from bbp.console.options import checked, decisive
from bbp.engine.run import Point, Results
from bbp.experiments import models
from bbp.experiments.base import UNIT_SECONDS, Cost, Experiment, each_model
from bbp.experiments.columns import Columns, Computation, per_sample
from bbp.experiments.options import COMPARE
from bbp.experiments.samples import law_seconds
from bbp.files import dataset, product
from bbp.files.dataset import SWEEP
from bbp.files.variables import FILL


def compute(record: Mapping[str, Any], samples: Sequence[int], *, threads: int = 1) -> Columns:
    """The draws at some alphas of a row: every field of `bbp.analysis.comparison.THEORY_N`."""
    alpha = np.array([record["alpha"][sample] for sample in samples])
    model, n = models.build(record), record["n"]
    told = summary.theory_at(model, n, alpha, record["draws"], record["seed"], threads)
    return {name: told[name] for name in THEORY_N}


COMPUTATION = per_sample(compute, *THEORY_N)


@dataclass(frozen=True)
class CompareExperiment(Experiment):
    """Comparisons of pooled sweeps, one a model. A point is (index of the model, N): a row along alpha.

    files   where the samples come from, for the file
    """

    sweeps: tuple[xr.Dataset, ...]
    settings: dict[str, Any]
    files: tuple[str, ...] = ()

    name, form, unit_of, in_threads = "comparison", comparison.FORMAT, "points", True
    defaults = checked(COMPARE, {}, decides=True)

    @property
    def samples(self) -> int:
        """The longest row."""
        return max(sweep.sizes["alpha"] for sweep in self.sweeps)

    @cached_property
    def records(self) -> list[dict[str, Any]]:
        """Of each model: itself, the checksum of its samples, and the settings."""
        return [models.record(models.of(s)) | {"data": _checksum(s)} | self.settings for s in self.sweeps]

    def points(self, results: Results) -> Iterator[Point]:
        """Every model and N that the theory knows, if draws were asked for."""
        for index, sweep in enumerate(self.sweeps):
            if self.settings["draws"] and models.of(sweep).is_committee:
                yield from ((index, int(n)) for n in sweep.n.values)

    def computation(self, point: Point) -> Computation:
        """Draws."""
        return COMPUTATION

    def record_of(self, point: Point) -> dict[str, Any]:
        """Model, N, the alphas of the row, draws and seed."""
        sweep = self.sweeps[point[0]]
        drawn = {name: self.settings[name] for name in ("draws", "seed")}
        return models.record(models.of(sweep)) | {"n": point[1], "alpha": sweep.alpha.values.tolist()} | drawn

    def block(self, point: Point) -> int:
        """Alphas of UNIT_SECONDS."""
        return max(1, int(UNIT_SECONDS / self.cost(point, {}).work))

    def wanted(self, results: Results, point: Point) -> int:
        """The length of the row."""
        return self.sweeps[point[0]].sizes["alpha"]

    def assemble(self, results: Results) -> xr.Dataset | list[xr.Dataset]:
        """The comparison, of several models a list, in their order."""
        finished = all(self.complete(results, point) for point in self.points(results))
        found = []
        for index, sweep in enumerate(self.sweeps):
            compared = comparison.compare(sweep, theory_n=self._theory_n(results, index), **self.settings)
            config = json.dumps(self.records[index] | {"files": list(self.files)})
            found.append(compared.assign_attrs(config=config, finished=int(finished)))
        return found if len(found) > 1 else found[0]

    def table(self, found: Any) -> str:
        """The table of every model."""
        return "\n\n".join(comparison.table(each) for each in each_model(found))

    def words(self, point: Point) -> str:
        """Model and N."""
        return f"{models.words(models.of(self.sweeps[point[0]]))} N={point[1]}"

    def cost(self, point: Point, hints: Mapping[str, Any]) -> Cost:
        """Of the draws at one alpha of the row: matrices of a few dozen rows gain nothing from threads of BLAS."""
        sweep = self.sweeps[point[0]]
        seconds = law_seconds(int(sweep.p), point[1], float(sweep.alpha.mean()), self.settings["draws"])
        return Cost(self.words(point), seconds, (point[0], int(sweep.n.min())), seconds)

    def _theory_n(self, results: Results, index: int) -> dict[str, Any] | None:
        """The draws of a model over (n, alpha), NaN where there are none; None if none were asked for."""
        if not self.settings["draws"]:
            return None
        sweep = self.sweeps[index]
        axes = {"n": sweep.n.values, "sample": np.arange(sweep.sizes["alpha"])}
        found = self.over(results, [(index, int(n)) for n in sweep.n.values], axes, ("n",))
        return {name: found[name].values for name in (*THEORY_N, "reason")}


def build(how: Mapping[str, Any], asked: Mapping[str, Any], files: Sequence[str]) -> CompareExperiment:
    """A `CompareExperiment` of the samples in these files, from checked options; FileError, ParameterError."""
    sweeps = product.split(product.join(dataset.open_all(files, SWEEP)))
    for sweep in sweeps:
        comparison.require_samples(sweep)
    if how["out"] is not None and len(sweeps) > 1:
        names = "; ".join(models.words(models.of(sweep)) for sweep in sweeps)
        raise FileError(f"the files hold {len(sweeps)} models ({names}): a file of numbers holds one")
    return CompareExperiment(tuple(sweeps), decisive(COMPARE, how), tuple(map(str, files)))


def _checksum(sweep: xr.Dataset) -> str:
    total = hashlib.sha256()
    for name in ("n", "alpha", "status", "eigenvalues", "overlaps", "max_overlap_rank"):
        values = sweep[name].values
        if name in FILL:
            values = np.nan_to_num(values, nan=FILL[name][1]).astype(FILL[name][0])
        total.update(f"{name} {values.shape}".encode())
        total.update(np.ascontiguousarray(values).tobytes())
    return total.hexdigest()[:16]
