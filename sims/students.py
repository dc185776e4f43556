"""Students at given overlaps with the teacher and with one another, from rows drawn at random."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from theory.checks import ParameterError
from theory.model.network import Network, network


def placed(model: Network, rows: NDArray, teacher: NDArray) -> NDArray:
    """Students (p, N) at the model's overlaps with the teacher (p_star, N), from rows (p, N) drawn at random.

    Without overlap and Gram matrix the rows themselves, which meet the teacher by chance, O(N^{-1/2}). With an overlap R
    student k is R_k W* + sqrt(1 - |R_k|^2) times its own direction, its row less the part in the teacher's span:
    w_k.w*_l / N is R_kl exactly, and own directions meet by chance. With a Gram matrix own directions are made orthogonal
    too: w_k.w_j / N is Q_kj. Raises ParameterError where N leaves no room for the directions.
    """
    gram, overlap = getattr(model, "gram", None), getattr(model, "overlap", 0.0)
    if gram is None and overlap == 0.0:
        return rows
    wide, p, (p_star, n) = network(model), len(rows), teacher.shape
    need = p_star + (1 if gram is None else p)
    if need > n:
        raise ParameterError(f"N must be at least {need} for students at given overlaps, got {n}")
    w, r = teacher.astype(np.float64), wide.overlap_matrix
    own = rows - (rows @ w.T / n) @ w
    if gram is None:
        length = np.sqrt(np.clip(1 - np.sum(r**2, axis=1), 0, None))[:, None]
        return (r @ w + length * on_sphere(own)).astype(rows.dtype)
    q, triangle = np.linalg.qr(own.T)
    own = (q * np.where(np.diag(triangle) < 0, -1, 1)).T * math.sqrt(n)
    return (wide.mixing() @ np.concatenate([w, own])).astype(rows.dtype)


def on_sphere(rows: NDArray) -> NDArray:
    """Rows (..., N) scaled to norm sqrt(N)."""
    return rows * (math.sqrt(rows.shape[-1]) / np.linalg.norm(rows, axis=-1, keepdims=True)).astype(
        rows.dtype
    )
