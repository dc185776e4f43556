"""Gradient descent on the product of spheres, and the Hessian along it."""
