"""Density of states and Stieltjes transform of the bulk."""

from theory.density.density import atom, density, moment, stieltjes

__all__ = ["atom", "density", "moment", "stieltjes"]
