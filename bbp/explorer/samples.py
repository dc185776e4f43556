"""What one sample shows: a Hessian drawn for the page with its quenched theory, and the law of finite N; how large they may be.

`predicted`, `drawn` and `law` run in processes of their own (`bbp.explorer.work`): the first two load JAX there.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from bbp.analysis.spectrum import Pool, quenched_sample
from bbp.experiments import models
from bbp.explorer.answer import Columns, number
from bbp.explorer.state import State
from theory import finite
from theory.answers import Prediction
from theory.checks import NotConverged, ParameterError
from theory.finite.law import UNKNOWN, doubts
from theory.model.network import Network

DENSE_ORDER = 2000  # of p N, up to which every eigenvalue is computed
KRYLOV_DATA = 3e7  # entries of the data, M N, up to which the lowest are
KRYLOV_ORDER = 60_000
GROUP = 128  # p p*, the eigenvalues that carry the teacher
WEIGHTS = 2e7  # entries of the weights, M p^2
SPARE = 60  # eigenvalues beyond them that the histogram of a large sample shows
SEED = 0
PER_BIN, FEWEST_BINS = 6, 4  # eigenvalues in a bar of the histogram on average, and how few bars

CURVE_POINTS = 24  # of a finite-N curve
MOST_LABELS = 400_000  # M p of one draw of it
WORK = 1.5e7  # labels drawn for it
DRAWS = 20, 60  # least and most: a curve takes some seconds


def sampling_of(state: State) -> tuple[int, str]:
    """(eigenpairs, solver) of a sample at this state; ParameterError, in words, where it would be too large for a page."""
    if math.isinf(state.p):
        raise ParameterError("a sample needs a finite p")
    order, rows, size = int(state.p) * state.n, round(state.alpha * state.n), int(state.p) * state.p_star
    if state.p_star > state.n:
        raise ParameterError(f"a sample needs p* of at most N, got p* = {state.p_star}, N = {state.n}")
    if rows < 4:
        raise ParameterError(f"a sample needs a few rows of data, got αN = {rows}")
    if rows * state.n > KRYLOV_DATA:
        largest = int(math.sqrt(KRYLOV_DATA / state.alpha))
        raise ParameterError(
            f"samples are drawn here up to N = {largest} at this α: a smaller N, or bbp sweep"
        )
    if size > GROUP or rows * int(state.p) ** 2 > WEIGHTS:
        raise ParameterError(
            f"samples are drawn here up to pp* = {GROUP} and αNp² = {WEIGHTS:.0e}: a smaller p or N"
        )
    if order > KRYLOV_ORDER:
        raise ParameterError(f"samples are drawn here up to pN = {KRYLOV_ORDER}: a smaller N, or bbp sweep")
    return (order, "dense") if order <= DENSE_ORDER else (size + SPARE, "krylov")


def predicted(state: State, sample: int) -> Prediction:
    """Edge, outliers and overlaps by the quenched theory of a sample's labels."""
    return quenched_sample(state.model, state.n, state.alpha, SEED, sample)


def drawn(state: State, sample: int) -> tuple[Pool, float]:
    """The sample of this index, and the mean squared overlap of the eigenvectors that carry the teacher. NotConverged where it
    failed."""
    from sims import sampling

    model, (pairs, solver) = state.model, sampling_of(state)
    found = sampling.sample_point(
        model, state.n, state.alpha, [sample], SEED, eigenpairs=pairs, solver=solver
    )
    if found.reasons[0]:
        raise NotConverged(f"the sample failed: {found.reasons[0]}")
    overlap = float(np.mean(found.overlaps[0][: models.group(model)]))
    return Pool(found.eigenvalues, state.n, int(state.p) * state.n, found.residuals), overlap


def histogram(found: Pool, left: float, right: float, bins: int) -> Columns:
    """A sample in at most `bins` bins from left to right, as a density of states."""
    ends, heights = found.histogram(left, right, per_bin=PER_BIN, fewest=FEWEST_BINS, most=bins)
    return {"left": ends[:-1], "right": ends[1:], "top": heights}


def described(found: Pool, overlap: float, labels: Prediction | None, seconds: float) -> str:
    """A sample in words."""
    (values,) = found.eigenvalues
    extent = "all" if len(values) == found.size else f"the lowest {len(values)}"
    words = (
        f"Order {found.size}, {extent} eigenvalues, in {seconds:.1f} s. Lowest {number(values[0])}, "
        f"q² {number(overlap)}. "
    )
    if labels is None:
        return words + "Quenched theory of its labels is known for the quadratic committee."
    outliers = ", ".join(map(number, outliers_of(labels)[:4])) or "none"
    return words + (
        f"Its labels predict edge {number(labels.edge)}, outliers {outliers}, q² {number(q2_of(labels))}; "
        f"eigenvalues below that edge: {np.sum(values < labels.edge)}."
    )


def outliers_of(labels: Prediction) -> NDArray[np.float64]:
    """Those that the labels pull out."""
    return labels.outliers[np.isfinite(labels.outliers)]


def q2_of(labels: Prediction) -> float:
    """Their mean squared overlap, 0 for those that stay in the bulk."""
    return float(np.mean(np.nan_to_num(labels.overlaps)))


def draws_of(state: State, top: float) -> int:
    """Draws of labels that a finite-N curve up to alpha = top affords. Raises ParameterError where even a few are too many."""
    if not state.model.is_committee:
        raise ParameterError("finite-N curves are known for the quadratic committee without options")
    if math.isinf(state.p):
        raise ParameterError("finite-N curves need a finite p")
    entries = state.n * top * state.p
    if entries > MOST_LABELS:
        largest = int(MOST_LABELS / (top * state.p))
        raise ParameterError(f"finite-N curves are drawn up to N = {largest} for this model")
    return int(np.clip(WORK / (entries * CURVE_POINTS), *DRAWS))


def law(model: Network, alpha: float, n: int, draws: int) -> dict[str, float] | None:
    """Mean of one sample's lowest eigenvalue and q2, and a standard deviation up and down; None where there is no law."""
    try:
        found = finite.law(model, alpha, n, draws=draws, seed=SEED)
    except NotConverged:
        return None
    row = {"alpha": alpha}
    for name in ("lowest", "overlap"):
        middle, spread = found.mean(name)[0], found.std(name)
        row |= {name: middle, f"{name}_low": middle - spread, f"{name}_high": middle + spread}
    return row


def doubt(model: Network, alphas: NDArray[np.float64], n: int) -> str:
    """What is to be said where the law is not known to hold."""
    return f": {UNKNOWN}" if doubts(model, list(alphas), [n]) else ""
