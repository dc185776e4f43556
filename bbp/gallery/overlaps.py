"""Squared overlap with the teacher against alpha: the Hessian's outliers, continuous and discontinuous, at finite N; other
activations; spectral methods."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from matplotlib.figure import Figure

import theory
from bbp.experiments import models
from bbp.gallery import Arrays, Data, Effort, figure, rounded, sampled
from bbp.plots import layout, marks, style
from theory import finite
from theory.general.spectral_methods import optimal, spectral_outlier, trimmed
from theory.model import Network

MODELS = {"continuous": Network(2, 1, 0.7), "discontinuous": Network(2, 1, 1.5)}
DRAWS, LAW_POINTS = 100, 14  # of the law, with common random numbers along alpha


def build_overlap(effort: Effort) -> Arrays:
    """q2 of samples, of the law at their N and at N = inf for p = 2, p* = 1, a = 0.7 and a = 1.5."""
    (n, *_), samples = effort.sizes([300], [2000]), effort.count(12, 50)
    arrays: Arrays = {}
    for kind, model in MODELS.items():
        threshold = theory.threshold(model).alpha
        alpha = rounded(np.linspace(0.55, 2.2, 9) * threshold)
        fine = np.sort([*np.linspace(0.5, 2.3, 300) * threshold, threshold * (1 + 1e-9)])
        branch = theory.spectrum(model, fine)
        names = f"{kind}_alpha", f"{kind}_fine", f"{kind}_law_alpha"
        found = sampled(model, n, alpha, samples, effort.seed)
        drawn = np.linspace(0.5, 2.25, LAW_POINTS) * threshold
        law = finite.law(model, drawn, n, draws=DRAWS, seed=effort.seed)
        mean, error = law.mean("overlap")
        arrays |= {
            names[0]: ((names[0],), alpha),
            names[1]: ((names[1],), fine),
            f"{kind}_theory": ((names[1],), np.nan_to_num(branch.overlap)),
            f"{kind}_overlap": ((names[0], "sample"), found["overlap"]),
            names[2]: ((names[2],), drawn),
            f"{kind}_law": ((names[2],), mean),
            f"{kind}_law_error": ((names[2],), error),
            f"{kind}_law_std": ((names[2],), law.std("overlap")),
            f"{kind}_alpha_bbp": np.float64(threshold),
        }
    return arrays | {"n": np.int64(n)}


@figure("overlap", build_overlap)
def overlap(data: Data) -> Figure:
    """Squared overlap of the two lowest eigenvectors, the outliers, with the teacher against alpha: (a) continuous (a =
    0.7) and (b) discontinuous (a = 1.5) transition at p = 2, p* = 1. Points with one standard error of the mean: samples;
    blue line and band: the law of finite N (theory.finite.law, 100 draws), its mean and one standard deviation of a single
    draw, no parameter fitted; black: N = infinity.
    """
    fig, axes = layout.figure(2, 2.9)
    for ax, (kind, model) in zip(axes, MODELS.items(), strict=True):
        limit = marks.overlap_curve(ax, data[f"{kind}_fine"], np.nan_to_num(data[f"{kind}_theory"]))
        limit.set_label(r"theory, $N = \infty$")
        n, count = int(data["n"]), data[f"{kind}_overlap"].shape[-1]
        law = data[f"{kind}_law"], data[f"{kind}_law_std"]
        name = rf"theory, $N = {n}$, $\pm$ one std of a draw"
        marks.finite_band(ax, data[f"{kind}_law_alpha"], *law, index=0, label=name)
        label = f"{count} samples, $N = {n}$"
        marks.sampled_points(ax, data[f"{kind}_alpha"], data[f"{kind}_overlap"], index=0, label=label)
        marks.mark_threshold(ax, float(data[f"{kind}_alpha_bbp"]), kind)
        layout.name_model(ax, model)
        ax.set(xlabel=r"$\alpha = M/N$", ylabel=r"overlap $q^2$, mean of 2 lowest", ylim=(0, None))
    layout.legend_above(fig, axes, 3)
    return fig


ACTIVATED = {"sigmoid": Network(a=1.0, activation="sigmoid"), "tanh": Network(a=50.0, activation="tanh")}
ACTIVATED_ALPHA = np.linspace(1, 10, 7)
FIRST, LAST, CURVE_POINTS = 0.6, 10.4, 30  # of the curves


def build_activations(effort: Effort) -> Arrays:
    """Overlap of the lowest eigenvector with the teacher row, p = p* = 1, samples and theory; 0 where none leaves the bulk."""
    (n, *_), samples = effort.sizes([300], [1000]), effort.count(10, 40)
    arrays: Arrays = {"alpha": ("alpha", ACTIVATED_ALPHA), "n": np.int64(n)}
    for name, model in ACTIVATED.items():
        found = sampled(model, n, ACTIVATED_ALPHA, samples, effort.seed)
        arrays[f"{name}_overlap"] = ("alpha", "sample"), found["overlap"]
        threshold, kind = models.transition(model)
        # Zero up to the threshold; points crowd above it, where the curve is steep.
        above = threshold * (1 + 1e-6) + (LAST - threshold) * np.linspace(0, 1, CURVE_POINTS) ** 2
        fine = np.array([FIRST, threshold, *above])
        overlap = np.append([0.0, 0.0], models.theory_along(model, above)["overlap"])
        arrays[f"{name}_fine"] = (f"{name}_fine",), fine
        arrays[f"{name}_theory"] = (f"{name}_fine",), overlap
        arrays[f"{name}_alpha_bbp"] = (), np.float64(threshold)
        arrays[f"{name}_discontinuous"] = (), np.int8(kind == "discontinuous")
    return arrays


@figure("activations", build_activations)
def activations(data: Data) -> Figure:
    """Other activations, p = p* = 1: squared overlap of the lowest eigenvector with the teacher for the sigmoid (a = 1) and
    tanh (a = 50), samples and theory, thresholds marked: the sigmoid's overlap jumps to 0.078 at alpha_BBP = 2.422, that of
    tanh rises from 0 at 1.810. Points: means of samples with one standard error; below threshold they show what N = 300
    leaves in the lowest eigenvector, which theory at N = infinity puts at 0. Teacher and student directions mix in these
    outliers.
    """
    fig, (ax,) = layout.figure(1, 3.3, "single")
    for index, (name, model) in enumerate(ACTIVATED.items()):
        count = data[f"{name}_overlap"].shape[-1]
        label = f"{name}, $a = {model.a:g}$: {count} samples, $N = {int(data['n'])}$"
        marks.sampled_points(ax, data["alpha"], data[f"{name}_overlap"], index=index, label=label)
        tint = style.colour(index)
        theory = rf"{name}: theory, $N = \infty$"
        ax.plot(data[f"{name}_fine"], data[f"{name}_theory"], color=tint, linewidth=1.1, label=theory)
        threshold, kind = float(data[f"{name}_alpha_bbp"]), style.KINDS[int(data[f"{name}_discontinuous"])]
        mark = rf"{name}: $\alpha_\mathrm{{BBP}} = {threshold:.3f}$, {kind}"
        ax.axvline(threshold, color=tint, linestyle=(":", "-.")[index], linewidth=0.9, zorder=1, label=mark)
    ax.set(xlabel=r"$\alpha = M/N$", ylabel=r"squared overlap $q^2$", ylim=(0, None))
    ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1.02), ncols=1)
    return fig


HESSIANS = {1: 0.5, 2: 0.3, 8: 0.1}  # student width -> normalisation
SPECTRAL_ALPHA = np.linspace(0.3, 4, 140)
SPECTRAL_POINTS = np.linspace(0.6, 3.8, 6)


def build_spectral(effort: Effort) -> Arrays:
    """q2 of the outliers of three Hessians and the p = infinity one, and of two spectral methods; samples of both routes."""
    (n, *_), samples = effort.sizes([300], [1000]), effort.count(10, 40)
    curves = [
        theory.spectrum(Network(p, 1, a), SPECTRAL_ALPHA).overlap
        for p, a in [*HESSIANS.items(), (math.inf, 0.1)]
    ]
    methods = [
        [spectral_outlier(method, float(a)) for a in SPECTRAL_ALPHA] for method in (optimal(), trimmed(6.0))
    ]
    overlaps = [[0.0 if found is None else found.overlap for found in row] for row in methods]
    rows = [[_spectral(n, float(a), effort.seed, s) for s in range(samples)] for a in SPECTRAL_POINTS]
    model = Network(2, 1, HESSIANS[2])
    return {
        "alpha": ("alpha", SPECTRAL_ALPHA),
        "p": ("p", np.array([*HESSIANS, math.inf])),
        "a": ("p", np.array([*HESSIANS.values(), 0.1])),
        "hessian": (("p", "alpha"), np.nan_to_num(curves)),
        "optimal": ("alpha", np.array(overlaps[0])),
        "trimmed": ("alpha", np.array(overlaps[1])),
        "point": ("point", SPECTRAL_POINTS),
        "optimal_sampled": (("point", "sample"), np.array(rows)),
        "hessian_sampled": (
            ("point", "sample"),
            sampled(model, n, SPECTRAL_POINTS, samples, effort.seed)["overlap"],
        ),
        "n": np.int64(n),
    }


def _spectral(n: int, alpha: float, seed: int, sample: int) -> float:
    """Squared overlap of the top eigenvector of sum T(y) x x^T, T optimal, with the teacher, on one draw."""
    from sims.instance import draw, preactivations  # late: it brings JAX

    instance = draw(Network(1, 1, 1.0), n, alpha, seed=seed, sample=sample)
    _, u = preactivations(instance)
    data = np.asarray(instance.data)[: instance.m]
    vector = np.linalg.eigh((data.T * optimal()(u[:, 0] ** 2)) @ data)[1][:, -1]
    return float((np.asarray(instance.signal)[0] @ vector) ** 2)


@figure("spectral", build_spectral)
def spectral(data: Data) -> Figure:
    """Squared overlap with the teacher at equal alpha, p* = 1: outlier of the Hessian at initialisation for several widths,
    and the spectral method with optimal and with trimmed preprocessing; samples of both: means within one standard error.
    """
    fig, (ax,) = layout.figure(1, 3.3, "single")
    ax.plot(data["alpha"], data["optimal"], color=style.BLACK, linewidth=1.6, label="optimal $T(y)$")
    ax.plot(data["alpha"], data["trimmed"], color=style.GREY, linestyle=":", label="trimmed $T(y)$, $y < 6$")
    for index, (p, a) in enumerate(zip(data["p"], data["a"], strict=True)):
        label = f"Hessian, {layout.width_name(p)}, $a = {a:g}$"
        style_of: dict[str, Any] = {"linestyle": (0, (5, 1))} if math.isinf(p) else {}
        ax.plot(data["alpha"], data["hessian"][index], color=style.colour(index), label=label, **style_of)
    n = int(data["n"])
    marks.sampled_points(
        ax, data["point"], data["hessian_sampled"], index=1, label=f"$p = 2$, samples, $N = {n}$"
    )
    marks.sampled_points(
        ax, data["point"], data["optimal_sampled"], index=5, label=f"optimal $T$, samples, $N = {n}$"
    )
    ax.set(xlabel=r"$\alpha = M/N$", ylabel=r"squared overlap $q^2$", ylim=(0, 1))
    ax.legend(loc="lower center", bbox_to_anchor=(0.45, 1.02), ncols=2, fontsize=6.5)
    return fig
