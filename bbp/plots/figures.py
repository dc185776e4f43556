"""Whole figures: panels laid out at print width and wired to the plotting functions, with legends beside the data."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter, ScalarFormatter


def panels(fig: Figure, count: int, width: str, *, share_alpha: bool = False) -> list[Axes]:
    """`count` panels side by side at two-column width, one below the other at single width, lettered (a), (b)..."""
    stacked = width == "single"
    shape = (count, 1) if stacked else (1, count)
    axes = list(np.ravel(fig.subplots(*shape, sharex=share_alpha and stacked)))
    for ax, letter in zip(axes, "abcdefgh", strict=False):
        if count > 1:
            letter_panel(ax, letter)
    return axes


def letter_panel(ax: Axes, letter: str) -> None:
    """The letter of a panel above its upper left corner."""
    ax.set_title(f"({letter})", loc="left", pad=3.0, fontweight="bold")


def legend_above(fig: Figure, axes: Sequence[Axes], columns: int) -> None:
    """One legend over all panels: each label once, in the order drawn."""
    entries: dict[str, object] = {}
    for ax in axes:
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            entries.setdefault(label, handle)
    fig.legend(entries.values(), entries.keys(), loc="outside upper center", ncols=columns)


def plain_log_axis(ax: Axes, ticks: Sequence[float]) -> None:
    """A logarithmic abscissa labelled with plain numbers (0.01, 0.1, 1) at the given ticks."""
    ax.set_xscale("log")
    low, high = ax.get_xlim()
    ax.set_xticks([t for t in ticks if low <= t <= high])
    ax.xaxis.set_major_formatter(ScalarFormatter())
    ax.xaxis.set_minor_formatter(NullFormatter())
