"""The look of every figure: print sizes, colours for colour-blind readers, markers and lines told apart in grey.

Colours are those of Okabe and Ito ("Color Universal Design", 2008) without the yellow, which is too light for lines.
Neighbouring entries also differ in lightness. No LaTeX is called: mathematics is set by Matplotlib itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from theory.checks import ParameterError

BLUE, VERMILION, GREEN, ORANGE = "#0072B2", "#D55E00", "#009E73", "#E69F00"
SKY, PURPLE, BLACK, GREY = "#56B4E9", "#CC79A7", "#000000", "#767676"

COLOURS = (BLUE, ORANGE, GREEN, SKY, VERMILION, PURPLE)
MARKERS = ("o", "s", "^", "D", "v", "P")
KINDS = ("continuous", "discontinuous")
KIND_LINES: dict[str, Any] = {"continuous": "-", "discontinuous": (0, (4, 1.6))}
THRESHOLD_LINES: dict[str, Any] = {
    "continuous": "-.",
    "discontinuous": (0, (1, 1.4)),
}  # of a vertical line at alpha_BBP, in grey: blue and vermilion are those of sizes N there
KIND_COLOURS = {"continuous": BLUE, "discontinuous": VERMILION}

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
    "pdf.fonttype": 42,  # TrueType: text stays text in the file
    "svg.fonttype": "path",
    "svg.hashsalt": "bbp",  # the same figure gives the same bytes
}


# Settings that a user lays over these; figures drawn within one `figure_style(...)` open it again without naming them.
_OVER: ContextVar[Mapping[str, Any]] = ContextVar("settings over the package's style", default={})  # noqa: B039


@contextmanager
def figure_style(over: Mapping[str, Any] | None = None) -> Iterator[None]:
    """Context in which figures take this style, and `over` on top of it; the user's own settings return afterwards."""
    token = None if over is None else _OVER.set(dict(over))
    try:
        settings: dict[Any, Any] = dict(mpl.rcParamsDefault) | _RC | dict(_OVER.get())
        settings.pop("backend", None)  # the choice of a display stays the user's
        with mpl.rc_context(settings):
            yield
    finally:
        if token is not None:
            _OVER.reset(token)


def colour(index: int) -> str:
    """Colour of curve number `index`, cycling: of a user's style sheet, if that has a cycle, else of this module."""
    cycle = _OVER.get().get("axes.prop_cycle")
    own = tuple(cycle.by_key().get("color", ())) if cycle is not None else ()
    colours = own or COLOURS
    return colours[index % len(colours)]


def marker(index: int) -> str:
    """Marker of curve number `index`, cycling."""
    return MARKERS[index % len(MARKERS)]


def new_figure(width: str, height: float) -> Figure:
    """An empty figure of a print width ("single" or "double" column) and a height in inches, on no display.

    Raises ParameterError for another width.
    """
    if width not in WIDTHS:
        raise ParameterError(f"width must be one of {', '.join(WIDTHS)}, got {width!r}")
    return Figure(figsize=(WIDTHS[width], height))
