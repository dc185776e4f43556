"""Finite-N samples of the Hessian in JAX: drawing, building, lowest eigenpairs, overlaps. Turns x64 on."""
