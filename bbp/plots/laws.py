"""Laws in N: what was fitted against N, and the laws that are left, a panel for each quantity."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator

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
MOST_SIZES = 8  # that are the ticks of the axis
CHOSEN, LEFT, BEST = "law decided on", "not rejected", "not decided: most probable law"
THICK = {CHOSEN: 1.6, LEFT: 0.7, BEST: 0.7}
LIMIT = "limit"
LIMIT_LOOK: dict[str, Any] = {"linestyle": (0, (1, 4)), "linewidth": 1.0}
FINE = 120  # points of a curve


def laws_figure(found: xr.Dataset, *, width: str = "double") -> Figure:
    """A panel for each quantity: its values against N, a colour for each alpha, with every law that is not rejected.

    The law of a verdict is thick; sparse dots are the limits of theory. Of more than MOST_ROWS alphas in a panel each has
    one law, of the verdict or of the largest probability.
    """
    quantities = list(dict.fromkeys(name for name in found.quantity.values.tolist() if _drawn(found, name)))
    columns = 1 if width == "single" else min(len(quantities), 2)
    height = 0.7 + 2.3 * -(-len(quantities) // columns)
    fig, axes = layout.figure(len(quantities), height, width, columns)
    for ax, quantity in zip(axes, quantities, strict=True):
        quantity_panel(ax, found, quantity)
    _name_lines(axes[0], axes)
    if "p" in found.attrs:
        layout.name_model(axes[0], models.of(found))
    layout.legend_above(fig, axes, 5 if width == "double" else 3)
    return fig


def _name_lines(ax: Axes, axes: Sequence[Axes]) -> None:
    """Entries of the legend for the laws that are drawn in any panel, why they are, and the limits."""
    lines = [line for one in axes for line in one.get_lines() if line.get_gid()]
    gids = {str(line.get_gid()) for line in lines}
    grey: dict[str, Any] = {"color": style.GREY}
    for law in SHAPES:
        if any(gid.startswith(f"{law}|") for gid in gids):
            ax.plot([], [], linewidth=1.0, linestyle=LOOKS[law], label=_name(law), **grey)
    for why, thick in THICK.items():
        if any(gid.endswith(f"|{why}") for gid in gids):
            ax.plot([], [], linewidth=2 * thick, label=why, **grey)
    if LIMIT in gids:
        ax.plot([], [], label=r"theory, $N = \infty$", **LIMIT_LOOK, **grey)


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
            ax.axhline(float(row.theory_limit), zorder=1, gid=LIMIT, **LIMIT_LOOK, **look)
    layout.log_axis(ax)
    sizes = np.unique(found.n.values)
    if len(sizes) <= MOST_SIZES:
        ax.xaxis.set_major_locator(FixedLocator(sizes.tolist()))
        ax.xaxis.set_minor_locator(NullLocator())
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
        why = CHOSEN if chosen == law else BEST if alone else LEFT
        ax.plot(n, curve, linestyle=LOOKS[law], linewidth=THICK[why], zorder=2, gid=f"{law}|{why}", **look)
