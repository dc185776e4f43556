"""The phase diagram: alpha_BBP against a and against p, continuous and discontinuous parts told apart."""

from __future__ import annotations

import math

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from numpy.typing import ArrayLike, NDArray

from bbp import style

Array = NDArray[np.float64]


def width_name(p: float) -> str:
    """A width in a label: "$p = 4$", "$p = \\infty$"."""
    return r"$p = \infty$" if math.isinf(p) else f"$p = {p:g}$"


def width_look(index: int, p: float) -> dict[str, str]:
    """Colour and marker of the curve of width p; p = inf is black."""
    if math.isinf(p):
        return {"color": style.BLACK, "marker": "*"}
    return {"color": style.colour(index), "marker": style.marker(index)}


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
    below, above = split_at(a, alpha, discontinuous, a_c, alpha_c)
    (solid,) = ax.plot(*below, color=look["color"], linestyle=style.KIND_LINES["continuous"])
    (dashed,) = ax.plot(*above, color=look["color"], linestyle=style.KIND_LINES["discontinuous"])
    inside = below.shape[1] + above.shape[1] > np.size(a)
    (tricritical,) = ax.plot(
        [a_c] if inside else [],
        [alpha_c] if inside else [],
        linestyle="none",
        markersize=5.0,
        markerfacecolor="white",
        zorder=4,
        **look,
    )
    return solid, dashed, tricritical


def widths_curve(
    ax: Axes,
    p: ArrayLike,
    alpha: ArrayLike,
    discontinuous: ArrayLike,
    *,
    alpha_0: ArrayLike | None = None,
    limit: float | None = None,
) -> dict[str, Line2D]:
    """alpha_BBP(p) at one a, arrays (p,) of finite widths: kinds by colour and marker; alpha_0 and the p = inf value.

    Keys of the answer: "continuous", "discontinuous", and, where given, "alpha_0", "limit".
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
    if alpha_0 is not None:
        (artists["alpha_0"],) = ax.plot(
            p, alpha_0, linestyle=":", marker="x", markersize=3.2, linewidth=0.8, color=style.BLACK, label=r"$\alpha_0$"
        )
    if limit is not None:
        artists["limit"] = ax.axhline(
            limit, color=style.BLACK, linewidth=0.8, linestyle="-.", zorder=1, label=r"$\alpha_\mathrm{BBP}$, $p = \infty$"
        )
    return artists
