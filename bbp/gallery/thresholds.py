"""Thresholds from theory alone: alpha_BBP(a) with cuts, alpha_0 and alpha_BBP against p, wide teachers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from bbp.experiments.phase import thresholds, tricritical
from bbp.experiments.phase_file import Map, Phase
from bbp.gallery.base import Data, Effort, Entry, Named
from bbp.plots import layout, style
from bbp.plots import phase as phase_plots
from theory.transition import critical_normalisation, critical_width, threshold_map

WIDTHS = (1, 2, 4, 8, math.inf)
CUTS = (0.5, 1.0)
CUT_WIDTHS = [int(p) for p in np.unique(np.geomspace(1, 64, 24).round())]
NORMALISATIONS = np.geomspace(0.02, 3, 120)
TEACHERS = np.array([1, 2, 4, 8, 16])


def as_arrays(found: Map, prefix: str = "") -> dict[str, Named]:
    """A map over (p, a) as named arrays, with `prefix` before every name."""
    arrays: dict[str, Named] = {}
    for field in fields(Map):
        values = getattr(found, field.name)
        dims = (f"{prefix}{field.name}",) if field.name in ("p", "a") else (f"{prefix}p", f"{prefix}a")
        arrays[prefix + field.name] = dims, values.astype(np.int8) if values.dtype == bool else values
    return arrays


def as_map(data: Data, prefix: str = "") -> Map:
    """The map that `as_arrays` stored."""
    stored = {field.name: data[prefix + field.name] for field in fields(Map)}
    return Map(**stored | {"discontinuous": stored["discontinuous"] == 1})


def build_phase(p_star: int) -> Mapping[str, Named]:
    """alpha_BBP over (p, a) with a_c of each p, and cuts alpha_BBP(p), alpha_0(p) at two a."""
    a_c, alpha_c = tricritical(WIDTHS, p_star)
    arrays = as_arrays(thresholds(WIDTHS, p_star, list(NORMALISATIONS)))
    arrays |= as_arrays(thresholds([*CUT_WIDTHS, math.inf], p_star, CUTS), "cut_")
    arrays |= {"a_c": (("p",), a_c), "alpha_c": (("p",), alpha_c), "p_star": ((), np.int64(p_star))}
    return arrays | {"p_c": (("a",), critical_width(NORMALISATIONS, p_star))}


def draw_phase(data: Data) -> Figure:
    """The figure of a phase diagram."""
    marks = data["a_c"], data["alpha_c"], data["p_c"]
    return layout.phase_figure(Phase(int(data["p_star"]), as_map(data), *marks, as_map(data, "cut_")))


def build_alpha_zero(effort: Effort) -> Mapping[str, Named]:
    """alpha_BBP and both alpha_0 against p at a = 1 and a = 2, p* = 1."""
    widths = [int(p) for p in np.unique(np.geomspace(1, 256, effort.count(30, 60)).round())]
    return as_arrays(thresholds([*widths, math.inf], 1, (1.0, 2.0)))


def draw_alpha_zero(data: Data) -> Figure:
    """A panel for each a."""
    found = as_map(data)
    fig = style.new_figure("double", 2.9)
    axes = layout.panels(fig, len(found.a), "double")
    for index, ax in enumerate(axes):
        layout.widths_panel(ax, found, index)
        ax.set_xlabel(r"student width $p$")
    layout.legend_above(fig, axes, 3)
    return fig


def build_teachers(effort: Effort) -> Mapping[str, Named]:
    """alpha_BBP / p* against a for p = 1 and p* = 1, 2, 4, 8, 16."""
    del effort  # theory alone: the same in every mode
    found = threshold_map(1, TEACHERS[:, None], NORMALISATIONS)
    a_c = np.array([critical_normalisation(1, int(p_star)) for p_star in TEACHERS])
    return {
        "p_star": (("p_star",), TEACHERS),
        "a": (("a",), NORMALISATIONS),
        "alpha_bbp": (("p_star", "a"), found.alpha),
        "discontinuous": (("p_star", "a"), found.discontinuous.astype(np.int8)),
        "a_c": (("p_star",), a_c),
        "alpha_c": (("p_star",), threshold_map(1, TEACHERS, a_c).alpha),
    }


def draw_teachers(data: Data) -> Figure:
    """One panel: alpha_BBP / p* against a, a curve for each p*."""
    fig = style.new_figure("single", 3.2)
    ax = layout.panels(fig, 1, "single")[0]
    for index, p_star in enumerate(data["p_star"]):
        below, above = phase_plots.split_at(
            data["a"],
            data["alpha_bbp"][index] / p_star,
            data["discontinuous"][index] == 1,
            data["a_c"][index],
            data["alpha_c"][index] / p_star,
        )
        look = phase_plots.width_look(index, 1.0)
        ax.plot(*below, **look, label=f"$p^* = {p_star}$")
        ax.plot(*above, color=look["color"], linestyle=style.KIND_LINES["discontinuous"])
    layout.plain_log_axis(ax)
    ax.set_xlabel(r"normalisation $a$")
    ax.set_ylabel(r"$\alpha_\mathrm{BBP} / p^*$")
    ax.set_title("$p = 1$", loc="right", pad=3.0)
    handles = ax.get_legend_handles_labels()[0]
    kinds = [
        Line2D([], [], color=style.GREY, linestyle=style.KIND_LINES[kind], label=kind) for kind in style.KINDS
    ]
    ax.legend(handles=[*handles, *kinds], loc="lower center", bbox_to_anchor=(0.5, 1.08), ncols=3)
    return fig


THRESHOLDS = Entry(
    "thresholds",
    "BBP threshold against the normalisation a of the loss for p* = 1 and several student widths, with the p = infinity "
    "line; beside it alpha_BBP and both alpha_0 against p at a = 0.5 and 1.",
    lambda effort: build_phase(1),
    draw_phase,
)
THRESHOLDS_TWO = Entry(
    "thresholds-two-teachers",
    "The same for a teacher of two units, p* = 2.",
    lambda effort: build_phase(2),
    draw_phase,
)
ALPHA_ZERO = Entry(
    "alpha-zero",
    "alpha_BBP and the two estimates of alpha_0, where a discontinuous transition loses all information, against p.",
    build_alpha_zero,
    draw_alpha_zero,
)
UNDERPARAMETRISED = Entry(
    "underparametrised",
    "A single student unit, p = 1, before teachers of growing width: alpha_BBP / p* against a.",
    build_teachers,
    draw_teachers,
)
