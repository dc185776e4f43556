"""The Hessian along a method of first order: what the data still are after they have been used.

`closure` collects what a method has used (`force` of a gradient), `conditioned` gives edge, outliers, overlaps and their
scatter at finite N, `bbp_time` the time at which gradient flow loses the informative direction at N = infinity.
"""

from theory.path.conditioned import Data, Used, closure, conditioned, force
from theory.path.transition_time import TransitionTime, bbp_time

__all__ = ["Data", "TransitionTime", "Used", "bbp_time", "closure", "conditioned", "force"]
