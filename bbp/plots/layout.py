"""What whole figures share: panels in rows, letters, names of models, legends beside the data, axes with plain numbers, and
room for all of it in a figure of a size of one's own."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import matplotlib as mpl
import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.container import ErrorbarContainer
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import text_to_path
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter
from numpy.typing import NDArray

from bbp.experiments import models
from bbp.plots import style
from theory.checks import ParameterError
from theory.model import Network

log = logging.getLogger("bbp")
Array = NDArray[np.float64]
LETTERS = "abcdefghijklmnopqrstuvwxyz"  # of panels
LONGEST_LABEL = 34  # letters on an axis
USUAL_ROWS = 5  # of a legend, for which figures have room
LETTER = 0.35  # inches that the letter of a panel takes of the line above it
MOST_COLUMNS = 4  # of a legend
TALK_ENTRIES = 12
LEGEND_SHARE = 0.2  # of the height of a figure of a size of one's own, at most
SMALL = 6.0  # points of the letters of a legend that would be higher otherwise
SMALL_TALK = 10.0
TIGHT: dict[Any, Any] = {  # and what else makes it smaller
    "legend.handlelength": 1.5,
    "legend.columnspacing": 0.8,
    "legend.labelspacing": 0.2,
}
LEAST_PANEL = 0.3  # inches, both ways
SMALLEST = 5.0  # points of the words of an axis


def figure(
    count: int, height: float, width: str = "double", columns: int | None = None, **more: Any
) -> tuple[Figure, list[Axes]]:
    """A figure of a print width and a height in inches with so many lettered panels, row by row in so many columns.

    columns   all side by side at two-column width unless given; one at single width
    more      of `Figure.subplots`
    """
    columns = 1 if width == "single" else columns or count
    fig = style.new_figure(width, height)
    every = list(np.ravel(fig.subplots(-(-count // columns), columns, **more)))
    for ax in every[count:]:
        ax.remove()
    for ax in every[max(count - columns, 0) : count]:
        ax.tick_params(labelbottom=True)
    return fig, lettered(every[:count])


def lettered(axes: list[Axes]) -> list[Axes]:
    """The same axes, with (a), (b)... above their upper left corners if there are several."""
    for ax, letter in zip(axes, LETTERS, strict=False):
        ax.set_label(letter)
        ax.set_title(f"({letter})" if len(axes) > 1 else "", loc="left", pad=3.0, fontweight="bold")
    return axes


def name_model(ax: Axes, model: Network, more: str = "") -> None:
    """The model above the upper right corner: p, p*, a where its loss has one, and what is added."""
    title(ax, [*model_words(model), *([more] if more else [])])


def model_words(model: Network) -> list[str]:
    """A model in pieces of mathematics: p, p*, a where its loss has one, and what makes it no committee."""
    record = models.record(model)
    parts = [width_name(model.p), f"$p^* = {model.p_star}$"]
    parts += [f"$a = {style.number(model.a)}$"] if models.has_a(record) else []
    return parts + special_words(record)


def special_words(record: Mapping[str, Any]) -> list[str]:
    """What of a record makes its model no committee: "tanh", "squared loss", "noise 0.3"."""
    special = models.special(record)
    return [
        f"{models.short(value)}{' loss' * (name == 'loss')}"
        if isinstance(value, str)
        else f"{name} ${style.number(value)}$"
        for name, value in special.items()
    ]


def width_name(p: float) -> str:
    """A width in a label: "$p = 4$", "$p = \\infty$"."""
    return f"$p = {style.power(p, 3) if 1e5 <= p < np.inf else style.number(p, 6)}$"


def breadth(ax: Axes) -> float:
    """Inches between the left and the right side of a panel, of one that is yet to be arranged roughly."""
    figure: Any = ax.get_figure(root=True)
    share = float(ax.get_position().width)
    if figure.get_layout_engine() is not None:  # which leaves less between panels than there is at first
        share *= 0.9 / (mpl.rcParams["figure.subplot.right"] - mpl.rcParams["figure.subplot.left"])
    return share * float(figure.get_figwidth())


def title_again(ax: Axes) -> None:
    """The same words above the upper right corner of a panel that has changed its width."""
    title(ax, ax.get_title(loc="right").replace(",\n", ", ").split(", "))


def words_of(found: xr.Dataset, name: str) -> str:
    """What the axis of an observable says: its words where they are few, else its name."""
    words = str(found[name].attrs.get("long_name", name))
    return words if len(words) <= LONGEST_LABEL else name


def title(ax: Axes, words: str | Sequence[str], **look: Any) -> None:
    """Words above the upper right corner; several pieces of them in as many lines as the panel's width asks for."""
    room = breadth(ax) - LETTER * bool(ax.get_title(loc="left"))
    lines: list[str] = []
    for part in [words] if isinstance(words, str) else words:
        longer = f"{lines[-1]}, {part}" if lines else part
        if lines and text_width(longer, "axes.titlesize") > room:
            lines[-1] += ","
            lines.append(part)
        else:
            lines[-1:] = [longer]
    ax.set_title("\n".join(lines), loc="right", pad=3.0, **look)


def text_width(text: str, size: str = "legend.fontsize") -> float:
    """Inches that a line of text takes, at the size of one of Matplotlib's settings."""
    font = FontProperties(family=mpl.rcParams["font.family"], size=points_of(size))
    return text_to_path.get_text_width_height_descent(text, font, "$" in text)[0] / 72


def points_of(size: Any = "legend.fontsize") -> float:
    """The size of letters, in points, of one of Matplotlib's settings."""
    return float(FontProperties(size=mpl.rcParams[size]).get_size_in_points())


def legend_above(
    fig: Figure, axes: Sequence[Axes], columns: int, *, talk: bool = False, sized: bool = False
) -> None:
    """One legend over all panels: each label once, in the order drawn, in at most so many columns, no wider than the figure.

    The figure grows with it beyond USUAL_ROWS. Where its height is given (`sized`, or that of a talk) small letters, then fewer
    entries, leave room for the panels.
    """
    entries = _entries(axes, talk)
    width, height = map(float, fig.get_size_inches())
    fitting = fitting_columns(list(entries), columns, width)
    smaller: dict[Any, Any] = {}
    if not sized and not talk:
        line = points_of() * (1.2 + mpl.rcParams["legend.labelspacing"]) / 72
        fig.set_figheight(height + line * max(0, -(-len(entries) // fitting) - USUAL_ROWS))
    elif -(-len(entries) // fitting) > _rows(height):
        smaller = {**TIGHT, "legend.fontsize": min(SMALL_TALK if talk else SMALL, points_of())}
    with mpl.rc_context(smaller):
        if smaller:
            entries, fitting = _within(entries, columns, width, _rows(height))
        fig.legend(list(entries.values()), list(entries), loc="outside upper center", ncols=fitting)


def legends_again(figure: Figure, axes: Sequence[Axes], look: style.Look) -> None:
    """Legends hold what is left, where a look has them, in as many columns as the width takes."""
    own = {ax: legend for ax in axes if (legend := ax.get_legend()) is not None}
    whole = bool(figure.legends)
    for legend in [*figure.legends, *filter(None, (ax.get_legend() for ax in figure.axes))]:
        legend.remove()
    if look["legend"] == "off":
        return
    if whole and look["legend"] == "on":
        legend_above(figure, axes, MOST_COLUMNS, talk=look["talk"], sized=look["size"] is not None)
    elif whole and look["legend"] == "right":
        entries = _entries(axes, look["talk"])
        figure.legend(list(entries.values()), list(entries), loc="outside right upper")
    elif whole:
        _upon(axes[0], _entries(axes, look["talk"]), look["legend"])
    for ax, legend in own.items():
        texts = [text.get_text() for text in legend.get_texts()]
        drawn = dict(zip(texts, legend.legend_handles, strict=True))
        _upon(ax, _few(drawn, TALK_ENTRIES) if look["talk"] else drawn, look["legend"])


def _upon(ax: Axes, entries: Mapping[str, Any], place: str) -> None:
    """A legend of one panel: "inside" it, to the "right", or, where it is "on", above its middle and within the figure."""
    places: dict[str, dict[str, Any]] = {
        "inside": {"loc": "best", "frameon": True, "framealpha": 0.5, "edgecolor": "none"},
        "right": {"loc": "upper left", "bbox_to_anchor": (1.02, 1.0)},
        "on": {"loc": "lower center", "bbox_to_anchor": (0.5, 1.06)},
    }
    figure: Any = ax.get_figure(root=True)
    box = ax.get_position()
    middle = box.x0 + box.width / 2
    room = 2 * min(middle, 1 - middle) * float(figure.get_figwidth())
    columns = fitting_columns(list(entries), MOST_COLUMNS, room) if place == "on" else 1
    ax.legend(list(entries.values()), list(entries), ncols=columns, **places[place])


def _entries(axes: Sequence[Axes], talk: bool) -> dict[str, Any]:
    """What a legend of these panels shows: each label once, in the order drawn; of a talk few."""
    entries: dict[str, Any] = {}
    for ax in axes:
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            entries.setdefault(label, handle)
    return _few(entries, TALK_ENTRIES) if talk else entries


def fitting_columns(labels: Sequence[str], most: int, inches: float) -> int:
    """The largest number of columns, at most `most`, in which a legend of these labels is no wider than that; 1 if none is."""
    size = points_of()
    wide = [72 * text_width(label) for label in labels]
    key = mpl.rcParams["legend.handlelength"] + mpl.rcParams["legend.handletextpad"]
    for columns in range(min(most, len(labels)), 1, -1):
        groups = [group for group in np.array_split(wide, columns) if group.size]
        points = sum(float(group.max()) + key * size for group in groups)
        gaps = (columns - 1) * mpl.rcParams["legend.columnspacing"] + 2 * mpl.rcParams["legend.borderpad"]
        if points + gaps * size <= 72 * inches:
            return columns
    return 1


def _within(entries: dict[str, Any], most: int, width: float, rows: int) -> tuple[dict[str, Any], int]:
    """Entries of a legend of at most so many rows, and the most columns in which these are no wider than the figure."""
    columns = next(
        columns
        for columns in range(most, 0, -1)
        if columns == 1 or fitting_columns(_chosen(entries, rows * columns), columns, width) == columns
    )
    return _few(entries, rows * columns), columns


def _rows(height: float) -> int:
    """How many rows of a legend a figure of that height in inches has room for."""
    line = points_of() * (1.2 + mpl.rcParams["legend.labelspacing"])
    return max(int(LEGEND_SHARE * height * 72 / line), 1)


def _few(entries: dict[str, Any], most: int) -> dict[str, Any]:
    """At most so many: lines of theory, and of the curves the ends and some between; the log says what is left out."""
    kept = _chosen(entries, most)
    if left := [label for label in entries if label not in kept]:
        log.warning("no room in the legend for: %s", "; ".join(left))
    return {label: entries[label] for label in kept}


def _chosen(entries: Mapping[str, Any], most: int) -> list[str]:
    """Which of the entries stay where there is room for so many."""
    if len(entries) <= most:
        return list(entries)
    labels, handles = list(entries), list(entries.values())
    lines = [k for k, handle in enumerate(handles) if not isinstance(handle, ErrorbarContainer)]
    curves = [k for k in range(len(handles)) if k not in lines] or lines
    lines = lines[: max(most // 2, most - len(curves))] if curves is not lines else []
    some = np.unique(np.linspace(0, len(curves) - 1, most - len(lines)).round().astype(int))
    return [labels[k] for k in sorted({*lines, *(curves[k] for k in some)})]


def require_room(figure: Figure) -> None:
    """ParameterError for a size whose words leave its panels no room."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of panels that vanish, which is told in one line here
        figure.draw_without_rendering()
        if any([_shorten(ax) for ax in figure.axes]):
            figure.draw_without_rendering()
    whole, boxes = figure.bbox, [ax.get_window_extent() for ax in figure.axes]
    least = min(min(box.width, box.height) for box in boxes) / figure.dpi
    words = [box for ax in figure.axes if (box := ax.get_tightbbox()) is not None]
    if (
        least < LEAST_PANEL
        or any(_beyond(box, whole, 0.0) for box in boxes)
        or any(_beyond(box, whole, 0.1) for box in words)
    ):
        width, height = figure.get_size_inches()
        raise ParameterError(
            f"size {width:g}x{height:g} leaves no room for the panels: take a larger one, fewer panels or no legend"
        )


def _beyond(box: Any, whole: Any, share: float) -> bool:
    """Whether a box lies outside the figure by more than that share of it."""
    wide, high = share * whole.width, share * whole.height
    return bool(box.x0 < -wide or box.y0 < -high or box.y1 > whole.y1 + high or box.x1 > whole.x1 + wide)


def _shorten(ax: Axes) -> bool:
    """Put the words of a y axis that is shorter than they are in two lines, then in smaller letters; whether that was done."""
    label, room = ax.yaxis.label, 1.1 * ax.get_window_extent().height
    if label.get_window_extent().height <= room:
        return False
    text = label.get_text()
    gaps = [k for k, letter in enumerate(text) if letter == " " and text[:k].count("$") % 2 == 0]
    if gaps:
        middle = min(gaps, key=lambda k: abs(len(text) - 2 * k))
        label.set_text(f"{text[:middle]}\n{text[middle + 1 :]}")
    share = room / label.get_window_extent().height
    if share < 1:
        label.set_fontsize(max(SMALLEST, share * float(label.get_fontsize())))
    return True


def is_logarithmic(grid: Array) -> bool:
    """Whether a grid of positive numbers is nearer to equal ratios than to equal steps."""
    if grid.size < 3:
        return False
    ratios = np.array([two / one for one, two in pairwise(grid)])
    steps = np.diff(grid)
    return bool(np.ptp(np.log(ratios)) / np.log(ratios).mean() < np.ptp(steps) / steps.mean())


def log_axis(ax: Axes, which: str = "x") -> None:
    """A logarithmic axis labelled with plain numbers (0.01, 0.1, 1), and with powers of ten from 10^4 on.

    Over less than two decades 2 and 5 have numbers too, or every digit where even these would be under two.
    """
    getattr(ax, f"set_{which}scale")("log")
    axis = ax.xaxis if which == "x" else ax.yaxis
    axis.set_major_locator(Decades())
    axis.set_major_formatter(FuncFormatter(_decade))
    axis.set_minor_locator(LogLocator(10, subs="all"))
    axis.set_minor_formatter(NullFormatter())


class Decades(LogLocator):
    """Ticks of a logarithmic axis: powers of ten, and as many digits between them as make two numbers or more."""

    DIGITS = (1.0,), (1.0, 3.0), (1.0, 2.0, 5.0), (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0)

    def __init__(self) -> None:
        super().__init__(10)

    def tick_values(self, vmin: float, vmax: float) -> Any:
        """The ticks between two ends, the fewest digits that give three of them."""
        low, high = sorted((vmin, vmax))
        if not low > 0:
            return np.asarray(super().tick_values(vmin, vmax))
        powers = 10.0 ** np.arange(np.floor(np.log10(low)), np.ceil(np.log10(high)) + 1)
        for digits in self.DIGITS:
            ticks = np.outer(powers, digits).ravel()
            ticks = ticks[(low * (1 - 1e-9) <= ticks) & (ticks <= high * (1 + 1e-9))]
            if len(ticks) > 2:
                break
        step = -(-len(ticks) // 8)  # no more than eight
        return ticks[::step] if len(ticks) else np.asarray(super().tick_values(vmin, vmax))


def _decade(value: float, _: int) -> str:
    return f"{value:g}" if 1e-3 < value < 9e3 else f"${style.power(value, 3)}$"
