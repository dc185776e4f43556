"""Dynamics of first order on the product of spheres: methods that see their data by products alone."""
