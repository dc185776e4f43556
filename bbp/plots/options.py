"""What a journal asks of a figure: some of its panels, its size in inches, a font, a style sheet, other words on its axes."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib import font_manager
from matplotlib import style as mpl_style
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.legend import Legend
from matplotlib.mathtext import MathTextParser

from bbp.console.errors import FileError
from bbp.plots import layout
from theory.checks import ParameterError

LARGEST = 40.0  # inches
MOST_COLUMNS = 4  # of a legend
_LETTER = re.compile(r"\(([a-z])\)")
_PLACES = ("x", "y", "title")
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


@dataclass(frozen=True)
class Options:
    """How a finished figure is changed.

    panels  letters of the panels that stay, in their order; none: all
    size    width and height in inches, or None for those of the figure
    labels  (panel or "", place, text): place is "x", "y" or "title"; "" is every panel
    legend  whether legends stay

    >>> Options(panels=("a",), size=(3.4, 2.5)).panels
    ('a',)
    """

    panels: tuple[str, ...] = ()
    size: tuple[float, float] | None = None
    labels: tuple[tuple[str, str, str], ...] = ()
    legend: bool = True


def parse_panels(text: str) -> tuple[str, ...]:
    """Letters from "a,c" (or "ac"); ParameterError for anything else, or one given twice.

    >>> parse_panels("a,c")
    ('a', 'c')
    """
    letters = tuple(text.replace(",", "").replace(" ", ""))
    if not letters or not all("a" <= letter <= "z" for letter in letters) or len(set(letters)) < len(letters):
        raise ParameterError(f"panels must be different letters such as a,c, got {text!r}")
    return letters


def parse_size(text: str) -> tuple[float, float]:
    """Width and height in inches from "3.4x2.5"; ParameterError unless both lie between 0.5 and 40.

    >>> parse_size("3.4x2.5")
    (3.4, 2.5)
    """
    found = re.fullmatch(r"(\d*\.?\d+)x(\d*\.?\d+)", text.strip().lower())
    width, height = (float(part) for part in found.groups()) if found else (0.0, 0.0)
    if not (0.5 <= width <= LARGEST and 0.5 <= height <= LARGEST):
        raise ParameterError(
            f"size must be WIDTHxHEIGHT in inches, each from 0.5 to {LARGEST:g}, got {text!r}"
        )
    return width, height


def parse_labels(items: Sequence[str]) -> tuple[tuple[str, str, str], ...]:
    """(panel, place, text) from "x=TEXT" for every panel or "a.y=TEXT" for one; ParameterError for anything else.

    >>> parse_labels(["a.y=overlap"])
    (('a', 'y', 'overlap'),)
    """
    found = []
    for item in items:
        place, equals, text = item.partition("=")
        panel, _, axis = place.rpartition(".")
        if not equals or axis not in _PLACES or not re.fullmatch("[a-z]?", panel):
            raise ParameterError(
                f"labels must be x=TEXT, y=TEXT or title=TEXT, or a.y=TEXT for panel a alone, got {item!r}"
            )
        _check_mathematics(text)
        found.append((panel, axis, text))
    return tuple(found)


def settings(sheets: Sequence[str], font: str | None) -> dict[str, Any]:
    """Matplotlib settings to lay over the package's own: style sheets one after another, then the font.

    A sheet is a file, the name of one of Matplotlib's styles, or "matplotlibrc" for the file that Matplotlib reads by itself.
    FileError where there is no such sheet or it cannot be read; ParameterError for a font that is not installed.
    """
    found: dict[str, Any] = {}
    for sheet in sheets:
        found |= _sheet(sheet)
    return found | ({} if font is None else _font(font))


def apply(figure: Figure, options: Options) -> Figure:
    """The same figure with fewer panels, of another size, with other words; ParameterError where a panel is not there."""
    panels = panels_of(figure)
    if options.panels:
        panels = _keep(figure, panels, options.panels)
    for panel, place, text in options.labels:
        for ax in _named(panels, panel):
            _write(ax, place, text)
    if options.size is not None:
        figure.set_size_inches(*options.size)
    if not options.legend:
        _drop_legends(figure)
    elif options.panels or options.size is not None:
        _legend_again(figure, list(panels.values()))
    if options.panels:
        layout.relettered(list(panels.values()))
    return figure


def panels_of(figure: Figure) -> dict[str, Axes]:
    """letter -> axes: as written above each panel, in order where there is one alone or none is written."""
    found = {}
    for ax in figure.axes:
        letter = _LETTER.fullmatch(ax.get_title(loc="left"))
        if letter:
            found[letter.group(1)] = ax
    return found or dict(zip("abcdefghijklmnopqrstuvwxyz", figure.axes, strict=False))


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
        first.set_title(name, loc="right", pad=3.0)
    for ax in list(figure.axes):
        if ax not in kept.values():
            ax.remove()
    columns = len(kept) if figure.get_figwidth() > 5 else 1
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


def _write(ax: Axes, place: str, text: str) -> None:
    if place == "title":
        ax.set_title(text, loc="right", pad=3.0)
    elif place == "x":
        ax.set_xlabel(text)
    else:
        ax.set_ylabel(text)


def _drop_legends(figure: Figure) -> None:
    for legend in [*figure.legends, *filter(None, (ax.get_legend() for ax in figure.axes))]:
        legend.remove()


def _legend_again(figure: Figure, panels: Sequence[Axes]) -> None:
    """Legends hold what is left, in as many columns as the width takes."""
    if figure.legends:
        for legend in list(figure.legends):
            legend.remove()
        layout.legend_above(figure, panels, MOST_COLUMNS)
    for ax in panels:
        own = ax.get_legend()
        if own is not None:
            labels = [text.get_text() for text in own.get_texts()]
            handles = [handle for handle in own.legend_handles if handle is not None]
            own.remove()
            place: dict[str, Any] = {"loc": "lower center", "bbox_to_anchor": (0.5, 1.06)}
            _fitting(figure, partial(_upon, ax, handles, labels, place))


def _upon(ax: Axes, handles: list[Any], labels: list[str], place: dict[str, Any], columns: int) -> Legend:
    return ax.legend(handles, labels, ncols=min(columns, len(labels)), **place)


def _fitting(figure: Figure, make: Callable[[int], Legend]) -> None:
    """The legend of most columns, MOST_COLUMNS at most, that lies within the figure."""
    for columns in range(MOST_COLUMNS, 0, -1):
        legend = make(columns)
        figure.draw_without_rendering()
        box = legend.get_window_extent()
        if columns == 1 or (box.x0 >= 0 and box.x1 <= figure.bbox.x1):
            return
        legend.remove()


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


def _font(name: str) -> dict[str, Any]:
    if name in _MATHTEXT:
        return {"font.family": name, "mathtext.fontset": _MATHTEXT[name]}
    try:
        font_manager.findfont(name, fallback_to_default=False)
    except ValueError:
        raise ParameterError(
            f"font must be serif, sans-serif, monospace or the name of an installed font, got {name!r}"
        ) from None
    own = {"mathtext.rm": name, "mathtext.it": f"{name}:italic", "mathtext.bf": f"{name}:bold"}
    return {"font.family": name, "mathtext.fontset": "custom", **own}


def _check_mathematics(text: str) -> None:
    try:
        MathTextParser("path").parse(text)
    except ValueError as error:
        line = str(error).strip().splitlines()[-1] if str(error).strip() else "unreadable"
        raise ParameterError(f"labels: {text!r} is not mathematics that Matplotlib can set: {line}") from None
