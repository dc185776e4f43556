"""Finite N: the law of a sample, theory of given preactivations (quenched disorder), thresholds, questions to the law."""

import sys
from functools import partial
from typing import Any, NoReturn

from theory.finite.edge import alpha_bbp_typical, typical_edge
from theory.finite.law import law
from theory.finite.quenched import quenched
from theory.finite.threshold import answer, quantile, threshold

__all__ = ["alpha_bbp_typical", "answer", "law", "quantile", "quenched", "threshold", "typical_edge"]

# Modules and functions under names that users were told before.
_FORMER = {"questions": "threshold", "typical": "edge", "validity": "law"}
_GONE = {
    "edge.edge_scale": "finite_edge(model, alpha, n).scale",
    "quenched.quenched_mean": "theory.finite.law(model, alpha, n), which has means over draws",
    "threshold.margin_threshold": "theory.finite.threshold(model, n), that of samples",
}
sys.modules |= {f"{__name__}.{old}": sys.modules[f"{__name__}.{new}"] for old, new in _FORMER.items()}


def _gone(name: str, new: str, *_: Any, **__: Any) -> NoReturn:
    raise NotImplementedError(f"{name} is now {new}")


for _name, _new in _GONE.items():
    _module, _, _name = _name.partition(".")
    setattr(sys.modules[f"{__name__}.{_module}"], _name, partial(_gone, _name, _new))
