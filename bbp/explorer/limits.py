"""How much one page may ask of the machine."""

from __future__ import annotations

import math

from bbp.explorer.state import State
from theory.checks import ParameterError

PAGES = 24  # open at once
UPLOAD = 16 * 2**20  # bytes of a sweep file sent by the page
DENSE_ORDER = 2000  # of p N, up to which every eigenvalue is computed
KRYLOV_DATA = 3e7  # entries of the data, M N, up to which the lowest are
KRYLOV_ORDER = 60_000
GROUP = 128  # p p*, the eigenvalues that carry the teacher
WEIGHTS = 2e7  # entries of the weights, M p^2
SPARE = 60  # eigenvalues beyond them that the histogram of a large sample shows
SAMPLES_KEPT = 40  # dots on a page
SWEEP_POINTS = 5_000  # of an opened file


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
    if order <= DENSE_ORDER:
        return order, "dense"
    return size + SPARE, "krylov"
