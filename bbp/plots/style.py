"""The look of every figure: print sizes, colours for colour-blind readers, markers and lines told apart in grey.

Colours are those of Okabe and Ito ("Color Universal Design", 2008) without the yellow, which is too light for lines.
Neighbouring entries also differ in lightness. No LaTeX is called: mathematics is set by Matplotlib itself.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
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


def figure_style() -> AbstractContextManager[None]:
    """Context in which figures take this style; the user's own settings return afterwards."""
    settings: dict[Any, Any] = dict(mpl.rcParamsDefault) | _RC
    settings.pop("backend", None)  # the choice of a display stays the user's
    return mpl.rc_context(settings)


def colour(index: int) -> str:
    """Colour of curve number `index`, cycling."""
    return COLOURS[index % len(COLOURS)]


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
