"""One open page: hears what its controls ask, answers with theory at once, with samples and finite-N curves as they come."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar

import numpy as np
from bokeh.document import Document
from bokeh.events import ClientReconnected, ConnectionLost, DocumentReady
from bokeh.models import ColumnDataSource, CustomJS

from bbp.explorer import curves, descentfile, figures, networks, page, phase_map
from bbp.explorer.answer import (
    Answer,
    all_but_diagram,
    answer,
    diagram,
    diagram_of,
    marks,
    number,
    with_branch,
    with_density,
    with_numbers,
)
from bbp.explorer.jobs import CURVE_POINTS, draws_of
from bbp.explorer.limits import SAMPLES_KEPT, sampling_of
from bbp.explorer.state import State
from bbp.explorer.sweepfile import Held
from bbp.explorer.worker import Job, Worker
from theory.checks import NotConverged, ParameterError

Message = dict[str, Any]
log = logging.getLogger("bbp")

PAUSE = 400  # milliseconds without a move after which a finite-N curve begins
BINS, ZOOM_BINS, PER_BIN = 60, 40, 6  # most bins in each panel, and eigenvalues in each on average at least
LOWEST = 4  # eigenvalues shown one by one beyond the p p* that carry the teacher
ATOM = 1e-9  # relative size below which an eigenvalue belongs to the atom at 0
SEED = 0
COMMITTEE_ALONE = "Finite-N curves and quenched theory are known for the quadratic committee without options"
UNPREDICTED: Message = {"edge": None, "outliers": []}  # a sample of a model with options


@dataclass(frozen=True)
class Workers:
    """A worker for each kind of long work."""

    samples: Worker = field(
        default_factory=lambda: Worker("bbp.explorer.sampler", "draw_sample", patience=0.3)
    )
    curves: Worker = field(default_factory=lambda: Worker("bbp.explorer.jobs", "finite_curve", patience=3.0))
    branches: Worker = field(default_factory=lambda: Worker("bbp.explorer.networks", "curves", patience=3.0))
    files: Worker = field(
        default_factory=lambda: Worker("bbp.explorer.sweepfile", "read_upload", patience=5.0)
    )

    def cancel(self, owner: object) -> None:
        """Cancel whatever the owner waits for."""
        for worker in (self.samples, self.curves, self.branches, self.files):
            worker.cancel(owner)

    def close(self) -> None:
        """End their processes."""
        for worker in (self.samples, self.curves, self.branches, self.files):
            worker.close()


class Session:
    """The page of one document. `workers` do the long work of all pages; `held` is an opened sweep file."""

    def __init__(self, doc: Document, workers: Workers, state: State, notice: str, held: list[Held]):
        self._doc, self._workers = doc, workers
        self._state, self._held = state, held
        self._board = figures.board()
        self._ask, self._answer, self._status = (
            ColumnDataSource({"json": []}, name=name, tags=[]) for name in ("ask", "answer", "status")
        )
        self._drawn: list[tuple[float, float, float]] = []  # alpha, lowest, overlap
        self._next_sample, self._started = 0, 0.0
        self._timer: Any = None
        self._curve_of: object = None  # what the workers' curves belong to
        self._branch_of: object = None  # what the curves over alpha of a model with options belong to
        self._closed = False
        found = answer(state)
        self._name = held[0].file if held else ""  # of an open file
        self._chosen = ""  # the quantity of an open file that is shown
        self._lay_over(found)
        self._sent = Answer()
        self._board.show(found.unlike(self._sent))
        self._sent.sources |= {
            name: figures.empty(name) for name in figures.COLUMNS if name not in found.sources
        }
        self._tell_of_sweep()
        self._ask.on_change("data", lambda attr, old, new: self._heard(new))
        page.fill(doc, state, found.words, notice)
        self._connect()

    def close(self) -> None:
        """The page has gone: cancel what it waits for."""
        self._closed = True
        self._rest()

    def _rest(self) -> None:
        """Nobody looks at the page: stop its long work now. A page that is back asks anew."""
        self._workers.cancel(self)
        self._curve_of = None
        if self._timer is not None:
            self._doc.remove_timeout_callback(self._timer)
            self._timer = None

    def _connect(self) -> None:
        board, doc = self._board, self._doc
        for panel in board.figures.values():
            doc.add_root(panel)
        # Sources that no figure draws travel with the document through this callback.
        args = {
            "figures": list(board.figures.values()),
            "sources": list(board.sources.values()),
            "lines": list(board.lines.values()),
            "ask": self._ask,
            "answer": self._answer,
            "status": self._status,
        }
        board.figures["phases"].tags = [self._ask, self._answer, self._status, *board.sources.values()]
        doc.js_on_event(
            DocumentReady, CustomJS(args=args, code="bbp.live(figures, sources, lines, ask, answer, status)")
        )
        doc.js_on_event(ConnectionLost, CustomJS(code="bbp.gone()"))
        doc.js_on_event(ClientReconnected, CustomJS(code="bbp.back()"))
        doc.on_event(DocumentReady, lambda event: self._later_curve())
        doc.on_event(ConnectionLost, lambda event: self._rest())
        doc.on_session_destroyed(lambda context: self.close())

    # ---- what the page asks ----

    def _heard(self, data: Any) -> None:
        try:
            message = json.loads(data["json"][0])
            handler = self._handlers[message["do"]]
        except (KeyError, IndexError, TypeError, ValueError, RecursionError):
            return  # not one of our pages
        try:
            handler(self, message)
        except (ParameterError, NotConverged) as error:
            self._fail(message, str(error))
        except Exception as error:
            log.debug("page", exc_info=True)
            self._fail(message, f"unforeseen {type(error).__name__}: {error}")

    def _fail(self, message: Message, text: str) -> None:
        if message["do"] == "state":
            self._show(Answer(), serial=message.get("serial"), error=text, name=message.get("name"))
        else:
            self._tell(**{"sample-words": text[:1].upper() + text[1:] + ".", "busy": False, "progress": 0})

    def _move(self, message: Message) -> None:
        began = time.perf_counter()
        state = State.of(message["values"])
        found = all_but_diagram(state)
        before, self._state = self._state, state
        # A diagram that nobody has computed yet is computed while the page paints the rest.
        later = diagram_of(state) != diagram_of(before) and not phase_map.is_ready(*diagram_of(state))
        if not later:
            found.sources |= diagram(state).sources
        if state != before:
            self._workers.samples.cancel(self)
            found.sources |= {
                name: figures.empty(name) for name in ("histogram", "zoom_histogram", "eigenvalues")
            }
            found.sources |= {name: figures.empty(name) for name in ("sample", "quenched")}
            found.lines["quenched_edge"] = None
        if state.model != before.model or state.n != before.n:
            self._drawn = []
            found.sources |= {"drawn": figures.empty("drawn"), "finite": figures.empty("finite")}
        if self._curve_wanted(state) != self._curve_of:
            self._curve_of = None
            self._workers.curves.cancel(self)
            self._workers.branches.cancel(self)
        if self._branch_of is not None and self._branch_of == self._branch_wanted(state):
            del found.sources["branch"]  # it stands while alpha moves
            found.axes["lowest"] = self._sent.axes["lowest"]
        else:
            self._branch_of = None
        self._lay_over(found)
        serial = {"serial": message["serial"], "more": later}
        self._show(found, values=state.values(), theory=1e3 * (time.perf_counter() - began), **serial)
        if later:
            self._doc.add_next_tick_callback(partial(self._diagram, state, message, began))
        if self._held:
            self._tell_of_sweep()
        self._later_curve()

    def _diagram(self, state: State, message: Message, began: float) -> None:
        """Second part of an answer."""
        if self._closed:
            return
        try:
            found = diagram(state)
        except (ParameterError, NotConverged) as error:
            self._fail(message, str(error))
            return
        self._show(found, serial=message["serial"], theory=1e3 * (time.perf_counter() - began))

    def _draw(self, message: Message) -> None:
        sampling_of(self._state)
        request = {"state": self._state.values(), "seed": SEED, "sample": self._next_sample}
        self._next_sample += 1
        self._started = time.monotonic()
        self._tell(**{"sample-words": "waiting for a free process", "busy": True, "progress": 0.02})
        self._workers.samples.submit(self._job(request, self._sampled))

    def _cancel(self, message: Message) -> None:
        self._workers.samples.cancel(self)

    def _open(self, message: Message) -> None:
        request = {"name": str(message["name"])[:80], "content": str(message["content"])}
        self._workers.files.submit(self._job(request, partial(self._opened, request["name"])))

    def _close_file(self, message: Message) -> None:
        self._held = []
        self._show(self._lay_over(Answer()))
        self._tell_of_sweep()
        self._tell(**{"sweep-words": "Its samples lie over the curves."})

    def _choose(self, message: Message) -> None:
        self._chosen = str(message["name"])
        self._show(self._lay_over(Answer()))

    _handlers: ClassVar = {
        "state": _move,
        "draw": _draw,
        "cancel": _cancel,
        "open": _open,
        "close": _close_file,
        "quantity": _choose,
    }

    # ---- samples ----

    def _sampled(self, state: State, message: Message) -> None:
        kind = message["kind"]
        if kind == "progress":
            self._tell(**{"sample-words": message["text"], "progress": message["done"]})
        elif kind == "result":
            if state == self._state:
                self._show_sample(message)
        elif kind == "cancelled":
            self._tell(**{"sample-words": "The sample was cancelled.", "busy": False, "progress": 0})
        else:
            self._tell(**{"sample-words": f"No sample: {message['text']}.", "busy": False, "progress": 0})

    def _show_sample(self, message: Message) -> None:
        values, predicted, state = message["eigenvalues"], message["predicted"] or UNPREDICTED, self._state
        axes = self._sent.axes | {"zoom": widened(self._sent.axes["zoom"], message)}
        top, zoom_top = axes["spectrum"][3], axes["zoom"][3]
        lowest = values[: int(state.p) * state.p_star + LOWEST]
        self._drawn = [*self._drawn, (state.alpha, message["lowest"], message["overlap"])][-SAMPLES_KEPT:]
        found = Answer(lines={"quenched_edge": predicted["edge"]}, axes={"zoom": axes["zoom"]})
        found.sources = {
            "eigenvalues": {"lam": values},
            "sample": marks(lowest, 3 * top, 3 * zoom_top),
            "quenched": marks(predicted["outliers"], top, zoom_top),
            "histogram": histogram(message, axes["spectrum"], BINS),
            "zoom_histogram": histogram(message, axes["zoom"], ZOOM_BINS),
            "drawn": dict(zip(("alpha", "lowest", "overlap"), np.array(self._drawn).T, strict=True)),
        }
        self._show(found)
        seconds = time.monotonic() - self._started
        self._tell(**{"sample-words": described(message, seconds), "busy": False, "progress": 1})

    # ---- finite-N curves ----

    def _later_curve(self) -> None:
        if self._timer is not None:
            self._doc.remove_timeout_callback(self._timer)
        self._timer = self._doc.add_timeout_callback(self._curve, PAUSE)

    def _curve(self) -> None:
        self._timer = None
        state = self._state
        model = state.model
        wanted = self._curve_wanted(state)
        if wanted == self._curve_of:
            return
        self._curve_of = wanted
        if not model.is_committee:
            self._branch(state)
            return
        end = curves.axis_end(model, state.alpha)
        try:
            draws_of(state, end)
        except ParameterError as error:
            self._workers.curves.cancel(self)
            self._tell(**{"finite-words": f"{error}."})
            return
        alphas = np.linspace(end / CURVE_POINTS, end, CURVE_POINTS)
        request = {"state": state.values(), "alphas": alphas}
        self._workers.curves.submit(self._job(request, self._curved))

    @staticmethod
    def _curve_wanted(state: State) -> object:
        """What the curves of the workers depend on: these are computed once, and others of the same page stopped."""
        if state.model.is_committee:
            return state.model, state.n, curves.axis_end(state.model, state.alpha)
        return state

    def _branch(self, state: State) -> None:
        """Density and curves over alpha of a model with options, which take longer than a redraw."""
        self._workers.curves.cancel(self)
        request = {"state": state.values(), "branch": self._branch_of != self._branch_wanted(state)}
        self._workers.branches.submit(self._job(request, self._branched))

    @staticmethod
    def _branch_wanted(state: State) -> object:
        model = state.model
        return None if model.is_committee else (model, networks.axis_end(model, state.alpha))

    def _branched(self, state: State, message: Message) -> None:
        if state != self._state:
            return
        if message["kind"] == "progress":
            self._tell(**{"finite-words": f"{message['text']}: {message['done']:.0%}"})
            if "density" in message or "reason" in message:
                self._show(with_density(message))
            elif "here" in message:
                self._show(with_numbers(message["here"]))
            if "columns" in message:
                self._show(with_branch(message["columns"], self._sent.axes["lowest"]))
        elif message["kind"] == "result":
            if message["columns"]:
                self._branch_of = self._branch_wanted(state)
                self._show(with_branch(message["columns"], self._sent.axes["lowest"]))
            self._tell(**{"finite-words": f"{COMMITTEE_ALONE}; samples are drawn of every model."})
        elif message["kind"] == "failed":
            self._tell(**{"finite-words": f"{message['text']}."})

    def _curved(self, state: State, message: Message) -> None:
        if state.model != self._state.model or state.n != self._state.n:
            return
        if message["kind"] == "progress":
            self._tell(**{"finite-words": f"{message['text']}: {message['done']:.0%}"})
        elif message["kind"] == "result":
            self._show(Answer(sources={"finite": message["columns"]}))
            draws = f"{message['draws']} draws{message['doubt']}"
            words = (
                f"Green: what one sample shows at N = {state.n}, mean ± one standard deviation over {draws}."
            )
            self._tell(**{"finite-words": words})
        elif message["kind"] == "failed":
            self._tell(**{"finite-words": f"{message['text']}."})

    # ---- sweep files ----

    def _opened(self, name: str, state: State, message: Message) -> None:
        if message["kind"] == "result":
            self._held = message["held"]
            self._show(self._lay_over(Answer()))
            self._tell_of_sweep(name)
        elif message["kind"] == "failed":
            self._tell(**{"sweep-words": f"{message['text']}."})

    def _samples_held(self) -> figures.Columns:
        """Points of the open file that belong to the page's model."""
        held = self._held_here()
        return held.columns if held else figures.empty("sweep")

    def _held_here(self) -> Held | None:
        return next((held for held in self._held if held.fits(self._state)), None)

    def _quantities(self) -> list[list[str]]:
        """Names and words of the quantities of the page's model in the open file, the one that is shown first."""
        held = self._held_here()
        named = [[name, words] for name, (words, _) in held.quantities.items()] if held else []
        return sorted(named, key=lambda row: row[0] != self._chosen)

    def _lay_over(self, found: Answer) -> Answer:
        """Put the points of the open file that belong to the page's model into an answer."""
        held, named = self._held_here(), self._quantities()
        found.sources |= {"sweep": self._samples_held(), "quantity": figures.empty("quantity")}
        found.sources |= {name: figures.empty(name) for name in ("path", "path_lines")}
        if held and held.paths:
            found.sources |= held.paths
            found.axes |= descentfile.axes_of(held.paths)
        if held and named:
            columns = held.quantities[named[0][0]][1]
            found.sources["quantity"] = columns
            if len(columns["alpha"]):
                low, high = float(columns["low"].min()), float(columns["high"].max())
                room = 0.08 * (high - low) or 0.1 * abs(high) or 0.1
                found.axes["quantity"] = (0.0, 1.05 * float(columns["alpha"].max()), low - room, high + room)
        return found

    def _tell_of_sweep(self, name: str = "") -> None:
        if not self._held:
            self._name = ""
            self._tell(models=[], quantities=[], file="", paths="")
            return
        self._name = name or self._name
        opened, held = f"{name}: " if name else "", self._held_here()
        points = len(held.columns["alpha"]) if held else 0
        if points:
            words = f"{points} points of this model (± one standard error)."
        elif held and held.paths:
            words = "descents of this model, in the panel along gradient flow."
        else:
            words = "samples of other models: choose one."
        file = f"{self._name or 'sweep file'}: {held.about}" if held and points else ""
        paths = f"{self._name or 'the file'}: {held.about}" if held and held.paths else ""
        models = [{"text": held.text, "values": held.values} for held in self._held]
        more = {"quantities": self._quantities(), "file": file, "paths": paths}
        self._tell(**{"sweep-words": opened + words, "models": models, **more})

    # ---- sending ----

    def _job(self, request: Message, hear: Callable[[State, Message], None]) -> Job:
        hear = partial(hear, self._state)
        return Job(self, request, lambda message: self._from_worker(partial(hear, message)))

    def _from_worker(self, callback: Callable[[], None]) -> None:
        if not self._closed:
            self._doc.add_next_tick_callback(lambda: None if self._closed else callback())

    def _tell(self, **status: Any) -> None:
        self._status.tags = [status]

    def _show(self, found: Answer, **more: Any) -> None:
        """Send what is new in an answer, in one message: a property of its own for each number would be sixty."""
        self._answer.tags = [found.unlike(self._sent).message() | more]


def widened(axes: tuple[float, float, float, float], message: Message) -> tuple[float, float, float, float]:
    """The window at the edge, far enough to the left for the sample's lowest eigenvalue and what its labels predict."""
    left, right, low, high = axes
    predicted = message["predicted"]
    lowest = min([message["lowest"], *([predicted["edge"], *predicted["outliers"]] if predicted else [])])
    return min(left, lowest - 0.08 * (right - lowest)), right, low, high


def histogram(message: Message, axes: tuple[float, float, float, float], bins: int) -> figures.Columns:
    """Eigenvalues in at most `bins` bins over the axis, as a density of states; without the atom and without bins where not
    every eigenvalue is known."""
    values, order = message["eigenvalues"], message["order"]
    values = values[np.abs(values) > ATOM * np.max(np.abs(values))]
    inside = np.sum((values >= axes[0]) & (values <= axes[1]))
    bins = int(np.clip(inside / PER_BIN, 4, bins))
    edges = np.linspace(axes[0], axes[1], bins + 1)
    counts = np.histogram(values, edges)[0]
    known = np.ones(bins, dtype=bool) if message["complete"] else edges[1:] <= message["eigenvalues"][-1]
    heights = counts / (order * np.diff(edges))
    return {"left": edges[:-1][known], "right": edges[1:][known], "top": heights[known]}


def described(message: Message, seconds: float) -> str:
    """A sample in words."""
    predicted = message["predicted"]
    if predicted is None:
        return (
            f"{_found(message, seconds)} Quenched theory of its labels is known for the quadratic committee."
        )
    outliers = ", ".join(number(value) for value in predicted["outliers"][:4]) or "none"
    return (
        f"{_found(message, seconds)} Its labels predict edge {number(predicted['edge'])}, outliers {outliers}, "
        f"q² {number(predicted['overlap'])}; eigenvalues below that edge: {message['below']}."
    )


def _found(message: Message, seconds: float) -> str:
    extent = "all" if message["complete"] else f"the lowest {len(message['eigenvalues'])}"
    return (
        f"Order {message['order']}, {extent} eigenvalues, in {seconds:.1f} s. Lowest {number(message['lowest'])}, "
        f"q² {number(message['overlap'])}."
    )
