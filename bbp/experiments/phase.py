"""A phase diagram as an experiment: alpha_BBP, its kind and what belongs to it over widths p and normalisations a. Its Dataset:

    p, a                           coordinates; p is a float, inf for infinite width
    alpha_bbp, jump                (p, a): the transition, and the jump of the squared overlap (0 if continuous)
    kind                           (p, a) "continuous", "discontinuous"; networks without a threshold: "none", "no edge",
                                   "unresolved"; "" where it was not computed, or failed
    reason                         (p, a) why it failed, or empty
    alpha_0_overlap,               (p, a): the two estimates of alpha_0; NaN where an estimate has no root, alpha_BBP where the
    alpha_0_continuation           transition is continuous
    p_c                            (a): the smallest width whose transition is discontinuous, missing if beyond 2^40
    a_c, alpha_c                   (p): where the kind changes, and alpha_BBP there; a_c = 0 and alpha_c = its limit for p = inf
    n, finite_a                    coordinates of the finite-N thresholds, if any were asked for
    alpha_bbp_n, alpha_bbp_n_error (n, p, finite_a), NaN for p = inf, and where it failed
    alpha_bbp_n_reason             (n, p, finite_a) why it failed, or empty
    bbp_time, bbp_time_error       (p, alpha, at_a), alpha a coordinate, if asked for: when gradient flow loses (or gains) the
                                   outlier at N = infinity, NaN where it does not
    bbp_time_kind, bbp_time_reason (p, alpha, at_a) "lost", "born", "none", "no edge", "unresolved"; why it failed, or empty
    minima_complexity (_error),    (minima_alpha, at_a), minima_alpha a coordinate, if asked for: the most numerous minima of
    _overlap, _loss, _force,       p = 1, as `theory.minima.Minima` has them; _reach: the largest overlap with the teacher at
    _instability, _kind, _reach,   which there are minima, NaN where that is not found; _kind "marginal", "stable", "unresolved"
    _reason
    alpha_minima, _error, _jump,   (at_a): from which alpha on the most numerous minima orthogonal to the teacher are unstable
    _kind, _reason                 towards it, as `theory.minima.threshold` has it
    width, at_a                    coordinates of the lines: alpha_BBP against p at a few a
    widths_alpha_bbp, ...          (width, at_a): what the lines up to alpha_0 are over (p, a)
    attributes                     p_star, versions (JSON), commit, finished, config (JSON)

In the file (`bbp.files.dataset`) widths_alpha_bbp is /widths/alpha_bbp and config is /config.

A point is a row of one of its maps, and what the engine calls a sample is one a of a row, or one (alpha, a), alpha outermost.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from types import SimpleNamespace
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from bbp.analysis import phase as analysis
from bbp.console.options import checked, decisive
from bbp.engine.run import Point, Results
from bbp.experiments import models
from bbp.experiments.base import Cost, Experiment
from bbp.experiments.columns import Columns, Computation, per_sample
from bbp.experiments.options import PHASE
from bbp.files import dataset
from bbp.files.variables import described
from theory import finite
from theory.checks import ParameterError, shown
from theory.exact.transition import alpha_zero_map, critical_normalisation, critical_width, threshold_map
from theory.finite.law import doubt
from theory.general.cubature import require_finite_width
from theory.general.spectrum import route, threshold
from theory.minima import most_numerous, reach
from theory.minima import threshold as minima_threshold
from theory.minima.count import checked as counted
from theory.model import Network
from theory.model.network import network
from theory.path import bbp_time

Array = NDArray[np.float64]
NETWORK_BLOCK, NETWORK_COST = 4, 1000.0  # of other models than the committee: a threshold takes up to seconds
TIME_SAMPLES = 2**13  # of the largest flow behind a BBP time


def thresholds(p: Sequence[float], p_star: int, a: Sequence[float]) -> xr.Dataset:
    """alpha_BBP, kind, jump and both alpha_0 on the product (p, a) of widths and normalisations."""
    widths, normalisations = np.array(p, dtype=np.float64), np.array(a, dtype=np.float64)
    where = widths[:, None], p_star, normalisations
    found = threshold_map(*where)
    columns = {
        "alpha_bbp": found.alpha,
        "kind": np.where(found.discontinuous, "discontinuous", "continuous").astype(object),
        "jump": found.jump,
        "alpha_0_overlap": alpha_zero_map(*where, method="overlap"),
        "alpha_0_continuation": alpha_zero_map(*where, method="continuation"),
    }
    own = {name: (("p", "a"), values) for name, values in columns.items()}
    return xr.Dataset(own, {"p": widths, "a": normalisations}, {"p_star": p_star})


def tricritical(p: Sequence[float], p_star: int) -> tuple[Array, Array]:
    """(a_c, alpha_BBP at a_c) for each width p; for p = inf their limits, 0 and p_star/2."""
    widths = np.array(p, dtype=np.float64)
    a_c = critical_normalisation(widths, p_star)
    alpha_c = np.full(a_c.shape, p_star / 2)
    finite = np.isfinite(widths)
    if finite.any():
        alpha_c[finite] = threshold_map(widths[finite], p_star, a_c[finite]).alpha
    return a_c, alpha_c


def _is_committee(record: Mapping[str, Any]) -> bool:
    return not any(name in record for name in models.DEFAULTS)


def _cells(record: Mapping[str, Any], samples: Sequence[int]) -> Iterator[tuple[Network, float]]:
    """Model and alpha of each sample of a row; alpha is NaN where the row has none."""
    grid, a = record.get("alpha", [math.nan]), record["a"]
    for i, j in (divmod(sample, len(a)) for sample in samples):
        yield models.build({**record, "p": float(record["p"]), "a": a[j]}), grid[i]


def _by_cell(
    answer: Callable[..., Any], columns: Mapping[str, str], record: Mapping[str, Any], samples: Sequence[int]
) -> Columns:
    """Columns by name, each with the attribute that it holds of the answer(model, alpha, record) at every sample of a row."""
    found = [answer(model, alpha, record) for model, alpha in _cells(record, samples)]
    return {name: np.array([getattr(each, held) for each in found]) for name, held in columns.items()}


def _thresholds(record: Mapping[str, Any], samples: Sequence[int]) -> Columns:
    """Of other models than the committee one threshold at a time, of alpha_0 the overlap's only; NaN where there is none."""
    if _is_committee(record):
        row = thresholds([float(record["p"])], record["p_star"], [record["a"][sample] for sample in samples])
        return {field.name: row[field.name].values[0] for field in MAP.declared}
    names = {"alpha_bbp": "alpha", "jump": "jump", "alpha_0_overlap": "alpha_0", "kind": "kind"}
    found = _by_cell(lambda model, alpha, record: threshold(model), names, record, samples)
    return found | {"alpha_0_continuation": np.full(len(samples), np.nan)}


def _finite(model: Network, alpha: float, record: Mapping[str, Any]) -> Any:
    return finite.threshold(model, record["n"], draws=record["draws"], seed=record["seed"])


def _time(model: Network, alpha: float, record: Mapping[str, Any]) -> Any:
    return bbp_time(network(model), alpha, samples=TIME_SAMPLES, seed=record["seed"])


def _minima(model: Network, alpha: float, record: Mapping[str, Any]) -> Any:
    found = most_numerous(model, alpha)
    return SimpleNamespace(**vars(found), reach=reach(model, alpha, found))


def _unstable(model: Network, alpha: float, record: Mapping[str, Any]) -> Any:
    found = minima_threshold(model)
    return found if math.isfinite(found.alpha) else replace(found, error=math.nan)


def _edges(record: Mapping[str, Any], samples: Sequence[int]) -> Columns:
    if not _is_committee(record):
        return {"a_c": np.full(1, np.nan), "alpha_c": np.full(1, np.nan)}
    return dict(zip(("a_c", "alpha_c"), tricritical([float(record["p"])], record["p_star"]), strict=True))


def _widths(record: Mapping[str, Any], samples: Sequence[int]) -> Columns:
    """Critical widths, 0 where they are beyond what `critical_width` counts to, and of other models than the committee."""
    found = np.zeros(len(samples))
    for place, sample in enumerate(samples if _is_committee(record) else ()):
        try:
            found[place] = critical_width(record["a"][sample], record["p_star"])
        except ParameterError:
            pass
    return {"p_c": found}


def _cell(answer: Callable[..., Any], **columns: str) -> Computation:
    """Columns over the samples of a row, of an answer at every sample."""
    return per_sample(partial(_by_cell, answer, columns), *columns)


MAP = per_sample(_thresholds, "alpha_bbp", "jump", "alpha_0_overlap", "alpha_0_continuation", "kind")


@dataclass(frozen=True)
class Map:
    """A map of a phase diagram. Its points are (name, N or 0, p): rows.

    computation   of a row
    outer, inner  axes that tell rows apart, and those of a row
    words         what is looked for
    reason        the variable that says why it was not found, if any
    block, cost   samples a unit: about a second's; and milliseconds of one, roughly
    p             width where it is not an axis
    prefix        of the variables
    """

    computation: Computation
    outer: tuple[str, ...]
    inner: tuple[str, ...]
    words: str
    reason: str
    block: int
    cost: float
    p: float = 0.0
    prefix: str = ""


MAPS = {
    "curves": Map(MAP, ("p",), ("a",), "alpha_BBP", "reason", 1000, 1.0),
    "edges": Map(per_sample(_edges, "a_c", "alpha_c"), ("p",), (), "a_c", "", 1, 2.0),
    "p_c": Map(per_sample(_widths, "p_c"), (), ("a",), "p_c", "", 1000, 0.1),
    "widths": Map(
        MAP, ("width",), ("at_a",), "alpha_BBP", "widths_reason", 1000, 1.0, prefix="widths_"
    ),
    "finite": Map(
        _cell(_finite, alpha_bbp_n="alpha", alpha_bbp_n_error="error"),
        ("n", "p"), ("finite_a",), "", "alpha_bbp_n_reason", 1, 1000.0,
    ),
    "times": Map(
        _cell(_time, bbp_time="time", bbp_time_error="error", bbp_time_kind="kind"),
        ("p",), ("alpha", "at_a"), "BBP time", "bbp_time_reason", 1, 7000.0,
    ),
    "minima": Map(
        _cell(
            _minima, minima_complexity="complexity", minima_overlap="overlap", minima_loss="loss", minima_force="force",
            minima_instability="instability", minima_complexity_error="error", minima_reach="reach", minima_kind="kind",
        ),
        (), ("minima_alpha", "at_a"), "minima", "minima_reason", 1, 3000.0, p=1.0,
    ),
    "unstable": Map(
        _cell(
            _unstable, alpha_minima="alpha", alpha_minima_error="error", alpha_minima_jump="jump", alpha_minima_kind="kind"
        ),
        (), ("at_a",), "alpha_minima", "alpha_minima_reason", 1, 4000.0, p=1.0,
    ),
}  # fmt: skip
# The option that each axis is of.
AXES = {
    "p": "p", "a": "a_grid", "width": "widths", "at_a": "at_a", "n": "n", "finite_a": "at_a", "alpha": "time",
    "minima_alpha": "minima",
}  # fmt: skip


@dataclass(frozen=True)
class PhaseExperiment(Experiment):
    """A phase diagram. Options of times and minima are stored only where these were asked for."""

    settings: dict[str, Any]

    name, form, unit_of = "phase diagram", dataset.PHASE, "points"
    defaults = checked(PHASE, {}, decides=True)

    @property
    def samples(self) -> int:
        """The longest row."""
        return max(map(self._length, self._maps()))

    def points(self, results: Results) -> Iterator[Point]:
        """Rows of every map; finite N and times are of finite p."""
        for name in self._maps():
            finite_p = name in ("finite", "times")
            yield from (row for row in self._rows(name) if math.isfinite(row[2]) or not finite_p)

    def computation(self, point: Point) -> Computation:
        """By the map that the row is of."""
        return MAPS[point[0]].computation

    def record_of(self, point: Point) -> dict[str, Any]:
        """The row: p, p*, its a and alpha; and what else decides its numbers."""
        of, n, p = point
        settings = self.settings
        found = {"map": of, "p": "inf" if math.isinf(p) else p, "p_star": settings["p_star"]}
        found |= {name: settings[name] for name in models.DEFAULTS if name in settings}
        found |= models.sources(found)
        for axis in MAPS[of].inner:
            found["alpha" if axis.endswith("alpha") else "a"] = self._axis(axis)
        if of == "finite":
            found |= {"n": n, "draws": settings["draws"]}
        return found | ({"seed": settings["seed"]} if of in ("finite", "times") else {})

    def block(self, point: Point) -> int:
        """About a second's."""
        each = MAPS[point[0]]
        return each.block if each.computation is not MAP or _is_committee(self.settings) else NETWORK_BLOCK

    def wanted(self, results: Results, point: Point) -> int:
        """The length of the row."""
        return self._length(point[0])

    def assemble(self, results: Results) -> xr.Dataset:
        """The phase diagram."""
        settings, coordinates = self.settings, dict[str, Any]()
        found: dict[str, tuple[Any, NDArray[Any]]] = {}
        for name in self._maps():
            each = MAPS[name]
            dims = *each.outer, *each.inner
            axes = {axis: self._coordinate(axis) for axis in dims}
            coordinates |= axes
            outer = {axis: axes[axis] for axis in each.outer} | {"sample": np.arange(self._length(name))}
            for column, values in self.over(results, self._rows(name), outer, each.outer).items():
                called = each.reason if column == "reason" else f"{each.prefix}{column}"
                if called and column != "status":
                    found[called] = dims, values.values.reshape([len(axes[axis]) for axis in dims])
        found["p_c"] = "a", np.where(found["p_c"][1] == 0, np.nan, found["p_c"][1])
        attributes = self.origin(results, self.points(results), settings) | {"p_star": settings["p_star"]}
        if "alpha_bbp_n" in found and (said := self._doubts(found["alpha_bbp_n"][1])):
            attributes["theory_n_doubt"] = said
        return described(xr.Dataset(found, coordinates, attributes))

    def table(self, found: xr.Dataset) -> str:
        """A few rows for each p."""
        return analysis.table(found)

    def words(self, point: Point) -> str:
        """What the row is of."""
        of, n, p = point
        return f"{MAPS[of].words or f'n = {n:.3g}'}, p = {p:g}"

    def cost(self, point: Point, hints: Mapping[str, Any]) -> Cost:
        """In milliseconds, roughly; draws of labels cost by their number. Thresholds at finite N are too long to be timed."""
        of, n, _ = point
        work = NETWORK_COST
        if MAPS[of].computation is not MAP or _is_committee(self.settings):
            work = MAPS[of].cost * (self.settings["draws"] / 100 if n else 1)
        return Cost(f"finite N={n}" if n else of, work, ("curves", 0, float(self.settings["p"][0])))

    def _maps(self) -> list[str]:
        """Those that were asked for."""
        asked = {name for name, each in MAPS.items() if all(map(self._axis, (*each.outer, *each.inner)))}
        return [name for name in MAPS if name in asked and (name != "unstable" or "minima" in asked)]

    def _axis(self, axis: str) -> list[Any]:
        return self.settings.get(AXES[axis], [])

    def _coordinate(self, axis: str) -> NDArray[Any]:
        return np.array(self._axis(axis), np.int64 if axis == "n" else np.float64)

    def _length(self, of: str) -> int:
        return math.prod(len(self._axis(axis)) for axis in MAPS[of].inner)

    def _rows(self, of: str) -> list[Point]:
        """Every row of a map, in order over its outer axes."""
        outer = MAPS[of].outer
        widths = self._axis(outer[-1]) if outer else [MAPS[of].p]
        return [(of, n, float(p)) for n, p in product(self._axis("n") if "n" in outer else [0], widths)]

    def _doubts(self, alphas: NDArray[Any]) -> str:
        """Where the finite-N law behind the thresholds (n, p, a) is not known to hold, in one line; empty where it is."""
        said: dict[str, None] = {}
        for index, alpha in np.ndenumerate(alphas):
            n, p, a = (self.settings[name][i] for name, i in zip(("n", "p", "at_a"), index, strict=True))
            if np.isfinite(alpha) and (reason := doubt(Network(p, self.settings["p_star"], a), alpha, n)):
                said[f"N = {n:g}, p = {p:g}, a = {a:g}: {reason}"] = None
        return "; ".join(said)


def build(how: Mapping[str, Any], asked: Mapping[str, Any]) -> PhaseExperiment:
    """A `PhaseExperiment` from checked options and those that the user asked for; ParameterError where they do not fit."""
    smaller = {name: value for name, value in _smaller(how).items() if name not in asked}
    chosen = checked([option for option in PHASE if option.name in smaller], smaller)
    settings = decisive(PHASE, {**how, **chosen})
    if settings["p_star"] >= 2**63:
        raise ParameterError(f"p_star must be below 2^63 to be written, got {shown(settings['p_star'])}")
    if settings["inputs"] is not None:
        raise ParameterError(
            "inputs must be left out: phase diagrams are those of Gaussian rows (bbp sweep samples these)"
        )
    special = models.special(settings)
    left_out = {name for name in models.DEFAULTS if name not in special}
    left_out |= {name for name in ("time", "minima") if not settings[name]}
    settings = {name: value for name, value in settings.items() if name not in left_out}
    settings |= {"n": settings["n"] or []} | models.sources(settings)
    if "minima" in settings:
        _check_minima(settings)
    if special:
        _check_networks(settings, list(special))
    return PhaseExperiment(settings)


def _smaller(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Values of options not given that differ from those of the committee: models that exist, in maps that take a minute."""
    found: dict[str, Any] = {}
    if {settings["activation"], settings["teacher_activation"]} - {"quadratic", None}:
        found = {"p": "1,2,inf", "widths": "1,2,3,4,inf", "a_grid": "1.5:15:5:log", "at_a": "2,10"}
    if not models.has_a(settings):
        found |= {"a_grid": "1", "at_a": "1"}
    if settings["overlap"]:
        found |= {"p": "1,2", "widths": "1,2,3,4"}  # p = inf has no overlap
    return found


def _check_minima(settings: Mapping[str, Any]) -> None:
    """ParameterError where minima of these models cannot be counted."""
    if settings["p_star"] != 1:
        raise ParameterError(f"minima are counted for p = p* = 1, got p_star {settings['p_star']}")
    if 1 not in settings["p"]:
        widths = ",".join(map(str, settings["p"]))
        raise ParameterError(
            f"minima are counted for p = p* = 1, got p {widths}: p must have 1 among its widths"
        )
    for name in ("covariance", "overlap"):
        if name in settings:
            raise ParameterError(f"minima are counted for networks without {name}")
    for a in settings["at_a"]:
        counted(models.make(1, 1, a, settings), 1.0, 0.0)


def _check_networks(settings: Mapping[str, Any], special: Sequence[str]) -> None:
    """ParameterError, with the reason, where the maps hold a model that does not exist, or ask what only a committee has."""
    if settings["n"]:
        raise ParameterError(
            f"n (thresholds at finite N) is for the quadratic committee, without {', '.join(special)}"
        )
    for p in dict.fromkeys([*settings["p"], *settings["widths"]]):
        for a in (*settings["a_grid"], *settings["at_a"]):
            model = models.make(float(p), settings["p_star"], a, settings)
            if route(model) == "points":
                require_finite_width(network(model))
