"""What each sample of a sweep gives, and what computes it, in this process or others: an observable more is a `Field` and its
values.

Imports neither xarray nor h5py, which processes that only compute need not wait for.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from bbp.engine import executors
from bbp.engine.tasks import REASON, STATUS, Columns, Field, Kind
from bbp.experiments import models
from sims import sampling
from sims.given import predictions
from sims.instance import STREAM
from sims.observables import Observable

OUTER = ("n", "alpha")  # the axes of the points; a unit of work has those that follow
_PAIRS = ("sample", "eigenpair")
# An observable more is one line here, and its values in `compute`.
COLUMNS = (
    Field("eigenvalues", _PAIRS),
    Field("overlaps", _PAIRS),
    Field("residuals", _PAIRS),
    Field("student_shares", _PAIRS),
    Field("max_overlap_rank", ("sample",), "i8", -1),
    STATUS,
    REASON,
)
# On inputs of one's own: what theory says of each sample, for Gaussian and for elliptical rows, and its difference between
# halves of the rows.
LAWS = ("gaussian", "elliptical")
ROWS = tuple(Field(f"given_{name}", ("sample", "rows_law")) for name in ("lowest", "overlap", "halves"))


def own_column(name: str, observable: Any) -> Field:
    """The column of an observable of one's own (`sims.observables`), which `name` says where it lies."""
    said = (inspect.getdoc(observable.value.value) or name).split("\n\n")[0]
    return Field(
        observable.name,
        _PAIRS if observable.of_pairs else ("sample",),
        words=" ".join(said.split()),
    )


def compute(given: Mapping[str, Any], samples: Sequence[int], *, batch: int | None = None) -> Columns:
    """Samples of one point: every column of `COLUMNS`, as sims.sampling gives it."""
    model = models.build(given)
    asked = given.get("observable") or ()
    measures = [
        Observable(text.short, text.entry, of == "eigenpair")
        for text, of in zip(asked, given.get("observable_of", ()), strict=True)
    ]
    found = sampling.sample_point(
        model,
        given["n"],
        given["alpha"],
        list(samples),
        given["seed"],
        eigenpairs=given["eigenpairs"],
        dtype=given["dtype"],
        solver=given["solver"],
        batch=batch,
        observables=measures,
    )
    # An observable that sims.sampling gives under its declared name is taken from there; another is added here.
    columns = {field.name: getattr(found, field.name) for field in COLUMNS if hasattr(found, field.name)}
    columns |= found.measured
    if model.inputs is not None:
        said = predictions(model, given["n"], given["alpha"], samples, given["seed"])
        columns |= {field.name: said[:, 2 * i : 2 * i + 2] for i, field in enumerate(ROWS)}
    return columns | {"reason": found.reasons}


def _sizes(given: Mapping[str, Any]) -> dict[str, int]:
    return {"eigenpair": given["eigenpairs"], "rows_law": len(LAWS)}


def stream() -> str:
    """The name of the random stream, where this runs."""
    return STREAM


KIND = Kind(compute, COLUMNS, _sizes, executors.device, stream)
