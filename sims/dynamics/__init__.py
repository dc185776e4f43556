"""Dynamics of first order on the product of spheres, by products with the data alone, and the Hessian along them."""
