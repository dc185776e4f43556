"""Student directions of the Hessian: none of them leaves the bulk on the left (proof: docs/theory.md, "Student directions").

The p^2 directions e_k (x) w_m split under O(p); an eigenvalue outside the bulk would sit at z(g) = alpha T(g)
(arXiv 2510.18435), with

    antisymmetric (rotations of W)  T = E[yhat phi_1]
    singlet (W itself)              T = E[yhat phi_2]
    traceless symmetric             T = E[yhat phi_1] + 2 E[yhat (phi_2 - phi_1)]/(p + 2).

There would be one exactly when alpha t (K - T) > 1 at the edge, and t (K - T) <= 0 for every model and every t in (0, 1].
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from theory.checks import numpy_defaults, one, ratio
from theory.exact.averages import average, kernel_k, kernel_yhat_phi
from theory.exact.bulk import problems
from theory.exact.conditions import edge_root, split
from theory.model.network import Network


@dataclass(frozen=True)
class StudentDirection:
    """One irreducible set of student directions at one alpha.

    name        "antisymmetric", "singlet" or "traceless symmetric"
    degeneracy  its dimension: p(p-1)/2, 1, p(p+1)/2 - 1
    margin      alpha t (K - T) at the edge: an outlier would need it above 1; it is never positive
    value       eigenvalue left of the bulk: None, as there is none
    overlap     its squared overlap with these directions: None likewise
    """

    name: str
    degeneracy: int | float
    margin: float
    value: float | None = None
    overlap: float | None = None


@numpy_defaults
def student_outliers(model: Network, alpha: float) -> list[StudentDirection]:
    """The three kinds of student directions and, for each, that no eigenvalue leaves the bulk (for any model and alpha).

    Raises ParameterError unless alpha is one positive number. Directions of degeneracy 0 (p = 1) are left out.

    >>> [direction.name for direction in student_outliers(Network(2, 1, 1.0), 1.5)]
    ['antisymmetric', 'singlet', 'traceless symmetric']
    """
    models, alphas, _ = problems(model, one("alpha", ratio("alpha", alpha)))
    t, rest = split(edge_root(models, alphas))
    (k,) = average([kernel_k], models, t, rest)
    (first,), (second,) = (average([kernel_yhat_phi], models, t, rest, branches=(c,)) for c in (1, 3))
    mixed = first if math.isinf(model.p) else first + 2 * (second - first) / (model.p + 2)
    kinds = (
        ("antisymmetric", model.p * (model.p - 1) / 2, first),
        ("singlet", 1, second),
        ("traceless symmetric", model.p * (model.p + 1) / 2 - 1, mixed),
    )
    return [
        StudentDirection(name, _whole(size), float(np.squeeze(alphas * t * (k - mean))))
        for name, size, mean in kinds
        if size
    ]


def _whole(size: float) -> int | float:
    return size if math.isinf(size) else int(size)
