"""Lowest eigenpairs of a Hessian that is never formed: block Krylov spaces."""
