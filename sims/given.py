"""Hessians on inputs of one's own beside what theory says of the same draws, and the verdict on theory there."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from sims import sampling
from sims.backend import pinned
from sims.instance import Instance, chosen, draw, outputs
from theory.answers import Prediction
from theory.checks import ParameterError, count
from theory.given.covariance import heaviest, population
from theory.given.hessian import given
from theory.given.verdict import KINDS, MET, NEITHER, Heavy, Verdict, enough, judge, marks, settled
from theory.model.inputs import Inputs
from theory.model.network import Network, network

# First of the draws without Hessians, how many at once; draws that a heavy row is put into.
_BEYOND, _BATCH, _PUT = 2**24, 48, 8
_HALVES = 2  # draws of which theory is asked from either half of the rows too


@pinned
def predicted(
    drawn: Instance, *, half: int | None = None, put: int | None = None
) -> tuple[Prediction, Prediction]:
    """What theory says of one draw on inputs of one's own: with tau = 1, and with the tau of each row.

    half   0 or 1: with the covariance of every other row alone
    put    number of a row that takes the place of the first of the draw's

    Raises ParameterError for a model without inputs of its own.
    """
    rows = _inputs(drawn.model)
    which = chosen(drawn.words, rows.count, drawn.m)
    student, teacher = np.asarray(drawn.student, np.float64), np.asarray(drawn.teacher, np.float64)
    if put is None:
        taken, y = rows.take(which), outputs(drawn)
    else:
        which = np.concatenate([[put], which[which != put][: drawn.m - 1]])
        taken = rows.take(which)
        y = outputs(drawn, taken @ teacher.T / np.sqrt(rows.n))
    return given(drawn.model, population(rows, half), taken, student, teacher, y)


@pinned
def judged(
    model: Network, alpha: float, samples: int = 16, most: int = 64, seed: int = 0, *, solver: str = "auto"
) -> Verdict:
    """What theory says of inputs of one's own at one alpha, with the verdict by which it may be said.

    Hessians of some samples (`sims.sample`) are solved, theory is asked of each, and they are compared: see
    `theory.given.verdict`.

    Parameters
    ----------
    model : Network
        With `inputs`, of finite p.
    alpha : float
        M / N.
    samples, most : int
        How many draws, at least 8 for a verdict other than "neither"; twice as many, up to `most`, as long as more may tell.
    seed : int
        Of all draws.
    solver : str
        As in `sims.sample`.

    Returns
    -------
    Verdict

    Raises
    ------
    ParameterError
        For a model without inputs of its own, or more samples than these have rows.
    """
    rows, start = _inputs(model), 0
    until, most = count("samples", samples), count("most", most)
    columns: list[NDArray] = []
    while True:
        numbers = range(start, until)
        found = sampling.sample_point(model, rows.n, alpha, numbers, seed, eigenpairs=1, solver=solver)
        said = predictions(model, rows.n, alpha, numbers, seed)
        columns.append(np.column_stack([found.eigenvalues, found.overlaps, said]))
        whole = np.concatenate(columns)
        verdict = verdict_of(model, alpha, seed, whole[:, 0], whole[:, 1], whole[:, 2:])
        if not verdict.open or until >= most:
            return verdict
        start, until = until, min(2 * until, most)


def verdict_of(
    model: Network, alpha: float, seed: int, lowest: NDArray, overlaps: NDArray, said: NDArray
) -> Verdict:
    """The verdict from lowest eigenvalues and overlaps (S,) of samples and the `predictions` (S, 6) of the same; theory's means
    are those of more draws of the seed, of which no Hessian is solved.

    Parameters
    ----------
    model : Network
        With `inputs`.
    alpha : float
        M / N of the samples.
    seed : int
        Of their draws.
    lowest, overlaps : arrays (S,)
        Of each sample: lowest eigenvalue, in units of the Hessian, and q2 of its vector; NaN where it failed.
    said : array (S, 6)
        `predictions` of the same samples.

    Returns
    -------
    theory.given.verdict.Verdict
    """
    rows = _inputs(model)
    try:
        own = marks(rows)
    except ParameterError as error:
        return Verdict(NEITHER, reason=str(error))
    halves = said[np.isfinite(said[:, 4:]).all(axis=1), 4:]
    found, gaussian, elliptical = np.column_stack([lowest, overlaps]), said[:, [0, 2]], said[:, [1, 3]]
    verdict = judge(found, gaussian, elliptical, own, halves=halves)
    if verdict.kind == NEITHER:
        return verdict
    law = KINDS.index(verdict.kind)
    known = said[np.isfinite(lowest)][:, [law, law + 2]]
    pairs, batch, heavy = len(known), 0, None
    while np.isfinite(known[:, 0]).all():
        if enough(known[:, 0], heavy or ()):
            if heavy is not None:
                break
            heavy = _heavy(model, alpha, seed, len(known), law)
            continue
        known = np.concatenate([known, _more(model, alpha, seed, batch)[:, [law, law + 2]]])
        batch += 1
    return settled(verdict, known, pairs, heavy or ())


@lru_cache(maxsize=64)
def _more(model: Network, alpha: float, seed: int, batch: int) -> NDArray[np.float64]:
    """`predictions` of draws beside those with Hessians."""
    first = _BEYOND + batch * _BATCH
    return predictions(model, _inputs(model).n, alpha, range(first, first + _BATCH), seed)


@lru_cache(maxsize=64)
def _heavy(model: Network, alpha: float, seed: int, draws: int, law: int) -> tuple[Heavy, ...]:
    """What the 1, 4, 16 .. heaviest rows do that fewer than MET of so many draws meet: each put into some draws."""
    rows = _inputs(model)
    n, found, count = rows.n, [], 1
    order, numbers = heaviest(rows), range(_BEYOND, _BEYOND + _PUT)
    drawn = [draw(model, n, alpha, seed=seed, sample=number, data=False) for number in numbers]
    without = [predicted(each)[law].lowest for each in drawn]
    share = draw(model, n, alpha, seed=seed, data=False).m / rows.count
    while count < len(order) and (met := 1 - (1 - share) ** count) * draws < MET:
        put = [int(order[i * count // _PUT % count]) for i in range(_PUT)]
        changed = [predicted(each, put=row)[law].lowest for each, row in zip(drawn, put, strict=True)]
        found.append(Heavy(count, met, float(np.mean(np.abs(np.subtract(changed, without))))))
        count *= 4
    return tuple(found)


@pinned
def predictions(
    model: Network, n: int, alpha: float, samples: Iterable[int], seed: int
) -> NDArray[np.float64]:
    """What theory says of each sample, (S, 6): lowest eigenvalue and q2 with tau = 1 and tau (in this order: two lowest, two
    q2), and by how much the two differ between the halves of the rows; NaN beyond the first two samples.

    Parameters
    ----------
    model : Network
        With `inputs`.
    n, alpha : int, float
        N, the number of columns of the inputs, and M / N.
    samples : iterable of int
        Numbers of draws.
    seed : int
        Of all of them.

    Returns
    -------
    array (S, 6)
        Eigenvalues in units of the Hessian.

    Raises
    ------
    theory.checks.ParameterError
        As `sims.sample`.
    """
    found = np.full((len(numbers := list(samples)), 6), np.nan)
    for row, number in zip(found, numbers, strict=True):
        drawn = draw(model, n, alpha, seed=seed, sample=count("sample", number, 0), data=False)
        try:
            plain, scaled = predicted(drawn)
            row[:4] = plain.lowest, scaled.lowest, plain.overlap, scaled.overlap
            if number < _HALVES:
                first, second = (predicted(drawn, half=half)[1] for half in (0, 1))
                row[4:] = second.lowest - first.lowest, second.overlap - first.overlap
        except ParameterError:
            continue  # rows that vary in too few directions: samples are all there is, and the verdict says why
    return found


def _inputs(model: Network) -> Inputs:
    rows = network(model).inputs
    if rows is None:
        raise ParameterError("inputs must be given: Network(..., inputs=Inputs.of(X))")
    return rows
