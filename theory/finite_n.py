"""Former name of a package."""

raise ImportError("theory.finite_n is now theory.finite")
