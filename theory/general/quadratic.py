"""The law of weights of the quadratic committee for `theory.general.isotropic`: the exact averages of `theory.exact.averages`.

Noise before the teacher's square and a covariance of the inputs keep all digits: the averages are those of one Laplace
integral. Units are those of the Hessian, or of (p/2) H for p = inf. Students never have outliers of their own on the left
(`theory.exact.student_directions`: K <= X, whatever the covariance), so the one block is the teacher's.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from theory.exact.averages import Widths, average, kernel_k, kernel_u, kernel_v, kernel_w
from theory.exact.bulk import unit
from theory.general.isotropic import Averages, Block


class QuadraticLaw:
    """Averages of a quadratic Network (`is_quadratic`) with any noise."""

    closed = True

    def __init__(self, model: Any):
        self.models = Widths.of([model.p], model.p_star, model.a, model.noise)
        self.unit = unit(model)
        self.q_min = self.scale = self.unit
        one = np.eye(1)
        self.blocks: tuple[Block, ...] = (Block("teacher", one, 0 * one, model.degeneracy),)

    def at(self, d: float) -> Averages:
        """K, K2, X and X2 at q = unit + d: with t = unit/q, K2 = W/t^2, X = K - U/t and X2 = V/t^2, in units of the unit."""
        q = self.unit + d
        t, rest = self.unit / q, d / q
        k, w, u, v = (
            float(value[0])
            for value in average(
                [kernel_k, kernel_w, kernel_u, kernel_v], self.models, np.array([t]), np.array([rest])
            )
        )
        scale = self.unit
        x = scale * (k - u / t)
        return Averages(
            scale * k, scale**2 * w / t**2, [np.array([[x]])], [np.array([[scale**2 * v / t**2]])]
        )
