"""Small made-up sweeps for tests of files: right shapes, arbitrary numbers."""

import numpy as np

from bbp.store import DONE, FAILED, NOT_RUN, Sweep
from theory.model import Committee


def made_up(model=None, n=(20, 40), alphas=(0.5, 1.0, 2.0), samples=4, seed=0):
    """A `Sweep` with one failed and one missing sample."""
    model = model or Committee(1, 1, 0.5)
    rng = np.random.default_rng(seed)
    shape = (len(n), len(alphas), samples, 5)
    status = np.full(shape[:3], DONE, dtype=np.int8)
    status[0, 0, 1], status[0, 1, 2] = FAILED, NOT_RUN
    reason = np.full(shape[:3], "", dtype=object)
    reason[0, 0, 1] = "eigensolver: no convergence é"
    values = np.sort(rng.normal(size=shape), axis=-1)
    values[status != DONE] = np.nan
    return Sweep(
        model=model,
        alpha_bbp=1.38,
        kind="continuous",
        n=np.array(n),
        alpha=np.array(alphas),
        sample=np.arange(samples),
        eigenpair=np.arange(5),
        eigenvalues=values,
        overlaps=np.where(status[..., None] == DONE, rng.uniform(size=shape), np.nan),
        residuals=np.full(shape, 1e-14),
        max_overlap_rank=rng.integers(0, 9, size=shape[:3]),
        status=status,
        reason=reason,
        edge=np.array([-2.2, -2.1, -1.8]),
        outlier=np.array([np.nan, np.nan, -1.9]),
        overlap=np.array([np.nan, np.nan, 0.1]),
        config={"samples": samples, "long": "x" * 100_000},
        provenance={"seconds": np.array([0.1, 0.2]), "host": np.array(["one", "two"], dtype=object)},
        attributes={"seed": seed, "dtype": "float64", "device": "cpu", "finished": 0},
    )
