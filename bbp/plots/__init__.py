"""Plotting functions: each draws arrays on the axes it is given and returns the artists it added."""
