"""Legends of a figure whose size or panels have changed: where they are asked for, in what the panels leave."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.container import ErrorbarContainer
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.legend import Legend

from bbp.plots import layout

log = logging.getLogger("bbp")
MOST_COLUMNS = 4  # of a legend
TALK_ENTRIES = 12
LEGEND_SHARE = 0.2  # of the height of a figure of a size of one's own, at most
SMALL = 6.0  # points of the letters of a legend that would be higher otherwise
SMALL_TALK = 10.0


class Look(NamedTuple):
    """Where a legend stands ("on", "inside", "right"), whether for a talk, and whether the height of the figure is given."""

    place: str
    talk: bool
    sized: bool


def drop(figure: Figure) -> None:
    """Remove every legend of a figure."""
    for legend in [*figure.legends, *filter(None, (ax.get_legend() for ax in figure.axes))]:
        legend.remove()


def again(figure: Figure, panels: Sequence[Axes], place: str, *, talk: bool, sized: bool) -> None:
    """Legends hold what is left, where they are asked for, in as many columns as the width takes."""
    placed, look = None, Look(place, talk, sized)
    if figure.legends:
        for legend in list(figure.legends):
            legend.remove()
        entries = layout.entries_of(panels)
        _put(figure, panels[0], list(entries.values()), list(entries), look, whole=True)
        placed = panels[0].get_legend()
    for ax in panels:
        own = ax.get_legend()
        if own is not None and own is not placed:
            labels = [text.get_text() for text in own.get_texts()]
            handles = [handle for handle in own.legend_handles if handle is not None]
            own.remove()
            _put(figure, ax, handles, labels, look, whole=False)


def _put(figure: Figure, ax: Axes, handles: list[Any], labels: list[str], look: Look, *, whole: bool) -> None:
    """One legend, of all panels or of one."""
    if look.talk:
        handles, labels = _few(handles, labels, TALK_ENTRIES)
    if look.place == "inside":
        ax.legend(handles, labels, loc="best", frameon=True, framealpha=0.5, edgecolor="none")
    elif look.place == "right" and whole:
        figure.legend(handles, labels, loc="outside right upper")
    elif look.place == "right":
        ax.legend(handles, labels, loc="upper left", bbox_to_anchor=(1.02, 1.0))
    elif whole:
        _above(figure, handles, labels, look)
    else:
        place: dict[str, Any] = {"loc": "lower center", "bbox_to_anchor": (0.5, 1.06)}
        _fitting(figure, partial(_upon, ax, handles, labels, place))


def _above(figure: Figure, handles: list[Any], labels: list[str], look: Look) -> None:
    """A legend over all panels; where the height is given small letters, then fewer entries, leave room for the panels."""
    width, height = map(float, figure.get_size_inches())
    room: float = LEGEND_SHARE * height
    if not look.sized and not look.talk:
        columns = layout.fitting_columns(labels, MOST_COLUMNS, width)
        layout.grow(figure, len(labels), columns)
        figure.legend(handles, labels, loc="outside upper center", ncols=columns)
        return
    usual = FontProperties(size=mpl.rcParams["legend.fontsize"]).get_size_in_points()
    small = min(SMALL_TALK if look.talk else SMALL, usual)
    tight: dict[Any, Any] = {
        "legend.handlelength": 1.5,
        "legend.columnspacing": 0.8,
        "legend.labelspacing": 0.2,
    }
    for points, over in ((usual, {}), (small, tight)):
        with mpl.rc_context({**over, "legend.fontsize": points}):
            columns = layout.fitting_columns(labels, MOST_COLUMNS, width)
            rows = max(int(room * 72 / (points * (1.2 + mpl.rcParams["legend.labelspacing"]))), 1)
            if -(-len(labels) // columns) > rows and over:
                columns = next(
                    k for k in range(MOST_COLUMNS, 0, -1) if k == 1 or _fits(handles, labels, rows, k, width)
                )
                handles, labels = _few(handles, labels, rows * columns)
            if -(-len(labels) // columns) <= rows or over:
                figure.legend(handles, labels, loc="outside upper center", ncols=columns)
                return


def _fits(handles: list[Any], labels: list[str], rows: int, columns: int, inches: float) -> bool:
    """Whether the entries that remain of these in so many rows and columns are no wider than that."""
    kept = [labels[k] for k in _chosen(handles, rows * columns)]
    return layout.fitting_columns(kept, columns, inches) == columns


def _few(handles: list[Any], labels: list[str], most: int) -> tuple[list[Any], list[str]]:
    """At most so many: lines of theory, and of the curves the ends and some between; the log says what is left out."""
    if len(labels) <= most:
        return handles, labels
    kept = _chosen(handles, most)
    left = [labels[k] for k in range(len(labels)) if k not in kept]
    log.warning("no room in the legend for: %s", "; ".join(left))
    return [handles[k] for k in kept], [labels[k] for k in kept]


def _chosen(handles: Sequence[Any], most: int) -> list[int]:
    """Which of the entries stay where there is room for so many."""
    lines = [k for k, handle in enumerate(handles) if not isinstance(handle, ErrorbarContainer)]
    curves = [k for k in range(len(handles)) if k not in lines] or lines
    lines = lines[: max(most // 2, most - len(curves))] if curves is not lines else []
    some = np.unique(np.linspace(0, len(curves) - 1, most - len(lines)).round().astype(int))
    return sorted({*lines, *(curves[k] for k in some)})


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
