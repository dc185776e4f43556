"""Finite-N samples of the Hessian in JAX: drawing, building, lowest eigenpairs, overlaps. Switches JAX to 64 bits."""
