"""The teacher's direction in the Hessian at minima: whether they are stable against it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from theory.minima.labels import Labels
from theory.minima.saddle import Saddle

Array = NDArray[np.float64]


def towards_teacher(nodes: Labels, alpha: float, found: Saddle) -> tuple[float, float]:
    """s - Xi at the multiplier s of the sphere, positive where the teacher makes an eigenvalue below it, and the squared
    overlap with the teacher of an eigenvector whose eigenvalue is s.

    The gradient that vanishes has used the data in one direction, that of the forces l'; the rest of the data are as they
    were. Conditioned theory with this one force (`theory.path`), v the teacher's part outside the student, B = 1/(1 + r F):

        Xi = alpha E[v^2 F B] + r c^2/d,   c = alpha E[v l' F B],   d = alpha E[l'^2 B],   overlap = 1/(1 - dXi/dz),

    along z = alpha E[F B] - 1/r. At the edge dz/dr = 0, and so is the overlap.
    """
    r, f, force, v = found.r, nodes.weight, nodes.force, nodes.v
    p, one = alpha * found.probability, 1 + r * f
    b = np.divide(1, one, out=np.zeros_like(one), where=(one > 0) & (p > 0))
    c, d = float(p @ (v * force * f * b)), float(p @ (force**2 * b))
    xi = float(p @ (v**2 * f * b)) + r * c**2 / d
    square = (f * b) ** 2  # dB/dr = -F B^2
    c_r, d_r = -float(p @ (v * force * square)), -float(p @ (force**2 * f * b**2))
    xi_r = -float(p @ (v**2 * square)) + c**2 / d + r * (2 * c * c_r / d - c**2 * d_r / d**2)
    z_r = 1 / r**2 - float(p @ square)
    s = float(p @ (nodes.lam * force))
    overlap = z_r / (z_r - xi_r) if z_r > 0 else 0.0
    return s - xi, overlap
