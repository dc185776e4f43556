"""The sweep as an experiment: samples of the Hessian over models, N and alpha, beside the theory."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from bbp.analysis import summary
from bbp.analysis.summary import draws_of, mean_overlap
from bbp.console import grids, options
from bbp.console.messages import log
from bbp.engine import experiment as engine
from bbp.engine.experiment import LARGEST_BLOCK, UNIT_SECONDS, differences
from bbp.engine.tasks import Field, Kind, Results
from bbp.experiments import assemble, models
from bbp.experiments.cost import law_seconds, sample_seconds
from bbp.experiments.options import AUTO, SWEEP
from bbp.experiments.samples import COLUMNS, KIND, LAWS, ROWS, own_column
from bbp.files import dataset
from bbp.files.product import combined, split
from bbp.files.variables import FAILED
from sims import sampling
from sims.instance import STREAM, finite_p, samples_of
from sims.krylov.sample import preferred_solver
from sims.machine import allotted
from sims.observables import Observable, tried
from theory.checks import ParameterError, shown
from theory.model import Network

__all__ = ["Point", "SweepExperiment", "build", "differences"]

MOST_MODELS, MOST_POINTS = 1000, 20_000
CHECK = 8  # with target_error a point is judged after every CHECK samples
SECONDS_PER_CUBE = 1e-9  # of (p n)^3: a slow machine's, for units that no machine takes long for
SIDE_BY_SIDE = 2000  # largest order p n of which samples go side by side, one BLAS thread each
PROBE = {
    "dense": 400,
    "krylov": 1600,
}  # size p n of the matrix whose time is scaled up; a smaller one is not searched
PER_POINT = (
    "n",
    "samples",
    "target_error",
    "refine",
)  # of the settings: what a point's numbers do not depend on


class Point(NamedTuple):
    """Where samples are drawn: the index of the model, the input dimension, and alpha."""

    model: int
    n: int
    alpha: float


@dataclass(frozen=True)
class SweepExperiment(engine.Experiment):
    """A sweep, with everything filled in.

    settings     the checked options that decide the numbers (bbp.experiments.options.SWEEP), by name
    models       one model, or the product over p, p_star, a
    alphas       for each model, alpha in rising order
    eigenpairs   for each model, how many of the lowest eigenpairs
    observables  those of one's own, in the order of the settings
    """

    settings: dict[str, Any]
    models: tuple[Network, ...]
    alphas: tuple[tuple[float, ...], ...]
    eigenpairs: tuple[int, ...]
    observables: tuple[Observable, ...] = ()

    name = "sweep"

    @property
    def n(self) -> tuple[int, ...]:
        """Input dimensions, rising."""
        return tuple(self.settings["n"])

    @property
    def samples(self) -> int:  # type: ignore[override]
        """Samples a point; at most so many with a target error."""
        return self.settings["samples"]

    @property
    def seed(self) -> int:
        """Seed of the whole sweep."""
        return self.settings["seed"]

    @property
    def whole(self) -> bool:  # type: ignore[override]
        """Whether points are judged as wholes."""
        return self.settings["target_error"] is not None

    def record(self, index: int) -> dict[str, Any]:
        """The configuration of one model as plain data: what its file stores, and what two runs must agree on."""
        own = models.record(self.models[index]) | {"alpha_grid": list(self.alphas[index])}
        own |= {"eigenpairs": self.eigenpairs[index]}
        return {**self._plain(), **own, "prng": STREAM}

    def records(self) -> list[dict[str, Any]]:
        """The configuration of every model."""
        return [self.record(index) for index in range(len(self.models))]

    @property
    def defaults(self) -> dict[str, Any]:
        """Those of the table of options."""
        return options.checked(SWEEP, {}, decides=True)

    def points(self, results: Results) -> Iterator[Point]:
        """Those of the grid, and those that refinement has added."""
        for index in range(len(self.models)):
            for n, alpha in product(self.n, self.alphas_of(results, index)):
                yield Point(index, n, alpha)

    def kind(self, point: engine.Point) -> Kind:
        """Samples of the Hessian."""
        return replace(KIND, fields=self.columns)

    @property
    def columns(self) -> tuple[Field, ...]:
        """What is kept of each sample: `COLUMNS`, and observables of one's own."""
        own = map(own_column, self.settings["observable"] or (), self.observables)
        return (*COLUMNS, *own, *(ROWS if self.models[0].inputs is not None else ()))

    def _plain(self) -> dict[str, Any]:
        """Settings without those of the model, which its own record states; of observables what they are made of, too."""
        plain = {name: value for name, value in self.settings.items() if name not in models.DEFAULTS}
        if not self.observables:
            return plain
        return plain | {
            "observable_source": [text.entry.source for text in self.settings["observable"]],
            "observable_of": ["eigenpair" if one.of_pairs else "sample" for one in self.observables],
        }

    def given(self, point: engine.Point) -> dict[str, Any]:
        """Model, N, alpha, seed, stream and all settings but those of the grid."""
        index, n, alpha = point
        if not 0 <= index < len(self.models):
            raise ValueError("this sweep has no such point")
        record = {name: value for name, value in self._plain().items() if name not in PER_POINT}
        del record["alpha_grid"]
        own = models.record(self.models[index]) | {"eigenpairs": self.eigenpairs[index]}
        return record | own | {"n": n, "alpha": alpha, "prng": STREAM}

    def block(self, point: engine.Point) -> int:
        """Samples of UNIT_SECONDS, by the cube of p n."""
        seconds = SECONDS_PER_CUBE * float(self.models[point[0]].p * point[1]) ** 3
        return max(1, min(int(UNIT_SECONDS / seconds), LARGEST_BLOCK))

    def wanted(self, results: Results, point: engine.Point) -> int:
        """All, or with a target error as many as it takes, as far as those run can tell."""
        target = self.settings["target_error"]
        if target is None:
            return self.samples
        for number in range(CHECK, self.samples, CHECK):
            if not results.has(point, number) or self.error(results, point, number) <= target:
                return number
        return self.samples

    def error(self, results: Results, point: engine.Point, number: int) -> float:
        """The larger of the standard errors of lowest eigenvalue and overlap over the first samples; inf below 2."""
        lowest = results.first(point, number, "eigenvalues")
        spread = float(summary.mean_and_error(lowest[:, 0] if len(lowest) else [])[1])
        errors = np.array([spread, self._overlap(results, point, number)[1]])
        return float(np.nan_to_num(errors, nan=np.inf).max())

    def alphas_of(self, results: Results, index: int) -> list[float]:
        """alpha of the model with this index, rising: the grid, and one round of refinement for each complete one."""
        found = list(self.alphas[index])
        for _ in range(self.settings["refine"]):
            grid = product(self.n, found)
            if not all(self.complete(results, Point(index, n, alpha)) for n, alpha in grid):
                break
            found = sorted({*found, *(self._steepest(results, index, n, found) for n in self.n)})
        return found

    def assemble(self, results: Results) -> xr.Dataset:
        """The sweep (bbp.store), of several models as the dimension `model`."""
        return combined([self._assembled(results, index) for index in range(len(self.models))])

    def _assembled(self, results: Results, index: int) -> xr.Dataset:
        grid = self.alphas_of(results, index)
        axes = {
            "n": np.array(self.n),
            "alpha": np.array(grid),
            "sample": np.arange(self.samples),
            "eigenpair": np.arange(self.eigenpairs[index]),
        }
        if self.models[index].inputs is not None:
            axes["rows_law"] = np.array(LAWS, dtype=object)
        of_grid = product(enumerate(self.n), enumerate(grid))
        points = [((i, j), Point(index, n, alpha)) for (i, n), (j, alpha) in of_grid]
        places = [(place, point, self.wanted(results, point)) for place, point in points]
        finished = all(self.complete(results, point) for _, point in points)
        found = assemble.sweep(
            self.models[index], axes, places, results, self.record(index), finished, self.columns
        )
        for text in self.settings["observable"] or ():
            found[text.short].attrs |= {"observable": str(text), "source": text.entry.source}
            if np.isfinite(found.eigenvalues).any() and np.isnan(found[text.short]).all():
                log.warning(
                    "observable %s is NaN in every sample: it is no number there, and has no mean", text
                )
        return found

    def save(self, path: Path, found: xr.Dataset) -> None:
        """Write the sweep file."""
        dataset.write(path, found)

    def load(self, path: Path, locking: dataset.Locking) -> xr.Dataset:
        """What the file holds."""
        return dataset.open(path, dataset.SWEEP, locking=locking)

    def held(self, found: xr.Dataset) -> engine.Held:
        """Records, and reasons of failed samples in order."""
        reasons = found.reason.values[found.status.values == FAILED].tolist()
        records = [dataset.config(each) for each in split(found)]
        return engine.Held(records, bool(found.attrs["finished"]), reasons)

    def table(self, found: xr.Dataset) -> str:
        """A block of rows for each model and N."""
        return "\n\n".join(summary.table(each) for each in split(found))

    def describe(self, point: engine.Point) -> str:
        """N and alpha."""
        return f"n = {point[1]}, alpha = {point[2]:g}"

    def group(self, point: engine.Point) -> str:
        """Model and N."""
        return f"{models.words(self.models[point[0]])} N={point[1]}"

    def cost(self, point: engine.Point) -> float:
        """About the seconds of a sample on one core, by the solver that will be taken."""
        return sample_seconds(int(self.models[point[0]].p), point[1], point[2], self._solver(point))

    def seconds(self, point: engine.Point) -> float | None:
        """The same where a core a sample is best: dense matrices of order up to SIDE_BY_SIDE."""
        small = self.models[point[0]].p * point[1] <= SIDE_BY_SIDE
        return self.cost(point) if small and self._solver(point) == "dense" else None

    def closing(self) -> float:
        """Draws of the finite-N law, on all cores."""
        total = 0.0
        for model, alphas in zip(self.models, self.alphas, strict=True):
            if model.is_committee:
                each = ((n, draws_of(model, self.n, np.asarray(alphas), n)) for n in self.n)
                total += sum(law_seconds(int(model.p), n, a, draws) for n, draws in each for a in alphas)
        return total / allotted()

    def probe(self, point: engine.Point) -> Point:
        """The same model and alpha at an N that takes a moment."""
        index, n, alpha = point
        model = self.models[index]
        p = int(model.p)
        size = PROBE.get(self._solver(point), PROBE["dense"])
        least = max(model.p_star, -(-self.eigenpairs[index] // p) + 1, min(16, 2 * size // p))
        return Point(index, max(min(n, size // p), least), alpha)

    def bytes(self, point: engine.Point, hints: Mapping[str, Any]) -> int:
        """Peak bytes of a sample, or of a batch."""
        return sampling.bytes_needed(
            self.models[point[0]], point[1], point[2], **self._how(point[0]), batch=hints.get("batch")
        )

    def check_memory(self, hints: Mapping[str, Any], processes: int) -> None:
        """Each model's largest point, on every process at once."""
        batch = hints.get("batch", 1) * processes
        for index, model in enumerate(self.models):
            how = self._how(index)
            sampling.sample_point(
                model, self.n[-1], self.alphas[index][-1], [], self.seed, **how, batch=batch
            )

    def check_task(self) -> None:
        """Refinement looks at all points."""
        if self.settings["refine"]:
            raise ParameterError("--refine looks at the whole sweep: run it without --task")

    def notes(self) -> list[str]:
        """That more rounds may follow."""
        if not self.whole and not self.settings["refine"]:
            return []
        return ["this is the first round: --target-error and --refine ask for more as they see the samples"]

    def _solver(self, point: engine.Point) -> str:
        """The solver that will be taken."""
        if self.settings["solver"] != "auto":
            return self.settings["solver"]
        index, n, alpha = point
        return preferred_solver(self.models[index], n, alpha, self.eigenpairs[index], self.settings["dtype"])

    def _how(self, index: int) -> dict[str, Any]:
        chosen = {name: self.settings[name] for name in ("dtype", "solver")}
        return chosen | {"eigenpairs": self.eigenpairs[index]}

    def _steepest(self, results: Results, index: int, n: int, grid: Sequence[float]) -> float:
        """The middle of the step of the grid over which the mean overlap changes most."""
        means = [self._overlap(results, Point(index, n, alpha), self.samples)[0] for alpha in grid]
        if len(grid) < 2:
            return grid[0]
        step = int(np.argmax(np.nan_to_num(np.abs(np.diff(means)))))
        return grids.rounded((grid[step] + grid[step + 1]) / 2)

    def _overlap(self, results: Results, point: engine.Point, number: int) -> tuple[float, float]:
        """Mean and standard error over the first `number` samples of q2 of the p p_star lowest pairs."""
        values = results.first(point, number, "overlaps")
        values = mean_overlap(self.models[point[0]], values) if len(values) else values
        mean, spread = summary.mean_and_error(values)
        return float(mean), float(spread)


def build(given: Mapping[str, Any], model: Any = None) -> SweepExperiment:
    """A `SweepExperiment` from options by name (text or typed values), defaults filled in; ParameterError on a bad one.

    model   of the theory, or several: instead of the options that say what it is
    """
    settings = options.checked(SWEEP, given, decides=True)
    settings = models.with_size(settings, given, model)
    if model is None:
        _check_work(settings)
        sizes = product(settings["p"], settings["p_star"], settings["a"])
        found = tuple(models.make(*each, settings) for each in sizes)
    else:
        several = isinstance(model, list | tuple) and len(model) > 0
        found = tuple(models.given(each, given) for each in (model if several else [model]))
    config = SweepExperiment(
        settings=settings,
        models=found,
        alphas=tuple(_alphas(settings["alpha_grid"], model) for model in found),
        eigenpairs=tuple(_eigenpairs(settings["eigenpairs"], model) for model in found),
    )
    _check_sizes(config)
    return replace(config, observables=_observables(config))


def _observables(config: SweepExperiment) -> tuple[Observable, ...]:
    """Observables of one's own, each tried on the shapes of a sample."""
    model, n, k = config.models[0], config.n[0], config.eigenpairs[0]
    named = config.settings["observable"] or ()
    return tuple(tried(text.short, text.entry, int(model.p), model.p_star, n, k) for text in named)


def _check_work(settings: Mapping[str, Any]) -> None:
    """ParameterError where the list of points would itself take minutes."""
    models = math.prod(len(settings[name]) for name in ("p", "p_star", "a"))
    alphas = 11 if settings["alpha_grid"] == AUTO else len(settings["alpha_grid"])
    points = models * len(settings["n"]) * alphas
    if models > MOST_MODELS:
        raise ParameterError(f"there must be at most {MOST_MODELS} models (p, p_star, a), got {models}")
    if points > MOST_POINTS:
        raise ParameterError(f"there must be at most {MOST_POINTS} points (model, n, alpha), got {points}")


def _alphas(value: Any, model: Network) -> tuple[float, ...]:
    if value == AUTO and model.inputs is not None:
        top = model.inputs.count / model.inputs.n
        return grids.around(min(models.centre(model), top / 1.5))
    return grids.around(models.centre(model)) if value == AUTO else tuple(value)


def _eigenpairs(pairs: int | None, model: Network) -> int:
    least = int(model.degeneracy) + sampling.MARGIN
    if pairs is not None and pairs < least:
        raise ParameterError(
            f"eigenpairs must be at least p p* + {sampling.MARGIN} = {least} for p={model.p}, p*={model.p_star},"
            f" got {pairs}"
        )
    return least if pairs is None else pairs


def _check_sizes(config: SweepExperiment) -> None:
    """Every point must have a sample (M >= 1), room for the teacher (p* <= N) and enough eigenvalues."""
    models.check_inputs(config.models[0], config.n)  # one covariance for all
    for index, model in enumerate(config.models):
        finite_p(model)
        for n in config.n:
            samples_of(config.alphas[index][0], n)
            largest = samples_of(config.alphas[index][-1], n)
            if model.inputs is not None:
                model.inputs.require(largest, n)
            if model.p_star > n:
                raise ParameterError(f"p_star must be at most n, got p_star = {model.p_star}, n = {n}")
            if config.eigenpairs[index] > model.p * n:
                raise ParameterError(
                    f"n = {n} has p n = {model.p * n} eigenpairs, and {shown(config.eigenpairs[index])} are to be kept"
                    f" (at least p p* + {sampling.MARGIN})"
                )
