"""The sweep as an experiment: samples of the Hessian over (n, alpha, sample, eigenpair) beside the theory. Its Dataset:

    n, alpha, sample, eigenpair              coordinates
    eigenvalues, overlaps, residuals         (n, alpha, sample, eigenpair), lowest first; NaN where not run
    max_overlap_rank                         (n, alpha, sample), NaN where unknown
    status, reason                           (n, alpha, sample): 0 not run, 1 done, 2 failed and why
    theory_edge, theory_outlier, theory_overlap   (alpha), NaN where there is none
    theory_n_lowest, theory_n_overlap, theory_n_informative   (n, alpha): theory.finite.law, means over theory_n_draws (n)
        draws; theory_n_lowest_error, _std, ...   standard errors, and the scatter of one draw; NaN where it would take too long
    NAME                                     (n, alpha, sample) or with eigenpair: an observable, whose attributes `observable`
        and `source` say where it lies, and the hash of its source where it is one's own
    unit_n, unit_alpha, ...                  (unit): which samples were computed together, where, in what time
    attributes                               p, p_star, a, alpha_bbp, kind, seed, dtype, device, prng, versions (JSON), commit,
                                             finished, config (JSON: every option that decides the numbers)

Of a product over (p, p_star, a) all that depends on the model has the dimension `model` (`bbp.files.product`). In the file
(`bbp.files.dataset`) theory_edge is /theory/edge, theory_n_lowest is /theory_n/lowest and config is /config.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np
import xarray as xr

from bbp.analysis import summary
from bbp.analysis.summary import draws_of, finite_theory, mean_overlap
from bbp.console.messages import log
from bbp.console.options import around, checked, decisive, rounded
from bbp.engine.run import Point, Result, Results
from bbp.experiments import models
from bbp.experiments.base import LARGEST_BLOCK, UNIT_SECONDS, Cost, Experiment, devices
from bbp.experiments.columns import Computation, Field
from bbp.experiments.options import AUTO, SWEEP
from bbp.experiments.samples import (
    COLUMNS,
    COMPUTATION,
    LAWS,
    OUTER,
    ROWS,
    check_sizes,
    law_seconds,
    own_column,
    sample_seconds,
)
from bbp.files import dataset
from bbp.files.product import combined, split
from bbp.files.variables import DONE, described, own_names
from sims import sampling
from sims.checks import finite_p
from sims.given import verdict_of
from sims.instance import STREAM
from sims.sampling import preferred_solver
from sims.signal import Observable, tried
from theory.checks import ParameterError, shown
from theory.finite.law import doubts
from theory.model import Network

MOST_MODELS, MOST_POINTS = 1000, 20_000
CHECK = 8  # with target_error a point is judged after every CHECK samples
SECONDS_PER_CUBE = 1e-9  # of (p n)^3: a slow machine's, for units that no machine takes long for
SIDE_BY_SIDE = 2000  # largest order p n of which samples go side by side, one BLAS thread each
# Size p n of the matrix whose time is scaled up; a smaller one is not searched.
PROBE = {"dense": 400, "krylov": 1600}
# What the verdict on rows of one's own says in numbers, with errors.
VERDICT = ("lowest", "lowest_error", "overlap", "overlap_error", "misfit", "misfit_error")
PER_POINT = "alpha_grid", "n", "samples", "target_error", "refine"  # what a point's numbers do not depend on


@dataclass(frozen=True)
class SweepExperiment(Experiment):
    """A sweep, with everything filled in. A point is (index of the model, N, alpha).

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

    name, form, defaults = "sweep", dataset.SWEEP, checked(SWEEP, {}, decides=True)

    @property
    def whole(self) -> bool:  # type: ignore[override]
        """Whether points are judged as wholes."""
        return self.settings["target_error"] is not None

    @cached_property
    def records(self) -> list[dict[str, Any]]:
        """The configuration of every model: what its file stores, and what two runs must agree on.

        The model's own record states what it is; of observables there is what they are made of, too.
        """
        plain = {name: value for name, value in self.settings.items() if name not in models.DEFAULTS}
        if self.observables:
            plain["observable_source"] = [text.entry.source for text in self.settings["observable"]]
            plain["observable_of"] = ["eigenpair" if one.of_pairs else "sample" for one in self.observables]
        return [
            plain | models.record(model) | {"alpha_grid": list(alphas), "eigenpairs": pairs, "prng": STREAM}
            for model, alphas, pairs in zip(self.models, self.alphas, self.eigenpairs, strict=True)
        ]

    def record_of(self, point: Point) -> dict[str, Any]:
        """Model, N, alpha, seed, stream and all settings but those of the grid."""
        index, n, alpha = point
        if not 0 <= index < len(self.models):
            raise ValueError("this sweep has no such point")
        record = {name: value for name, value in self.records[index].items() if name not in PER_POINT}
        return record | {"n": n, "alpha": alpha}

    def points(self, results: Results) -> Iterator[Point]:
        """Those of the grid, and those that refinement has added."""
        for index in range(len(self.models)):
            for n, alpha in product(self.settings["n"], self.alphas_of(results, index)):
                yield index, n, alpha

    def computation(self, point: Point) -> Computation:
        """Samples of the Hessian: `COLUMNS`, and observables of one's own."""
        own = map(own_column, self.settings["observable"] or (), self.observables)
        fields: tuple[Field, ...] = (*COLUMNS, *own, *(ROWS if self.models[0].inputs is not None else ()))
        return replace(COMPUTATION, declared=fields)

    def block(self, point: Point) -> int:
        """Samples of UNIT_SECONDS, by the cube of p n."""
        seconds = SECONDS_PER_CUBE * float(self.models[point[0]].p * point[1]) ** 3
        return max(1, min(int(UNIT_SECONDS / seconds), LARGEST_BLOCK))

    def wanted(self, results: Results, point: Point) -> int:
        """All, or with a target error as many as it takes, as far as those run can tell."""
        target = self.settings["target_error"]
        if target is None:
            return self.samples
        for number in range(CHECK, self.samples, CHECK):
            if results.lacking(point, number) or self.error(results, point, number) <= target:
                return number
        return self.samples

    def error(self, results: Results, point: Point, number: int) -> float:
        """The larger of the standard errors of lowest eigenvalue and overlap over the first samples; inf below 2."""
        lowest = results.done(point, number, "eigenvalues")[:, 0]
        spread = float(summary.mean_and_error(lowest)[1])
        errors = np.array([spread, self._overlap(results, point, number)[1]])
        return float(np.nan_to_num(errors, nan=np.inf).max())

    def alphas_of(self, results: Results, index: int) -> list[float]:
        """alpha of the model with this index, rising: the grid, and one round of refinement for each complete one."""
        found, sizes = list(self.alphas[index]), self.settings["n"]
        for _ in range(self.settings["refine"]):
            if not all(self.complete(results, (index, n, alpha)) for n, alpha in product(sizes, found)):
                break
            found = sorted({*found, *(self._steepest(results, index, n, found) for n in sizes)})
        return found

    def _steepest(self, results: Results, index: int, n: int, grid: Sequence[float]) -> float:
        """The middle of the step of the grid over which the mean overlap changes most."""
        means = [self._overlap(results, (index, n, alpha), self.samples)[0] for alpha in grid]
        if len(grid) < 2:
            return grid[0]
        step = int(np.argmax(np.nan_to_num(np.abs(np.diff(means)))))
        return rounded((grid[step] + grid[step + 1]) / 2)

    def _overlap(self, results: Results, point: Point, number: int) -> tuple[float, float]:
        """Mean and standard error over the first `number` samples of q2 of the p p_star lowest pairs."""
        overlaps = results.done(point, number, "overlaps")
        mean, spread = summary.mean_and_error(mean_overlap(self.models[point[0]], overlaps))
        return float(mean), float(spread)

    def assemble(self, results: Results) -> xr.Dataset:
        """The sweep, of several models as the dimension `model`."""
        return combined([self._assembled(results, index) for index in range(len(self.models))])

    def _assembled(self, results: Results, index: int) -> xr.Dataset:
        model, sizes, grid = self.models[index], self.settings["n"], self.alphas_of(results, index)
        points: list[Point] = [(index, n, alpha) for n, alpha in product(sizes, grid)]
        axes = {
            "n": np.array(sizes),
            "alpha": np.array(grid),
            "sample": np.arange(self.samples),
            "eigenpair": np.arange(self.eigenpairs[index]),
        }
        if model.inputs is not None:
            axes["rows_law"] = np.array(LAWS, dtype=object)
        own = set(points)
        units = [unit for unit in results.units if unit.point in own]
        found = self.over(results, points, axes, OUTER).assign(_units(units))
        for name in own_names(found):
            if np.isfinite(found.eigenvalues).any() and np.isnan(found[name]).all():
                log.warning(
                    "observable %s is NaN in every sample: it is no number there, and has no mean",
                    found[name].attrs["observable"],
                )
        attributes = {name: self.settings[name] for name in ("seed", "dtype")}
        attributes |= {"device": devices(units), "prng": STREAM}
        origin = self.origin(results, points, self.records[index])
        return with_theory(found.assign_attrs(attributes | origin), model)

    def table(self, found: xr.Dataset) -> str:
        """A block of rows for each model and N."""
        return "\n\n".join(summary.table(each) for each in split(found))

    def words(self, point: Point) -> str:
        """N and alpha."""
        return f"n = {point[1]}, alpha = {point[2]:g}"

    def cost(self, point: Point, hints: Mapping[str, Any]) -> Cost:
        """By the solver that will be taken. A core a sample is best for dense matrices of order up to SIDE_BY_SIDE."""
        index, n, alpha = point
        model, solver = self.models[index], self._solver(point)
        p, size = int(model.p), PROBE.get(solver, PROBE["dense"])
        least = max(model.p_star, -(-self.eigenpairs[index] // p) + 1, min(16, 2 * size // p))
        seconds = sample_seconds(p, n, alpha, solver)
        closing = 0.0
        if model.is_committee:  # draws of the finite-N law
            draws = draws_of(model, self.settings["n"], np.asarray(self.alphas[index]), n)
            closing = law_seconds(p, n, alpha, draws)
        return Cost(
            f"{models.words(model)} N={n}",
            seconds,
            (index, max(min(n, size // p), least), alpha),
            seconds if p * n <= SIDE_BY_SIDE and solver == "dense" else None,
            closing,
            sampling.bytes_needed(
                model, n, alpha, **self._how(index) | {"solver": solver}, batch=hints.get("batch")
            ),
        )

    def check_memory(self, hints: Mapping[str, Any], processes: int) -> None:
        """Each model's largest point, on every process at once."""
        n, seed, batch = self.settings["n"][-1], self.settings["seed"], hints.get("batch", 1) * processes
        for index, model in enumerate(self.models):
            sampling.sample_point(model, n, self.alphas[index][-1], [], seed, **self._how(index), batch=batch)

    @property
    def note(self) -> str:  # type: ignore[override]
        """That more rounds may follow."""
        if not self.whole and not self.settings["refine"]:
            return ""
        return "this is the first round: --target-error and --refine ask for more as they see the samples"

    def _solver(self, point: Point) -> str:
        """The solver that will be taken."""
        if self.settings["solver"] != AUTO:
            return self.settings["solver"]
        index, n, alpha = point
        return preferred_solver(self.models[index], n, alpha, self.eigenpairs[index], self.settings["dtype"])

    def _how(self, index: int) -> dict[str, Any]:
        chosen = {name: self.settings[name] for name in ("dtype", "solver")}
        return chosen | {"eigenpairs": self.eigenpairs[index]}


def with_theory(found: xr.Dataset, model: Network) -> xr.Dataset:
    """The same samples with theory at N = infinity, and of a committee at their N, along n and alpha."""
    (threshold, kind), along = models.transition(model), models.theory_along(model, found.alpha.values)
    theory: dict[str, Any] = {f"theory_{name}": ("alpha", values) for name, values in along.items()}
    if model.inputs is not None:
        theory |= _verdicts(found, model)
    attributes = models.record(model) | {"alpha_bbp": threshold, "kind": kind}
    if model.is_committee:
        at_n = finite_theory(model, found.n.values.tolist(), found.alpha.values, found.attrs["seed"])
        theory |= {f"theory_n_{name}": (OUTER[: values.ndim], values) for name, values in at_n.items()}
        if said := doubts(model, found.alpha.values.tolist(), found.n.values.tolist()):
            attributes["theory_n_doubt"] = said
    return described(found.assign(theory).assign_attrs(attributes))


def _verdicts(found: xr.Dataset, model: Network) -> dict[str, Any]:
    """Variables over (n, alpha): theory's means where a law of the rows holds, the verdict and why."""
    assert model.inputs is not None
    shape = (found.sizes["n"], found.sizes["alpha"])
    numbers = {
        name: np.full(shape, np.nan) for name in (*VERDICT, "misfit_overlap", "lowest_std", "overlap_std")
    }
    words = {name: np.full(shape, "", dtype=object) for name in ("verdict", "why")}
    for place in np.ndindex(shape):
        done = found.status.values[place] == DONE
        said = np.concatenate([found[field.name].values[place][done] for field in ROWS], axis=1)
        lowest = found.eigenvalues.values[place][done][:, 0]
        overlap = found.overlaps.values[place][done][:, 0]
        alpha, seed = float(found.alpha.values[place[1]]), int(found.attrs["seed"])
        verdict = verdict_of(model, alpha, seed, lowest, overlap, said)
        for name in VERDICT:
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


def _units(units: Sequence[Result]) -> dict[str, Any]:
    """Variables over "unit": which samples were computed together, where, in what time."""
    units = sorted(units, key=lambda unit: (unit.point, unit.first, unit.count))
    columns: dict[str, Any] = {
        "n": np.array([unit.point[1] for unit in units], np.int64),
        "alpha": np.array([unit.point[2] for unit in units], np.float64),
    }
    kinds = {"first": np.int64, "count": np.int64, "seconds": np.float64, "host": object, "device": object}
    columns |= {name: np.array([getattr(unit, name) for unit in units], kind) for name, kind in kinds.items()}
    found = {f"unit_{name}": ("unit", values) for name, values in columns.items()}
    return found | {"unit": ("unit", np.arange(len(units)))}


def build(how: Mapping[str, Any], asked: Mapping[str, Any], model: Any = None) -> SweepExperiment:
    """A `SweepExperiment` from checked options and those that the user asked for; ParameterError where they do not fit.

    model   of the theory, or several: instead of the options that say what it is
    """
    settings = models.with_size(decisive(SWEEP, how), asked, model)
    if settings["refine"] and how["task"] is not None:
        raise ParameterError("--refine looks at the whole sweep: run it without --task")
    if model is None:
        _check_work(settings)
        sizes = product(settings["p"], settings["p_star"], settings["a"])
        found = tuple(models.make(*each, settings) for each in sizes)
    else:
        several = isinstance(model, list | tuple) and len(model) > 0
        found = tuple(models.passed(each, asked) for each in (model if several else [model]))
    config = SweepExperiment(
        settings,
        found,
        tuple(_alphas(settings["alpha_grid"], model) for model in found),
        tuple(_eigenpairs(settings["eigenpairs"], model) for model in found),
    )
    _check_sizes(config)
    model, n, pairs = found[0], settings["n"][0], config.eigenpairs[0]
    own = [  # each tried on the shapes of a sample
        tried(text.short, text.entry, int(model.p), model.p_star, n, pairs)
        for text in settings["observable"] or ()
    ]
    built = replace(config, observables=tuple(own))
    summary.require_names(field.name for field in built.computation(()).fields)
    return built


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
    if value != AUTO:
        return tuple(value)
    centre = models.centre(model)
    if model.inputs is not None:
        centre = min(centre, model.inputs.count / model.inputs.n / 1.5)
    return around(centre)


def _eigenpairs(pairs: int | None, model: Network) -> int:
    least = int(model.degeneracy) + sampling.MARGIN
    if pairs is not None and pairs < least:
        raise ParameterError(
            f"eigenpairs must be at least p p* + {sampling.MARGIN} = {least} for p={model.p}, p*={model.p_star},"
            f" got {pairs}"
        )
    return least if pairs is None else pairs


def _check_sizes(config: SweepExperiment) -> None:
    """ParameterError unless every point has samples, room for the teacher and enough eigenvalues."""
    sizes = config.settings["n"]
    models.check_inputs(config.models[0], sizes)  # one covariance for all
    for model, alphas, pairs in zip(config.models, config.alphas, config.eigenpairs, strict=True):
        finite_p(model)
        check_sizes(model, sizes, alphas)
        for n in sizes:
            if pairs > model.p * n:
                raise ParameterError(
                    f"n = {n} has p n = {model.p * n} eigenpairs, and {shown(pairs)} are to be kept"
                    f" (at least p p* + {sampling.MARGIN})"
                )
