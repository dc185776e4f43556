"""A phase diagram as an experiment: rows of maps over a, tricritical points, thresholds at finite N, BBP times.

What the engine calls a sample is here one a of a row.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from bbp.console import options
from bbp.engine import experiment as engine
from bbp.engine.tasks import REASON, TEXT, Columns, Field, Kind, Results
from bbp.experiments import models, phase_minima
from bbp.experiments.options import PHASE
from bbp.experiments.phase_file import FORMAT, table
from bbp.files import dataset, variables
from bbp.files.variables import DONE, FAILED, described
from theory import finite
from theory.checks import ParameterError, shown
from theory.exact.transition import alpha_zero_map, critical_normalisation, critical_width, threshold_map
from theory.finite.law import doubt
from theory.general.clouds import fit
from theory.general.spectrum import route
from theory.model import Network
from theory.model.network import network
from theory.path import bbp_time

Array = NDArray[np.float64]
_ROW = ("sample",)
GRIDS = {
    "curves": "a_grid",
    "widths": "at_a",
    "finite": "at_a",
    "edges": "",
    "p_c": "a_grid",
    "times": "at_a",
    "minima": "at_a",
    "unstable": "at_a",
}
BLOCKS = {
    "curves": 1000,
    "widths": 1000,
    "finite": 1,
    "edges": 1,
    "p_c": 1000,
    "times": 1,
    "minima": 1,
    "unstable": 1,
}
# Of other models than the committee, whose thresholds take up to seconds each.
NETWORK_BLOCK, NETWORK_COST = 4, 1000.0
TIME_SAMPLES = 2**13  # of the largest flow behind a BBP time
COSTS = {
    "curves": 1.0, "widths": 1.0, "finite": 1000.0, "edges": 2.0, "p_c": 0.1, "times": 7000.0, "minima": 3000.0,
    "unstable": 4000.0,
}  # fmt: skip


class Point(NamedTuple):
    """A row: of which map (those of GRIDS), at which N (0: infinite) and width p (0: none)."""

    map: str
    n: int
    p: float


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


def _row(given: Mapping[str, Any], samples: Sequence[int]) -> Columns:
    a = [given["a"][sample] for sample in samples]
    if any(name in given for name in models.DEFAULTS):
        return _row_of_networks(given, a)
    found = thresholds([float(given["p"])], given["p_star"], a)
    return {field.name: found[field.name].values[0] for field in MAP.fields}


def _row_of_networks(given: Mapping[str, Any], a: Sequence[float]) -> Columns:
    """A row of other models, one threshold at a time; of alpha_0 the overlap's only. NaN where there is no threshold."""
    found = [
        models.network_threshold(models.build({**given, "p": float(given["p"]), "a": each})) for each in a
    ]
    return {
        "alpha_bbp": np.array([each.alpha for each in found]),
        "kind": np.array([each.kind for each in found], dtype=object),
        "jump": np.array([each.jump for each in found]),
        "alpha_0_overlap": np.array([each.alpha_0 for each in found]),
        "alpha_0_continuation": np.full(len(a), np.nan),
    }


def _finite(given: Mapping[str, Any], samples: Sequence[int]) -> Columns:
    each = [Network(float(given["p"]), given["p_star"], given["a"][sample]) for sample in samples]
    found = [finite.threshold(m, given["n"], draws=given["draws"], seed=given["seed"]) for m in each]
    return {
        "alpha_bbp_n": np.array([one.alpha for one in found]),
        "alpha_bbp_n_error": np.array([one.error for one in found]),
    }


def _times(given: Mapping[str, Any], samples: Sequence[int]) -> Columns:
    """BBP times at the cells (alpha, a) of a width, alpha outermost."""
    cells = [divmod(sample, len(given["a"])) for sample in samples]
    found = [
        bbp_time(
            network(models.build({**given, "p": int(given["p"]), "a": given["a"][j]})),
            given["alpha"][i],
            samples=TIME_SAMPLES,
            seed=given["seed"],
        )
        for i, j in cells
    ]
    return {
        "bbp_time": np.array([each.time for each in found]),
        "bbp_time_error": np.array([each.error for each in found]),
        "bbp_time_kind": np.array([each.kind for each in found], dtype=object),
    }


def _edges(given: Mapping[str, Any], samples: Sequence[int]) -> Columns:
    if any(name in given for name in models.DEFAULTS):
        return {"a_c": np.full(1, np.nan), "alpha_c": np.full(1, np.nan)}  # the committee's alone
    a_c, alpha_c = tricritical([float(given["p"])], given["p_star"])
    return {"a_c": a_c, "alpha_c": alpha_c}


def _widths(given: Mapping[str, Any], samples: Sequence[int]) -> Columns:
    if any(name in given for name in models.DEFAULTS):
        return {"p_c": np.zeros(len(samples))}
    return {"p_c": np.array([_critical_width(given["a"][sample], given["p_star"]) for sample in samples])}


def _critical_width(a: float, p_star: int) -> int:
    """critical_width, or 0 where it is beyond what that function counts to."""
    try:
        return int(critical_width(a, p_star))
    except ParameterError:
        return 0


MAP = Kind(
    _row,
    (
        *(Field(name, _ROW) for name in ("alpha_bbp", "jump", "alpha_0_overlap", "alpha_0_continuation")),
        Field("kind", _ROW, TEXT, ""),
    ),
)
KINDS = {
    "curves": MAP,
    "widths": MAP,
    "finite": Kind(_finite, (Field("alpha_bbp_n", _ROW), Field("alpha_bbp_n_error", _ROW))),
    "edges": Kind(_edges, (Field("a_c", _ROW), Field("alpha_c", _ROW))),
    "p_c": Kind(_widths, (Field("p_c", _ROW, "i8", 0),)),
    "times": Kind(
        _times,
        (Field("bbp_time", _ROW), Field("bbp_time_error", _ROW), Field("bbp_time_kind", _ROW, TEXT, "")),
    ),
    **phase_minima.KINDS,
}


@dataclass(frozen=True)
class PhaseExperiment(engine.Experiment):
    """A phase diagram; settings: what decides the numbers (bbp.experiments.options.PHASE), by name."""

    settings: dict[str, Any]

    name = "phase diagram"
    unit_of = "points"

    @property
    def times(self) -> list[float]:
        """The alphas at which BBP times are wanted; a record of none does not name them."""
        return self.settings.get("time", [])

    @property
    def minima(self) -> list[float]:
        """The alphas at which minima are counted; likewise."""
        return self.settings.get("minima", [])

    @property
    def samples(self) -> int:  # type: ignore[override]
        """The longest row."""
        cells = len(self.settings["at_a"]) * max(len(self.times), len(self.minima))
        return max(len(self.settings["a_grid"]), cells)

    def records(self) -> list[dict[str, Any]]:
        """The settings."""
        return [self.settings]

    @property
    def defaults(self) -> dict[str, Any]:
        """Those of the table of options."""
        return options.checked(PHASE, {}, decides=True)

    def points(self, results: Results) -> Iterator[Point]:
        """Rows of both maps, the tricritical points, critical widths, and thresholds at finite N, cheap ones first."""
        yield from (Point("edges", 0, float(p)) for p in self.settings["p"])
        yield Point("p_c", 0, 0.0)
        yield from (Point("curves", 0, float(p)) for p in self.settings["p"])
        yield from (Point("widths", 0, float(p)) for p in self.settings["widths"])
        for n in self.settings["n"]:
            yield from (Point("finite", n, float(p)) for p in self.settings["p"] if p != "inf")
        if self.times:
            yield from (Point("times", 0, float(p)) for p in self.settings["p"] if p != "inf")
        if self.minima:
            yield from (Point("minima", 0, 1.0), Point("unstable", 0, 1.0))

    def kind(self, point: engine.Point) -> Kind:
        """By the map that the row is of."""
        return KINDS[point[0]]

    def given(self, point: engine.Point) -> dict[str, Any]:
        """The row: p, p*, its a; at finite N also N, draws and seed."""
        of, n, p = point
        found = {"map": of, "p": "inf" if math.isinf(p) else p, "p_star": self.settings["p_star"]}
        found |= {name: self.settings[name] for name in models.DEFAULTS if name in self.settings}
        found |= models.sources(found)
        if GRIDS[of]:
            found["a"] = self.settings[GRIDS[of]]
        if of == "finite":
            found |= {"n": n, "draws": self.settings["draws"], "seed": self.settings["seed"]}
        if of == "times":
            found |= {"alpha": self.times, "seed": self.settings["seed"]}
        if of == "minima":
            found |= {"alpha": self.minima}
        return found

    def block(self, point: engine.Point) -> int:
        """About a second's."""
        special = point[0] in ("curves", "widths") and any(name in self.settings for name in models.DEFAULTS)
        return NETWORK_BLOCK if special else BLOCKS[point[0]]

    def wanted(self, results: Results, point: engine.Point) -> int:
        """The length of the row."""
        if point[0] in ("times", "minima"):
            return len(self.times if point[0] == "times" else self.minima) * len(self.settings["at_a"])
        return len(self.settings[GRIDS[point[0]]]) if GRIDS[point[0]] else 1

    def assemble(self, results: Results) -> xr.Dataset:
        """The phase diagram (bbp.experiments.phase_file)."""
        settings, points = self.settings, list(self.points(results))
        edges = self._stacked(results, "edges", settings["p"])
        curves, widths = (
            self._stacked(results, of, settings[p]) for of, p in (("curves", "p"), ("widths", "widths"))
        )
        names = [field.name for field in (*MAP.fields, REASON)]
        found: dict[str, Any] = {name: (("p", "a"), curves[name]) for name in names}
        found |= {name: ("p", edges[name][:, 0]) for name in ("a_c", "alpha_c")}
        p_c = self._gathered(results, Point("p_c", 0, 0.0))["p_c"]
        found["p_c"] = "a", np.where(p_c == 0, np.nan, p_c)
        found |= {f"widths_{name}": (("width", "at_a"), widths[name]) for name in names}
        axes = {
            "p": settings["p"],
            "a": settings["a_grid"],
            "width": settings["widths"],
            "at_a": settings["at_a"],
        }
        coordinates: dict[str, Any] = {
            name: np.array(values, dtype=np.float64) for name, values in axes.items()
        }
        if settings["n"]:
            coordinates |= {"n": np.array(settings["n"], dtype=np.int64), "finite_a": coordinates["at_a"]}
            found |= {
                name: (("n", "p", "finite_a"), values) for name, values in self._finite(results).items()
            }
        if self.times:
            coordinates["alpha"] = np.array(self.times, dtype=np.float64)
            found |= {name: (("p", "alpha", "at_a"), values) for name, values in self._times(results).items()}
        if self.minima:
            coordinates["minima_alpha"] = np.array(self.minima, dtype=np.float64)
            cells, unstable = (self._gathered(results, Point(of, 0, 1.0)) for of in phase_minima.KINDS)
            found |= phase_minima.variables(cells, unstable, len(self.minima))
        attributes = {"format": FORMAT, "p_star": settings["p_star"], "config": json.dumps(settings)}
        if settings["n"] and (said := self._doubts(found["alpha_bbp_n"][1])):
            attributes["theory_n_doubt"] = said
        finished = int(all(self.complete(results, point) for point in points))
        return described(
            xr.Dataset(
                found, coordinates, variables.provenance(results.made) | attributes | {"finished": finished}
            )
        )

    def save(self, path: Path, found: xr.Dataset) -> None:
        """Write the phase file."""
        dataset.write(path, found)

    def load(self, path: Path, locking: dataset.Locking) -> xr.Dataset:
        """What the file holds."""
        return dataset.open(path, FORMAT, locking=locking)

    def held(self, found: xr.Dataset) -> engine.Held:
        """Its record, and why thresholds failed."""
        names = [
            name
            for name in (
                "reason", "widths_reason", "alpha_bbp_n_reason", "bbp_time_reason", "minima_reason", "alpha_minima_reason"
            )
            if name in found
        ]  # fmt: skip
        reasons = [text for name in names for text in found[name].values.ravel() if text]
        return engine.Held([dataset.config(found)], bool(found.attrs.get("finished", 1)), reasons)

    def table(self, found: xr.Dataset) -> str:
        """A few rows for each p."""
        return table(found)

    def describe(self, point: engine.Point) -> str:
        """What the row is of."""
        of, n, p = point
        names = {
            "p_c": "p_c",
            "edges": "a_c",
            "times": "BBP time",
            "minima": "minima",
            "unstable": "alpha_minima",
        }
        name = f"n = {n:.3g}" if of == "finite" else names.get(of, "alpha_BBP")
        return f"{name}, p = {p:g}"

    def group(self, point: engine.Point) -> str:
        """The map, or N."""
        return f"finite N={point[1]}" if point[1] else point[0]

    def cost(self, point: engine.Point) -> float:
        """In milliseconds, roughly; draws of labels cost by their number."""
        if point[0] in ("curves", "widths") and any(name in self.settings for name in models.DEFAULTS):
            return NETWORK_COST
        return COSTS[point[0]] * (self.settings["draws"] / 100 if point[1] else 1)

    def probe(self, point: engine.Point) -> Point:
        """A row of the map: thresholds at finite N are too long to be timed."""
        return Point("curves", 0, float(self.settings["p"][0]))

    def _gathered(self, results: Results, point: Point) -> Columns:
        return results.gather(point, self.wanted(results, point), KINDS[point.map].columns, {})

    def _stacked(
        self, results: Results, of: str, widths: Sequence[Any], n: int = 0
    ) -> dict[str, NDArray[Any]]:
        """Columns (p, a) of the rows of a map."""
        rows = [self._gathered(results, Point(of, n, float(p))) for p in widths]
        return {name: np.stack([row[name] for row in rows]) for name in rows[0]}

    def _finite(self, results: Results) -> dict[str, NDArray[Any]]:
        """Columns (n, p, a) of thresholds at finite N."""
        stacks = [self._stacked(results, "finite", self.settings["p"], n) for n in self.settings["n"]]
        rows = {name: np.stack([stack[name] for stack in stacks]) for name in stacks[0]}
        good = rows["status"] == DONE
        found = {name: np.where(good, rows[name], np.nan) for name in ("alpha_bbp_n", "alpha_bbp_n_error")}
        reason = np.where(rows["status"] == FAILED, rows["reason"], "").astype(object)
        return found | {"alpha_bbp_n_reason": reason}

    def _doubts(self, alphas: NDArray[Any]) -> str:
        """Where the finite-N law behind the thresholds (n, p, a) is not known to hold, in one line; empty where it is."""
        said: dict[str, None] = {}
        for index, alpha in np.ndenumerate(alphas):
            n, p, a = (self.settings[name][i] for name, i in zip(("n", "p", "at_a"), index, strict=True))
            if np.isfinite(alpha) and (reason := doubt(Network(p, self.settings["p_star"], a), alpha, n)):
                said[f"N = {n:g}, p = {p:g}, a = {a:g}: {reason}"] = None
        return "; ".join(said)

    def _times(self, results: Results) -> dict[str, NDArray[Any]]:
        """Columns (p, alpha, a) of BBP times; p = inf has none."""
        settings = self.settings
        shape = (len(self.times), len(settings["at_a"]))
        found: dict[str, list[NDArray[Any]]] = {}
        for p in settings["p"]:
            if p == "inf":
                row = {
                    field.name: field.empty({"sample": np.prod(shape, dtype=int)})
                    for field in KINDS["times"].columns
                }
            else:
                row = self._gathered(results, Point("times", 0, float(p)))
            for name, values in row.items():
                found.setdefault(name, []).append(np.reshape(values, shape))
        stacked = {name: np.stack(rows) for name, rows in found.items()}
        return {
            f"bbp_time_{name}" if name == "reason" else name: v
            for name, v in stacked.items()
            if name != "status"
        }


def build(given: Mapping[str, Any]) -> PhaseExperiment:
    """A `PhaseExperiment` from options by name, defaults filled in; ParameterError on a bad one."""
    settings = options.checked(
        PHASE, _defaults(options.checked(PHASE, given, decides=True)) | dict(given), decides=True
    )
    if settings["p_star"] >= 2**63:
        raise ParameterError(f"p_star must be below 2^63 to be written, got {shown(settings['p_star'])}")
    if settings["inputs"] is not None:
        raise ParameterError(
            "inputs must be left out: phase diagrams are those of Gaussian rows (bbp sweep samples these)"
        )
    special = [name for name, value in models.DEFAULTS.items() if settings[name] != value]
    settings = {k: v for k, v in settings.items() if k not in models.DEFAULTS or k in special} | {
        "n": settings["n"] or [],
    }
    settings |= models.sources(settings)
    for name in ("time", "minima"):
        if not settings[name]:
            del settings[name]
    if "minima" in settings:
        phase_minima.check(settings)
    if special:
        _check_networks(settings, special)
    return PhaseExperiment(settings)


def _defaults(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Values of options not given that differ from those of the committee: models that exist, in maps that take a minute."""
    mixed = {settings["activation"], settings["teacher_activation"]} - {"quadratic", None}
    found = (
        {"p": "1,2,inf", "widths": "1,2,3,4,inf", "a_grid": "1.5:15:5:log", "at_a": "2,10"} if mixed else {}
    )
    if not models.rule(settings["loss"]).has_a:
        found |= {"a_grid": "1", "at_a": "1"}
    if settings["overlap"]:
        found |= {"p": "1,2", "widths": "1,2,3,4"}  # p = inf has no overlap
    return found


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
                fit(network(model))
