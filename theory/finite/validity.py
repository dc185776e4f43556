"""Where the law of theory.finite.law is not known to hold: said beside every number of it."""

from __future__ import annotations

from collections.abc import Iterable

from theory.model import Network

WIDEST = (4, 8, 12)  # p, p_star, p p_star of the widest models compared with dense samples
LEAST_ORDER = 100  # p N
LEAST_A, LEAST_ALPHA = 0.08, 0.3  # for p > 1
UNKNOWN = "finite-N theory is not known to hold"


def doubt(model: Network, alpha: float, n: float, of: str = "overlap") -> str | None:
    """Why the finite-N law is not known to hold at (alpha, N), in a few words; None where it lies in the range of comparisons.

    of   what is asked: shares of "overlap_lowest", the lowest vector alone, and of "informative", "among" and "first" are known
         less well than of "overlap", the mean over the group

    In that range means of the overlap of the p p_star lowest vectors met those of dense samples within 10 %, those of the
    lowest eigenvalue within 0.35 of its standard deviation (docs/appendix_finite_n.md, benchmarks/finite_law.py).

    >>> doubt(Network(2, 1, 0.5), 2.0, 200) is None
    True
    >>> doubt(Network(6, 1, 0.5), 2.0, 200)
    'not compared with samples for p = 6, p* = 1'
    """
    p, p_star = model.p, model.p_star
    if p > WIDEST[0] or p_star > WIDEST[1] or p * p_star > WIDEST[2]:
        return f"not compared with samples for p = {p:g}, p* = {p_star}"
    if p * n < LEAST_ORDER:
        return f"p N = {p * n:g} is below {LEAST_ORDER}: shares can be 0.3 off"
    if p > 1 and model.a < LEAST_A:
        return f"not compared with samples for p > 1 at a = {model.a:g}, below {LEAST_A:g}"
    if p > 1 and alpha < LEAST_ALPHA:
        return f"p > 1 at alpha = {alpha:.3g}, below {LEAST_ALPHA:g}: q2 12 % lower than in samples"
    if p == WIDEST[0]:
        return f"p = {p:g}: q2 scatters 15 to 30 % more in samples, shares can be 0.1 off"
    if of == "overlap_lowest" and p > 1 and p_star > 1:
        return "shares of the lowest vector alone can be 0.1 off for p, p* > 1"
    if of in ("informative", "among", "first") and p > 1 and p_star > 1:
        return "the law calls 0.05 too many samples informative for p, p* > 1"
    return None


def doubts(model: Network, alphas: Iterable[float], sizes: Iterable[float]) -> str:
    """What `doubt` says of a grid, in one line with the sizes it is said of; empty where it says nothing.

    >>> doubts(Network(2, 1, 0.5), [1.0, 2.0], [20, 100])
    'N = 20: p N = 40 is below 100: shares can be 0.3 off'
    """
    found: dict[str, list[str]] = {}
    alphas = list(alphas)
    for n in sizes:
        for reason in dict.fromkeys(reason for alpha in alphas if (reason := doubt(model, alpha, n))):
            found.setdefault(reason, []).append(f"{n:g}")
    return "; ".join(f"N = {', '.join(of)}: {reason}" for reason, of in found.items())
