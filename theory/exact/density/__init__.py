"""Density of states and Stieltjes transform of the bulk."""

from theory.exact.density.density import atom, density, moment, stieltjes

__all__ = ["atom", "density", "moment", "stieltjes"]
