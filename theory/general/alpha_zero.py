"""alpha_0 of any network: where a discontinuous transition would lose its overlap, were that to vanish continuously.

The two estimates of `theory.exact.alpha_zero`, by the same names:

overlap        the tangent of q2(alpha) at alpha_BBP+, followed to zero: alpha_BBP - q2 / (dq2/dalpha). Where G is a multiple of
               the identity alpha and q2 are explicit functions of q along the outlier (`theory.general.isotropic`), from q_min
               on; elsewhere q2 is taken just above the threshold of each cloud of points. One-sided differences in both.
continuation   sharp edge and outlier beyond q_min. For the quadratic committee by principal values. At p = inf, where weights
               that have no probability set q_min, beyond it lies the law without them (`theory.general.wide`), and plain
               averages do. Other averages beyond q_min have not been derived: NaN, with that reason.

A continuous transition loses its overlap at alpha_BBP itself: both estimates are that.
"""

from __future__ import annotations

import math

from theory.checks import choice
from theory.exact.alpha_zero import alpha_zero as of_committee
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
