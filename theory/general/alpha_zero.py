"""alpha_0 of any network: where a discontinuous transition would lose its overlap, were that to vanish continuously.

The two estimates of `theory.exact.transition`, by the same names:

overlap        the tangent of q2(alpha) at alpha_BBP+, followed to zero: alpha_BBP - q2 / (dq2/dalpha). Where G is a multiple of
               the identity alpha and q2 are explicit functions of q along the outlier (`theory.general.isotropic`), from q_min
               on; elsewhere q2 is taken just above the threshold of each cloud of points. One-sided differences in both.
continuation   sharp edge and outlier beyond q_min. For the quadratic committee by principal values. At p = inf, where weights
               that have no probability set q_min, beyond it lies the law without them (`theory.general.wide`), and plain
               averages do. Other averages beyond q_min have not been derived: NaN, with that reason.

A continuous transition loses its overlap at alpha_BBP itself: both estimates are that. `model_map` has thresholds over any of a
model's parameters.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import fields, replace
from itertools import product
from typing import Any

import numpy as np

from theory.answers import Threshold
from theory.checks import NotConverged, ParameterError, choice, shown
from theory.exact.transition import alpha_zero as of_committee
from theory.general.laws import floor_of, isotropic, typical_floor
from theory.general.spectrum import threshold, typical_threshold
from theory.model.network import Network, network

METHODS = "overlap", "continuation"


Estimate = tuple[float, float, str]  # the value, NaN where there is none, its error, and why there is none


def alpha_zero(model: Network, method: str = "overlap") -> Estimate:
    """alpha_0 of a model, its error and why there is none, by the method "overlap" or "continuation".

    alpha_BBP for a continuous transition.     Raises ParameterError for another method.

    >>> round(alpha_zero(Network(float("inf"), activation="tanh", a=2.0), "continuation")[0], 4)
    2.8943
    """
    model, method = network(model), choice("method", method, METHODS)
    if model.is_quadratic and model.covariance is None:
        value = of_committee(model, method)
        if value is None:
            return math.nan, 0.0, "no such alpha, or one below the weak-recovery limit"
        return value, 0.0, ""
    found = threshold(model)
    if found.kind != "discontinuous":
        return found.alpha, found.error, found.reason
    if method == "overlap":
        reason = "" if math.isfinite(found.alpha_0) else "the tangent reaches no alpha > 0"
        return found.alpha_0, 0.0 if reason else found.alpha_0_error, reason
    rare = math.isinf(model.p) and isotropic(model) and floor_of(model) != typical_floor(model)
    beyond = typical_threshold(model) if rare else None
    if beyond is None or beyond.kind != "continuous":
        return math.nan, 0.0, "averages beyond the end of the support are not known here"
    return beyond.alpha, beyond.error, ""


def model_map(model: Network, **axes: Sequence[Any]) -> Threshold:
    """alpha_BBP on the product of the given values of any parameters of a Network, the rest as in `model`.

    Returns a Threshold of arrays of the lengths of the axes, in their order; of kind "refused" where the parameters make no
    model, "failed" where the threshold was not found, with the reason. Raises ParameterError where an axis is not a parameter,
    or empty.

    >>> found = model_map(Network(activation="tanh"), a=[0.5, 2.0], noise=[0.0, 0.3])
    >>> found.kind.tolist()
    [['refused', 'refused'], ['continuous', 'continuous']]
    >>> found.alpha[1].round(4)
    array([2.509 , 3.1383])
    """
    model = network(model)
    names = {f.name for f in fields(Network)}
    for name, values in axes.items():
        if name not in names:
            raise ParameterError(f"axes must be among {', '.join(sorted(names))}, got {shown(name)}")
        if isinstance(values, str) or not len(values):
            raise ParameterError(f"{name} must be a list of at least one value, got {shown(values)}")
    points = [_at(model, dict(zip(axes, chosen, strict=True))) for chosen in product(*axes.values())]
    shape = tuple(len(values) for values in axes.values())

    def column(name: str) -> Any:
        return np.array([getattr(point, name) for point in points]).reshape(shape)

    return Threshold(**{f.name: column(f.name) for f in fields(Threshold)})


def _at(model: Network, changes: dict[str, Any]) -> Threshold:
    try:
        changed = replace(model, **changes)
    except ParameterError as refusal:
        return Threshold(np.nan, "refused", np.nan, reason=str(refusal))
    try:
        return threshold(changed)
    except (ParameterError, NotConverged) as failure:
        return Threshold(np.nan, "failed", np.nan, reason=str(failure))
