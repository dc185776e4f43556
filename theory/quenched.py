"""Quenched theory under its first name: `theory.finite.quenched` is where it lives."""

from theory.finite.quenched import Quenched, quenched

__all__ = ["Quenched", "quenched"]
