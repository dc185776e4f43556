"""Minima of the loss counted: their complexity (Kac and Rice, annealed), what they are like, when the teacher destabilises
them.

For p = 1 on the sphere; any activation and loss, noise included. See `theory.minima.saddle` for the equations.
"""

from theory.minima.count import Minima, complexity, most_numerous, preactivation_law, reach, threshold

__all__ = ["Minima", "complexity", "most_numerous", "preactivation_law", "reach", "threshold"]
