"""Observables against alpha, of sweeps and of comparisons: samples of every N beside theory of that N and of N = infinity."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.colors import to_hex, to_rgb
from matplotlib.container import ErrorbarContainer
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from bbp.analysis.summary import has_theory_n, mean_and_error, observables, theory_curves
from bbp.experiments import models
from bbp.files import dataset
from bbp.files.variables import own_names
from bbp.plots import layout, style
from bbp.plots.marks import (
    ALPHA,
    MANY_DRAWS,
    MOST_BANDS,
    doubt_entry,
    edge_and_outlier,
    finite_band,
    mark_threshold,
    overlap_curve,
    points,
    said,
)
from theory.finite.law import doubts

log = logging.getLogger("bbp")
DARKER = 0.6  # share of a curve's colour in that of its file
MOST_NAMED = 3  # sizes whose curves all have entries of their own in a legend
LACKS = {
    "no edge": r"no left edge at $N = \infty$: no outlier, no threshold",
    "none": r"no $\alpha_\mathrm{BBP}$",
    "unresolved": "theory not resolved",
}
FOLLOWING = "eigenvalue that follows"  # those of the p p_star lowest: the first that stays in the bulk
# Observables of comparisons and what their axes say.
COMPARED = {
    "lowest": r"lowest eigenvalue $\lambda_1$",
    "overlap": r"squared overlap $q^2$",
    "phi_group": r"$\phi$ of the $p\,p^*$ lowest",
    "gap": r"gap $\lambda_{p\,p^*+1} - \lambda_{p\,p^*}$",
}


def name_lack(ax: Axes, sources: Mapping[str, xr.Dataset]) -> None:
    """Above the upper right corner, that there is no threshold and why; nothing where there is one."""
    for one in sources.values():
        if not np.isfinite(one.alpha_bbp):
            layout.title(ax, LACKS.get(one.kind, f"theory: {one.kind}"))


def figure(results: xr.Dataset | Mapping[str, xr.Dataset], *, width: str = "double") -> Figure:
    """Lowest eigenvalue and squared overlap of samples against alpha, with the theory of their N and of N = infinity; of
    comparisons phi and the gap too, with bootstrap errors (phi: 95 % intervals); and observables of one's own.

    Points: means over samples of the lowest eigenvalue, and of q2 averaged over the p p_star lowest eigenvectors, the ones
    that leave the bulk together; open points are the (p p_star + 1)-th eigenvalue, the lowest that stays.
    Coloured lines and bands: finite-N theory, the mean over draws, its error, and wider one draw's scatter. Several results,
    each of one model, are told apart by their names.
    """
    drawn, columns = panels(results), 2 if width == "double" else 1
    compared = is_compared(next(iter(named(results).values())))
    above, rows = (0.4, (2.05, 2.3)) if compared else (0.5, (2.2, 2.5))
    height = above + rows[columns - 1] * -(-len(drawn) // columns)
    fig, axes = layout.figure(len(drawn), height, width, columns, sharex="col")
    for ax, draw in zip(axes, drawn, strict=True):
        draw(ax)
    for ax in axes[:-columns]:
        ax.set_xlabel("")
    layout.legend_above(fig, axes, 2 * columns)
    return fig


def panels(results: xr.Dataset | Mapping[str, xr.Dataset]) -> list[Callable[[Axes], list[Artist]]]:
    """What draws each panel of the figure of sweeps, or of comparisons, in order."""
    sources = named(results)
    names = COMPARED if is_compared(next(iter(sources.values()))) else ("lowest", "overlap")
    return [partial(panel, results=sources, name=name) for name in (*names, *common_names(sources))]


def is_compared(found: xr.Dataset) -> bool:
    """Whether this is a comparison, which holds averages in the place of samples."""
    return "lowest_low" in found


def averaged(found: xr.Dataset) -> xr.Dataset:
    """A comparison as it is; a sweep with means over its samples, and their NAME_error, (n, alpha) in the place of what is
    drawn of each: lowest, overlap, observables of one's own, and FOLLOWING where it is known."""
    if is_compared(found):
        return found
    seen, group, own = observables(found), models.group(models.of(found)), own_names(found)
    if seen.sizes["eigenpair"] > group:
        seen[FOLLOWING] = seen.eigenvalues.isel(eigenpair=group)
    means: dict[str, Any] = {}
    for name in ("lowest", "overlap", FOLLOWING, *own):
        if name in seen:
            mean, error = mean_and_error(seen[name].transpose("n", "alpha", "sample").values)
            means |= {
                name: (("n", "alpha"), mean, seen[name].attrs),
                f"{name}_error": (("n", "alpha"), error),
            }
    return found.drop_vars(own).assign(means)


def common_names(sources: Mapping[str, xr.Dataset]) -> list[str]:
    """The observables of one's own that all of several results hold."""
    first, *rest = [own_names(one) for one in sources.values()]
    common = [name for name in first if all(name in other for other in rest)]
    left = [name for name in dict.fromkeys(chain(first, *rest)) if name not in common]
    if left:
        log.warning("not drawn, for not every file holds it: %s", ", ".join(left))
    return common


def named(sources: xr.Dataset | Mapping[str, xr.Dataset]) -> Mapping[str, xr.Dataset]:
    """Results by name; one alone has none."""
    return {"": sources} if isinstance(sources, xr.Dataset) else sources


def each_size(sources: Mapping[str, xr.Dataset]) -> Iterator[tuple[xr.Dataset, int, str, dict[str, Any]]]:
    """Every N of every result: the result, the row of its N, its words in a legend, and index and count of its curve."""
    every = [(name, one, row) for name, one in sources.items() for row in range(one.sizes["n"])]
    for index, (name, one, row) in enumerate(every):
        yield one, row, said(name, f"$N = {one.n.values[row]}$"), {"index": index, "count": len(every)}


def is_brief(sources: Mapping[str, xr.Dataset]) -> bool:
    """Whether curves share entries of a legend: beyond MOST_NAMED sizes, and those of comparisons."""
    if len(sources) > 1 or is_compared(next(iter(sources.values()))):
        return True
    return len(list(each_size(sources))) > MOST_NAMED or style.for_a_talk()


@style.added
def panel(ax: Axes, results: xr.Dataset | Mapping[str, xr.Dataset], name: str) -> None:
    """An observable of every N against alpha beside theory: "lowest", "overlap", of a comparison "phi_group" and "gap"; or the
    mean over samples of any other, of one over eigenpairs the lowest's."""
    sources = {key: averaged(one) for key, one in named(results).items()}
    brief = is_brief(sources)
    theory_lines(ax, sources, name)
    mark_thresholds(ax, sources)
    for found, row, size, look in each_size(sources):
        label = size if brief else f"samples, {size}"
        measured(ax, found, name, row, label=label, **look)
        if name == "lowest" and FOLLOWING in found:
            group = models.group(models.of(found))
            rest = None if brief else rf"$\lambda_{{{group + 1}}}$, {size}"
            measured(ax, found, FOLLOWING, row, label=rest, filled=False, **look)
        if "theory_n_verdict" in found and name in ("lowest", "overlap"):
            judged_points(ax, found, name, row)
        _finite(ax, found, name, row, None if brief else f"theory, {size}", look)
    ax.set_xlabel(ALPHA)
    groups = {models.group(models.of(one)) for one in sources.values()}
    (group,) = groups if len(groups) == 1 else (0,)
    if name == "lowest":
        if brief and (stays := _following(sources, group)) and not style.for_a_talk():
            open_points: dict[str, Any] = {"marker": "o", "markerfacecolor": "white", "linestyle": "none"}
            ax.plot([], [], color=style.GREY, label=f"${stays}$, open", **open_points)
        layout.title(ax, model_title(sources))
    if name in ("lowest", "overlap"):
        _name_finite(ax, sources, brief)
    if name == "overlap":
        name_lack(ax, sources)
    ax.set_ylabel(_ordinate(name, sources, group))


def measured(ax: Axes, averages: xr.Dataset, name: str, row: int, **look: Any) -> ErrorbarContainer:
    """One observable of one size, number `row`, of a comparison with bootstrap errors, a share (phi) with its 95 % interval;
    or of a sweep that is `averaged`.

    look   of `bbp.plots.marks.points`; `index` is that of the row where not given
    """
    value, error = (averages[f"{name}{part}"].values[row] for part in ("", "_error"))
    if name.startswith("phi"):
        low, high = (averages[f"{name}{part}"].values[row] for part in ("_low", "_high"))
        error = np.stack([value - low, high - value])
    return points(ax, averages.alpha.values, value, error, **{"index": row, **look})


def _finite(
    ax: Axes, found: xr.Dataset, name: str, row: int, label: str | None, look: dict[str, Any]
) -> None:
    """Finite-N theory of one observable of one size; of a share (phi) with its own error and no scatter."""
    share = name == "phi_group"
    parts = [f"theory_n_{name}{part}" for part in (("",) if share else ("", "_std", "_error"))]
    if not has_theory_n(found) or parts[0] not in found or not np.isfinite(found[parts[0]].values[row]).any():
        return
    # older files lack the error
    rows, draws = [found[part].values[row] for part in parts if part in found], draws_of(found)[row]
    if share:
        # older files do not say how many draws: a line without its error
        rows += [np.zeros_like(rows[0]), np.sqrt(rows[0] * (1 - rows[0]) / (draws or np.inf))]
    low = -np.inf if name == "lowest" else 0.0
    finite_band(ax, found.alpha.values, *rows, draws=draws, low=low, label=label, **look)


def draws_of(found: xr.Dataset) -> list[int]:
    """Draws of finite-N theory of every N; 0 where a file, as older ones, does not say."""
    if "theory_n_draws" in found:
        return [int(draws) for draws in found.theory_n_draws.values]
    return [int(dataset.config(found).get("draws") or 0)] * found.sizes["n"]


def judged_points(ax: Axes, sweep: xr.Dataset, what: str, row: int) -> None:
    """Theory for rows of one's own at one N, where a law of the rows holds, with its error: no line, as the verdict is that of
    each alpha. Marks on the axis where none does."""
    alpha, kinds = sweep.alpha.values, sweep.theory_n_verdict.values[row]
    for kind, mark in (("Gaussian", "+"), ("elliptical", "x")):
        here = kinds == kind
        if here.any():
            said, error = (sweep[f"theory_n_{what}{part}"].values[row][here] for part in ("", "_error"))
            look: dict[str, Any] = {"color": style.BLACK, "markersize": 6, "capsize": 2, "zorder": 4}
            ax.errorbar(alpha[here], said, error, fmt=mark, label=f"theory, {kind} rows", **look)
    none = alpha[kinds == "neither"]
    if len(none):
        words, place = "neither law holds: no theory", ax.get_xaxis_transform()
        height = np.full(none.shape, 0.02)
        ax.scatter(none, height, marker="|", color=style.VERMILION, transform=place, zorder=4, label=words)


def _ordinate(name: str, sources: Mapping[str, xr.Dataset], group: int) -> str:
    """What the axis of an observable says; group: 0 where models differ in it."""
    first = next(iter(sources.values()))
    if is_compared(first):
        return COMPARED.get(name) or layout.words_of(first, name)
    if name == "lowest":
        stays = _following(sources, group)
        return rf"eigenvalues $\lambda_1$ and ${stays}$" if stays else r"lowest eigenvalue $\lambda_1$"
    if name == "overlap":
        mean = f"overlap $q^2$, mean of {group} lowest" if group else "mean overlap $q^2$"
        return "squared overlap $q^2$" if group == 1 else mean
    return layout.words_of(first, name)


def _following(sources: Mapping[str, xr.Dataset], group: int) -> str:
    """The eigenvalue drawn beside the lowest, the first that stays; "" where results have none."""
    if not any(FOLLOWING in one for one in sources.values()):
        return ""
    return rf"\lambda_{{{group + 1}}}" if group else r"\lambda_{p\,p^* + 1}"


def _name_finite(ax: Axes, sources: Mapping[str, xr.Dataset], shared: bool) -> None:
    """What curves and bands of finite-N theory share in the legend; shared: curves have no entries of their own."""
    finite = [one for one in sources.values() if has_theory_n(one)]
    if not finite:
        return
    if shared:
        ax.plot([], [], color=style.GREY, linewidth=1.0, label="theory, colour of its $N$")
    if not style.for_a_talk() and len(list(each_size(sources))) <= MOST_BANDS:
        ax.fill_between([], [], [], color=style.GREY, alpha=0.3, linewidth=0, label="scatter of one sample")
    draws = min(max(draws_of(one)) for one in finite)
    if 0 < draws < MANY_DRAWS:
        words = f"error, mean of {draws} draws"
        ax.plot([], [], color=style.GREY, linewidth=5.0, alpha=0.6, label=words)
    doubt_entry(ax, [_doubt(one) for one in finite])


def _doubt(found: xr.Dataset) -> str:
    """Where finite-N theory of a result is not known to hold, in words."""
    if is_compared(found):
        return doubts(models.of(found), found.alpha.values, found.n.values)
    return str(found.attrs.get("theory_n_doubt", ""))


def model_title(sources: Mapping[str, xr.Dataset]) -> list[str]:
    """What the models of results have in common, in words."""
    first, *rest = [layout.model_words(models.of(one)) for one in sources.values()]
    return [word for word in first if all(word in other for other in rest)]


def told_apart(sources: Mapping[str, xr.Dataset]) -> Mapping[str, xr.Dataset]:
    """Results under what tells their models apart, where each has one of its own; else under the names given."""
    common = model_title(sources)
    own = {
        name: ", ".join(word for word in layout.model_words(models.of(one)) if word not in common)
        for name, one in sources.items()
    }
    if len(set(own.values())) < len(own) or len(own) < 2:
        return sources
    return {own[name]: one for name, one in sources.items()}


def distinct(sources: Mapping[str, xr.Dataset]) -> dict[str, xr.Dataset]:
    """One result of each model, by name; without one where all are of one model."""
    found: dict[str, xr.Dataset] = {}
    for name, one in sources.items():
        if not any(models.of(one) == models.of(other) for other in found.values()):
            found[name] = one
    return found if len(found) > 1 else dict.fromkeys([""], next(iter(found.values())))


@style.added
def theory_lines(ax: Axes, sources: xr.Dataset | Mapping[str, xr.Dataset], what: str) -> None:
    """Edge and outlier ("lowest") of the model of a sweep or comparison, or the "overlap"; of several a line each."""
    tints = file_tints(named(sources))
    for name, source in distinct(named(sources)).items():
        if "theory_n_verdict" in source or what not in ("lowest", "overlap"):
            continue
        curves = theory_curves(source)
        alpha, edge, outlier, overlap = (
            curves[each].values for each in ("alpha", "theory_edge", "theory_outlier", "theory_overlap")
        )
        lines: Sequence[Line2D]
        if what == "lowest":
            lines = edge_and_outlier(ax, alpha, edge, outlier, name=name)
            if name:
                lines[0].set_linewidth(0.9)
        else:
            lines = [overlap_curve(ax, alpha, overlap, name=name)]
        if name:
            for line in lines:
                line.set_color(tints[name])


def mark_thresholds(ax: Axes, sources: Mapping[str, xr.Dataset]) -> None:
    """A line at alpha_BBP of every model; of several in the colours of their theory."""
    tints = file_tints(sources)
    for name, one in distinct(sources).items():
        line = mark_threshold(ax, one.alpha_bbp, one.kind, name=name)
        if name and line is not None:
            line.set_color(tints[name])


def file_tints(sources: Mapping[str, xr.Dataset]) -> dict[str, str]:
    """The colour of what is said of a whole result, by name: that of its first curve, darker than any curve's own."""
    looks, found = [look for *_, look in each_size(sources)], {}
    for name, one in sources.items():
        red, green, blue = (DARKER * part for part in to_rgb(style.colour(**looks[0])))
        found[name], looks = to_hex((red, green, blue)), looks[one.sizes["n"] :]
    return found
