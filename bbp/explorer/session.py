"""One open page: hears what its controls ask, answers with theory at once, with samples and finite-N curves as they come."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Callable, Coroutine
from typing import Any, ClassVar

import numpy as np
from bokeh.document import Document
from bokeh.events import ClientReconnected, ConnectionLost, DocumentReady
from bokeh.models import ColumnDataSource, CustomJS

from bbp.analysis.spectrum import Pool
from bbp.console.messages import RunError
from bbp.explorer import answer as answers
from bbp.explorer import curves, figures, files, page, samples
from bbp.explorer.answer import COLUMNS, Answer, diagram, diagram_of, empty, marks
from bbp.explorer.files import Held
from bbp.explorer.state import State
from bbp.explorer.work import Work
from theory.answers import Prediction
from theory.checks import NotConverged, ParameterError

log = logging.getLogger("bbp")

PAUSE = 400  # milliseconds without a move after which curves that take long begin
BINS, ZOOM_BINS = 60, 40  # most bins in each panel
LOWEST = 4  # eigenvalues shown one by one beyond the p p* that carry the teacher
SAMPLES_KEPT = 40  # dots on a page
POINTS, AT_ONCE = 40, 4  # of a curve of a model with options, and computed in one go
SLOW_POINTS = 12  # where students mix
OF_SAMPLES = ("histogram", "zoom_histogram", "eigenvalues", "sample", "quenched")  # sources
COMMITTEE_ALONE = (
    "Finite-N curves and quenched theory are known for the quadratic committee without options; samples are drawn of every "
    "model."
)


class Session:
    """The page of one document. `work` does what takes long for all pages; `held` is an opened file.

    Long work is a task of a kind, "sample", "curves", "diagram" or "file": a page has at most one of each.
    """

    def __init__(self, doc: Document, work: Work, state: State, notice: str, held: list[Held]):
        self._doc, self._work = doc, work
        self._state, self._held = state, held
        self._board = figures.board()
        self._ask, self._answer, self._status = (
            ColumnDataSource({"json": []}, name=name, tags=[]) for name in ("ask", "answer", "status")
        )
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._drawn: list[tuple[float, float, float]] = []  # alpha, lowest, overlap
        self._next_sample = 0
        self._timer: Any = None
        self._curves_of: object = None  # what the curves belong to that take long
        self._branch_of: object = None  # what the curves over alpha of a model with options belong to
        found, key = answers.all_but_diagram(state), diagram_of(state)
        if key not in work.seen:
            work.seen[key] = curves.phase_map(*key)
        found |= diagram(state, work.seen[key])
        self._chosen = ""  # the quantity of an open file that is shown
        found |= self._lay_over()
        self._sent = Answer()
        self._board.show(found.unlike(self._sent))
        for name in COLUMNS:
            self._sent.sources.setdefault(name, empty(name))
        self._tell_of_file()
        self._ask.on_change("data", lambda attr, old, new: self._heard(new))
        page.fill(doc, state, found.words, notice)
        self._connect()

    def _rest(self) -> None:
        """Nobody looks at the page: stop its long work now. A page that is back asks anew."""
        for kind in list(self._tasks):
            self._stop(kind)
        self._curves_of = None
        if self._timer is not None:
            self._doc.remove_timeout_callback(self._timer)
            self._timer = None

    def _connect(self) -> None:
        doc, code = self._doc, "bbp.live(figures, sources, lines, ask, answer, status)"
        self._board.attach(doc, code, ask=self._ask, answer=self._answer, status=self._status)
        doc.js_on_event(ConnectionLost, CustomJS(code="bbp.gone()"))
        doc.js_on_event(ClientReconnected, CustomJS(code="bbp.back()"))
        doc.on_event(DocumentReady, lambda event: self._later_curves())
        doc.on_event(ConnectionLost, lambda event: self._rest())
        doc.on_session_destroyed(lambda context: self._rest())

    # ---- what the page asks ----

    def _heard(self, data: Any) -> None:
        try:
            message = json.loads(data["json"][0])
            handler = self._handlers[message["do"]]
        except (KeyError, IndexError, TypeError, ValueError, RecursionError):
            return  # not one of our pages
        try:
            handler(self, message)
        except Exception as error:
            words = _words(error)
            if message["do"] == "state":
                self._show(Answer(), serial=message.get("serial"), error=words, name=message.get("name"))
            else:
                self._fail("sample-words", words)

    def _move(self, message: dict[str, Any]) -> None:
        began = time.perf_counter()
        state = State.of(message["values"])
        found = answers.all_but_diagram(state)
        before, self._state = self._state, state
        if state != before:
            if self._stop("sample"):
                self._fail("sample-words", "the sample was cancelled")
            found.sources |= {name: empty(name) for name in OF_SAMPLES}
            found.lines["quenched_edge"] = None
        if state.model != before.model or state.n != before.n:
            self._drawn = []
            found.sources |= {name: empty(name) for name in ("drawn", "finite")}
        if self._curves_wanted(state) != self._curves_of:
            self._stop("curves")
            self._curves_of = None
        if self._branch_of is not None and self._branch_of == self._branch_wanted(state):
            del found.sources["branch"]  # it stands while alpha moves
            found.axes |= {name: self._sent.axes[name] for name in ("lowest", "recovery")}
        else:
            self._branch_of = None
        # A diagram that nobody has computed yet is computed while the page goes on.
        seen = self._work.seen.get(diagram_of(state))
        if seen is not None:
            self._stop("diagram")
            found |= diagram(state, seen)
        elif diagram_of(state) != diagram_of(before) or "diagram" not in self._tasks:
            self._start("diagram", self._diagram, state)
        found |= self._lay_over()
        theory = 1e3 * (time.perf_counter() - began)
        self._show(found, serial=message["serial"], stale=seen is None, values=state.values(), theory=theory)
        if self._held:
            self._tell_of_file()
        self._later_curves()

    def _draw(self, message: dict[str, Any]) -> None:
        samples.sampling_of(self._state)
        self._tell({"sample-words": "waiting for a free process", "busy": True, "progress": 0.02})
        self._start("sample", self._sample, self._state, self._next_sample)
        self._next_sample += 1

    def _cancel(self, message: dict[str, Any]) -> None:
        if self._stop("sample"):
            self._fail("sample-words", "the sample was cancelled")

    def _open(self, message: dict[str, Any]) -> None:
        self._start("file", self._read, str(message["name"])[:80], str(message["content"]))

    def _close_file(self, message: dict[str, Any]) -> None:
        self._held = []
        self._show(self._lay_over())
        self._tell_of_file()
        self._tell({"sweep-words": "Its samples lie over the curves."})

    def _choose(self, message: dict[str, Any]) -> None:
        self._chosen = str(message["name"])
        self._show(self._lay_over())

    _handlers: ClassVar = {
        "state": _move,
        "draw": _draw,
        "cancel": _cancel,
        "open": _open,
        "close": _close_file,
        "quantity": _choose,
    }

    # ---- long work ----

    def _start(self, kind: str, work: Callable[..., Coroutine[Any, Any, None]], *what: Any) -> None:
        """Begin long work, in place of what this page has of its kind."""
        where = {"sample": "sample-words", "file": "sweep-words"}.get(kind, "finite-words")

        async def guarded() -> None:
            try:
                await work(*what)
            except Exception as error:
                self._then(self._fail, where, _words(error))

        self._stop(kind)
        self._tasks[kind] = asyncio.get_running_loop().create_task(guarded())

    def _stop(self, kind: str) -> bool:
        """Cancel the work of a kind; whether there was any."""
        task = self._tasks.pop(kind, None)
        return task is not None and task.cancel()

    def _then(self, act: Callable[..., None], *what: Any) -> None:
        """From long work: do something to the page in its turn, unless the work has been stopped by then."""
        task = asyncio.current_task()
        self._doc.add_next_tick_callback(
            lambda: act(*what) if any(task is mine for mine in self._tasks.values()) else None
        )

    async def _diagram(self, state: State) -> None:
        seen = await self._work.diagram(*diagram_of(state))
        self._then(lambda: self._show(diagram(self._state, seen), stale=False))

    async def _sample(self, state: State, sample: int) -> None:
        began, labels = time.monotonic(), None
        if state.model.is_committee:
            words = "quenched theory of its labels"
            self._then(self._tell, {"sample-words": words, "progress": 0.15})
            labels = await self._work.samples.do(samples.predicted, state, sample)
        what = "diagonalising" if samples.sampling_of(state)[1] == "dense" else "lowest eigenvalues of"
        words = f"{what} a matrix of order {int(state.p) * state.n}"
        self._then(self._tell, {"sample-words": words, "progress": 0.4})
        found, overlap = await self._work.samples.do(samples.drawn, state, sample)
        self._then(self._show_sample, found, overlap, labels, time.monotonic() - began)

    def _show_sample(self, drawn: Pool, overlap: float, labels: Prediction | None, seconds: float) -> None:
        (values,), state = drawn.eigenvalues, self._state
        pulled = np.empty(0) if labels is None else samples.outliers_of(labels)
        left, right, low, zoom_top = self._sent.axes["zoom"]
        lowest = min([values[0], *pulled, *([] if labels is None else [labels.edge])])
        left = min(left, float(lowest - 0.08 * (right - lowest)))
        start, end, _, top = self._sent.axes["spectrum"]
        self._drawn = [*self._drawn, (state.alpha, float(values[0]), overlap)][-SAMPLES_KEPT:]
        found = Answer(
            sources={
                "eigenvalues": {"lam": values},
                "sample": marks(values[: int(state.p) * state.p_star + LOWEST], 3 * top, 3 * zoom_top),
                "quenched": marks(pulled, top, zoom_top),
                "histogram": samples.histogram(drawn, start, end, BINS),
                "zoom_histogram": samples.histogram(drawn, left, right, ZOOM_BINS),
                "drawn": dict(zip(("alpha", "lowest", "overlap"), np.array(self._drawn).T, strict=True)),
            },
            lines={"quenched_edge": None if labels is None else labels.edge},
            axes={"zoom": (left, right, low, zoom_top)},
        )
        self._show(found)
        words = samples.described(drawn, overlap, labels, seconds)
        self._tell({"sample-words": words, "busy": False, "progress": 1})

    # ---- curves that take long ----

    def _later_curves(self) -> None:
        if self._timer is not None:
            self._doc.remove_timeout_callback(self._timer)
        self._timer = self._doc.add_timeout_callback(self._begin_curves, PAUSE)

    def _begin_curves(self) -> None:
        self._timer = None
        state, wanted = self._state, self._curves_wanted(self._state)
        if wanted != self._curves_of:
            self._curves_of = wanted
            self._start("curves", self._finite if state.model.is_committee else self._general, state)

    @staticmethod
    def _curves_wanted(state: State) -> object:
        """What the curves depend on that take long: these are computed once, and others of the same page stopped."""
        if state.model.is_committee:
            return state.model, state.n, curves.axis_end(state.model, state.alpha)
        return state

    @staticmethod
    def _branch_wanted(state: State) -> object:
        model = state.model
        return None if model.is_committee else (model, curves.axis_end(model, state.alpha))

    async def _finite(self, state: State) -> None:
        """The finite-N curve of a committee."""
        model, end = state.model, curves.axis_end(state.model, state.alpha)
        draws, count = samples.draws_of(state, end), samples.CURVE_POINTS
        alphas, rows = np.linspace(end / count, end, count), []
        said = samples.doubt(model, alphas, state.n)
        for index, alpha in enumerate(alphas.tolist()):
            rows.append(await self._work.curves.do(samples.law, model, alpha, state.n, draws))
            words = f"finite-N curve, {draws} draws{said}: {(index + 1) / count:.0%}"
            self._then(self._tell, {"finite-words": words})
        known = [row for row in rows if row is not None]
        columns = {name: [row[name] for row in known] for name in COLUMNS["finite"]}
        self._then(self._show, Answer(sources={"finite": columns}))
        words = f"Green: what one sample shows at N = {state.n}, mean ± one standard deviation over {draws} draws{said}."
        self._then(self._tell, {"finite-words": words})

    async def _general(self, state: State) -> None:
        """Density and curves over alpha of a model with options; those of a slow one are shown as far as they are known."""
        model, alpha, do = state.model, state.alpha, self._work.curves.do
        slow, wanted = curves.is_slow(model), self._branch_wanted(state)

        def told(what: str, done: float) -> None:
            self._then(self._tell, {"finite-words": f"{what}: {done:.0%}"})

        told("edge and outliers", 0.02)
        here = await do(curves.at, model, alpha)
        if slow:
            self._then(self._show, answers.with_numbers(state, here))
        told("density", 0.1)
        found = await do(curves.general_density, model, alpha, here)
        if isinstance(found, str):
            self._then(self._show, answers.without_density(state, here, found))
        else:
            self._then(self._show, answers.with_density(state, here, *found))
        if self._branch_of != wanted:
            end = curves.axis_end(model, alpha)
            count, step = (SLOW_POINTS, 1) if slow else (POINTS, AT_ONCE)
            alphas, columns = np.linspace(end / count, end, count), empty("branch")
            for first in range(0, count, step):
                told("edge and outlier against α", 0.2 + 0.8 * first / count)
                more = await do(curves.branch, model, alphas[first : first + step])
                columns = {name: np.append(columns[name], more[name]) for name in columns}
                if slow or len(columns["alpha"]) == count:
                    self._then(self._show, answers.with_branch(columns, end))
            self._then(setattr, self, "_branch_of", wanted)
        self._then(self._tell, {"finite-words": COMMITTEE_ALONE})

    # ---- files ----

    async def _read(self, name: str, content: str) -> None:
        held = await self._work.files.do(files.read_upload, name, content)
        self._then(self._opened, name, held)

    def _opened(self, name: str, held: list[Held]) -> None:
        self._held = held
        self._show(self._lay_over())
        self._tell_of_file(name)

    def _held_here(self) -> Held | None:
        return next((held for held in self._held if held.fits(self._state)), None)

    def _lay_over(self) -> Answer:
        return files.overlay(self._held_here(), self._chosen)

    def _tell_of_file(self, opened: str = "") -> None:
        """What of the open file is shown; opened: where it has just been, its name."""
        here = self._held_here()
        self._tell(files.words(self._held, here, self._chosen, opened))

    # ---- sending ----

    def _tell(self, status: dict[str, Any]) -> None:
        self._status.tags = [status]

    def _fail(self, where: str, words: str) -> None:
        """Say at an element what there is not, and why; a sample can be drawn again."""
        again = {"busy": False, "progress": 0} if where == "sample-words" else {}
        self._tell({where: words[:1].upper() + words[1:] + "."} | again)

    def _show(self, found: Answer, **more: Any) -> None:
        """Send what is new in an answer, in one message: a property of its own for each number would be sixty."""
        self._answer.tags = [found.unlike(self._sent).message() | more]


def _words(error: Exception) -> str:
    """An error in words."""
    if isinstance(error, ParameterError | NotConverged | RunError):
        return str(error)
    if isinstance(error, MemoryError):
        return "out of memory"
    log.debug("page", exc_info=error)
    return f"unforeseen {type(error).__name__}: {' '.join(str(error).split())}"
