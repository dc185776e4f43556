"""Finite N: the law of a sample, theory of given preactivations (quenched disorder), thresholds, questions to the law."""

from theory.finite.edge import alpha_bbp_typical, typical_edge
from theory.finite.law import law
from theory.finite.quenched import quenched
from theory.finite.threshold import answer, quantile, threshold

__all__ = ["alpha_bbp_typical", "answer", "law", "quantile", "quenched", "threshold", "typical_edge"]
