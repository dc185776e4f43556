"""Former name of a module."""

raise ImportError("theory.quenched is now theory.finite.quenched")
