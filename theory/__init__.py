"""Spectral theory of the Hessian of quadratic committees at random initialisation. NumPy and SciPy only.

Exported here is the theory of N = infinity. Finite N is in `theory.quenched`, `theory.finite_size`,
`theory.finite_threshold`; other weights in `theory.general` and `theory.spectral_methods`.
"""

from theory.alpha_zero import alpha_zero
from theory.bulk import bulk_edge
from theory.checks import NotConverged, ParameterError
from theory.density import atom, density, moment, stieltjes
from theory.model import Committee
from theory.outliers import outlier, teacher_branch
from theory.transition import bbp_threshold, critical_normalisation, critical_width, threshold_map

__all__ = [
    "Committee",
    "NotConverged",
    "ParameterError",
    "alpha_zero",
    "atom",
    "bbp_threshold",
    "bulk_edge",
    "critical_normalisation",
    "critical_width",
    "density",
    "moment",
    "outlier",
    "stieltjes",
    "teacher_branch",
    "threshold_map",
]
