"""The overlap exactly at a sharp threshold as N grows: q2 ~ C N^{-1/3}.

Derived here from theory.finite.small_matrix, units of (p/2) H. At alpha_BBP the signal block vanishes at the edge: z_e =
alpha S(t_e). Next to the edge levels are z_e + l y, y of the Airy process, with l = (pN)^{-2/3} (|z''|/2)^{1/3}, and couple to
each signal direction with mean square b^2 = -alpha S'(t_e) / (pN). So the sum over levels is of order b^2 / l ~ N^{-1/3},
while z - z_e is of order N^{-2/3} and labels and noise move the block by N^{-1/2}: both drop out, and what is left at
leading order,

    sum_i g_i g_i^T / (y - y_i), less its mean, singular      g_i (d,) standard normal, d = p p_star,

has no parameter but d: the spiked GOE at its critical spike. An eigenvector there has q2 = l^2 / (b^2 sum (g . x)^2 /
(y - y_i)^2), x its unit direction among the d. Averaged over draws and over the d lowest,

    q2 = c_d (pN)^{-1/3} (|z''(t_e)| / 2)^{2/3} / |alpha S'(t_e)|.

c_d is that of a GOE of order n with d rows shifted to the critical spike, where both factors are 1: the limit of n^{1/3}
E[q2], measured at n = 100 and 300, between which it moves by less than its error. Corrections fall like N^{-1/6} (labels
against couplings): slowly. At a smooth edge, where the threshold is discontinuous, there is no such law.
"""

from __future__ import annotations

import numpy as np

from theory.checks import ParameterError, count
from theory.exact.bulk import edge_resolvent, z_of_g
from theory.exact.committee import finite_committee
from theory.exact.transition import bbp_threshold
from theory.finite.edge import label_grid
from theory.model.network import Network

AMPLITUDES = (0.80, 1.02, 1.18, 1.30, 1.41, 1.50, 1.59, 1.67)  # c_d, d = 1 ... 8, each to 0.01


def critical_amplitude(model: Network) -> float:
    """C of q2 ~ C N^{-1/3}, the mean over draws and over the p p_star lowest vectors at alpha_BBP.

    Raises ParameterError on p = inf, at a discontinuous transition, and for p p_star above 8.

    >>> round(critical_amplitude(Network(1, 1, 0.5)), 2)
    0.51
    """
    model = finite_committee(model)
    p, d, found = int(model.p), int(model.degeneracy), bbp_threshold(model)
    if found.kind != "continuous":
        raise ParameterError(
            f"the transition must be continuous for a law at a sharp edge, got a {found.kind} one"
        )
    if d > len(AMPLITUDES):
        raise ParameterError(f"p p_star must be at most {len(AMPLITUDES)}, got {d}")
    g = edge_resolvent(model, found.alpha)
    curvature = abs(float(z_of_g(model, found.alpha, g, derivative=2)))
    yhat, y, probability = label_grid(p, model.p_star)
    low, high = ((2 / p) * (c * yhat - y) / (model.a + y) for c in (1, 3))
    square = ((p - 1) * (low / (1 - g * low)) ** 2 + (high / (1 - g * high)) ** 2) / p
    slope = found.alpha * float(np.sum(probability * y * square))
    return float(AMPLITUDES[d - 1] * (curvature / 2) ** (2 / 3) / slope / p ** (1 / 3))


def critical_overlap(model: Network, n: int) -> float:
    """Mean q2 of the p p_star lowest vectors at alpha_BBP in dimension n, leading order: C n^{-1/3}; see critical_amplitude.

    >>> round(critical_overlap(Network(1, 1, 0.5), 1000), 3)
    0.051
    """
    return critical_amplitude(model) * count("n", n) ** (-1 / 3)
