"""Finite N: the law of a sample, quenched theory of a draw of labels, thresholds, questions to the law."""

from theory.finite.law import finite_law as law
from theory.finite.quenched import quenched
from theory.finite.questions import quantile
from theory.finite.threshold import alpha_bbp_finite as threshold

__all__ = ["law", "quantile", "quenched", "threshold"]
