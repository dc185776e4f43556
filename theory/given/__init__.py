"""Theory for given rows: the Hessian on inputs of one's own, Gaussian or with a scale tau of each row, and a verdict on it."""

from theory.given.covariance import Population, population
from theory.given.hessian import given
from theory.given.verdict import Heavy, Verdict, enough, judge, marks, settled

__all__ = [
    "Heavy",
    "Population",
    "Verdict",
    "enough",
    "given",
    "judge",
    "marks",
    "population",
    "settled",
]
