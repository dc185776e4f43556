"""Eigenpairs of a dense Hessian."""
