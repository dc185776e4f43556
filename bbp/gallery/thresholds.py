"""Thresholds from theory alone: alpha_BBP(a) with cuts, alpha_0 and alpha_BBP against p, wide teachers, other networks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bbp.analysis.phase import discontinuous
from bbp.experiments.phase import thresholds, tricritical
from bbp.gallery import Array, Arrays, Data, Effort, figure, points_look
from bbp.plots import layout, style
from bbp.plots import phase as phase_plots
from theory.exact.transition import critical_normalisation, critical_width, threshold_map
from theory.general import Network, model_map

WIDTHS = (1, 2, 4, 8, math.inf)
CUTS = (0.5, 1.0)
CUT_WIDTHS = [int(p) for p in np.unique(np.geomspace(1, 64, 24).round())]
NORMALISATIONS = np.geomspace(0.02, 3, 120)
TEACHERS = np.array([1, 2, 4, 8, 16])
NARROW = 2  # teachers drawn on a scale of their own
STORED = ("p", "a", "alpha_bbp", "discontinuous", "jump", "alpha_0_overlap", "alpha_0_continuation")
LOST = (0.5, 1.0, 1.5, 2.0)  # normalisations of the figure of alpha_0


def as_arrays(found: xr.Dataset, prefix: str = "") -> Arrays:
    """A map over (p, a) as named arrays, with `prefix` before every name."""
    columns = {name: found[name].values for name in STORED if name != "discontinuous"}
    columns["discontinuous"] = discontinuous(found).astype(np.int8)
    dims = f"{prefix}p", f"{prefix}a"
    return {
        prefix + name: ((prefix + name,) if name in ("p", "a") else dims, columns[name]) for name in STORED
    }


def as_map(data: Data, prefix: str = "") -> xr.Dataset:
    """The map over (p, a) that `as_arrays` stored."""
    stored = {name: data[prefix + name] for name in STORED}
    kind = np.where(stored.pop("discontinuous") == 1, "discontinuous", "continuous").astype(object)
    axes = {name: stored.pop(name) for name in ("p", "a")}
    return xr.Dataset(
        {name: (("p", "a"), values) for name, values in (stored | {"kind": kind}).items()}, axes
    )


def build_phase(p_star: int) -> Arrays:
    """alpha_BBP over (p, a) with a_c of each p, and cuts alpha_BBP(p), alpha_0(p) at two a."""
    a_c, alpha_c = tricritical(WIDTHS, p_star)
    arrays = as_arrays(thresholds(WIDTHS, p_star, list(NORMALISATIONS)))
    arrays |= as_arrays(thresholds([*CUT_WIDTHS, math.inf], p_star, CUTS), "cut_")
    arrays |= {"a_c": ("p", a_c), "alpha_c": ("p", alpha_c), "p_star": np.int64(p_star)}
    return arrays | {"p_c": ("a", critical_width(NORMALISATIONS, p_star))}


def draw_phase(data: Data) -> Figure:
    """The figure of a phase diagram."""
    cuts = as_map(data, "cut_").rename({"p": "width", "a": "at_a"})
    marks = {"a_c": ("p", data["a_c"]), "alpha_c": ("p", data["alpha_c"])}
    whole = as_map(data).assign(marks).merge(cuts.rename({name: f"widths_{name}" for name in cuts.data_vars}))
    return phase_plots.phase_figure(whole.assign_attrs(p_star=int(data["p_star"])))


def build_alpha_zero(effort: Effort) -> Arrays:
    """alpha_BBP and both alpha_0 against p at several a, p* = 1."""
    widths = [int(p) for p in np.unique(np.geomspace(1, 256, effort.count(30, 60)).round())]
    return as_arrays(thresholds([*widths, math.inf], 1, LOST))


@figure("alpha-zero", build_alpha_zero)
def alpha_zero(data: Data) -> Figure:
    """How far below a discontinuous threshold the Hessian of a large finite matrix may still tell the teacher, p* = 1: (a)
    alpha_BBP and the two estimates of alpha_0, where all information is lost, against p at a = 1; (b) alpha_0 / alpha_BBP
    against p for several a, where the transition is discontinuous: at a = 0.5 this begins at p = 6, at a = 1 at p = 2. The
    window below the threshold opens with width and with a.
    """
    found = as_map(data)
    fig, axes = layout.figure(2, 3.0)
    phase_plots.widths_panel(axes[0], found, int(np.argmin(np.abs(found.a.values - 1))))
    p = found.p.values
    finite = np.isfinite(p)
    share = np.where(discontinuous(found), (found.alpha_0_overlap / found.alpha_bbp).values, np.nan)
    for index, a in enumerate(found.a.values):
        tint = style.colour(index)
        look = points_look(index, linestyle="-", linewidth=0.8)
        axes[1].plot(p[finite], share[finite, index], label=f"$a = {a:g}$", **look)
        axes[1].axhline(share[~finite, index][0], color=tint, linewidth=0.8, linestyle="-.", zorder=1)
    layout.log_axis(axes[1])
    axes[1].set(ylim=(None, 1), ylabel=r"$\alpha_0 / \alpha_\mathrm{BBP}$, overlap estimate")
    axes[1].plot([], [], color=style.GREY, linewidth=0.8, linestyle="-.", label=r"$p = \infty$, same $a$")
    for ax, columns in zip(axes, (2, 3), strict=True):
        ax.set_xlabel(r"student width $p$")
        layout.title(ax, "$p^* = 1$")
        ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1.08), ncols=columns)
    return fig


def build_teachers(effort: Effort) -> Arrays:
    """alpha_BBP / p* against a for p = 1 and p* = 1, 2, 4, 8, 16."""
    del effort  # theory alone: the same in every mode
    found = threshold_map(1, TEACHERS[:, None], NORMALISATIONS)
    a_c = np.array([critical_normalisation(1, int(p_star)) for p_star in TEACHERS])
    return {
        "p_star": ("p_star", TEACHERS),
        "a": ("a", NORMALISATIONS),
        "alpha_bbp": (("p_star", "a"), found.alpha),
        "discontinuous": (("p_star", "a"), found.discontinuous.astype(np.int8)),
        "a_c": ("p_star", a_c),
        "alpha_c": ("p_star", threshold_map(1, TEACHERS, a_c).alpha),
    }


@figure("underparametrised", build_teachers)
def underparametrised(data: Data) -> Figure:
    """A single student unit, p = 1, before teachers of growing width: alpha_BBP / p* against a. (a) p* = 1 and 2, whose
    transition becomes discontinuous (dashed) at a_c, the open circle, within this range of a, and who share one curve where
    both are; (b) wider teachers, on another scale: their a_c, stated beside p*, lies beyond it.
    """
    fig, axes = layout.figure(2, 3.1)
    for index, p_star in enumerate(data["p_star"]):
        ax = axes[int(p_star > NARROW)]
        a_c, alpha_c = float(data["a_c"][index]), float(data["alpha_c"][index]) / p_star
        jumps = data["discontinuous"][index] == 1
        below, above = phase_plots.split_at(data["a"], data["alpha_bbp"][index] / p_star, jumps, a_c, alpha_c)
        look = phase_plots.width_look(index, 1.0)
        ax.plot(*below, **look, label=f"$p^* = {p_star}$, $a_c = {a_c:.3g}$")
        ax.plot(*above, color=look["color"], linestyle=style.KIND_LINES["discontinuous"])
        if jumps.any():
            ax.plot(a_c, alpha_c, color=look["color"], linestyle="none", zorder=4, **phase_plots.TRICRITICAL)
    keys = {kind: {"linestyle": style.KIND_LINES[kind]} for kind in style.KINDS}
    keys |= {r"tricritical, $a = a_c$": {"linestyle": "none", **phase_plots.TRICRITICAL}}
    for label, look in keys.items():
        axes[0].plot([], [], color=style.GREY, label=label, **look)
    for ax in axes:
        layout.log_axis(ax)
        ax.set(xlabel=r"normalisation $a$", ylabel=r"$\alpha_\mathrm{BBP} / p^*$", ylim=(0, None))
        layout.title(ax, "$p = 1$")
        ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1.08), ncols=2)
    return fig


ACTIVATIONS = "tanh", "erf", "softplus"  # a = 2
STUDENTS = (1, 2, 3, 4, 8, math.inf)
QUADRATIC_WIDTHS = (1, 2, 4, 16, math.inf)  # of quadratic students, a = 0.5
NOISE = np.linspace(0, 1, 21)
EXPONENT = np.linspace(0, 2, 17)
OVERLAP = np.array([*np.linspace(0, 0.9, 19), 0.93, 0.96, 0.98, 0.99])  # p = 1, a = 1
A_ACTIVATION, A_QUADRATIC, A_OVERLAP = 2.0, 0.5, 1.0


def build_survives(effort: Effort) -> Arrays:
    """alpha_BBP, its standard error where by points, kind and alpha_0 by its tangent, for each of the four questions."""
    arrays: Arrays = {
        "students": ("students", np.array(STUDENTS)),
        "p": ("p", np.array(QUADRATIC_WIDTHS)),
        "noise": ("noise", NOISE),
        "exponent": ("exponent", EXPONENT),
        "overlap": ("overlap", OVERLAP),
    }
    for name in ACTIVATIONS:
        model = Network(activation=name, a=A_ACTIVATION)
        arrays |= _mapped(name, ("students",), model, p=STUDENTS)
    wide = Network(a=A_QUADRATIC)
    spectra = [f"power:{float(v)!r}" if v else None for v in EXPONENT]
    arrays |= _mapped("noisy", ("p", "noise"), wide, p=QUADRATIC_WIDTHS, noise=NOISE.tolist())
    arrays |= _mapped("power", ("p", "exponent"), wide, p=QUADRATIC_WIDTHS, covariance=spectra)
    return arrays | _mapped("near", ("overlap",), Network(a=A_OVERLAP), overlap=OVERLAP.tolist())


def _mapped(name: str, dims: tuple[str, ...], model: Network, **axes: Sequence[Any]) -> Arrays:
    found = model_map(model, **axes)
    return {
        f"{name}_alpha_bbp": (dims, found.alpha),
        f"{name}_error": (dims, found.error),
        f"{name}_discontinuous": (dims, (found.kind == "discontinuous").astype(np.int8)),
        f"{name}_alpha_0": (dims, found.alpha_0),
    }


@figure("what-survives", build_survives)
def what_survives(data: Data) -> Figure:
    """What survives in other networks: alpha_BBP of theory, solid and filled where the transition is continuous, dashed and
    open where it is discontinuous, alpha_0 by the tangent dotted. (a) Width: the threshold rises with p for tanh and erf,
    to 9.37 and 8.11 at p = infinity, and falls from 171 to 18.6 for softplus. (b) Noise before the teacher's square raises
    it, except where the edge is smooth. (c) Steeper power-law inputs lower it. (d) A student near its teacher shows the
    rest later. Where the jump is large (p = 8 in (a), m > 0.8 in (d)) the tangent says little.
    """
    fig, axes = layout.figure(4, 4.9, columns=2)
    place = np.arange(len(data["students"]))
    for index, name in enumerate(ACTIVATIONS):
        _curve(axes[0], place, data, name, ..., index, f"{name}, $a = {A_ACTIVATION:g}$", "o")
    axes[0].set_xticks(place, [r"$\infty$" if math.isinf(p) else f"{p:g}" for p in data["students"]])
    for index, p in enumerate(data["p"]):
        label = f"{layout.width_name(p)}, $a = {A_QUADRATIC:g}$"
        for ax, name, axis in ((axes[1], "noisy", "noise"), (axes[2], "power", "exponent")):
            _curve(ax, data[axis], data, name, index, index, label)
    _curve(axes[3], data["overlap"], data, "near", ..., 0, f"$p = 1$, $a = {A_OVERLAP:g}$")
    words = (
        "width $p$",
        r"noise $\Delta$",
        "exponent of the power law of inputs",
        "overlap $m$ with the teacher",
    )
    for ax, label in zip(axes, words, strict=True):
        ax.set(xlabel=label, ylabel=r"$\alpha_\mathrm{BBP}$", yscale="log")
    axes[0].xaxis.minorticks_off()
    for look, label in (("-", "continuous"), ("--", "discontinuous"), (":", r"$\alpha_0$ by the tangent")):
        axes[3].plot([], [], color=style.GREY, linestyle=look, linewidth=1.1, label=label)
    axes[0].set_ylim(top=1000)
    axes[0].legend(fontsize=6.5, loc="upper right", ncols=3)
    for ax in axes[1:]:
        ax.legend(fontsize=6.5)
    return fig


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
            shown = points_look(index, marker=marker, markersize=3.5, markerfacecolor=face)
            ax.plot(x[chosen], alpha[chosen], **shown)


@figure("thresholds", lambda effort: build_phase(1))
def one_teacher(data: Data) -> Figure:
    """BBP threshold against the normalisation a of the loss for p* = 1 and several student widths, with the p = infinity
    line; beside it alpha_BBP and both alpha_0 against p at a = 0.5 and 1.
    """
    return draw_phase(data)


@figure("thresholds-two-teachers", lambda effort: build_phase(2))
def two_teachers(data: Data) -> Figure:
    """The same for a teacher of two units, p* = 2."""
    return draw_phase(data)
