"""What travels with results: what variables are (`long_name`, `units`, flags, what stands for "missing"), and their origin.

A variable that brings a `long_name` of its own keeps it, so that an observable more is declared where it is computed.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import subprocess
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bbp import __version__

if TYPE_CHECKING:  # half a second, which processes that only compute need not wait for
    import xarray as xr

CONVENTIONS = "CF-1.11"
NOT_RUN, DONE, FAILED = 0, 1, 2  # of a sample: its `status`
PARTS = {
    "": "",
    "_error": "standard error of: ",
    "_low": "low end of the 95 % interval of: ",
    "_high": "high end of the 95 % interval of: ",
    "_std": "scatter of one draw of: ",
}
# Integers that may be missing: NaN in memory, this value in the file.
FILL = {
    "max_overlap_rank": ("int64", -1),
    "steps_taken": ("int64", -1),
    "code": ("int8", -1),
    "p_c": ("int64", 0),
}
FLAGS = {
    "status": ((0, 1, 2), "not_run done failed", "int8"),
    "code": ((0, 1, 2, 3), "converged step_limit no_step_lowers_the_loss not_finite", "int8"),
    "on_grid": ((0, 1), "not_on_the_grid_of_this_model on_its_grid", "int8"),
}
TEXT = (
    "reason", "kind", "start", "frame", "host", "device",
    "law", "quantity", "words", "verdict", "why", "theory_n_verdict", "theory_n_why",
)  # fmt: skip
WORDS: dict[str, str] = {
    "model": "number of the model",
    "n": "input dimension N",
    "alpha": "samples of the data per input dimension, M/N",
    "sample": "number of the sample",
    "eigenpair": "rank of the eigenpair, lowest first",
    "seed": "seed of the sample's random stream",
    "draw": "number of the sample in the stream of its seed",
    "p": "student width",
    "p_star": "teacher width",
    "a": "normalisation of the loss",
    "at_a": "normalisation of the loss",
    "finite_a": "normalisation of the loss",
    "width": "student width",
    "on_grid": "whether alpha is on the grid of this model",
    "config": "options that decide the numbers, as JSON",
    "status": "how the sample ended",
    "reason": "why it failed",
    # samples of the Hessian
    "eigenvalues": "lowest eigenvalues of the Hessian, lowest first",
    "overlaps": "squared overlap of each eigenvector with the signal space",
    "residuals": "norm of H v - lambda v",
    "student_shares": "squared overlap of each eigenvector with the span of the student's rows in every block",
    "max_overlap_rank": "rank, in the whole spectrum, of the eigenvector of largest overlap",
    "unit": "number of the unit of work",
    "unit_count": "samples of the unit of work",
    "unit_first": "first sample of the unit of work",
    # theory
    "alpha_bbp": "alpha of the BBP transition",
    "kind": "kind of the transition",
    "theory_edge": "left edge of the bulk at N = infinity",
    "theory_outlier": "outlier at N = infinity",
    "theory_overlap": "squared overlap of the outlier with the signal space",
    "theory_teacher_share": "squared overlap of the outlier with the span of the teacher",
    "theory_student_share": "squared overlap of the outlier with the span of the student",
    "theory_n_lowest": "lowest eigenvalue, mean over draws of finite-N theory",
    "theory_n_overlap": "q2 averaged over the p p_star lowest eigenvectors, mean over draws of finite-N theory",
    "theory_n_informative": "share of draws of finite-N theory in which that overlap exceeds every other eigenvector's",
    "theory_n_phi_group": "share of draws of finite-N theory whose largest overlap is among the p p_star lowest",
    "theory_n_reason": "why draws of finite-N theory failed",
    "theory_n_verdict": "which law of the inputs theory holds for, by Hessians of these rows: Gaussian, elliptical or neither",
    "theory_n_why": "by how much theory misses these Hessians",
    "theory_n_misfit": "theory less samples in the lowest eigenvalue, mean over draws",
    "theory_n_misfit_overlap": "theory less samples in q2, mean over draws",
    "given_lowest": "lowest eigenvalue given the labels of the sample, by theory for Gaussian and elliptical rows",
    "given_overlap": "q2 of the lowest eigenvector given the labels of the sample, likewise",
    "given_halves": "difference in them, of elliptical rows, between the covariances of two halves of the rows",
    "theory_n_draws": "draws of finite-N theory",
    "edge": "left edge",
    "outlier": "lowest outlier",
    # averages over samples
    "samples": "samples done",
    "failed": "samples failed",
    "lowest": "lowest eigenvalue",
    "overlap": "squared overlap q2, mean of the p p_star lowest eigenvectors",
    "phi": "share of samples whose largest overlap is that of the lowest eigenvector",
    "phi_group": "share of samples whose largest overlap is among the p p_star lowest",
    "gap": "from the p p_star lowest eigenvalues to the next",
    # phase diagrams
    "jump": "jump of the squared overlap q2 at the transition",
    "alpha_0_overlap": "alpha at which q2, extrapolated from alpha_BBP with its slope there, vanishes",
    "alpha_0_continuation": "threshold of the theory continued past the smooth edge by principal values",
    "a_c": "a at which the kind changes",
    "alpha_c": "alpha_BBP at a_c",
    "p_c": "smallest width whose transition is discontinuous",
    "alpha_bbp_n": "alpha of the transition at finite N",
    "alpha_bbp_n_reason": "why it was not found",
    "bbp_time": "time of gradient flow at which the outlier is lost or born, N = infinity",
    "bbp_time_kind": "what happens to the outlier",
    "bbp_time_reason": "why it was not found",
    "minima_alpha": "samples of the data per input dimension, M/N",
    "minima_complexity": "logarithm of the mean number of minima over N",
    "minima_overlap": "overlap of the most numerous minima with the teacher",
    "minima_loss": "mean loss of a sample at these minima",
    "minima_force": "mean squared derivative of a sample's loss by its preactivation there",
    "minima_instability": "what the teacher takes off the lowest eigenvalue there, above 0: saddles",
    "minima_reach": "largest overlap with the teacher at which there are minima",
    "minima_kind": "whether the Hessian at these minima has a gap",
    "minima_reason": "why they were not found",
    "alpha_minima": "alpha from which on the most numerous minima are unstable towards the teacher",
    "alpha_minima_jump": "squared overlap of the unstable direction with the teacher there",
    "alpha_minima_kind": "kind of this transition",
    "alpha_minima_reason": "why it was not found",
    # descents
    "start": "where the descent starts",
    "student_row": "number of the student",
    "teacher_row": "number of the teacher's row",
    "frame": "of the Hessian: plain, or on the sphere",
    "step": "number of the step",
    "hessian_step": "number of the step at which the Hessian was looked at",
    "overlap_matrix": "w_k . w*_l / N",
    "m2": "largest squared magnetisation, max_kl m_kl^2",
    "projection": "largest share of a student row in the teacher's span, max_k sum_l m_kl^2",
    "loss": "loss, summed over the samples of the data",
    "gradient": "norm of the Riemannian gradient over sqrt(N)",
    "time": "time of gradient flow: the sum of the steps' sizes",
    "steps_taken": "steps taken",
    "code": "how the descent ended",
    # scaling with N
    "crossing": "number of the pair of successive sizes",
    "crossing_n_small": "the smaller size",
    "crossing_n_large": "the larger size",
    "crossing_alpha": "alpha at which phi of both sizes is the same",
    "crossing_found": "share of bootstrap fits that cross",
    "alpha_zero_n": "size N with alphas close above alpha_BBP",
    "alpha_zero_sampled": "alpha_0 of samples",
    "alpha_zero_sampled_value": "alpha_0 of samples",
    # laws in N
    "row": "number of the fitted series",
    "law": "f of the law limit + c f(N)",
    "quantity": "what is fitted",
    "words": "the same, in words",
    "at_alpha": "alpha, or NaN where over all",
    "theory_limit": "theory at N = infinity",
    "taken_limit": "limit of the laws, or NaN where fitted",
    "verdict": "the law that is left, or nothing",
    "why": "why it is, or none is",
    "value": "value",
    "error": "its standard error",
    "limit": "limit at N = infinity",
    "coefficient": "c",
    "exponent": "x of N^-x",
    "chi2": "chi-square of the fit",
    "degrees": "its degrees of freedom",
    "p_value": "probability of a chi-square as large",
    # recovery
    "recovered": "share of samples that recover the teacher",
    "elsewhere": "share of samples that end without it",
    "moving": "share of samples without it whose steps ran out",
    "final": "mean m2 at the end",
    "initial": "mean m2 of the starts",
}
# Of names that say what a variable is.
PREFIXES = "theory_", "unit_", "widths_", "annealed_", "quenched_", "conditioned_"
_GRID = "n alpha sample"
_PATH = "n start alpha sample step"
_HESSIANS = "n start alpha sample hessian_step"
_MAP = "p a"
# What a program cannot do without, with its dimensions.
REQUIRED: dict[str, dict[str, str]] = {
    "bbp-sweep": dict.fromkeys(("eigenvalues", "overlaps", "residuals"), f"{_GRID} eigenpair")
    | dict.fromkeys(("max_overlap_rank", "status", "reason"), _GRID)
    | dict.fromkeys(("theory_edge", "theory_outlier", "theory_overlap"), "alpha")
    | {name: name for name in ("n", "alpha", "sample", "eigenpair")},
    "bbp-phase": dict.fromkeys(("alpha_bbp", "jump", "alpha_0_overlap", "alpha_0_continuation", "kind"), _MAP)
    | dict.fromkeys(("a_c", "alpha_c", "p"), "p")
    | dict.fromkeys(("p_c", "a"), "a")
    | {
        f"widths_{name}": "width at_a"
        for name in ("alpha_bbp", "jump", "alpha_0_overlap", "alpha_0_continuation", "kind")
    }
    | {name: name for name in ("width", "at_a")},
    "bbp-descent": dict.fromkeys(("m2", "projection", "loss", "gradient", "time", "steps_taken"), _PATH)
    | dict.fromkeys(("eigenvalues", "overlaps"), f"{_HESSIANS} frame eigenpair")
    | dict.fromkeys(("status", "code", "reason"), "n start alpha sample")
    | {"overlap_matrix": f"{_PATH} student_row teacher_row"}
    | {
        name: name for name in ("n", "start", "alpha", "sample", "step", "hessian_step", "frame", "eigenpair")
    },
    "bbp-compare": {},
    "bbp-fit": {},
    "bbp-figure": {},
}


# attributes that a reader wants first
HEAD = "format", "p", "p_star", "a", "alpha_bbp", "kind", "seed", "finished"


def described(found: xr.Dataset) -> xr.Dataset:
    """The same numbers, with words, units and flags at variables that lack them, and NaN for integers that are missing."""
    if found.attrs.get("format") == "bbp-figure":
        return found
    late = [name for name, values in found.data_vars.items() if "unit" in values.dims]
    found = found[[*(name for name in found.data_vars if name not in late), *late]]  # samples first
    first = {name: found.attrs[name] for name in HEAD if name in found.attrs}
    found.attrs = first | {name: value for name, value in found.attrs.items() if name not in first}
    for name in list(found.variables):
        values = found.variables[name]
        if name in FILL and values.dtype.kind in "iu":
            found[name] = (
                values.dims,
                np.where(values == FILL[str(name)][1], np.nan, values).astype(float),
                values.attrs,
            )
        attributes = found.variables[name].attrs
        if words := words_of(str(name)) or _part_of(found, str(name)):
            attributes.setdefault("long_name", words)
        if found.variables[name].dtype.kind in "fiu" and name not in FLAGS:
            attributes.setdefault("units", "s" if str(name).endswith("seconds") else "1")
        if name in FLAGS:
            flags, meanings, dtype = FLAGS[str(name)]
            attributes |= {"flag_values": np.array(flags, dtype=dtype), "flag_meanings": meanings}
    return found


def _part_of(found: xr.Dataset, name: str) -> str:
    """The words of NAME_error, NAME_low, ... where NAME is an observable of one's own, which brings its words."""
    for part, words in PARTS.items():
        whole = name.removesuffix(part)
        if part and whole != name and whole in found and (own := found[whole].attrs.get("long_name")):
            return words + own
    return ""


def column_type(name: str) -> tuple[str, Any]:
    """The type of a column as it is computed, and what stands for a sample that was not run.

    >>> column_type("code"), column_type("bbp_time_kind"), column_type("overlaps")
    (('int8', -1), ('O', ''), ('float64', nan))
    """
    if name == "status":
        return FLAGS[name][2], NOT_RUN
    return FILL.get(name, ("O", "") if name.endswith(("kind", "reason")) else ("float64", np.nan))


def own_names(found: xr.Dataset) -> list[str]:
    """The observables of one's own that a sweep, its averages or its comparison hold, by name."""
    return [str(name) for name, values in found.data_vars.items() if "observable" in values.attrs]


def words_of(name: str) -> str:
    """What a variable is; of NAME_error, NAME_low, widths_NAME, ... what NAME is, and which part; "" of one unknown."""
    if name in WORDS:
        return WORDS[name]
    for prefix, words in (
        ("widths_", "{}"),
        ("unit_", "{} of the unit of work"),
        ("annealed_", "{} of the plain Hessian: theory of students drawn at the same overlaps"),
        ("quenched_", "{} of the plain Hessian: quenched theory"),
        ("conditioned_", "{} of the plain Hessian: theory given the forces that the descent has used"),
    ):
        if name.startswith(prefix):
            rest = name.removeprefix(prefix)
            return words.format(words_of(rest) or rest)
    for part, words in PARTS.items():
        if part and name.endswith(part) and (rest := words_of(name.removesuffix(part))):
            return words + rest
    return ""


PACKAGES = ("jax", "jaxlib", "numpy", "scipy", "h5py")


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that decide the numbers."""
    found = {"bbp": __version__, "python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "not installed"
    return found


def commit() -> str:
    """The commit of the checkout this runs from, "+" added if files differ; else the one its wheel is of; or "unknown"."""
    package = Path(__file__).resolve().parents[1]
    checkout = package.parent
    if not (checkout / ".git").exists():
        built = package / "commit.txt"  # in a wheel: what it was built from (setup.py)
        return built.read_text().strip() if built.is_file() else "unknown"
    # GIT_DIR, GIT_WORK_TREE, ... of a hook or a script name another repository than the one that is asked about.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    questions = (
        ["ls-files", "--error-unmatch", "bbp/__init__.py"],  # of a copy kept untracked it is not the commit
        ["rev-parse", "HEAD"],
        ["status", "--porcelain", "--untracked-files=no"],
    )
    try:
        _, head, changes = (
            subprocess.run(
                ["git", "-C", checkout, *words],
                capture_output=True, text=True, check=True, timeout=10, env=environment,
            ).stdout.strip()
            for words in questions
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return head + ("+" if changes else "")


def provenance(made: Iterable[Mapping[str, str]] = ()) -> dict[str, str]:
    """Attributes of a file: versions (JSON), commit, created (local time with zone).

    made   versions of what computed its parts; where some are others than ours, `other_versions` names them
    """
    own = versions()
    others = {json.dumps({name: each.get(name) for name in own}) for each in made} - {json.dumps(own)}
    return {
        "versions": json.dumps(own),
        "commit": commit(),
        "created": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
    } | ({"other_versions": f"[{', '.join(sorted(others))}]"} if others else {})
