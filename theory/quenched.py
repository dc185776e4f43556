"""Quenched theory under its first name: `theory.finite.quenched` is where it lives."""

from theory.finite.quenched import Quenched, QuenchedMean, mean_margin, quenched, quenched_mean

__all__ = ["Quenched", "QuenchedMean", "mean_margin", "quenched", "quenched_mean"]
