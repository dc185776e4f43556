"""The Hessian along a method of first order: what the data still are after they have been used."""

from theory.path.closure import Used, closure
from theory.path.conditioned import Conditioned, conditioned

__all__ = ["Conditioned", "Used", "closure", "conditioned"]
