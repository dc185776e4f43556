"""Finite N: the law of a sample, quenched theory of a draw of labels, thresholds, questions to the law."""

import sys

from theory.finite.edge import alpha_bbp_typical, typical_edge
from theory.finite.law import law
from theory.finite.quenched import quenched
from theory.finite.threshold import answer, quantile, threshold

__all__ = ["alpha_bbp_typical", "answer", "law", "quantile", "quenched", "threshold", "typical_edge"]

# Modules under names that users were told before.
_FORMER = {"questions": "threshold", "typical": "edge", "validity": "law"}
sys.modules |= {f"{__name__}.{old}": sys.modules[f"{__name__}.{new}"] for old, new in _FORMER.items()}
