"""The sweep file: samples of the Hessian over (n, alpha, sample, eigenpair) beside the theory, as one `xarray.Dataset`.

    n, alpha, sample, eigenpair              coordinates
    eigenvalues, overlaps, residuals         (n, alpha, sample, eigenpair), lowest first; NaN where not run
    max_overlap_rank                         (n, alpha, sample), NaN where unknown
    status, reason                           (n, alpha, sample): 0 not run, 1 done, 2 failed and why
    theory_edge, theory_outlier, theory_overlap   (alpha), NaN where there is none
    theory_n_lowest, theory_n_overlap, theory_n_informative   (n, alpha): theory.finite.law, means over theory_n_draws (n)
        draws; theory_n_lowest_error, _std, ...   standard errors, and the scatter of one draw; NaN where it would take too long
    NAME                                     (n, alpha, sample) or with eigenpair: an observable of one's own, whose attributes
        `observable` and `source` say where it lies, and the hash of its source
    unit_n, unit_alpha, ...                  (unit): which samples were computed together, where, in what time
    attributes                               p, p_star, a, alpha_bbp, kind, seed, dtype, device, prng, versions (JSON), commit,
                                             finished, config (JSON: every option that decides the numbers)

Of a product over (p, p_star, a) all that depends on the model has the dimension `model` (`bbp.files.product`). In the file
(`bbp.files.dataset`) theory_edge is /theory/edge, theory_n_lowest is /theory_n/lowest and config is /config.
"""

from __future__ import annotations

from pathlib import Path

import xarray as xr

from bbp.console.errors import FileError
from bbp.experiments import models
from bbp.files import dataset, product

FORMAT = "bbp-sweep"


def load(path: str | Path, model: int | None = None, *, locking: dataset.Locking = None) -> xr.Dataset:
    """The sweep in the file at `path`; of a product over models, that of the one with index `model`.

    Raises FileError as `bbp.files.dataset.open` does, and where there are several models and none is chosen.

    >>> sweep = load("data/finite_size/c200.h5")
    >>> sweep.kind, sweep.n.values.tolist()
    ('continuous', [200])
    """
    return chosen(dataset.open(path, FORMAT, locking=locking), model, repr(str(path)))


def chosen(found: xr.Dataset, model: int | None, name: str) -> xr.Dataset:
    """One model's sweep of a product, by its index, or the only one; FileError, which calls the file `name`."""
    sweeps = product.split(found)
    if model is None and len(sweeps) == 1:
        return sweeps[0]
    if model is None or not 0 <= model < len(sweeps):
        held = "; ".join(f"{i}: {models.words(models.of(sweep))}" for i, sweep in enumerate(sweeps[:8]))
        more = "; ..." if len(sweeps) > 8 else ""
        wanted = (
            "choose one by its index (bbp plot --model INDEX)" if model is None else f"none has index {model}"
        )
        raise FileError(f"{name} holds {len(sweeps)} models ({held}{more}): {wanted}")
    return sweeps[model]


def load_all(path: str | Path, *, locking: dataset.Locking = None) -> list[xr.Dataset]:
    """The sweep of every model in the file at `path`, in order. Raises FileError."""
    return product.split(dataset.open(path, FORMAT, locking=locking))
