"""Density of states and Stieltjes transform of the bulk."""
