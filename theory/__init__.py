"""Spectral theory of the Hessian of quadratic committees at random initialisation. NumPy and SciPy only."""

from theory.bulk import bulk_edge
from theory.checks import NotConverged, ParameterError
from theory.model import Committee
from theory.outliers import outlier, teacher_branch
from theory.transition import bbp_threshold, threshold_map

__all__ = [
    "Committee",
    "NotConverged",
    "ParameterError",
    "bbp_threshold",
    "bulk_edge",
    "outlier",
    "teacher_branch",
    "threshold_map",
]
