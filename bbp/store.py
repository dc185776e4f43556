"""An old name: sweeps are opened by `bbp.open`, and of several models chosen by `bbp.files.product`."""

from __future__ import annotations

from pathlib import Path

import xarray as xr

from bbp.files import dataset, product


def load(path: str | Path, model: int | None = None, *, locking: dataset.Locking = None) -> xr.Dataset:
    """The sweep in the file at `path`; of a product over models, that of the one with index `model`. Raises FileError.

    >>> load("data/finite_size/c200.h5").n.values.tolist()
    [200]
    """
    return product.chosen(dataset.open(path, dataset.SWEEP, locking=locking), model, repr(str(path)))
