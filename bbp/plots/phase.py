"""The phase diagram: alpha_BBP against a and against p, continuous and discontinuous parts told apart."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.container import ErrorbarContainer
from matplotlib.lines import Line2D
from numpy.typing import ArrayLike, NDArray

from bbp.plots import style

Array = NDArray[np.float64]
TRICRITICAL: dict[str, Any] = {
    "marker": "o",
    "markersize": 6.0,
    "markerfacecolor": "white",
    "markeredgewidth": 1.2,
}
FEW = 12  # points of a curve, each of which is then marked
ALPHA_0_MARKERS = {"overlap": "x", "continuation": "+"}


def width_name(p: float) -> str:
    """A width in a label: "$p = 4$", "$p = \\infty$"."""
    if math.isinf(p):
        return r"$p = \infty$"
    power = math.floor(math.log10(p))
    if power < 5:
        return f"$p = {p:g}$"
    digits = f"{p / 10**power:.3g}"
    return f"$p = 10^{{{power}}}$" if digits == "1" else rf"$p = {digits} \times 10^{{{power}}}$"


def width_look(index: int, p: float) -> dict[str, Any]:
    """Colour and sparse markers of the curve of width p; p = inf is plain black."""
    if math.isinf(p):
        return {"color": style.BLACK, "linewidth": 1.6}
    return {
        "color": style.colour(index),
        "marker": style.marker(index),
        "markersize": 3.4,
        "markevery": (0.05 + 0.02 * (index % 5), 0.2),
    }


def split_at(a: ArrayLike, alpha: ArrayLike, discontinuous: ArrayLike, a_c: float, alpha_c: float):
    """The curve alpha(a) as (continuous part, discontinuous part), each (2, n), both reaching the point (a_c, alpha_c).

    The point is left out where it is NaN or lies outside the range of a.
    """
    a, alpha = np.asarray(a, dtype=np.float64), np.asarray(alpha, dtype=np.float64)
    jumps = np.asarray(discontinuous, dtype=bool)
    joint = np.array([[a_c], [alpha_c]]) if a.min() <= a_c <= a.max() else np.empty((2, 0))
    below = np.concatenate([np.stack([a, alpha])[:, ~jumps], joint], axis=1)
    above = np.concatenate([joint, np.stack([a, alpha])[:, jumps]], axis=1)
    return below, above


def threshold_curve(
    ax: Axes,
    a: ArrayLike,
    alpha: ArrayLike,
    discontinuous: ArrayLike,
    *,
    p: float,
    a_c: float = math.nan,
    alpha_c: float = math.nan,
    index: int = 0,
) -> tuple[Line2D, Line2D, Line2D]:
    """alpha_BBP(a) at one width, arrays (a,): solid where continuous, dashed where discontinuous, a marker at a_c.

    Returns the two parts and the tricritical marker (empty where a_c is outside the range of a).
    """
    look = width_look(index, p)
    if np.size(a) <= FEW:
        look |= {"markevery": 1, "marker": look.get("marker", "*")}
    below, above = split_at(a, alpha, discontinuous, a_c, alpha_c)
    if math.isnan(a_c):  # nothing else joins the parts
        for change in np.flatnonzero(np.diff(np.asarray(discontinuous, dtype=int))):
            ends = slice(change, change + 2)
            ax.plot(np.asarray(a)[ends], np.asarray(alpha)[ends], color=look["color"], linewidth=0.5)
    (solid,) = ax.plot(*below, linestyle=style.KIND_LINES["continuous"], label=width_name(p), **look)
    (dashed,) = ax.plot(*above, linestyle=style.KIND_LINES["discontinuous"], **look)
    inside = below.shape[1] + above.shape[1] > np.size(a)
    point = ([a_c], [alpha_c]) if inside else ([], [])
    (tricritical,) = ax.plot(*point, color=look["color"], linestyle="none", zorder=4, **TRICRITICAL)
    return solid, dashed, tricritical


def widths_curve(
    ax: Axes,
    p: ArrayLike,
    alpha: ArrayLike,
    discontinuous: ArrayLike,
    *,
    alpha_0: Mapping[str, ArrayLike] | None = None,
    limit: float | None = None,
) -> dict[str, Line2D]:
    """alpha_BBP(p) at one a, arrays (p,) of finite widths: kinds by colour and marker; alpha_0 and the p = inf value.

    alpha_0 maps the name of an estimate ("overlap", "continuation") to its values (p,), NaN where there is none.
    Keys of the answer: "continuous", "discontinuous", and, where given, "alpha_0 NAME" and "limit".
    """
    p, alpha = np.asarray(p, dtype=np.float64), np.asarray(alpha, dtype=np.float64)
    jumps = np.asarray(discontinuous, dtype=bool)
    artists: dict[str, Line2D] = {}
    ax.plot(p, alpha, color=style.GREY, linewidth=0.6, zorder=1.5)
    for kind, chosen, shape in (("continuous", ~jumps, "o"), ("discontinuous", jumps, "s")):
        (artists[kind],) = ax.plot(
            p[chosen],
            alpha[chosen],
            linestyle="none",
            marker=shape,
            markersize=3.2,
            color=style.KIND_COLOURS[kind],
            markerfacecolor=style.KIND_COLOURS[kind] if kind == "continuous" else "white",
            label=rf"$\alpha_\mathrm{{BBP}}$, {kind}",
        )
    for name, values in (alpha_0 or {}).items():
        (artists[f"alpha_0 {name}"],) = ax.plot(
            p,
            values,
            linestyle=":",
            linewidth=0.8,
            marker=ALPHA_0_MARKERS[name],
            markersize=4.0,
            color=style.BLACK if name == "overlap" else style.GREEN,
            label=rf"$\alpha_0$, {name}",
        )
    if limit is not None:
        artists["limit"] = ax.axhline(
            limit,
            color=style.BLACK,
            linewidth=0.8,
            linestyle="-.",
            zorder=1,
            label=r"$\alpha_\mathrm{BBP}$, $p = \infty$",
        )
    return artists


def finite_curve(
    ax: Axes, n: ArrayLike, alpha: ArrayLike, error: ArrayLike, *, p: float, index: int = 0
) -> ErrorbarContainer:
    """Thresholds at finite N with standard errors, arrays (n,), at one width."""
    look = width_look(index, p)
    return ax.errorbar(
        np.asarray(n),
        alpha,
        yerr=error,
        color=look["color"],
        marker=look.get("marker"),
        label=width_name(p),
        zorder=3,
    )


def limit_line(ax: Axes, alpha: float, kind: str, *, p: float, index: int = 0) -> Line2D:
    """Horizontal line at the N = inf threshold of one width: solid if continuous, dashed if not."""
    tint = width_look(index, p)["color"]
    return ax.axhline(alpha, color=tint, linestyle=style.KIND_LINES[kind], linewidth=0.8, zorder=1)


def minima_curve(
    ax: Axes, alpha: ArrayLike, complexity: ArrayLike, saddles: ArrayLike, unstable: float
) -> Line2D:
    """Complexity of minima, arrays (alpha,): open markers where they are saddles, a line where that begins (NaN: nowhere)."""
    alpha, complexity, saddles = np.asarray(alpha), np.asarray(complexity), np.asarray(saddles, dtype=bool)
    look: dict[str, Any] = {"color": style.colour(0), "marker": "o", "markersize": 3.4}
    (line,) = ax.plot(alpha, complexity, **look)
    ax.plot(alpha[saddles], complexity[saddles], linestyle="none", markerfacecolor="white", zorder=3, **look)
    if math.isfinite(unstable):
        ax.axvline(unstable, color=style.colour(0), linestyle="--", linewidth=0.9)
    ax.axhline(0, color=style.GREY, linewidth=0.6, zorder=1)
    return line
