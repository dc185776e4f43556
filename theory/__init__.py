"""Spectral theory of the Hessian of quadratic committees at random initialisation. NumPy and SciPy only."""

from theory.checks import NotConverged, ParameterError
from theory.model import Committee

__all__ = ["Committee", "NotConverged", "ParameterError"]
