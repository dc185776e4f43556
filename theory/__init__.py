"""Spectral theory of the Hessian of teacher-student networks at random initialisation. NumPy and SciPy only.

`edge`, `outliers`, `threshold`, `spectrum` and `density` say of any `Network` what N = infinity has. Finite N is in
`theory.finite`, on rows of one's own in `theory.given`, along a method in `theory.path`, minima in `theory.minima`,
spectral methods and any weight of one's own in `theory.general`.
"""

import importlib
from typing import Any

from theory import former  # first: modules that lack names they had are loaded by it
from theory.answers import Edge, Outlier, Spectrum, Threshold
from theory.checks import NotConverged, ParameterError
from theory.exact.bulk import riemannian_shift, z_of_g
from theory.exact.density import moment, stieltjes
from theory.exact.outliers import edge_gap, student_margins
from theory.exact.transition import alpha_zero_map, critical_normalisation, critical_width, threshold_map
from theory.general.density import atom, density
from theory.general.spectrum import alpha_zero, edge, outliers, spectrum, threshold
from theory.model import Activation, Covariance, Inputs, Loss, Network, Target

__all__ = [
    "Activation",
    "Covariance",
    "Edge",
    "Inputs",
    "Loss",
    "Network",
    "NotConverged",
    "Outlier",
    "ParameterError",
    "Spectrum",
    "Target",
    "Threshold",
    "alpha_zero",
    "alpha_zero_map",
    "atom",
    "critical_normalisation",
    "critical_width",
    "density",
    "edge",
    "edge_gap",
    "moment",
    "outliers",
    "riemannian_shift",
    "spectrum",
    "stieltjes",
    "student_margins",
    "threshold",
    "threshold_map",
    "z_of_g",
]

_PACKAGES = "finite", "given", "minima", "path"  # imported when they are first asked for


def __getattr__(name: str) -> Any:
    if name in _PACKAGES:
        return importlib.import_module(f"theory.{name}")
    return former.THEORY.get("theory", name)
