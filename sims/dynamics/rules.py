"""The rules of a descent, as a user gives them and as the arrays that its steps take."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from sims.dynamics.state import Numbers
from theory.checks import ParameterError, choice, count, one, positive, shown

_MOST = {"steps": 2**31 - 1, "records": 10**6, "power_iterations": 2**31 - 1}  # steps are counted in int32
NAMES = ("flow", "steps")
WARM = 2  # products that renew the largest curvature before a step of the flow


@dataclass(frozen=True)
class Rules:
    """The rules of a descent.

    dynamics          "flow" or "steps": see the module
    steps             largest number of steps; of the flow: of gradients, and products with the Hessian, which cost the same
    records           about how many points of the path are kept, log-spaced in steps, start and end among them
    tolerance         converged when |g| / sqrt(N) is at most this (g the Riemannian gradient) in units of the loss's slope
                      (`loss_unit`, 1 for the committee of a < 1); None takes 1e-6 in float64 and 3e-5 in float32, whose
                      rounding ends descents at about 1e-5 (N = 100 to 1,000)
    loss_floor        ended as converged, too, where the loss per sample is at most this, in the same units; 0: only at the
                      tolerance. The loss is never negative, and may approach 0 along nearly flat directions
    accuracy          of the flow: largest estimated error of one step, root mean square of a weight (whose size is 1)
    share             of steps: the largest as a share of 1 / L, in (0, 1]: small shares follow gradient flow more closely
    armijo            of steps: part of the linear prediction s |g|^2 by which the loss must fall, in (0, 1/2]
    power_iterations  matrix-vector products by which L is found anew

    Raises ParameterError.
    """

    dynamics: str = "flow"
    steps: int = 3000
    records: int = 40
    tolerance: float | None = None
    loss_floor: float = 0.0
    accuracy: float = 1e-3
    share: float = 1.0
    armijo: float = 0.25
    power_iterations: int = 20

    def __post_init__(self) -> None:
        choice("dynamics", self.dynamics, NAMES)
        for name, least in (("steps", 1), ("records", 2), ("power_iterations", 1)):
            whole = count(name, getattr(self, name), least)
            if whole > _MOST[name]:
                raise ParameterError(f"{name} must be at most {_MOST[name]}, got {shown(whole)}")
            object.__setattr__(self, name, whole)
        if self.tolerance is not None:
            object.__setattr__(self, "tolerance", one("tolerance", positive("tolerance", self.tolerance)))
        if not 0 <= one("loss_floor", self.loss_floor) < math.inf:
            raise ParameterError(f"loss_floor must be 0 or more and finite, got {self.loss_floor!r}")
        for name, most in (("share", 1.0), ("armijo", 0.5), ("accuracy", 0.1)):
            value = one(name, positive(name, getattr(self, name)))
            if value > most:
                raise ParameterError(f"{name} must be at most {most}, got {value!r}")
            object.__setattr__(self, name, value)

    @property
    def recorded_steps(self) -> tuple[int, ...]:
        """The step numbers kept: 0, then log-spaced whole numbers up to `steps`."""
        spaced = np.rint(np.geomspace(1, self.steps, self.records - 1)).astype(int)
        return (0, *(int(s) for s in np.unique(np.append(spaced, self.steps))))

    def tolerance_for(self, dtype: np.dtype) -> float:
        """The tolerance, with the default that suits `dtype`."""
        default = 1e-6 if np.dtype(dtype).itemsize >= 8 else 3e-5
        return default if self.tolerance is None else self.tolerance

    def numbers(self, dtype: np.dtype, asarray: Any = np.asarray) -> Numbers:
        """As arrays of a namespace, by its `asarray`, for descents in `dtype`."""
        lengths = np.diff(self.recorded_steps, prepend=0).astype(np.int32)
        reals = (self.tolerance_for(dtype), self.loss_floor, self.share, self.armijo, self.accuracy)
        counts = (asarray(np.int32(x)) for x in (self.power_iterations, WARM))
        return Numbers(asarray(lengths), *counts, *(asarray(np.asarray(real, dtype)) for real in reals))
