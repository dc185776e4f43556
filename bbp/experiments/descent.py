"""Gradient descent as an experiment: samples over N, start and alpha, with the Hessians along the path. Its Dataset:

    n, alpha, sample, start      coordinates; start is "random", "hessian", "spectral", "overlap:M", or the name of one's own
                                 (config has the hash of its source)
    step, hessian_step           steps at which the path, and the Hessians along it, were recorded (a sample that has
                                 converged before repeats its end)
    student_row, teacher_row, frame, eigenpair   the other dimensions; frame is "plain" or "riemannian"
    overlap_matrix               (n, start, alpha, sample, step, student_row, teacher_row) w_k . w*_l / N
    m2, projection               (n, start, alpha, sample, step) max_kl m_kl^2 and max_k sum_l m_kl^2
    loss, gradient               the same shape: loss, and |Riemannian gradient| / sqrt(N)
    time, steps_taken            the same shape: time of gradient flow, and steps
    eigenvalues, overlaps        (n, start, alpha, sample, hessian_step, frame, eigenpair) lowest pairs and q2
    quenched_*                   (n, start, alpha, sample, hessian_step) edge, outlier, overlap
    conditioned_*                the same shape: edge, lowest, lowest_error, overlap, overlap_error: what theory says of the
                                 plain Hessian, with --theory (sims.dynamics.hessians); NaN where there is none or it was
                                 not asked. Older files have annealed_* in place of the latter: students at these overlaps,
                                 independent of the data
    status, code, reason         (n, start, alpha, sample): 0 not run, 1 done, 2 failed; how it ended
                                 (sims.dynamics.flow.End); why it failed
    attributes                   p, p_star, a, alpha_bbp, kind, seed, dtype, device, threshold, versions (JSON), commit,
                                 created, seconds, finished, config (JSON)

In the file (`bbp.files.dataset`) conditioned_edge is /conditioned/edge and config is /config.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any, cast

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from bbp.analysis import recovery
from bbp.console.options import checked, decisive, rounded
from bbp.engine.run import Point, Results
from bbp.experiments import models, own
from bbp.experiments.base import Cost, Experiment, devices
from bbp.experiments.columns import Columns, Computation, Field
from bbp.experiments.options import AUTO, DESCENT, STARTS
from bbp.experiments.samples import check_sizes
from bbp.files import dataset
from bbp.files.variables import described
from sims.dynamics.flow import Rules
from sims.dynamics.hessians import FRAMES, NAMES
from sims.dynamics.samples import bytes_needed, hessian_moments, sample_descents
from sims.dynamics.starts import own_start, spectral_refusal
from sims.instance import STREAM
from sims.machine import require_fit
from theory.checks import ParameterError, shown
from theory.model import Network

OUTER = ("n", "start", "alpha")  # the axes of the points
_PATH = ("sample", "step")
_HESSIANS = ("sample", "hessian_step", "frame", "eigenpair")
# What each sample gives.
COLUMNS = (
    Field("overlap_matrix", (*_PATH, "student_row", "teacher_row")),
    *(Field(name, _PATH) for name in ("m2", "projection", "loss", "gradient", "time")),
    Field("steps_taken", _PATH),
    Field("eigenvalues", _HESSIANS),
    Field("overlaps", _HESSIANS),
    *(Field(name, ("sample", "hessian_step")) for name in NAMES),
    Field("code", ("sample",)),
)
PER_POINT = "alpha_grid", "n", "samples", "start"  # of the settings: what a point's numbers do not depend on


def compute(
    record: Mapping[str, Any], samples: Sequence[int], *, batch: int | None = None, threads: int | None = None
) -> Columns:
    """Descents of one point: every column of `COLUMNS`."""
    start = record["start"]
    found = sample_descents(
        models.build(record),
        record["n"],
        record["alpha"],
        list(samples),
        record["seed"],
        start=own_start(start, cast(own.Function, start.entry)) if isinstance(start, own.Text) else start,
        rules=_rules(record),
        eigenpairs=record["eigenpairs"],
        hessians=record["hessians"],
        theory=record.get("theory", False),
        dtype=record["dtype"],
        batch=batch,
        workers=threads,
    )
    apart = {"steps_taken", *found.predicted}
    columns = {field.name: getattr(found, field.name) for field in COLUMNS if field.name not in apart}
    return columns | found.predicted | {"steps_taken": found.steps, "reason": found.reason}


def _rules(settings: Mapping[str, Any]) -> Rules:
    """The rules of the descents. What stored options do not name is what was done before there was a choice."""
    return Rules(
        settings.get("dynamics", "steps"),
        settings["steps"],
        settings["records"],
        loss_floor=settings.get("loss_floor", 0.0),
    )


def _steps(settings: Mapping[str, Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Steps at which the path, and at which Hessians, are recorded."""
    steps = np.asarray(_rules(settings).recorded_steps)
    hessians = hessian_moments(len(steps), settings["hessians"])
    return steps, steps[hessians] if settings["eigenpairs"] else steps[:0]


def _sizes(record: Mapping[str, Any]) -> dict[str, int]:
    model = models.build(record)
    steps, hessian_steps = _steps(record)
    return {
        "step": len(steps),
        "hessian_step": len(hessian_steps),
        "student_row": int(model.p),
        "teacher_row": model.p_star,
        "frame": len(FRAMES),
        "eigenpair": record["eigenpairs"],
    }


COMPUTATION = Computation(compute, COLUMNS, _sizes, drawn=True)


@dataclass(frozen=True)
class DescentExperiment(Experiment):
    """Descents of one model, with everything filled in. A point is (N, start, alpha).

    threshold   of recovery, for the table
    """

    settings: dict[str, Any]
    threshold: float = recovery.THRESHOLD

    name, form = "descent", dataset.DESCENT
    # What names no dynamics was made in steps.
    defaults = checked(DESCENT, {}, decides=True) | {"dynamics": "steps"}

    @cached_property
    def model(self) -> Network:
        """Student, teacher and normalisation."""
        return models.build(self.settings)

    @property
    def records(self) -> list[dict[str, Any]]:
        """The settings and the stream of draws."""
        return [{**self.settings, "prng": STREAM}]

    def points(self, results: Results) -> Iterator[Point]:
        """The product of N, start and alpha."""
        yield from product(*(self.settings[name] for name in ("n", "start", "alpha_grid")))

    def computation(self, point: Point) -> Computation:
        """Descents."""
        return COMPUTATION

    def record_of(self, point: Point) -> dict[str, Any]:
        """The point, and all settings but those of the grid."""
        n, start, alpha = point
        kept = {name: value for name, value in self.settings.items() if name not in PER_POINT}
        return kept | {"n": n, "start": start, "alpha": alpha, "prng": STREAM}

    def assemble(self, results: Results) -> xr.Dataset:
        """The descents."""
        settings, (steps, hessian_steps) = self.settings, _steps(self.settings)
        axes: dict[str, NDArray[Any]] = {
            "n": np.array(settings["n"]),
            "start": np.array([str(start) for start in settings["start"]], dtype=object),
            "alpha": np.array(settings["alpha_grid"]),
            "sample": np.arange(self.samples),
            "step": steps,
            "student_row": np.arange(int(self.model.p)),
            "teacher_row": np.arange(self.model.p_star),
            "hessian_step": hessian_steps,
            "frame": np.array(FRAMES, dtype=object),
            "eigenpair": np.arange(settings["eigenpairs"]),
        }
        points = list(self.points(results))
        alpha_bbp, kind = models.transition(self.model)
        attributes = models.record(self.model) | {
            "alpha_bbp": alpha_bbp,
            "kind": kind,
            "seed": settings["seed"],
            "prng": STREAM,
            "dtype": settings["dtype"],
            "device": devices(results.units),
            "threshold": self.threshold,
            "seconds": sum(unit.seconds for unit in results.units),
        }
        found = self.over(results, points, axes, OUTER).assign_attrs(attributes)
        return described(found.assign_attrs(self.origin(results, points, self.records[0])))

    def table(self, found: xr.Dataset) -> str:
        """Recovery against alpha."""
        return recovery.table(found, self.threshold)

    def words(self, point: Point) -> str:
        """N, start and alpha."""
        return f"n = {point[0]}, {point[1]}, alpha = {point[2]:g}"

    def cost(self, point: Point, hints: Mapping[str, Any]) -> Cost:
        """A gradient step's products with the data, in the same number of steps everywhere."""
        n, start, alpha = point
        least = max(self.model.p_star + 1, -(-self.settings["eigenpairs"] // int(self.model.p)) + 1, 50)
        work, probe = float(alpha) * float(n) ** 2, (min(n, least), start, alpha)
        return Cost(f"N={n} {start}", work, probe, bytes=self._bytes(n, alpha, hints))

    def _bytes(self, n: int, alpha: float, hints: Mapping[str, Any]) -> int:
        """Bytes of a batch of descents."""
        settings = self.settings
        return bytes_needed(
            self.model,
            n,
            alpha,
            batch=hints.get("batch", 1),
            records=settings["records"],
            dtype=settings["dtype"],
            hessians=settings["eigenpairs"] > 0,
        )

    def check_memory(self, hints: Mapping[str, Any], processes: int) -> None:
        """A descent, or a batch, at the largest point in every process at once."""
        settings = self.settings
        n, alpha = settings["n"][-1], settings["alpha_grid"][-1]
        require_fit(
            lambda size: processes * self._bytes(size, alpha, hints),
            n, int(self.model.p), dense=False, what="a descent",
        )  # fmt: skip


def build(how: Mapping[str, Any], asked: Mapping[str, Any], model: Any = None) -> DescentExperiment:
    """A `DescentExperiment` from checked options and those that the user asked for; ParameterError where they do not fit.

    model   of the theory, instead of the options that say what it is
    """
    settings = models.with_size(decisive(DESCENT, how), asked, model)
    if model is None:
        model = models.make(settings["p"], settings["p_star"], settings["a"], settings)
    else:
        model = models.passed(model, asked)
    # A committee is stored by its widths and a alone: files older than the other models read the same.
    settings = {name: value for name, value in settings.items() if name not in models.DEFAULTS}
    settings |= models.record(model)
    reason = spectral_refusal(model)
    if settings["start"] == AUTO:
        settings["start"] = [start for start in STARTS if not (reason and start == "spectral")]
    if reason and "spectral" in settings["start"]:
        raise ParameterError(reason)
    if made := {str(start): start.entry.source for start in settings["start"] if isinstance(start, own.Text)}:
        settings["start_source"] = made
        for start in settings["start"]:
            _check_rows(start, model, settings)
    settings["alpha_grid"] = _alphas(settings["alpha_grid"], model)
    if settings["eigenpairs"] is None:
        settings["eigenpairs"] = int(model.degeneracy) + 2
    _rules(settings)
    if settings["theory"] and not settings["eigenpairs"]:
        raise ParameterError(
            "theory is asked about the Hessians along the path: eigenpairs must be at least 1, got 0"
        )
    if settings["theory"] and model.inputs is not None:
        raise ParameterError(
            "theory along a descent is that of Gaussian rows: leave it out with inputs of one's own"
        )
    if settings["theory"] and model.covariance is not None:
        raise ParameterError(
            "theory along a descent is that of inputs without covariance: leave out theory or covariance"
        )
    models.check_inputs(model, settings["n"])
    check_sizes(model, settings["n"], settings["alpha_grid"])
    for n in settings["n"]:
        if settings["eigenpairs"] > model.p * (n - 1):
            most, pairs = model.p * (n - 1), settings["eigenpairs"]
            raise ParameterError(
                f"eigenpairs must be at most p (n - 1) = {most}, got {shown(pairs)} at n = {n}"
            )
    return DescentExperiment(settings, how["threshold"])


def _check_rows(start: Any, model: Network, settings: Mapping[str, Any]) -> None:
    """ParameterError where students in numbers are not of the shape that every N and sample wants."""
    function = start.entry if isinstance(start, own.Text) else None
    rows: Any = function.rows if isinstance(function, own.Function) else None
    for n in [] if rows is None else settings["n"]:
        wanted = int(model.p), n
        if rows.shape[-2:] != wanted or (rows.ndim == 3 and len(rows) < settings["samples"]):
            raise ParameterError(
                f"start {start} must have shape {wanted}, or {(settings['samples'], *wanted)}, got {rows.shape}"
            )


def _alphas(value: Any, model: Network) -> list[float]:
    if value != AUTO:
        return list(value)
    centre = models.centre(model)
    return [rounded(centre * factor, 4) for factor in np.linspace(0.5, 4, 8)]
