"""What figures and their statistics use of `sims`, imported when first called: a stored figure is drawn without JAX."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any


def instances() -> ModuleType:
    """`sims.instance`: draws of student, teacher and data, their labels, and the name of the random stream."""
    return importlib.import_module("sims.instance")


def sample_point(*what: Any, **options: Any) -> Any:
    """`sims.sampling.sample_point`: eigenpairs of the samples at one N and alpha."""
    return importlib.import_module("sims.sampling").sample_point(*what, **options)


def descents() -> ModuleType:
    """`sims.descent.path`: rules of descents and the codes of their ends."""
    return importlib.import_module("sims.descent.path")


def sample_descents(*what: Any, **options: Any) -> Any:
    """`sims.descent.samples.sample_descents`: descents of the samples at one N and alpha."""
    return importlib.import_module("sims.descent.samples").sample_descents(*what, **options)


def frames() -> tuple[str, ...]:
    """The frames in which Hessians along a descent are taken, as their arrays have them."""
    return tuple(importlib.import_module("sims.descent.hessians").FRAMES)


def dynamics() -> ModuleType:
    """`sims.dynamics.run`: trajectories of methods of first order."""
    return importlib.import_module("sims.dynamics.run")


def methods() -> ModuleType:
    """`sims.dynamics.methods`."""
    return importlib.import_module("sims.dynamics.methods")


def dense_hessian(*what: Any) -> Any:
    """`sims.hessian.dense_blas`: the Hessian from data and weights."""
    return importlib.import_module("sims.hessian").dense_blas(*what)


def lowest_dense(*what: Any, **options: Any) -> Any:
    """`sims.dense.eigen.lowest_dense`: lowest eigenpairs of a matrix."""
    return importlib.import_module("sims.dense.eigen").lowest_dense(*what, **options)
