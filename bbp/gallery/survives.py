"""What survives in other networks: thresholds against width, noise, steepness of a power law and overlap; theory alone."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from bbp.gallery.base import Data, Effort, Entry, Named
from bbp.plots import layout, style
from theory.general import Network, model_map

Array = NDArray[Any]

ACTIVATIONS = "tanh", "erf", "softplus"  # a = 2
STUDENTS = (1, 2, 3, 4, 8, math.inf)
WIDTHS = (1, 2, 4, 16, math.inf)  # of quadratic students, a = 0.5
NOISE = np.linspace(0, 1, 21)
EXPONENT = np.linspace(0, 2, 17)
OVERLAP = np.array([*np.linspace(0, 0.9, 19), 0.93, 0.96, 0.98, 0.99])  # p = 1, a = 1
A_ACTIVATION, A_QUADRATIC, A_OVERLAP = 2.0, 0.5, 1.0


def build(effort: Effort) -> Mapping[str, Named]:
    """alpha_BBP, its standard error where by points, kind and alpha_0 by its tangent, for each of the four questions."""
    arrays: dict[str, Named] = {
        "students": (("students",), np.array(STUDENTS)),
        "p": (("p",), np.array(WIDTHS)),
        "noise": (("noise",), NOISE),
        "exponent": (("exponent",), EXPONENT),
        "overlap": (("overlap",), OVERLAP),
    }
    for name in ACTIVATIONS:
        model = Network(activation=name, a=A_ACTIVATION)
        arrays |= _mapped(name, ("students",), model, p=STUDENTS)
    wide = Network(a=A_QUADRATIC)
    spectra = [f"power:{float(v)!r}" if v else None for v in EXPONENT]
    arrays |= _mapped("noisy", ("p", "noise"), wide, p=WIDTHS, noise=NOISE.tolist())
    arrays |= _mapped("power", ("p", "exponent"), wide, p=WIDTHS, covariance=spectra)
    return arrays | _mapped("near", ("overlap",), Network(a=A_OVERLAP), overlap=OVERLAP.tolist())


def _mapped(name: str, dims: tuple[str, ...], model: Network, **axes: Sequence[Any]) -> dict[str, Named]:
    found = model_map(model, **axes)
    return {
        f"{name}_alpha_bbp": (dims, found.alpha),
        f"{name}_error": (dims, found.error),
        f"{name}_discontinuous": (dims, (found.kind == "discontinuous").astype(np.int8)),
        f"{name}_alpha_0": (dims, found.alpha_0),
    }


def draw(data: Data) -> Figure:
    """Four panels: width, noise, steepness, overlap."""
    fig = style.new_figure("double", 4.9)
    axes = layout.lettered(list(fig.subplots(2, 2).flat))
    _widths(axes[0], data)
    _curves(axes[1], data, "noisy", "noise", r"noise $\Delta$")
    _curves(axes[2], data, "power", "exponent", "exponent of the power law of inputs")
    _curve(axes[3], data["overlap"], data, "near", ..., 0, f"$p = 1$, $a = {A_OVERLAP:g}$")
    axes[3].set_xlabel("overlap $m$ with the teacher")
    for ax in axes:
        ax.set_ylabel(r"$\alpha_\mathrm{BBP}$")
        ax.set_yscale("log")
    for look, words in (("-", "continuous"), ("--", "discontinuous"), (":", r"$\alpha_0$ by the tangent")):
        axes[3].plot([], [], color=style.GREY, linestyle=look, linewidth=1.1, label=words)
    axes[0].set_ylim(top=1000)
    axes[0].legend(fontsize=6.5, loc="upper right", ncols=3)
    for ax in axes[1:]:
        ax.legend(fontsize=6.5)
    return fig


def _widths(ax: Axes, data: Data) -> None:
    place = np.arange(len(data["students"]))
    for index, name in enumerate(ACTIVATIONS):
        _curve(ax, place, data, name, ..., index, f"{name}, $a = {A_ACTIVATION:g}$", "o")
    words = [r"$\infty$" if math.isinf(p) else f"{p:g}" for p in data["students"]]
    ax.set_xticks(place, words)
    ax.minorticks_off()
    ax.set_xlabel("width $p$")


def _curves(ax: Axes, data: Data, name: str, axis: str, label: str) -> None:
    for index, p in enumerate(data["p"]):
        _curve(ax, data[axis], data, name, index, index, f"{layout.width_name(p)}, $a = {A_QUADRATIC:g}$")
    ax.set_xlabel(label)


def _curve(
    ax: Axes, x: Array, data: Data, name: str, at: Any, index: int, label: str, marker: str = ""
) -> None:
    """alpha_BBP solid where continuous and dashed where discontinuous, alpha_0 dotted where it is another."""
    alpha, zero = data[f"{name}_alpha_bbp"][at], data[f"{name}_alpha_0"][at]
    jumps = data[f"{name}_discontinuous"][at] == 1
    look: dict[str, Any] = {"color": style.colour(index), "linewidth": 1.1}
    ax.plot(x, alpha, color=style.colour(index), linewidth=0.4)  # from one kind to the other
    ax.plot(x, np.where(jumps, np.nan, alpha), label=label, **look)
    ax.plot(x, np.where(jumps, alpha, np.nan), linestyle="--", **look)
    ax.plot(x, np.where(jumps, zero, np.nan), linestyle=":", **look)
    if marker:
        for chosen, face in ((~jumps, style.colour(index)), (jumps, "white")):
            shown: dict[str, Any] = {
                "marker": marker,
                "markersize": 3.5,
                "markerfacecolor": face,
                "linestyle": "none",
            }
            ax.plot(x[chosen], alpha[chosen], color=style.colour(index), **shown)


ENTRY = Entry(
    "what-survives",
    "What survives in other networks: alpha_BBP of theory, solid and filled where the transition is continuous, dashed and "
    "open where it is discontinuous, alpha_0 by the tangent dotted. (a) Width: the threshold rises with p for tanh and erf, "
    "to 9.37 and 8.11 at p = infinity, and falls from 171 to 18.6 for softplus. (b) Noise before the teacher's square raises "
    "it, except where the edge is smooth. (c) Steeper power-law inputs lower it. (d) A student near its teacher shows the "
    "rest later. Where the jump is large (p = 8 in (a), m > 0.8 in (d)) the tangent says little.",
    build,
    draw,
)
