"""The look of every figure: print sizes, colours for colour-blind readers, markers and lines told apart in grey; and a figure
as the bytes of a picture: png, pdf, svg, eps or pgf.

Colours are those of Okabe and Ito ("Color Universal Design", 2008) without the yellow, which is too light for lines.
Neighbouring entries also differ in lightness. More curves than these (of sizes N, of widths p) take an ordered map from dark to
light, and a marker each. No LaTeX is called: mathematics is set by Matplotlib itself.
"""

from __future__ import annotations

import functools
import io
import logging
import math
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Any, ParamSpec

import matplotlib as mpl
import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.collections import Collection
from matplotlib.colors import to_hex, to_rgba, to_rgba_array
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FixedLocator

from bbp.console.messages import RunError
from theory.checks import ParameterError

P = ParamSpec("P")
BLUE, VERMILION, GREEN, ORANGE = "#0072B2", "#D55E00", "#009E73", "#E69F00"
SKY, PURPLE, BLACK, GREY = "#56B4E9", "#CC79A7", "#000000", "#767676"

COLOURS = (BLUE, ORANGE, GREEN, SKY, VERMILION, PURPLE)
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", "p", ">", "*", "h")
LINES: tuple[Any, ...] = ("-", (0, (4, 1.6)), "-.", (0, (1, 1.4)), (0, (6, 1.5, 1, 1.5, 1, 1.5)))
LEGENDS = ("on", "off", "inside", "right")
ORDERED = "viridis"  # the map of many curves, and how much of it is dark enough on white paper
DARK = 0.82
KINDS = ("continuous", "discontinuous")
KIND_LINES: dict[str, Any] = {"continuous": "-", "discontinuous": (0, (4, 1.6))}
THRESHOLD_LINES: dict[str, Any] = {
    "continuous": "-.",
    "discontinuous": (0, (1, 1.4)),
}  # of a vertical line at alpha_BBP, in grey: blue and vermilion are those of sizes N there
KIND_COLOURS = {"continuous": BLUE, "discontinuous": VERMILION}

TALK_SIZE = 8.0, 5.5  # inches
OVER = "style", "font", "colors", "talk"  # of a look, what lies over the style of this module

WIDTHS = {"single": 3.4, "double": 7.0}  # inches: one and two columns of a journal page

# No dates: the same file gives the same picture, byte for byte.
METADATA: dict[str, dict[str, str | None]] = {
    "png": {"Software": None},
    "pdf": {"CreationDate": None, "Producer": None, "Creator": None},
    "svg": {"Date": None, "Creator": None},
    "eps": {"Creator": ""},
    "pgf": {},
}
_DATED = re.compile(rb"^%%(CreationDate|Creator|Title):.*\n", re.MULTILINE)  # of an .eps

# Style sheets beside this module; plt.style.use("bbp.plots.paper") takes one as well.
_PAPER, _TALK = (
    mpl.rc_params_from_file(str(Path(__file__).with_name(f"{name}.mplstyle")), use_default_template=False)
    for name in ("paper", "talk")
)


Look = Mapping[str, Any]  # what a journal, or a talk, asks of a figure, by name (`bbp.plots.options.LOOK`)

# Figures drawn within one `figure_style(...)` open it again without naming it.
_LOOK: ContextVar[Look] = ContextVar("what lies over the package's style", default=MappingProxyType({}))


@contextmanager
def figure_style(look: Look | None = None) -> Iterator[None]:
    """Context in which figures take this style, and on top of it `look`, or that of the context around; the user's own settings
    return afterwards."""
    token = _LOOK.set(look) if look and any(look.get(name) for name in OVER) else None
    try:
        talk = _TALK if for_a_talk() else {}
        settings: dict[Any, Any] = {**mpl.rcParamsDefault, **_PAPER, **talk, **_settings()}
        settings.pop("backend", None)  # the choice of a display stays the user's
        with mpl.rc_context(settings):
            yield
    finally:
        if token is not None:
            _LOOK.reset(token)


def for_a_talk() -> bool:
    """Whether figures are drawn for a talk: few entries in legends."""
    return bool(_LOOK.get().get("talk"))


def _settings() -> dict[str, Any]:
    """Matplotlib's own that lie over the package's: style sheets, and then the font."""
    over = _LOOK.get()
    return {**over.get("style", {}), **(over.get("font") or {})}


def colour(index: int, count: int = 0) -> str:
    """Colour of curve number `index` of `count`: as asked for, of a user's style sheet, if that has a cycle, or of this module.

    Colours of a list cycle. More curves than the list has take the map ORDERED from dark to light.
    """
    cycle = _settings().get("axes.prop_cycle")
    own = tuple(cycle.by_key().get("color", ())) if cycle is not None else ()
    chosen = _LOOK.get().get("colors") or own or COLOURS
    if chosen is COLOURS and count > len(COLOURS):
        chosen = ORDERED
    return ordered(index, count) if isinstance(chosen, str) else chosen[index % len(chosen)]


def ordered(index: int, count: int) -> str:
    """Colour number `index` of `count` from dark to light, of the map that is asked for, else of ORDERED."""
    chosen = _LOOK.get().get("colors")
    name = chosen if isinstance(chosen, str) else ORDERED
    return to_hex(mpl.colormaps[name](DARK * index / max(count - 1, 1)))


def marker(index: int) -> str:
    """Marker of curve number `index`, cycling."""
    return MARKERS[index % len(MARKERS)]


def number(value: float, digits: int = 4) -> str:
    """A number in a label, to so many digits and no more: 0.8, 1.5, and powers of ten only where it is very small or large.

    >>> number(0.8000000001), number(1e-5), number(2.5e7), number(400.0)
    ('0.8', '10^{-5}', '2.5 \\\\times 10^{7}', '400')
    """
    if not math.isfinite(value):
        return r"\infty" if value > 0 else str(value)
    text = f"{value:.{digits}g}"
    if value == 0 or 1e-4 <= abs(value) < 1e6:
        return f"{float(text):.12g}" if "e" in text else text
    return power(value, digits)


def power(value: float, digits: int = 4) -> str:
    """A number as mathematics sets it with a power of ten: "10^{5}", "2 \\\\times 10^{5}"."""
    mantissa, _, exponent = f"{value:.{digits - 1}e}".partition("e")
    mantissa = f"{float(mantissa):g}"
    return f"10^{{{int(exponent)}}}" if mantissa == "1" else rf"{mantissa} \times 10^{{{int(exponent)}}}"


def added(draw: Callable[P, object]) -> Callable[P, list[Artist]]:
    """Have a function that draws on the axes among its arguments give the artists that this adds."""

    @functools.wraps(draw)
    def give(*args: P.args, **kwargs: P.kwargs) -> list[Artist]:
        axes = [value for value in (*args, *kwargs.values()) if isinstance(value, Axes)]
        before = {id(artist) for ax in axes for artist in ax.get_children()}
        draw(*args, **kwargs)
        return [artist for ax in axes for artist in ax.get_children() if id(artist) not in before]

    give.__annotations__["return"] = "list[Artist]"
    return give


def new_figure(width: str, height: float) -> Figure:
    """An empty figure of a print width ("single" or "double" column) and a height in inches, on no display.

    Raises ParameterError for another width.
    """
    if width not in WIDTHS:
        raise ParameterError(f"width must be one of {', '.join(WIDTHS)}, got {width!r}")
    return Figure(figsize=(WIDTHS[width], height))


def settle_ticks(figure: Figure) -> None:
    """Where numbers of an axis meet, every other one is left out."""
    for _ in range(4):
        figure.draw_without_rendering()
        meeting = [axis for ax in figure.axes for axis in (ax.xaxis, ax.yaxis) if _meet(axis)]
        if not meeting:
            return
        for axis in meeting:
            low, high = sorted(axis.get_view_interval())
            ticks = [tick for tick in axis.get_majorticklocs() if low <= tick <= high]
            axis.set_major_locator(FixedLocator(ticks[::2]))


def _meet(axis: Any) -> bool:
    low, high = sorted(axis.get_view_interval())
    labels = [
        tick.label1
        for tick, place in zip(axis.get_major_ticks(), axis.get_majorticklocs(), strict=False)
        if low <= place <= high and tick.label1.get_visible() and tick.label1.get_text()
    ]
    boxes = [label.get_window_extent().padded(0.5) for label in labels]
    return any(one.overlaps(two) for one, two in pairwise(boxes))


def render(figure: Figure, form: str, dpi: float) -> bytes:
    """The bytes of a figure in the format "png", "pdf", "svg", "eps" or "pgf"; dpi is used by png.

    eps knows no transparency: colours are blended with the paper. pgf needs a LaTeX, which measures its words: RunError where
    there is none.
    """
    buffer = io.BytesIO()
    quiet = logging.getLogger("matplotlib.backends.backend_ps")
    level = quiet.level
    quiet.setLevel(logging.ERROR)
    try:
        with figure_style(), _opaque(figure) if form == "eps" else nullcontext():
            settle_ticks(figure)
            more: dict[str, Any] = {"metadata": METADATA[form]} if METADATA[form] else {}  # pgf takes none
            figure.savefig(buffer, format=form, dpi=dpi, **more)
    except _latex_failures() as error:
        if form != "pgf":
            raise
        raise RunError(
            f".pgf needs {mpl.rcParams['pgf.texsystem']} to measure its words, and that failed: {str(error).splitlines()[0]}"
        ) from None
    finally:
        quiet.setLevel(level)
    return _DATED.sub(b"", buffer.getvalue()) if form == "eps" else buffer.getvalue()


def _latex_failures() -> tuple[type[Exception], ...]:
    """What the pgf backend raises where LaTeX fails: looked up then, for its import takes a third of a second."""
    from matplotlib.backends.backend_pgf import LatexError

    return FileNotFoundError, RuntimeError, LatexError


def form_of(path: Path) -> str:
    """The format that the extension of `path` names; ParameterError for any but png, pdf, svg, eps and pgf."""
    form = path.suffix.lower().removeprefix(".")
    if form not in METADATA:
        raise ParameterError(f"out must end in .png, .pdf, .svg, .eps or .pgf, got {str(path)!r}")
    return form


@contextmanager
def _opaque(figure: Figure) -> Iterator[None]:
    """Context in which nothing of a figure is transparent: colours are blended with what lies behind, axes or paper."""
    kept: list[Callable[[], object]] = []
    for artist in figure.findobj(lambda one: isinstance(one, Collection | Patch | Line2D)):
        drawn: Any = artist
        alpha, line = drawn.get_alpha(), isinstance(drawn, Line2D)
        paper = to_rgba(drawn.axes.get_facecolor() if drawn.axes is not None else figure.get_facecolor())
        paper = paper if paper[3] == 1 else to_rgba("white")
        for name in ("color",) if line else ("facecolor", "edgecolor"):
            old = getattr(drawn, f"get_{name}")()
            own = to_rgba_array(old, alpha if line else None)
            share = own[:, 3:]
            if not ((share > 0) & (share < 1)).any():
                continue
            put = getattr(drawn, f"set_{name}")
            kept += [functools.partial(put, old), functools.partial(drawn.set_alpha, alpha)]
            mixed = share * own[:, :3] + (1 - share) * np.array(paper[:3])
            drawn.set_alpha(None)
            whole = np.concatenate([mixed, np.ceil(share)], axis=1)  # what is not drawn at all stays so
            put(tuple(whole[0]) if len(whole) == 1 else whole)
    try:
        yield
    finally:
        for back in reversed(kept):
            back()
