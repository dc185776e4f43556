"""The bulk next to its left edge for many draws of labels at once: energies, counts, couplings to the signal.

Units of (p/2) H and t = -2g/p, as in theory.conditions. With the labels of a draw fixed (theory.finite_n.quenched)
the averages alpha E[...] are sums (1/N) sum_mu, and

    z(t) = -1/t + K(t),     K = (1/N) sum_mu [ ((p-1)/p) phi_1 + (1/p) phi_2 ],     S = the same sum with a factor y,

phi_i = f_i / (1 + t f_i). The edge is the maximum of z on the real axis below the first pole, where t^2 (1/N) sum
phi^2 = 1. Above it the spectrum is the curve of complex t on which z is real; on it rho = Im t / pi, and (-1/pi) Im S
/ rho = -Im S / Im t is the mean squared coupling of a level to a signal direction, times pN. For p > 1 G is taken as
a multiple of I: what its traceless part adds is a soft mode, whose linear response overestimates what samples show
(measured; see docs/finite_n.md)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from theory.model import Committee

Array = NDArray[Any]

_FIRST = 0.05  # levels below the first node of the curve
_RATIO = 1.4  # from node to node in Im t; the count grows like its cube
_NODES = 40
_STEPS = 8
_FLAT = 1e-12


@dataclass(frozen=True)
class Labels:
    """Labels of q draws of m samples, as weights. lam (q, m, p) and u (q, m, p_star); n the dimension.

    f (branches of (q, m)) eigenvalues of the weights of (p/2) H, with their shares of the trace; y (q, m)
    """

    lam: Array
    u: Array
    n: int
    f: tuple[Array, ...]
    shares: tuple[float, ...]
    y: Array

    @classmethod
    def of(cls, model: Committee, lam: Array, u: Array, n: int) -> Labels:
        """Labels of a Committee."""
        p = int(model.p)
        y, yhat = np.mean(u**2, axis=-1), np.mean(lam**2, axis=-1)
        along = (3 * yhat - y) / (model.a + y)
        if p == 1:
            return cls(lam, u, n, (along,), (1.0,), y)
        return cls(lam, u, n, ((yhat - y) / (model.a + y), along), ((p - 1) / p, 1 / p), y)

    def energy(self, t: Array) -> Array:
        """z(t) at t (q,), the first of `sums`."""
        z = -1 / t
        for f, share in zip(self.f, self.shares, strict=True):
            z = z + share / self.n * (f / (1 + t[:, None] * f)).sum(axis=1)
        return z

    def sums(self, t: Array) -> tuple[Array, Array, Array, Array]:
        """z(t), z'(t), S(t), S'(t) at t (q,), real or complex."""
        z, slope, signal, signal_slope = -1 / t, 1 / t**2, 0.0 * t, 0.0 * t
        for f, share in zip(self.f, self.shares, strict=True):
            phi = f / (1 + t[:, None] * f)
            z = z + share / self.n * phi.sum(axis=1)
            signal = signal + share / self.n * np.einsum("qm,qm->q", self.y, phi)
            phi *= phi
            slope = slope - share / self.n * phi.sum(axis=1)
            signal_slope = signal_slope - share / self.n * np.einsum("qm,qm->q", self.y, phi)
        return z, slope, signal, signal_slope


@dataclass(frozen=True)
class LabelBulk:
    """The bulks of q draws near their left edges, units of (p/2) H.

    t_edge, edge, curvature (q,)   t, z and z'' at the edge
    energy, count, ratio (q, k)    along the curve, from the edge on: energy, number of levels below it, -Im S / Im t
    plain (q, k)                   -Im K / Im t = 1 / |t|^2 along it: the same for a direction that has no part in the labels
    tau (k,)                       Im t along it, one for all draws
    """

    t_edge: Array
    edge: Array
    curvature: Array
    energy: Array
    count: Array
    ratio: Array
    plain: Array
    tau: Array


def label_bulk(labels: Labels, order: int, keep: float) -> LabelBulk:
    """The curve of each draw until it holds `keep` levels of the `order` = pN there are (or ends).

    Draws without a negative weight have no edge left of 0: NaN.
    """
    t_edge = _edge(labels)
    edge, _, _, slope = labels.sums(t_edge)
    curvature = -2 / t_edge**3
    for f, share in zip(labels.f, labels.shares, strict=True):
        curvature = curvature + 2 * share / labels.n * ((f / (1 + t_edge[:, None] * f)) ** 3).sum(axis=1)
    start = (3 * math.pi * _FIRST / (order * np.nanmedian(np.abs(curvature)))) ** (1 / 3)
    taus, energies, ratios, counts = [0.0], [edge], [-slope], [np.zeros_like(edge)]
    plains = [1 / t_edge**2]
    x = t_edge.copy()
    for node in range(_NODES):
        tau = start * _RATIO**node
        x, energy, ratio = _on_curve(labels, x, tau)
        energy = np.maximum(energy, energies[-1])
        weight = 4 / 3 if node == 0 else 1.0  # rho is like a square root of the energy over the first step
        counts.append(counts[-1] + weight * order / math.pi * (energy - energies[-1]) * (tau + taus[-1]) / 2)
        taus.append(tau)
        energies.append(energy)
        ratios.append(ratio)
        plains.append(1 / (x**2 + tau**2))
        # Im t has a maximum along the curve: past it a draw's count stands still.
        if not np.any((counts[-1] <= keep) & (counts[-1] > counts[-2])):
            break
    energy, number, ratio, plain = (np.stack(part, axis=1) for part in (energies, counts, ratios, plains))
    return LabelBulk(t_edge, edge, curvature, energy, number, ratio, plain, np.array(taus))


def label_edge(labels: Labels) -> Array:
    """The left edge (q,) of the labels of each draw; NaN where no weight is negative."""
    return labels.energy(_edge(labels))


def _edge(labels: Labels) -> Array:
    """t of the edge (q,): root of t^2 (1/N) sum phi^2 = 1, by Newton's method on the power -1/2, kept in its bracket."""
    worst = np.max([np.max(-f, axis=1) for f in labels.f], axis=0)
    high = np.where(worst > 0, 1 / np.where(worst > 0, worst, 1.0), np.nan)
    low, t = np.zeros_like(high), 0.95 * high
    for _ in range(60):
        total, slope = np.zeros_like(t), np.zeros_like(t)
        for f, share in zip(labels.f, labels.shares, strict=True):
            inverse = 1 / (1 + t[:, None] * f)
            square = (f * inverse) ** 2
            total += share / labels.n * square.sum(axis=1)
            slope += 2 * share / labels.n * np.einsum("qm,qm->q", square, inverse)
        w, dw = t**2 * total, t * slope
        low, high = np.where(w < 1, t, low), np.where(w < 1, high, t)
        new = t + 2 * (w - w**1.5) / dw
        new = np.where((new > low) & (new < high), new, (low + high) / 2)
        settled = np.abs(new - t) <= _FLAT * np.abs(t)
        t = new
        if np.all(settled | ~np.isfinite(t)):
            break
    return t


def _on_curve(labels: Labels, x: Array, tau: float) -> tuple[Array, Array, Array]:
    """Re t (q,) with Im z(x + i tau) = 0 from x nearby; energy there, and -Im S / Im t."""
    for _ in range(_STEPS):
        z, slope, signal, _ = labels.sums(x + 1j * tau)
        step = np.clip(-z.imag / slope.imag, -tau / 2, tau / 2)
        if np.nanmax(np.abs(step), initial=0.0) < 1e-4 * tau:
            break
        x = x + step
    return x, z.real, -signal.imag / tau
