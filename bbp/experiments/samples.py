"""What each sample of a sweep gives, and what computes it, in this process or others: an observable more is a `Field` and its
values; and about how many seconds it takes on one core, which a dry run scales to this machine by samples timed on it.

Imports neither xarray nor h5py, which processes that only compute need not wait for.

Dense constants are fitted to processor times of samples of N = 50 to 1,000, p = 1 and 2, alpha = 1 and 2, which they meet to
7 %; the others are those of docs/accuracy.md ("Large matrices"; the machine is named there).
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any, cast

from bbp.experiments import models, own
from bbp.experiments.columns import Columns, Computation, Field
from sims import sampling
from sims.checks import samples_of
from sims.given import predictions
from sims.signal import Observable
from theory.checks import ParameterError
from theory.model import Network

OUTER = ("n", "alpha")  # the axes of the points; a unit of work has those that follow
_PAIRS = ("sample", "eigenpair")
# An observable more is one line here, and its values in `compute`.
COLUMNS = (
    Field("eigenvalues", _PAIRS),
    Field("overlaps", _PAIRS),
    Field("residuals", _PAIRS),
    Field("student_shares", _PAIRS),
    Field("max_overlap_rank", ("sample",)),
)
# On inputs of one's own: what theory says of each sample, for Gaussian and for elliptical rows, and its difference between
# halves of the rows.
LAWS = ("gaussian", "elliptical")
ROWS = tuple(Field(f"given_{name}", ("sample", "rows_law")) for name in ("lowest", "overlap", "halves"))

CALLS = 0.19e-3  # whatever a dense sample of any size takes
DRAW = 12.5e-9  # a normal variate, copied, and its labels
BUILD = 12.5e-12  # one of the M N^2 p (p + 1) / 2 operations of the rank updates that build the matrix
SPECTRUM = 35e-9  # (p N)^2: all eigenvalues of T, overlaps of all vectors, the lowest pairs
DENSE = 34e-12  # (p N)^3: reduction to tridiagonal form
CACHED = 2000  # order up to which the matrix stays near the processor; beyond, the reduction takes three times as long
KRYLOV = 0.14e-6  # alpha N^2 p: all products of a search with the data (p N of 2,000 to 8,000; draws not stored take longer)
SEARCH = 0.2  # whatever a search takes
LAW = 1.5e-6  # a label of a student's unit in a draw of the finite-N law
LAW_DRAW = 0.5e-3  # whatever a draw takes, and for each student of several


def check_sizes(model: Network, sizes: Sequence[int], alphas: Sequence[float]) -> None:
    """ParameterError unless every point has a sample (M >= 1, and rows where they are one's own) and room for the teacher."""
    for n in sizes:
        for alpha in (alphas[0], alphas[-1]):
            m = samples_of(alpha, n)
            if model.inputs is not None:
                model.inputs.require(m, n)
        if model.p_star > n:
            raise ParameterError(f"p_star must be at most n, got p_star = {model.p_star}, n = {n}")


def own_column(text: own.Text, observable: Observable) -> Field:
    """The column of an observable of one's own (`sims.signal`), of which the text says where it lies."""
    said = (inspect.getdoc(cast(own.Function, text.entry).value) or str(text)).split("\n\n")[0]
    dims = _PAIRS if observable.of_pairs else ("sample",)
    words = " ".join(said.split())
    return Field(observable.name, dims, words=words, place=str(text), source=text.entry.source)


def compute(record: Mapping[str, Any], samples: Sequence[int], *, batch: int | None = None) -> Columns:
    """Samples of one point: every column of `COLUMNS`, as sims.sampling gives it."""
    model = models.build(record)
    asked = record.get("observable") or ()
    measures = [
        Observable(text.short, text.entry, of == "eigenpair")
        for text, of in zip(asked, record.get("observable_of", ()), strict=True)
    ]
    found = sampling.sample_point(
        model,
        record["n"],
        record["alpha"],
        list(samples),
        record["seed"],
        eigenpairs=record["eigenpairs"],
        dtype=record["dtype"],
        solver=record["solver"],
        batch=batch,
        observables=measures,
    )
    # An observable that sims.sampling gives under its declared name is taken from there; another is added here.
    columns = {field.name: getattr(found, field.name) for field in COLUMNS if hasattr(found, field.name)}
    columns |= found.measured
    if model.inputs is not None:
        said = predictions(model, record["n"], record["alpha"], samples, record["seed"])
        columns |= {field.name: said[:, 2 * i : 2 * i + 2] for i, field in enumerate(ROWS)}
    return columns | {"reason": found.reasons}


def _sizes(record: Mapping[str, Any]) -> dict[str, int]:
    return {"eigenpair": record["eigenpairs"], "rows_law": len(LAWS)}


COMPUTATION = Computation(compute, COLUMNS, _sizes, drawn=True)


def sample_seconds(p: int, n: int, alpha: float, solver: str) -> float:
    """Seconds of one sample by the solver "dense" or "krylov".

    >>> round(sample_seconds(2, 1000, 1.0, "dense"), 2), round(sample_seconds(2, 4000, 1.0, "krylov"), 1)
    (0.46, 4.9)
    """
    m, order = alpha * n, p * n
    if solver == "krylov":
        return SEARCH + DRAW * m * n + KRYLOV * m * n * p
    reduction = DENSE * order**3 * (1 if order <= CACHED else 3)
    return CALLS + DRAW * m * n + BUILD * m * n**2 * p * (p + 1) / 2 + SPECTRUM * order**2 + reduction


def law_seconds(p: int, n: int, alpha: float, draws: int) -> float:
    """Seconds of `theory.finite.law` at one alpha: by the labels it draws, and by the draw."""
    return draws * (LAW * alpha * n * p + LAW_DRAW * p)
