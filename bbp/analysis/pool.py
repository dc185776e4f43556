"""Sweeps of one model from several files put together: the union of their n, alpha and samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from bbp.store import ABOUT, NOT_RUN, Sweep
from theory.checks import ParameterError

SEVERAL = "several"  # in place of the seed, where samples of several streams were put together
_FOUR, _THREE = ("eigenvalues", "overlaps", "residuals"), ("max_overlap_rank", "status", "reason")
_EMPTY = {"max_overlap_rank": -1, "status": NOT_RUN, "reason": ""}


def pool(sweeps: Sequence[Sweep]) -> list[Sweep]:
    """One sweep for each model, in order of first appearance.

    Samples of one (n, alpha) from several sweeps follow each other; a draw (seed, n, alpha, sample) that appears twice
    counts once. Eigenpairs are those that all sweeps of the model hold. Raises ParameterError on nothing to pool.
    """
    if not sweeps:
        raise ParameterError("no sweep to compare")
    by_model: dict = {}
    for sweep in sweeps:
        by_model.setdefault(sweep.model, []).append(sweep)
    return [group[0] if len(group) == 1 else _merge(group) for group in by_model.values()]


def _merge(sweeps: Sequence[Sweep]) -> Sweep:
    n = np.unique(np.concatenate([s.n for s in sweeps]))
    alpha = np.unique(np.concatenate([s.alpha for s in sweeps]))
    pairs = min((s.eigenpair for s in sweeps), key=len)
    cells: dict[tuple[int, int], list[tuple[Sweep, int, int, int]]] = {}
    seen = set()
    for sweep in sweeps:
        for index in np.ndindex(sweep.status.shape):
            i, j, k = index
            draw = (
                sweep.attributes.get("prng"),
                sweep.attributes.get("seed"),
                int(sweep.n[i]),
                float(sweep.alpha[j]),
                int(sweep.sample[k]),
            )
            if sweep.status[index] == NOT_RUN or draw in seen:
                continue
            seen.add(draw)
            place = int(np.searchsorted(n, sweep.n[i])), int(np.searchsorted(alpha, sweep.alpha[j]))
            cells.setdefault(place, []).append((sweep, i, j, k))
    width = max((len(entries) for entries in cells.values()), default=0)
    arrays: dict[str, Any] = _empty(sweeps[0], (len(n), len(alpha), width, len(pairs)))
    streams = {(s.attributes.get("prng"), s.attributes.get("seed")) for s in sweeps}
    drawn_again = len(streams) == 1
    for (i, j), entries in cells.items():
        for k, (sweep, *source_index) in enumerate(entries):
            drawn_again &= int(sweep.sample[source_index[2]]) == k
            for name in ABOUT:
                source = getattr(sweep, name)[tuple(source_index)]
                arrays[name][i, j, k] = source[: len(pairs)] if name in _FOUR else source
    theory: dict[str, Any] = {
        name: _join_theory(sweeps, name, alpha) for name in ("edge", "outlier", "overlap")
    }
    # with samples of several seeds, or renumbered, an index no longer names a draw
    known = sweeps[0].attributes if drawn_again else {**sweeps[0].attributes, "seed": SEVERAL}
    axes: dict[str, Any] = {"n": n, "alpha": alpha, "sample": np.arange(width), "eigenpair": pairs}
    return replace(sweeps[0], **axes, attributes=known, **arrays, **theory)


def _empty(like: Sweep, shape: tuple[int, ...]) -> dict:
    arrays = {name: np.full(shape, np.nan) for name in _FOUR}
    for name in _THREE:
        arrays[name] = np.full(shape[:3], _EMPTY[name], dtype=getattr(like, name).dtype)
    return arrays


def _join_theory(sweeps: Sequence[Sweep], name: str, alpha: np.ndarray) -> np.ndarray:
    joined = np.full(len(alpha), np.nan)
    for sweep in sweeps:
        joined[np.searchsorted(alpha, sweep.alpha)] = getattr(sweep, name)
    return joined
