"""A sweep over alpha: sampled lowest eigenvalues and overlaps with the theory's edge, outlier and overlap."""

from __future__ import annotations

import logging
import re
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
from numpy.typing import ArrayLike, NDArray

from bbp.analysis.summary import has_theory_n, mean_and_error, observables, theory_curves
from bbp.experiments import models
from bbp.files.variables import own_names
from bbp.plots import layout, style

log = logging.getLogger("bbp")
Array = NDArray[np.float64]
FINE = 200  # points of a smooth curve
MANY_DRAWS = 100  # of finite-N theory, from which on its mean is drawn as a line
MOST_BANDS = 6  # curves that have a band of one sample's scatter each: more would hide one another
DARKER = 0.6  # share of a curve's colour in that of its file
MOST_NAMED = 3  # sizes whose curves all have entries of their own in a legend
LACKS = {
    "no edge": r"no left edge at $N = \infty$: no outlier, no threshold",
    "none": r"no $\alpha_\mathrm{BBP}$",
    "unresolved": "theory not resolved",
}
ALPHA = r"$\alpha = M/N$"
THEORY = r"outlier and its $q^2$, $N = \infty$"


def sampled_points(
    ax: Axes,
    alpha: ArrayLike,
    values: ArrayLike,
    *,
    index: int = 0,
    count: int = 0,
    filled: bool = True,
    label: str | None = None,
) -> ErrorbarContainer:
    """Means over samples with standard errors, values (alpha, sample); `index`, of `count` curves, picks colour and marker."""
    return points(ax, alpha, *mean_and_error(values), index=index, count=count, filled=filled, label=label)


def points(
    ax: Axes,
    alpha: ArrayLike,
    mean: Array,
    error: Array,
    *,
    index: int = 0,
    count: int = 0,
    filled: bool = True,
    line: bool = False,
    label: str | None = None,
) -> ErrorbarContainer:
    """Points with errors, NaN left out, an unknown error drawn as none; `index`, of `count` curves, picks colour
    and marker.

    alpha, mean (alpha,); error (alpha,), or (2, alpha) below and above; line: from point to point, with gaps at NaN.
    """
    shown = np.isfinite(mean) | line
    tint = style.colour(index, count)
    return ax.errorbar(
        np.asarray(alpha, dtype=np.float64)[shown],
        mean[shown],
        yerr=np.nan_to_num(error[..., shown]).clip(0),
        linestyle="-" if line else "none",
        linewidth=0.8,
        marker=style.marker(index),
        color=tint,
        markerfacecolor=tint if filled else "white",
        elinewidth=0.9,
        zorder=3,
        label=label,
    )


@style.added
def finite_band(
    ax: Axes,
    alpha: ArrayLike,
    mean: ArrayLike,
    scatter: ArrayLike,
    error: ArrayLike | None = None,
    *,
    index: int = 0,
    count: int = 0,
    draws: int = 0,
    low: float = -np.inf,
    label: str | None = None,
) -> None:
    """Finite-N theory (alpha,): its mean, a band of its error and a wider one of a draw's scatter; NaN is left out.
    No band reaches below `low`, 0 of what is never negative.

    Among more than MOST_BANDS curves the wide band is left out. Of fewer draws than MANY_DRAWS (0: not known) the mean is
    dotted from one alpha to the next, in a band of its error twice as dark: it is no smooth truth.
    """
    tint, few = style.colour(index, count), 0 < draws < MANY_DRAWS and error is not None
    known = np.zeros(np.shape(mean)) if error is None else error
    at, (middle, width, own) = between(alpha, mean, scatter, known, smooth=not few)
    wide = [(width, 0.13, 0.4)] if count <= MOST_BANDS else []
    for half, opacity, height in (*wide, (own, 0.6 if few else 0.35, 0.5)):
        look: dict[str, Any] = {"alpha": opacity, "zorder": height, "linewidth": 0}
        ax.fill_between(at, np.maximum(middle - half, low), middle + half, color=tint, **look)
    line = (0, (1, 1.4)) if few else "-"
    ax.plot(at, middle, color=tint, linewidth=1.0, linestyle=line, zorder=1.5, label=label)


def doubt_entry(ax: Axes, said: Sequence[str]) -> None:
    """An entry with every N of which `theory.finite.law.doubts` says something; none where it says nothing."""
    words = " ".join(said)
    sizes = sorted({int(n) for group in re.findall(r"\bN = ([0-9, ]+):", words) for n in group.split(",")})
    if words.strip():
        of = f": $N = {', '.join(map(str, sizes))}$" if sizes else ""
        look: dict[str, Any] = {"marker": "$?$", "linestyle": "none", "color": style.GREY}
        ax.plot([], [], label=f"theory not known to hold{of}", **look)


def between(alpha: ArrayLike, *curves: ArrayLike, smooth: bool = True) -> tuple[Array, list[Array]]:
    """Smooth curves (alpha,) on a finer grid: monotone cubics through the points that all have, those themselves if under 3 or
    not smooth.

    For theory at finite N, whose means are smooth in alpha (theory.finite.draw), not for samples.
    """
    from scipy.interpolate import PchipInterpolator

    rows = [np.asarray(curve, dtype=np.float64) for curve in curves]
    known = np.all(np.isfinite(rows), axis=0)
    at = np.asarray(alpha, dtype=np.float64)[known]
    if len(at) < 3 or not smooth:
        return at, [row[known] for row in rows]
    fine = np.unique(np.concatenate([at, np.linspace(at[0], at[-1], FINE)]))
    return fine, [PchipInterpolator(at, row[known])(fine) for row in rows]


def edge_and_outlier(
    ax: Axes, alpha: ArrayLike, edge: ArrayLike, outlier: ArrayLike, *, name: str = ""
) -> tuple[Line2D, Line2D]:
    """Theory curves of the left edge and of the outlier, shapes (alpha,), NaN where there is none; labelled where they show.

    name   of the result whose theory this is
    """
    look: dict[str, Any] = {"color": style.GREY, "linestyle": (0, (4, 1.6)), "zorder": 2}
    (below,) = ax.plot(alpha, edge, label=_if_any(edge, said(name, r"left edge, $N = \infty$")), **look)
    (out,) = ax.plot(
        alpha, outlier, color=style.BLACK, label=_if_any(outlier, said(name, THEORY)), zorder=2.1
    )
    return below, out


def overlap_curve(ax: Axes, alpha: ArrayLike, overlap: ArrayLike, *, name: str = "") -> Line2D:
    """Theory curve of the squared overlap (alpha,), NaN left out; labelled where it shows."""
    (line,) = ax.plot(alpha, overlap, color=style.BLACK, zorder=2, label=_if_any(overlap, said(name, THEORY)))
    return line


def _if_any(values: ArrayLike, label: str) -> str:
    """The label, or one that no legend shows where there is nothing to see."""
    return label if np.any(np.isfinite(np.asarray(values, dtype=np.float64))) else "_nothing"


def name_lack(ax: Axes, sources: Mapping[str, xr.Dataset]) -> None:
    """Above the upper right corner, that there is no threshold and why; nothing where there is one."""
    for one in sources.values():
        if not np.isfinite(one.alpha_bbp):
            ax.set_title(LACKS.get(one.kind, f"theory: {one.kind}"), loc="right", pad=3.0)


def mark_threshold(ax: Axes, alpha_bbp: float, kind: str, *, name: str = "") -> Line2D | None:
    """Vertical line at alpha_BBP whose label says value and kind; dash-dotted if continuous, else dotted; None without one."""
    if not np.isfinite(alpha_bbp):
        return None
    return ax.axvline(
        alpha_bbp,
        color=style.GREY,
        linestyle=style.THRESHOLD_LINES.get(kind, "-."),
        linewidth=0.9,
        zorder=1,
        label=said(name, rf"$\alpha_\mathrm{{BBP}} = {style.number(alpha_bbp)}$, {kind}"),
    )


def sweep_figure(sweeps: xr.Dataset | Mapping[str, xr.Dataset], *, width: str = "double") -> Figure:
    """Lowest eigenvalue and squared overlap of samples against alpha, with the theory of their N and of N = infinity.

    Points: means over samples of the lowest eigenvalue, and of q2 averaged over the p p_star lowest eigenvectors, the ones
    that leave the bulk together; open points are the (p p_star + 1)-th eigenvalue, the lowest that stays.
    Coloured lines and bands: finite-N theory, the mean over draws, its error, and wider one draw's scatter. Several sweeps,
    each of one model, are told apart by their names.
    """
    return layout.filled(panels(sweeps), width, 0.5, 2.5 if width == "double" else 2.2)


def panels(sweeps: xr.Dataset | Mapping[str, xr.Dataset]) -> list[Callable[[Axes], list[Artist]]]:
    """What draws each panel of the figure of sweeps, in order."""
    sources = named(sweeps)
    return [
        partial(panel, sweeps=sources, name=name) for name in ("lowest", "overlap", *common_names(sources))
    ]


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
    """Whether curves share entries of a legend."""
    return len(sources) > 1 or len(list(each_size(sources))) > MOST_NAMED or style.for_a_talk()


@style.added
def panel(ax: Axes, sweeps: xr.Dataset | Mapping[str, xr.Dataset], name: str) -> None:
    """An observable of every N against alpha: "lowest" and "overlap" beside theory, or the mean over samples of any other, of
    one over eigenpairs the lowest's.

    Up to MOST_NAMED sizes every curve has an entry for a legend of its own; more share those of what they are.
    """
    sources = named(sweeps)
    brief = is_brief(sources)
    theory_lines(ax, sources, name)
    mark_thresholds(ax, sources)
    for sweep, row, size, look in each_size(sources):
        _one_size(ax, sweep, name, row, size, brief, look)
    ax.set_xlabel(ALPHA)
    groups = {models.group(models.of(one)) for one in sources.values()}
    (group,) = groups if len(groups) == 1 else (0,)
    if name == "lowest":
        _name_values(ax, sources, group, brief)
    elif name == "overlap":
        _name_finite(ax, sources, brief)
        name_lack(ax, sources)
        mean = f"overlap $q^2$, mean of {group} lowest" if group else "mean overlap $q^2$"
        ax.set_ylabel("squared overlap $q^2$" if group == 1 else mean)
    else:
        ax.set_ylabel(layout.words_of(next(iter(sources.values())), name))


def said(name: str, words: str) -> str:
    """Words of a legend, of a result with this name."""
    return f"{name}: {words}" if name else words


def _one_size(
    ax: Axes, sweep: xr.Dataset, what: str, row: int, size: str, brief: bool, look: dict[str, Any]
) -> None:
    """One observable of one N: samples, and of eigenvalue and overlap theory; of the eigenvalue the first that stays, too."""
    alpha, seen, group = sweep.alpha.values, observables(sweep), models.group(models.of(sweep))
    sampled_points(ax, alpha, seen[what].values[row], label=size if brief else f"samples, {size}", **look)
    if what == "lowest" and seen.sizes["eigenpair"] > group:
        rest = None if brief else rf"$\lambda_{{{group + 1}}}$, {size}"
        sampled_points(ax, alpha, seen.eigenvalues.values[row, ..., group], label=rest, filled=False, **look)
    if what not in ("lowest", "overlap"):
        return
    if "theory_n_verdict" in sweep:
        judged_points(ax, sweep, what, row)
    if has_theory_n(sweep) and np.isfinite(sweep.theory_n_lowest.values[row]).any():
        # older files lack the error
        parts = [f"theory_n_{what}{part}" for part in ("", "_std", "_error")]
        curves = [sweep[part].values[row] for part in parts if part in sweep]
        draws = int(sweep.theory_n_draws.values[row]) if "theory_n_draws" in sweep else 0
        low = 0.0 if what == "overlap" else -np.inf
        words = None if brief else f"theory, {size}"
        finite_band(ax, alpha, *curves, draws=draws, low=low, label=words, **look)


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


def _name_values(ax: Axes, sources: Mapping[str, xr.Dataset], group: int, brief: bool) -> None:
    """Model, ordinate and what curves share in the legend, of the panel of eigenvalues; group: 0 where models differ in it."""
    stays = rf"\lambda_{{{group + 1}}}" if group else r"\lambda_{p\,p^* + 1}"
    more = any(one.sizes["eigenpair"] > models.group(models.of(one)) for one in sources.values())
    if brief and more and not style.for_a_talk():
        look: dict[str, Any] = {"marker": "o", "markerfacecolor": "white", "linestyle": "none"}
        ax.plot([], [], color=style.GREY, label=f"${stays}$, open", **look)
    _name_finite(ax, sources, brief)
    layout.title(ax, model_title(sources))
    ax.set_ylabel(rf"eigenvalues $\lambda_1$ and ${stays}$" if more else r"lowest eigenvalue $\lambda_1$")


def _name_finite(ax: Axes, sources: Mapping[str, xr.Dataset], brief: bool) -> None:
    finite = [one for one in sources.values() if has_theory_n(one)]
    draws = [
        int(one.get("theory_n_draws", np.array(MANY_DRAWS)).max()) for one in finite
    ]  # older files lack it
    said = [str(one.attrs.get("theory_n_doubt", "")) for one in finite]
    name_finite(ax, sources, draws, said, shared=brief)


def name_finite(
    ax: Axes, sources: Mapping[str, xr.Dataset], draws: Sequence[int], said: Sequence[str], *, shared: bool
) -> None:
    """What curves and bands of finite-N theory share in the legend.

    draws, said   of each result that has it: of how many draws it is a mean, and where it is not known to hold
    shared        curves have no entries of their own
    """
    if not draws:
        return
    if shared:
        ax.plot([], [], color=style.GREY, linewidth=1.0, label="theory, colour of its $N$")
    if not style.for_a_talk() and len(list(each_size(sources))) <= MOST_BANDS:
        ax.fill_between([], [], [], color=style.GREY, alpha=0.3, linewidth=0, label="scatter of one sample")
    if 0 < min(draws) < MANY_DRAWS:
        words = f"error, mean of {min(draws)} draws"
        ax.plot([], [], color=style.GREY, linewidth=5.0, alpha=0.6, label=words)
    doubt_entry(ax, said)


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
