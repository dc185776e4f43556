"""The look of every figure: print sizes, colours for colour-blind readers, markers and lines told apart in grey.

Colours are those of Okabe and Ito ("Color Universal Design", 2008) without the yellow, which is too light for lines.
Neighbouring entries also differ in lightness. More curves than these (of sizes N, of widths p) take an ordered map from dark to
light, and a marker each. No LaTeX is called: mathematics is set by Matplotlib itself.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, ParamSpec

import matplotlib as mpl
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from theory.checks import ParameterError

P = ParamSpec("P")
BLUE, VERMILION, GREEN, ORANGE = "#0072B2", "#D55E00", "#009E73", "#E69F00"
SKY, PURPLE, BLACK, GREY = "#56B4E9", "#CC79A7", "#000000", "#767676"

COLOURS = (BLUE, ORANGE, GREEN, SKY, VERMILION, PURPLE)
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", "p", ">", "*", "h")
LINES: tuple[Any, ...] = ("-", (0, (4, 1.6)), "-.", (0, (1, 1.4)), (0, (6, 1.5, 1, 1.5, 1, 1.5)))
ORDERED = "viridis"  # the map of many curves, and how much of it is dark enough on white paper
DARK = 0.82
KINDS = ("continuous", "discontinuous")
KIND_LINES: dict[str, Any] = {"continuous": "-", "discontinuous": (0, (4, 1.6))}
THRESHOLD_LINES: dict[str, Any] = {
    "continuous": "-.",
    "discontinuous": (0, (1, 1.4)),
}  # of a vertical line at alpha_BBP, in grey: blue and vermilion are those of sizes N there
KIND_COLOURS = {"continuous": BLUE, "discontinuous": VERMILION}

# For a screen across a room, on top of the rest: one panel, large, few entries.
TALK: dict[str, Any] = {
    "font.size": 15.0,
    "axes.labelsize": 18.0,
    "axes.titlesize": 15.0,
    "axes.linewidth": 1.2,
    "xtick.labelsize": 15.0,
    "ytick.labelsize": 15.0,
    "xtick.major.width": 1.2,
    "ytick.major.width": 1.2,
    "xtick.major.size": 6.0,
    "ytick.major.size": 6.0,
    "lines.linewidth": 2.6,
    "lines.markersize": 8.0,
    "lines.markeredgewidth": 1.6,
    "errorbar.capsize": 3.0,
    "legend.fontsize": 14.0,
}
TALK_SIZE = 8.0, 5.5  # inches

WIDTHS = {"single": 3.4, "double": 7.0}  # inches: one and two columns of a journal page

_RC: dict[str, Any] = {
    "font.size": 8.0,
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "mathtext.fontset": "dejavusans",
    "text.usetex": False,
    "axes.labelsize": 9.0,
    "axes.titlesize": 8.0,
    "axes.linewidth": 0.7,
    "axes.formatter.use_mathtext": True,
    "xtick.labelsize": 7.5,
    "ytick.labelsize": 7.5,
    "xtick.direction": "in",
    "ytick.direction": "in",
    "xtick.top": True,
    "ytick.right": True,
    "xtick.minor.visible": True,
    "ytick.minor.visible": True,
    "xtick.major.width": 0.7,
    "ytick.major.width": 0.7,
    "xtick.minor.width": 0.5,
    "ytick.minor.width": 0.5,
    "lines.linewidth": 1.3,
    "lines.markersize": 3.6,
    "lines.markeredgewidth": 0.9,
    "errorbar.capsize": 1.8,
    "legend.fontsize": 7.5,
    "legend.frameon": False,
    "legend.handlelength": 2.2,
    "legend.columnspacing": 1.4,
    "legend.labelspacing": 0.35,
    "figure.constrained_layout.use": True,
    "savefig.dpi": 300,
    "pdf.fonttype": 42,  # TrueType: text stays text in the file, and no Type 3 font, which journals refuse
    "ps.fonttype": 42,
    "svg.fonttype": "path",
    "svg.hashsalt": "bbp",  # the same figure gives the same bytes
}


@dataclass(frozen=True)
class Look:
    """What lies over the style.

    settings  Matplotlib's
    colours   of curves: the name of one of Matplotlib's maps, or colours in their order; None: the package's
    talk      large, with few entries in legends
    """

    settings: Mapping[str, Any] = field(default_factory=dict)
    colours: str | tuple[str, ...] | None = None
    talk: bool = False


# Figures drawn within one `figure_style(...)` open it again without naming it.
_LOOK: ContextVar[Look] = ContextVar("what lies over the package's style", default=Look())  # noqa: B039


@contextmanager
def figure_style(look: Look | None = None) -> Iterator[None]:
    """Context in which figures take this style, and on top of it `look`, or that of the context around; the user's own settings
    return afterwards."""
    token = _LOOK.set(look) if look not in (None, Look()) else None
    try:
        over = _LOOK.get()
        settings: dict[Any, Any] = dict(mpl.rcParamsDefault) | _RC
        settings |= {**(TALK if over.talk else {}), **over.settings}
        settings.pop("backend", None)  # the choice of a display stays the user's
        with mpl.rc_context(settings):
            yield
    finally:
        if token is not None:
            _LOOK.reset(token)


def for_a_talk() -> bool:
    """Whether figures are drawn for a talk: few entries in legends."""
    return _LOOK.get().talk


def colour(index: int, count: int = 0) -> str:
    """Colour of curve number `index` of `count`: as asked for, of a user's style sheet, if that has a cycle, or of this module.

    Colours of a list cycle. More curves than the list has take the map ORDERED from dark to light.
    """
    over = _LOOK.get()
    cycle = over.settings.get("axes.prop_cycle")
    own = tuple(cycle.by_key().get("color", ())) if cycle is not None else ()
    chosen = over.colours or own or COLOURS
    if chosen is COLOURS and count > len(COLOURS):
        chosen = ORDERED
    return ordered(index, count) if isinstance(chosen, str) else chosen[index % len(chosen)]


def ordered(index: int, count: int) -> str:
    """Colour number `index` of `count` from dark to light, of the map that is asked for, else of ORDERED."""
    chosen = _LOOK.get().colours
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
