"""Spectral theory of the Hessian of teacher-student networks at random initialisation. NumPy and SciPy only.

`edge`, `outliers`, `threshold`, `spectrum` and `density` say of any `Network` what N = infinity has. Finite N is in
`theory.finite`, on rows of one's own in `theory.given`, along a method in `theory.path`, minima in `theory.minima`,
spectral methods and any weight of one's own in `theory.general`.
"""

import importlib
import sys
from typing import Any

from theory.answers import Edge, Outlier, Spectrum, Threshold
from theory.checks import NotConverged, ParameterError
from theory.exact.bulk import riemannian_shift, z_of_g
from theory.exact.density import moment, stieltjes
from theory.exact.outliers import edge_gap, outlier, student_margins
from theory.exact.transition import alpha_zero_map, critical_normalisation, critical_width, threshold_map
from theory.general.density import atom, density
from theory.general.spectrum import alpha_zero, edge, outliers, spectrum, threshold
from theory.model import Activation, Committee, Covariance, Inputs, Loss, Network, Target

__all__ = [
    "Activation",
    "Committee",
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

# First names, from when there were quadratic committees only, and what takes the place of those that went.
_FORMER = {
    "TeacherBranch": Spectrum,
    "ThresholdMap": Threshold,
    "bbp_threshold": threshold,
    "bulk_edge": edge,
    "outlier": outlier,
    "teacher_branch": spectrum,
}
_GONE = dict.fromkeys(("StudentDirection", "student_outliers"), "student_margins, which gives a dict")
_MOVED = {"theory.finite_n": "theory.finite", "theory.quenched": "theory.finite.quenched"}
_PACKAGES = "finite", "given", "minima", "path"  # imported when they are first asked for
del outlier


def __getattr__(name: str) -> Any:
    if name in _FORMER:
        return _FORMER[name]
    if name in _PACKAGES:
        return importlib.import_module(f"theory.{name}")
    _Moved.find_spec(f"theory.{name}")
    if name in _GONE:  # of an AttributeError `from theory import ...` would show no words
        raise ImportError(f"theory.{name} is now {_GONE[name]}")
    raise AttributeError(f"module 'theory' has no attribute {name!r}")


class _Moved:
    """Finder of modules that says where one went."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> None:
        """ModuleNotFoundError for a module that moved; None for any other."""
        if name in _MOVED:
            raise ModuleNotFoundError(f"{name} is now {_MOVED[name]}", name=name)


sys.meta_path.append(_Moved)
