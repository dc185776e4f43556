"""Spectral theory of the Hessian of quadratic committees at random initialisation. NumPy and SciPy only.

Exported here is the theory of N = infinity. Finite N is in `theory.finite.quenched`, `theory.finite.edge`,
`theory.finite.threshold`; other weights in `theory.general.any_weight` and `theory.general.spectral_methods`.
"""

from theory.checks import NotConverged, ParameterError
from theory.exact.alpha_zero import alpha_zero, alpha_zero_map
from theory.exact.bulk import Edge, bulk_edge, riemannian_shift, z_of_g
from theory.exact.density.density import atom, density, moment, stieltjes
from theory.exact.outliers import Outlier, TeacherBranch, edge_gap, outlier, teacher_branch
from theory.exact.student_directions import StudentDirection, student_outliers
from theory.exact.transition import (
    Threshold,
    ThresholdMap,
    bbp_threshold,
    critical_normalisation,
    critical_width,
    threshold_map,
)
from theory.model import Committee, Network

__all__ = [
    "Committee",
    "Edge",
    "Network",
    "NotConverged",
    "Outlier",
    "ParameterError",
    "StudentDirection",
    "TeacherBranch",
    "Threshold",
    "ThresholdMap",
    "alpha_zero",
    "alpha_zero_map",
    "atom",
    "bbp_threshold",
    "bulk_edge",
    "critical_normalisation",
    "critical_width",
    "density",
    "edge_gap",
    "moment",
    "outlier",
    "riemannian_shift",
    "stieltjes",
    "student_outliers",
    "teacher_branch",
    "threshold_map",
    "z_of_g",
]
