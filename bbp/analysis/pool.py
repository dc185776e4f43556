"""Sweeps of one model from several files put together: the union of their n, alpha and samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bbp.files.table import Field
from bbp.store import COLUMNS, NOT_RUN, SAMPLED, THEORY, Sweep
from theory.checks import ParameterError

SEVERAL = "several"  # in place of the seed, where samples of several streams were put together


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
    axes = {"n": n, "alpha": alpha, "sample": np.arange(width), "eigenpair": pairs}
    sizes = {name: len(values) for name, values in axes.items()}
    held = {
        field.name for field in SAMPLED if not field.optional or all(field.name in s.more for s in sweeps)
    }
    arrays: dict[str, Any] = {field.name: field.empty(sizes) for field in SAMPLED if field.name in held}
    streams = {(s.attributes.get("prng"), s.attributes.get("seed")) for s in sweeps}
    drawn_again = len(streams) == 1
    for (i, j), entries in cells.items():
        for k, (sweep, *source_index) in enumerate(entries):
            drawn_again &= int(sweep.sample[source_index[2]]) == k
            for field in COLUMNS:
                if field.name not in held:
                    continue
                source = sweep[field.name][tuple(source_index)]
                kept = tuple(slice(sizes[dim]) for dim in field.dims[1:])
                arrays[field.name][i, j, k] = source[kept] if kept else source
    for field in THEORY:
        if not field.optional or any(field.name in sweep.more for sweep in sweeps):
            arrays[field.name] = _joined(sweeps, field, axes)
    # with samples of several seeds, or renumbered, an index no longer names a draw
    known = sweeps[0].attributes if drawn_again else {**sweeps[0].attributes, "seed": SEVERAL}
    first = sweeps[0]
    rest = {name: getattr(first, name) for name in ("model", "alpha_bbp", "kind", "config", "provenance")}
    return Sweep.of(axes | arrays, **rest, attributes=known)


def _joined(sweeps: Sequence[Sweep], field: Field, axes: Mapping[str, Any]) -> np.ndarray:
    """A field over coordinates of the sweeps, put together over the union of these."""
    joined = field.empty({name: len(values) for name, values in axes.items()})
    for sweep in sweeps:
        if field.optional and field.name not in sweep.more:
            continue
        places = [np.searchsorted(axes[dim], sweep[dim]) for dim in field.dims]
        joined[np.ix_(*places)] = sweep[field.name]
    return joined
