"""What whole figures share: panels in rows, letters, names of models, legends beside the data, axes with plain numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import matplotlib as mpl
import numpy as np
import xarray as xr
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import text_to_path
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullFormatter
from numpy.typing import NDArray

from bbp.experiments import models
from bbp.plots import style
from theory.model import Network

Array = NDArray[np.float64]
LONGEST_LABEL = 34  # letters on an axis
USUAL_ROWS = 5  # of a legend, for which figures have room
LETTER = 0.35  # inches that the letter of a panel takes of the line above it


def panels(fig: Figure, count: int, width: str) -> list[Axes]:
    """`count` panels side by side at two-column width, one below the other at single width, lettered (a), (b)..."""
    stacked = width == "single"
    shape = (count, 1) if stacked else (1, count)
    return lettered(list(np.ravel(fig.subplots(*shape))))


def grid(fig: Figure, count: int, columns: int) -> list[Axes]:
    """`count` lettered panels in so many columns, row by row, with one abscissa in a column."""
    every = list(np.ravel(fig.subplots(-(-count // columns), columns, sharex="col")))
    for ax in every[count:]:
        ax.remove()
    for ax in every[max(count - columns, 0) : count]:
        ax.tick_params(labelbottom=True)
    return lettered(every[:count])


def lettered(axes: list[Axes]) -> list[Axes]:
    """The same axes, with (a), (b)... above their upper left corners if there are several."""
    for ax, letter in zip(axes, "abcdefghijklmnopqrstuvwxyz", strict=False):
        if len(axes) > 1:
            ax.set_title(f"({letter})", loc="left", pad=3.0, fontweight="bold")
    return axes


def relettered(axes: list[Axes]) -> list[Axes]:
    """The same axes with letters anew, or none where one is left."""
    for ax in axes:
        ax.set_title("", loc="left")
    return lettered(axes)


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


def title(ax: Axes, parts: Sequence[str]) -> None:
    """Words above the upper right corner, in as many lines as the panel's width asks for."""
    room = breadth(ax) - LETTER * bool(ax.get_title(loc="left"))
    lines: list[str] = []
    for part in parts:
        longer = f"{lines[-1]}, {part}" if lines else part
        if lines and text_width(longer, "axes.titlesize") > room:
            lines[-1] += ","
            lines.append(part)
        else:
            lines[-1:] = [longer]
    ax.set_title("\n".join(lines), loc="right", pad=3.0)


def text_width(text: str, size: str = "legend.fontsize") -> float:
    """Inches that a line of text takes, at the size of one of Matplotlib's settings."""
    settings: Mapping[Any, Any] = mpl.rcParams
    points = FontProperties(size=settings[size]).get_size_in_points()
    font = FontProperties(family=mpl.rcParams["font.family"], size=points)
    return text_to_path.get_text_width_height_descent(text, font, "$" in text)[0] / 72


def legend_above(fig: Figure, axes: Sequence[Axes], columns: int) -> None:
    """One legend over all panels: each label once, in the order drawn, in at most so many columns, no wider than the figure,
    which grows with it beyond USUAL_ROWS."""
    entries = entries_of(axes)
    columns = fitting_columns(list(entries), columns, fig.get_figwidth())
    grow(fig, len(entries), columns)
    fig.legend(list(entries.values()), list(entries), loc="outside upper center", ncols=columns)


def grow(fig: Figure, entries: int, columns: int) -> None:
    """Make a figure as much higher as a legend has lines beyond USUAL_ROWS, so that its panels keep their size."""
    size = FontProperties(size=mpl.rcParams["legend.fontsize"]).get_size_in_points()
    line = size * (1.2 + mpl.rcParams["legend.labelspacing"]) / 72
    fig.set_figheight(fig.get_figheight() + line * max(0, -(-entries // columns) - USUAL_ROWS))


def entries_of(axes: Sequence[Axes]) -> dict[str, Artist]:
    """What legends of these panels show: each label once, in the order drawn."""
    entries: dict[str, Artist] = {}
    for ax in axes:
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            entries.setdefault(label, handle)
    return entries


def fitting_columns(labels: Sequence[str], most: int, inches: float) -> int:
    """The largest number of columns, at most `most`, in which a legend of these labels is no wider than that; 1 if none is."""
    size = FontProperties(size=mpl.rcParams["legend.fontsize"]).get_size_in_points()
    wide = [72 * text_width(label) for label in labels]
    key = mpl.rcParams["legend.handlelength"] + mpl.rcParams["legend.handletextpad"]
    for columns in range(min(most, len(labels)), 1, -1):
        groups = [group for group in np.array_split(wide, columns) if group.size]
        points = sum(float(group.max()) + key * size for group in groups)
        gaps = (columns - 1) * mpl.rcParams["legend.columnspacing"] + 2 * mpl.rcParams["legend.borderpad"]
        if points + gaps * size <= 72 * inches:
            return columns
    return 1


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
