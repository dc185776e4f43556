"""Laws in N: what was fitted against N, and the laws that are left, a panel for each quantity."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bbp.analysis.laws import FREE, REJECTED, SHAPES
from bbp.experiments import models
from bbp.plots import layout, style

NAMES = {
    "lowest": r"lowest eigenvalue $\lambda_1$",
    "overlap": "squared overlap $q^2$",
    "threshold": r"$\alpha$ at which $\phi = 1/2$",
    "width": r"width of the rise of $\phi$",
}
LOOKS: dict[str, Any] = {law: line for law, line in zip(SHAPES, style.LINES, strict=True)}
MOST_ROWS = 3
FINE = 120  # points of a curve


def laws_figure(found: xr.Dataset, *, width: str = "double") -> Figure:
    """A panel for each quantity: its values against N, a colour for each alpha, with every law that is not rejected.

    The law of a verdict is thick; horizontal lines are the limits of theory. Of more than MOST_ROWS alphas in a panel each has
    one law, of the verdict or of the largest probability.
    """
    quantities = list(dict.fromkeys(name for name in found.quantity.values.tolist() if _drawn(found, name)))
    columns = 1 if width == "single" else min(len(quantities), 2)
    rows = -(-len(quantities) // columns)
    fig = style.new_figure(width, 0.7 + 2.3 * rows)
    axes = layout.lettered(list(np.ravel(fig.subplots(rows, columns)))[: len(quantities)])
    for ax in fig.axes[len(quantities) :]:
        ax.remove()
    for ax, quantity in zip(axes, quantities, strict=True):
        quantity_panel(ax, found, quantity)
    for law in SHAPES:
        axes[0].plot([], [], color=style.GREY, linewidth=1.0, linestyle=LOOKS[law], label=_name(law))
    if "p" in found.attrs:
        layout.name_model(axes[0], models.of(found))
    layout.legend_above(fig, axes, 5 if width == "double" else 3)
    return fig


def _drawn(found: xr.Dataset, quantity: str) -> bool:
    return bool(np.isfinite(found.value.values[found.quantity.values == quantity]).any())


def _name(law: str) -> str:
    return {"1/N": "$1/N$", "1/log N": r"$1/\log N$", FREE: "$N^{-x}$"}.get(
        law, f"${law.replace('^', '^{')}}}$"
    )


@style.added
def quantity_panel(ax: Axes, found: xr.Dataset, quantity: str) -> None:
    """One quantity against N, every alpha a colour, with the laws that are not rejected."""
    rows = np.flatnonzero(found.quantity.values == quantity)
    for index, i in enumerate(rows):
        row = found.isel(row=int(i))
        known = np.isfinite(row.value.values)
        if not known.any():
            continue
        look: dict[str, Any] = {"color": style.colour(index, len(rows))}
        n, alpha = row.n.values[known].astype(float), float(row.at_alpha)
        label = rf"$\alpha = {style.number(alpha)}$" if math.isfinite(alpha) else None
        ax.errorbar(
            n, row.value.values[known], row.error.values[known], linestyle="none", marker=style.marker(index),
            label=label, zorder=3, **look,
        )  # fmt: skip
        _curves(ax, row, np.geomspace(n[0], n[-1], FINE), look, alone=len(rows) > MOST_ROWS)
        if math.isfinite(float(row.theory_limit)):
            ax.axhline(float(row.theory_limit), linewidth=0.6, zorder=1, **look)
    layout.log_axis(ax)
    ax.set_xlabel(r"input dimension $N$")
    ax.set_ylabel(NAMES.get(quantity, quantity))


def _curves(ax: Axes, row: xr.Dataset, n: Any, look: dict[str, Any], *, alone: bool) -> None:
    """Laws that are not rejected; where `alone`, the one of the verdict or else of the largest probability."""
    laws = [law for law in row.law.values.tolist() if float(row.p_value.sel(law=law)) >= REJECTED]
    chosen = row.verdict.item()
    if alone and laws:
        laws = [chosen or max(laws, key=lambda law: float(row.p_value.sel(law=law)))]
    for law in laws:
        one = row.sel(law=law)
        curve = float(one.limit) + float(one.coefficient) * SHAPES[law](n, float(np.nan_to_num(one.exponent)))
        thick = 1.6 if chosen == law else 0.7
        ax.plot(n, curve, linestyle=LOOKS[law], linewidth=thick, zorder=2, **look)
