"""What a journal, or a talk, asks of a figure: some of its panels, size, fonts, style sheets, words, colours, axes, legends."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib import font_manager
from matplotlib import style as mpl_style
from matplotlib.axes import Axes
from matplotlib.colors import is_color_like
from matplotlib.container import ErrorbarContainer
from matplotlib.figure import Figure
from matplotlib.mathtext import MathTextParser
from numpy.typing import NDArray

from bbp.console.messages import FileError
from bbp.console.options import Option, checked, nearest, truth
from bbp.plots import layout
from bbp.plots.style import LEGENDS, TALK_SIZE, Look
from theory.checks import ParameterError, choice, shown

LARGEST = 40.0  # inches
LOG_DECADES = 3  # of a logarithmic y axis
# What a style sheet may not change: where and how pictures are shown, and what needs a program outside.
_NOT_STYLE = (
    "backend",
    "interactive",
    "toolbar",
    "timezone",
    "savefig.directory",
    "savefig.format",
    "text.usetex",
)
_MATHTEXT = {"serif": "dejavuserif", "sans-serif": "dejavusans", "monospace": "dejavusans"}


def read(**look: Any) -> Look:
    """A look of options by name, given as `bbp plot` has them on its command line or as Python would: ylim=(0, 1),
    {"b": (0, 1)}, ["b=0:1"].

    ParameterError, FileError: in one line, for a bad one.
    """
    for name in look:
        if name not in NAMES:
            raise ParameterError(f"a figure has no option {name!r}{nearest(name, NAMES)}")
    chosen = checked(LOOK, look)
    if chosen["talk"] and len(chosen["panels"] or ()) > 1:
        raise ParameterError(f"talk is for one panel, got {', '.join(chosen['panels'])}")
    return chosen | {"panels": chosen["panels"] or (("a",) if chosen["talk"] else ())}


def _legend(name: str, value: Any) -> str:
    return choice(name, {True: "on", False: "off"}[value] if isinstance(value, bool) else value, LEGENDS)


def _texts(name: str, value: Any) -> list[str]:
    """A text, or several; ParameterError for anything else."""
    found = [value] if isinstance(value, str | Path) else value
    if not isinstance(found, list | tuple) or not all(isinstance(one, str | Path) for one in found):
        raise ParameterError(f"{name} must be text, or a list of texts, got {shown(value)}")
    return [str(one) for one in found]


def _pair(value: Any, by: str) -> tuple[float, float]:
    """Two numbers, of a text such as "0:1" or of a pair; NaN for anything else."""
    ends = value.lower().split(by) if isinstance(value, str) else value
    try:
        low, high = (math.nan if isinstance(end, bool) else float(end) for end in ends)
    except (TypeError, ValueError):
        return math.nan, math.nan
    return low, high


def parse_limits(name: str, value: Any) -> tuple[tuple[str, str, float, float], ...]:
    """(panel or "", "x" or "y", low, high) from "0:1", "b=0:1", a list of them, (0, 1) or {"b": (0, 1)}; else ParameterError.

    >>> parse_limits("ylim", ["b=0:1", "-3:-1"]), parse_limits("xlim", (0, 2))
    ((('b', 'y', 0.0, 1.0), ('', 'y', -3.0, -1.0)), (('', 'x', 0.0, 2.0),))
    """
    texts = [value] if isinstance(value, str) else value
    if isinstance(value, Mapping):
        items = [(str(panel), ends) for panel, ends in value.items()]
    elif isinstance(texts, list | tuple) and all(isinstance(item, str) for item in texts):
        items = [(panel, ends) for panel, _, ends in (item.rpartition("=") for item in texts)]
    else:
        items = [("", value)]
    found = []
    for panel, ends in items:
        low, high = _pair(ends, ":")
        if not (re.fullmatch("[a-z]?", panel) and math.isfinite(high - low) and low < high):
            raise ParameterError(
                f"{name} must be LOW:HIGH, or a=LOW:HIGH for panel a alone, got {shown(value)}"
            )
        found.append((panel, name[0], low, high))
    return tuple(found)


def parse_colours(name: str, value: Any) -> str | tuple[str, ...]:
    """The name of one of Matplotlib's maps, or colours in their order from "#0072B2,black"; ParameterError for anything else.

    >>> parse_colours("colors", "viridis"), parse_colours("colors", "#0072B2,black")
    ('viridis', ('#0072B2', 'black'))
    """
    if isinstance(value, str) and value in mpl.colormaps:
        return value
    items = tuple(item.strip() for one in _texts(name, value) for item in one.split(","))
    if not items or not all(is_color_like(item) for item in items):
        raise ParameterError(
            f"{name} must be a map of Matplotlib such as viridis, or colours such as #0072B2,black, got {shown(value)}"
        )
    return items


def parse_panels(name: str, value: Any) -> tuple[str, ...]:
    """Letters from "a,c" (or "ac"), or a list; ParameterError for anything else, or one given twice.

    >>> parse_panels("panels", "a,c")
    ('a', 'c')
    """
    text = ",".join(_texts(name, value))
    letters = tuple(text.replace(",", "").replace(" ", ""))
    if not letters or not all("a" <= letter <= "z" for letter in letters) or len(set(letters)) < len(letters):
        raise ParameterError(f"{name} must be different letters such as a,c, got {text!r}")
    return letters


def parse_size(name: str, value: Any) -> tuple[float, float]:
    """Width and height in inches from "3.4x2.5" or a pair; ParameterError unless both lie between 0.5 and 40.

    >>> parse_size("size", "3.4x2.5")
    (3.4, 2.5)
    """
    width, height = _pair(value, "x")
    if not (0.5 <= width <= LARGEST and 0.5 <= height <= LARGEST):
        raise ParameterError(
            f"{name} must be WIDTHxHEIGHT in inches, each from 0.5 to {LARGEST:g}, got {shown(value)}"
        )
    return width, height


def parse_labels(name: str, value: Any) -> tuple[tuple[str, str, str], ...]:
    """(panel, place, text) from "x=TEXT" for every panel or "a.y=TEXT" for one; ParameterError for anything else.

    >>> parse_labels("labels", ["a.y=overlap"])
    (('a', 'y', 'overlap'),)
    """
    items = [f"{place}={text}" for place, text in value.items()] if isinstance(value, Mapping) else value
    found = []
    for item in _texts(name, items):
        place, equals, text = item.partition("=")
        panel, _, axis = place.rpartition(".")
        if not equals or axis not in ("x", "y", "title") or not re.fullmatch("[a-z]?", panel):
            raise ParameterError(
                f"{name} must be x=TEXT, y=TEXT or title=TEXT, or a.y=TEXT for panel a alone, got {item!r}"
            )
        try:
            MathTextParser("path").parse(text)
        except ValueError as error:
            line = (str(error).strip().splitlines() or ["unreadable"])[-1]
            raise ParameterError(
                f"{name}: {text!r} is not mathematics that Matplotlib can set: {line}"
            ) from None
        found.append((panel, axis, text))
    return tuple(found)


def apply(figure: Figure, look: Look) -> Figure:
    """The same figure with fewer panels, of another size, with other words, axes and legends; ParameterError where a panel is
    not there, and where a logarithmic axis has nothing positive to show."""
    panels = panels_of(figure)
    if look["panels"]:
        panels = _keep(figure, panels, look["panels"])
    axes = list(panels.values())
    for panel, place, text in look["labels"]:
        for ax in _named(panels, panel):
            if place == "title":
                layout.title(ax, text)
            else:
                ax.set(**{f"{place}label": text})
    for which in "yx":
        if look[f"{which}log"]:
            _log_axes(axes, which)
    for panel, which, low, high in (*look["ylim"], *look["xlim"]):
        for ax in _named(panels, panel):
            if getattr(ax, f"get_{which}scale")() == "log" and low <= 0:
                raise ParameterError(
                    f"{which}lim must be positive on a logarithmic axis, got {low:g}:{high:g}"
                )
            getattr(ax, f"set_{which}lim")(low, high)
    size = look["size"] or (TALK_SIZE if look["talk"] else None)
    if look["panels"]:
        layout.lettered(axes)
        if size is None:  # no panel higher than wide, with room for a legend
            width = figure.get_figwidth()
            columns = _columns(width, len(axes))
            height = min(max(0.62 * width / columns, 1.9), 3.1)
            size = width, -(-len(axes) // columns) * height + 0.7
    if size is not None:
        figure.set_size_inches(*size)
        for ax in axes:
            layout.title_again(ax)
    if size is not None or look["legend"] != "on":
        layout.legends_again(figure, axes, look)
    if look["size"] is not None:
        layout.require_room(figure)
    return figure


def _columns(width: float, count: int) -> int:
    """How many panels stand side by side."""
    return 1 if width <= 5 else count if count <= 3 else 2


def _log_axes(axes: Sequence[Axes], which: str) -> None:
    """A logarithmic axis in every panel where something is positive and nothing negative.

    It ends at what is positive among points and lines, of y at the upper LOG_DECADES of it: bars and bands that reach further
    down are cut there.
    """
    fit = [(ax, drawn) for ax in axes if (drawn := _drawn(ax, which)).size and drawn.min() >= 0 < drawn.max()]
    if not fit:
        raise ParameterError(f"{which}log: no panel has only positive numbers on that axis")
    for ax, drawn in fit:
        high = float(drawn.max())
        low = float(drawn[drawn > 0 if which == "x" else drawn >= high / 10**LOG_DECADES].min())
        room = max(high / low, 2.0) ** 0.05
        ends = low / room, max(high * room, getattr(ax, f"get_{which}lim")()[1])
        layout.log_axis(ax, which)
        getattr(ax, f"set_{which}lim")(*ends)


def _drawn(ax: Axes, which: str) -> NDArray[np.float64]:
    """Finite numbers of points and lines on an axis, without ends of error bars and lines from side to side of the panel."""
    caps = {id(cap) for box in ax.containers if isinstance(box, ErrorbarContainer) for cap in box.lines[1]}
    axis = "xy".index(which)
    curves = [
        line
        for line in ax.get_lines()
        if id(line) not in caps and line.get_transform().contains_branch_seperately(ax.transData)[axis]
    ]
    parts = [np.ravel(np.asarray(getattr(line, f"get_{which}data")(), dtype=float)) for line in curves]
    drawn = np.concatenate([part for part in parts if len(part)] or [np.zeros(0)])
    return drawn[np.isfinite(drawn)]


def panels_of(figure: Figure) -> dict[str, Axes]:
    """letter -> axes, as `layout.lettered` gave them; in order where it gave none."""
    found = {str(ax.get_label()): ax for ax in figure.axes if ax.get_label()}
    return found or dict(zip(layout.LETTERS, figure.axes, strict=False))


def _keep(figure: Figure, panels: Mapping[str, Axes], letters: Sequence[str]) -> dict[str, Axes]:
    for letter in letters:
        _named(panels, letter)
    kept = {letter: panels[letter] for letter in letters}
    following = list(panels.values())
    for index, ax in enumerate(following):
        if ax in kept.values() and not ax.get_xlabel():  # written once below a column of panels
            ax.set_xlabel(next((x.get_xlabel() for x in following[index:] if x.get_xlabel()), ""))
    first = kept[letters[0]]
    if not any(ax.get_title(loc="right") for ax in kept.values()):  # the model's name, written once
        name = next(filter(None, (ax.get_title(loc="right") for ax in following)), "")
        layout.title(first, name)
    for ax in list(figure.axes):
        if ax not in kept.values():
            ax.remove()
    columns = _columns(figure.get_figwidth(), len(kept))
    grid = figure.add_gridspec(-(-len(kept) // columns), columns)
    for index, ax in enumerate(kept.values()):
        ax.set_subplotspec(grid[index // columns, index % columns])
        ax.tick_params(labelbottom=True, labelleft=True)
    return kept


def _named(panels: Mapping[str, Axes], letter: str) -> list[Axes]:
    if not letter:
        return list(panels.values())
    if letter not in panels:
        raise ParameterError(f"there is no panel {letter!r} in this figure; there are {', '.join(panels)}")
    return [panels[letter]]


def parse_sheets(name: str, value: Any) -> dict[str, Any]:
    """Matplotlib's settings of style sheets, one over another; FileError where there is no such sheet, or it cannot be read.

    A sheet is a file, the name of one of Matplotlib's styles, or "matplotlibrc" for the file that Matplotlib reads by itself.
    """
    return {key: setting for sheet in _texts(name, value) for key, setting in _sheet(sheet).items()}


def _sheet(name: str) -> dict[str, Any]:
    if name in mpl_style.library:
        read: Any = mpl_style.library[name]
    else:
        path = Path(mpl.matplotlib_fname()) if name == "matplotlibrc" else Path(name).expanduser()
        if not path.is_file():
            raise FileError(f"style {name!r} is neither a file nor one of Matplotlib's styles")
        try:
            read = mpl.rc_params_from_file(str(path), use_default_template=False)
        except (OSError, ValueError, UnicodeDecodeError) as error:
            raise FileError(f"style {name!r} cannot be read: {error}") from None
    return {key: value for key, value in read.items() if key not in _NOT_STYLE and "webagg" not in key}


def parse_font(name: str, value: Any) -> dict[str, Any]:
    """Matplotlib's settings of a family, or of an installed font; ParameterError for one that is not installed."""
    (font,) = _texts(name, [value])
    if font in _MATHTEXT:
        return {"font.family": font, "mathtext.fontset": _MATHTEXT[font]}
    try:
        font_manager.findfont(font, fallback_to_default=False)
    except ValueError:
        raise ParameterError(
            f"{name} must be serif, sans-serif, monospace or the name of an installed font, got {font!r}"
        ) from None
    own = {"mathtext.rm": font, "mathtext.it": f"{font}:italic", "mathtext.bf": f"{font}:bold"}
    return {"font.family": font, "mathtext.fontset": "custom", **own}


_LIMITS = "ends of the {} axis, such as 0:1, or b=0:1 for panel b alone; may be given several times"
# Every option: of the command line, of `bbp.plot.draw`, and by its name in a look.
LOOK = (
    Option("panels", None, parse_panels, "only these panels, such as a,c", metavar="LETTERS"),
    Option("size", None, parse_size, "width and height in inches, such as 3.4x2.5", metavar="WxH"),
    Option("talk", False, truth, "one panel (a, or that of --panels), large, with few entries", flag=True),
    Option("ylog", False, truth, "a logarithmic y axis where all is positive", flag=True),
    Option("ylim", (), parse_limits, _LIMITS.format("y"), metavar="[PANEL=]LOW:HIGH"),
    Option("xlog", False, truth, "a logarithmic x axis where all is positive", flag=True),
    Option("xlim", (), parse_limits, _LIMITS.format("x"), metavar="[PANEL=]LOW:HIGH"),
    Option(
        "colors", None, parse_colours,
        "of curves: a map of Matplotlib such as viridis, or colours such as #0072B2,black", metavar="MAP|LIST",
    ),
    Option(
        "style", (), parse_sheets,
        "a Matplotlib style sheet (file or name) over the package's style; matplotlibrc: the one Matplotlib reads",
        metavar="SHEET",
    ),
    Option(
        "font", None, parse_font, "serif, sans-serif, monospace, or the name of an installed font", metavar="NAME"
    ),
    Option(
        "labels", (), parse_labels,
        "other words: x=TEXT, y=TEXT, title=TEXT, or a.y=TEXT for panel a alone", metavar="WHERE=TEXT",
    ),
    Option(
        "legend", "on", _legend, "above the panels (on), off, inside the first, or right of them (default %(default)s)"
    ),
)  # fmt: skip
NAMES = [each.name for each in LOOK]
# What argparse is to know of them besides.
_PARSED: dict[str, dict[str, Any]] = {
    **{name: {"action": "append", "default": []} for name in ("ylim", "xlim", "style")},
    "labels": {"action": "extend", "nargs": "+", "default": []},
    "legend": {"choices": LEGENDS, "default": "on"},
}


def add(parser: Any) -> None:
    """Give a parser, or a group of one, these options."""
    for each in LOOK:
        more = (
            {"action": "store_true"} if each.flag else {"metavar": each.metavar, **_PARSED.get(each.name, {})}
        )
        parser.add_argument(each.written, help=each.words, **more)
