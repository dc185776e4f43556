"""Whether a figure of a size of one's own has room for its panels and their words."""

from __future__ import annotations

import warnings
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from theory.checks import ParameterError

LEAST_PANEL = 0.3  # inches, both ways
SMALLEST = 5.0  # points of the words of an axis


def require(figure: Figure, size: tuple[float, float]) -> None:
    """ParameterError for a size whose words leave its panels no room."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of panels that vanish, which is told in one line here
        figure.draw_without_rendering()
        if any([_shorten(ax) for ax in figure.axes]):
            figure.draw_without_rendering()
    boxes = [ax.get_window_extent() for ax in figure.axes]
    least = min(min(box.width, box.height) for box in boxes) / figure.dpi
    vast = max(max(box.x1 - figure.bbox.x1, -box.x0, box.y1 - figure.bbox.y1, -box.y0) for box in boxes)
    if least < LEAST_PANEL or vast > 0 or any(_is_cut(ax) for ax in figure.axes):
        raise ParameterError(
            f"size {size[0]:g}x{size[1]:g} leaves no room for the panels: take a larger one, fewer panels or no legend"
        )


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


def _is_cut(ax: Axes) -> bool:
    """Whether words of a panel lie outside the figure by more than a tenth of it."""
    figure: Any = ax.get_figure(root=True)
    box, whole = ax.get_tightbbox(), figure.bbox
    if box is None:
        return False
    wide, high = 0.1 * whole.width, 0.1 * whole.height
    return bool(box.x0 < -wide or box.y0 < -high or box.y1 > whole.y1 + high or box.x1 > whole.x1 + wide)
