"""Averages of the spike block Xi over the symmetries of a network: permutations of its students and, for even ones, signs.

Points of a cloud have the symmetry of their law on average only. It splits equal outliers, and the largest of several margins
split by noise is too large: a threshold would come out too low. An average over the group, entry by entry over the orbits of
the indices (spike, student, spike, student), is that of the cloud with all its images. The Dyson equation of all images has a
Q that the group leaves as it is, so that one needs one or two numbers of it (`invariant_span`). Left to a cloud, Q is the
maximum over p (p + 1)/2 of them: each adds to the edge what noise there is, and roots are too large.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from theory.general.symmetric import symmetric
from theory.model.network import Network

Array = NDArray[Any]


def symmetric_students(model: Network) -> bool:
    """Whether the model stays the same when its students are permuted, teachers with them where they overlap."""
    alike = model.gram is None and not isinstance(model.overlap, tuple) and equal_students(model)
    together = model.p_star == model.p and model.target is None
    return alike and (model.overlap == 0.0 or model.p_star == 1 or together)


def equal_students(model: Network) -> bool:
    """Whether all students enter the output alike: equal readouts, equal biases."""
    return all(numbers is None or len(set(numbers)) == 1 for numbers in (model.readout, model.bias))


def orbit_labels(model: Network, teachers: int, owns: int) -> NDArray[np.intp] | None:
    """Orbit of every entry of a block Xi (k p, k p) of `teachers` teacher directions and then `owns` (0 or p) students' own;
    -1 for those that vanish. None for a model without symmetry."""
    if not symmetric_students(model):
        return None
    even = model.even_students
    return _labels(int(model.p), teachers, owns, model.overlap != 0.0 and teachers == model.p > 1, even)


@lru_cache(maxsize=64)
def _labels(p: int, teachers: int, owns: int, together: bool, even: bool) -> NDArray[np.intp]:
    spikes = [("u", t if together else p + t) for t in range(teachers)] + [("w", k) for k in range(owns)]
    rows = [(kind, index, j) for kind, index in spikes for j in range(p)]
    table: dict[Any, int] = {}
    labels = np.empty((len(rows), len(rows)), dtype=np.intp)
    for a, (kind, i, j) in enumerate(rows):
        for b, (other, k, m) in enumerate(rows):
            names: dict[
                int, int
            ] = {}  # students in the order in which they are met; teachers that stay keep their number
            pattern = tuple(v if v >= p else names.setdefault(v, len(names)) for v in (i, j, k, m))
            signs = [j, m] + ([i] if kind == "w" else []) + ([k] if other == "w" else [])
            gone = even and any(signs.count(v) % 2 for v in signs)
            labels[a, b] = -1 if gone else table.setdefault((kind, other, pattern), len(table))
    labels.setflags(write=False)
    return labels


def invariant_span(model: Network) -> Array | None:
    """Orthonormal coordinates (D, d) of the symmetric p x p matrices that the symmetries of a model leave as they are:
    multiples of I, and for students that are not even of the matrix of ones too. None without symmetry, or for p = 1."""
    p = int(model.p)
    if p == 1 or not symmetric_students(model):
        return None
    even = model.even_students
    kept = [np.eye(p)] if even else [np.eye(p), np.ones((p, p)) - np.eye(p)]
    return np.stack([symmetric(p).coordinates(m / np.linalg.norm(m)) for m in kept], axis=1)


def orbit_average(matrix: Array, labels: NDArray[np.intp] | None) -> Array:
    """The matrix averaged over the orbits."""
    if labels is None:
        return matrix
    kept = labels >= 0
    sums = np.bincount(labels[kept], matrix[kept])
    means = sums / np.bincount(labels[kept])
    averaged = np.where(kept, means[np.where(kept, labels, 0)], 0.0)
    return (averaged + averaged.T) / 2
