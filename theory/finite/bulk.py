"""The bulk next to its left edge for many draws of the preactivations at once: energies, and counts of eigenvalues.

Each of the M data points has its preactivations (lambda, u); those of all are the quenched disorder of a draw. Units of (p/2) H
and t = -2g/p, as in theory.exact.bulk. With the disorder fixed (theory.finite.quenched) the averages alpha E[...] are sums
(1/N) sum_mu, and

    z(t) = -1/t + K(t),     K = (1/N) sum_mu [ ((p-1)/p) phi_1 + (1/p) phi_2 ],     S = the same sum with a factor y,

phi_i = f_i / (1 + t f_i). The edge is the maximum of z on the real axis below the first pole, where t^2 (1/N) sum
phi^2 = 1. Above it the spectrum is the curve of complex t on which z is real; on it rho = Im t / pi, and (-1/pi) Im S
/ rho = -Im S / Im t is the mean squared coupling of an eigenvector to a signal direction, times pN. For p > 1 the bulk
is not isotropic in the p blocks: theory.finite.block adds a term to z(t).

Control variates (`control_variates`). Sums over the data points whose means are known explain a part of what a draw gives, and
that part need not be in the error of an average. With t fixed a little below that of the edge at N = infinity, K = (1/M) sum
phi and U = (t/M) sum (1 - y) phi make edge and outlier of a draw (theory.finite.quenched). Their means are one quadrature each
(theory.exact.averages). Regression on their deviations from the means takes away 60 to 80 % of the variance of the lowest
eigenvalue over draws, and 10 to 50 % of that of its overlap (N = 100 to 400, p = 1, 2, 4); it has errors of order 1/draws of
its own.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from theory.exact.averages import average, kernel_k, kernel_u
from theory.exact.bulk import edge_resolvent, problems
from theory.model.network import Network

Array = NDArray[Any]
_FIRST = 0.05  # eigenvalues below the first node of the curve
_RATIO = 1.4  # from node to node in Im t; the count grows like its cube
_BY_HEIGHT, _NODES = 4, 40  # nodes placed by Im t, and of all
_GROWTH = 0.6  # of the count from node to node after them
_STEPS = 12  # of Newton's method, at the most
_HAZE = 0.1  # of the distance to the edge: so far above the real axis, for gaps; moves the count by 0.4 %
_FLAT = 1e-12  # relative change of t at which the edge is found
_MET = 1e-3  # of a step in energy: how well a node is met
_ENDED = 1e-3  # of a full step, and of |edge|: where the curve counts as ended


def weight_eigenvalues(
    model: Network, yhat: Array, y: Array, unit: float = 1.0
) -> tuple[tuple[Array, ...], tuple[int, ...]]:
    """Distinct eigenvalues of the weights of (p/2) H at outputs yhat, y, times `unit`: across lam (for p > 1) and along it, and
    their multiplicities."""
    p = int(model.p)
    found = tuple(unit * (c * yhat - y) / (model.a + y) for c in ((1, 3) if p > 1 else (3,)))
    return found, (p - 1, 1)[-len(found) :]


@dataclass(frozen=True)
class Preactivations:
    """Preactivations of m data points in q draws, and their weights. lam (q, m', p), u (q, m', p_star); n the dimension.

    f (branches of (q, m)) eigenvalues of the weights of (p/2) H, with their shares of the trace; y, yhat (q, m)
    weight (q, m)          how many data points each stands for; None: one. The last m - m' have no lam, u of their own
    soft (2, q)            A and t_0: z(t) has -A / (t_0 - t)^2 besides (theory.finite.block)
    """

    lam: Array
    u: Array
    n: Any
    f: tuple[Array, ...]
    shares: tuple[float, ...]
    y: Array
    yhat: Array
    weight: Array | None = None
    soft: Array | None = None

    @classmethod
    def of(
        cls,
        model: Network,
        lam: Array,
        u: Array,
        n: Any,
        weight: Array | None = None,
        nodes: Array | None = None,
    ) -> Preactivations:
        """Those of a quadratic committee. nodes (3, k): yhat, y and weight of data points without lam, u of their own."""
        y, yhat = np.mean(u**2, axis=-1), np.mean(lam**2, axis=-1)
        if weight is not None and nodes is not None:
            yhat, y, weight = (
                np.concatenate([part, np.broadcast_to(more, (len(part), len(more)))], axis=1)
                for part, more in zip((yhat, y, weight), nodes, strict=True)
            )
        f, multiplicities = weight_eigenvalues(model, yhat, y)
        return cls(lam, u, n, f, tuple(m / int(model.p) for m in multiplicities), y, yhat, weight)

    def without(self, which: Array, wanted: Array) -> Preactivations:
        """The same less the data points `which` (q, k) of each draw where `wanted` (q, k): their weights are 0."""
        left = np.ones(self.y.shape, np.bool_)
        np.put_along_axis(left, which, ~wanted, axis=1)
        return replace(self, f=tuple(f * left for f in self.f))

    @property
    def number(self) -> float:
        """How many data points there are, at the most."""
        return self.y.shape[1] if self.weight is None else float(self.weight.sum(axis=1).max())

    def total(self, values: Array) -> Array:
        """Sum (q, ...) of values (q, ..., m) over all data points."""
        if self.weight is None:
            return np.asarray(values.sum(axis=-1))
        weight = self.weight if values.ndim == 2 else self.weight[:, None]
        return np.asarray((values * weight).sum(axis=-1))

    def free(self, t: Array) -> tuple[Array, Array]:
        """What z(t) and z'(t) have besides the sum over data points."""
        # An empty bulk has z = -1/t; the second-order term of an anisotropic one is a double pole.
        if self.soft is None:
            return -1 / t, 1 / t**2
        amplitude, away = self.soft[0], self.soft[1] - t
        return -1 / t - amplitude / away**2, 1 / t**2 - 2 * amplitude / away**3

    def energy(self, t: Array) -> Array:
        """z(t) at t (q,), the first of `sums`."""
        z = self.free(t)[0]
        for f, share in zip(self.f, self.shares, strict=True):
            z = z + share / self.n * self.total(f / (1 + t[:, None] * f))
        return z

    def energy_slope(self, t: Array) -> tuple[Array, Array]:
        """z(t) and z'(t) at t (q,)."""
        z, slope = self.free(t)
        for f, share in zip(self.f, self.shares, strict=True):
            phi = f / (1 + t[:, None] * f)
            z = z + share / self.n * self.total(phi)
            slope = slope - share / self.n * self.total(phi**2)
        return z, slope

    def sums(self, t: Array) -> tuple[Array, Array, Array, Array]:
        """z(t), z'(t), S(t), S'(t) at t (q,), real."""
        signal, signal_slope = 0.0 * t, 0.0 * t
        outputs = self.y if self.weight is None else self.y * self.weight
        for f, share in zip(self.f, self.shares, strict=True):
            phi = f / (1 + t[:, None] * f)
            signal = signal + share / self.n * _dot(outputs, phi)
            signal_slope = signal_slope - share / self.n * _dot(outputs, phi**2)
        return *self.energy_slope(t), signal, signal_slope

    def above_axis(self, t: Array) -> tuple[Array, Array]:
        """z(t) and z'(t) at complex t (q,); by real numbers, which divide several times faster."""
        z, slope = self.free(t)
        x, y = t.real[:, None], t.imag[:, None]
        for f, share in zip(self.f, self.shares, strict=True):
            real, imag = 1 + x * f, y * f
            inverse = f / (real * real + imag * imag)
            # Re and -Im of f conj(1 + t f) / |1 + t f|^2
            real *= inverse
            imag *= -inverse  # phi
            over = (real, imag) if self.weight is None else (self.weight * real, self.weight * imag)
            z += share / self.n * (over[0].sum(axis=1) + 1j * over[1].sum(axis=1))
            square = _dot(over[0], real) - _dot(over[1], imag) + 2j * _dot(over[0], imag)
            slope -= share / self.n * square
        return z, slope

    def counted(self, t: Array) -> Array:
        """Share of all eigenvalues below z(t) at t (q,) on the curve: the integral of Im t dz / pi from the edge, in closed
        form.

        t dz = d{ log t - (1/N) sum_mu [ log(1 + t f) + 1/(1 + t f) ] }, the sum with the shares of f, real at the edge.
        """
        total = np.angle(t)
        x, y = t.real[:, None], t.imag[:, None]
        for f, share in zip(self.f, self.shares, strict=True):
            real, imag = 1 + x * f, y * f
            # Im of log(1 + t f) + 1 / (1 + t f)
            part = np.arctan2(imag, real) - imag / (real * real + imag * imag)
            total = total - share / self.n * self.total(part)
        if self.soft is not None:
            amplitude, away = self.soft[0], self.soft[1] - t
            # t dz of -A / (t_0 - t)^2 is the differential of this
            total = total + (amplitude / away - amplitude * t / away**2).imag
        return total / math.pi


@dataclass(frozen=True)
class BulkCurve:
    """The bulks of q draws near their left edges, units of (p/2) H.

    t_edge, edge (q,)        t and z at the edge
    energy, count, t (q, k)  along the curve, from the edge on: energy, number of eigenvalues below it, complex t
    """

    t_edge: Array
    edge: Array
    energy: Array
    count: Array
    t: Array


def bulk_curve(data: Preactivations, order: Any, keep: float) -> BulkCurve:
    """The curve of each draw until it holds `keep` eigenvalues of the `order` = pN there are (or ends).

    Next to the edge, where the energy is quadratic in t, it is told by Im t; from there on by the energy, as Im t has its
    maximum where the density has it: after a few eigenvalues where that is near. Draws without a negative weight have no edge
    left of 0: NaN.
    """
    t_edge = edge_of(data)
    edge = data.energy(t_edge)
    # z''(t) at the edge, negative
    curvature = -2 / t_edge**3
    if data.soft is not None:
        curvature = curvature - 6 * data.soft[0] / (data.soft[1] - t_edge) ** 4
    for f, share in zip(data.f, data.shares, strict=True):
        curvature = curvature + 2 * share / data.n * data.total((f / (1 + t_edge[:, None] * f)) ** 3)
    # With z - z_e = |z''| tau^2 / 2 and rho = tau / pi the count up to Im t = tau is order |z''| tau^3 / (3 pi).
    start = (3 * math.pi * _FIRST / np.nanmedian(order * np.abs(curvature))) ** (1 / 3)
    t, energies, counts, reach = t_edge + 0j, [edge], [np.zeros_like(edge)], np.ones_like(edge)
    path = [t]
    atom = data.number < np.max(data.n)  # at 0, where the curve ends
    for node in range(_NODES):
        if node < _BY_HEIGHT:
            t, energy = _at_height(data, t.real, start * _RATIO**node)
            energy, number = np.maximum(energy, energies[-1]), order * data.counted(t)
        else:
            # Energy that holds so many more eigenvalues at the density Im t / pi ...
            wanted = reach * math.pi / order * (_GROWTH * counts[-1] + _FIRST) / t.imag
            # ... but t is a square root of the distance to the edge: no further than that lets Newton's method start,
            wanted = np.minimum(wanted, 0.4 * (energies[-1] - edge))
            if atom:
                # and t diverges at the atom.
                wanted = np.minimum(wanted, np.maximum(-energies[-1], 0) / 3)
            energy = energies[-1] + wanted
            haze = _HAZE * (np.minimum(energy - edge, np.abs(energy)) if atom else energy - edge)
            new, met = _at_energy(data, t, energy + 1j * haze, wanted)
            # Down to the real axis again: on a vertical line Im (t dz) = Re t d(Im z).
            number = order * (data.counted(new) - haze * new.real / math.pi)
            plain_sum = order / math.pi * wanted * (t.imag + new.imag) / 2
            met &= np.abs(number - counts[-1] - plain_sum) < 0.5 * (1 + plain_sum)  # else it left the curve
            energy = energies[-1] + np.where(met, wanted, 0)
            t, number = np.where(met, new, t), np.where(met, number, counts[-1])
            reach = np.where(met, np.minimum(2 * reach, 1), reach / 4)
        counts.append(np.maximum(number, counts[-1]))
        energies.append(energy)
        path.append(t)
        left = (counts[-1] <= keep) & (reach > _ENDED)
        if not np.any(left & (energy < -_ENDED * np.abs(edge)) if atom else left):
            break
    return BulkCurve(t_edge, edge, *(np.stack(part, axis=1) for part in (energies, counts, path)))


def edge_of(data: Preactivations) -> Array:
    """t of the edge (q,): root of t^2 (1/t^2 - z') = 1, by Newton's method on its power -1/2, kept in its bracket."""
    # The first pole, t = 1 / max(-f), bounds the walk.
    worst = np.max([np.max(-f, axis=1) for f in data.f], axis=0)
    high = np.where(worst > 0, 1 / np.where(worst > 0, worst, 1.0), np.nan)
    if data.soft is not None:
        high = np.minimum(high, data.soft[1])
    low, t = np.zeros_like(high), 0.95 * high
    size, left = np.broadcast_to(data.n, t.shape), np.flatnonzero(worst > 0)
    for _ in range(60):
        if not len(left):
            break
        at, total, slope = t[left], np.zeros(len(left)), np.zeros(len(left))
        whole = len(left) == len(t)
        weight = None if data.weight is None else data.weight[left]
        for f, share in zip(data.f, data.shares, strict=True):
            own = f if whole else f[left]
            inverse = 1 / (1 + at[:, None] * own)
            phi = own * inverse
            part = phi if weight is None else phi * weight
            total += share / size[left] * _dot(part, phi)
            phi *= phi
            slope += 2 * share / size[left] * _dot(phi if weight is None else phi * weight, inverse)
        # d(t^2 phi^2)/dt = 2 t phi^2 / (1 + t f)
        w, dw = at**2 * total, at * slope
        if data.soft is not None:
            amplitude, away = data.soft[0][left], data.soft[1][left] - at
            more = 2 * amplitude * at**2 / away**3
            w, dw = w + more, dw + 2 * more / at + 3 * more / away
        low[left], high[left] = np.where(w < 1, at, low[left]), np.where(w < 1, high[left], at)
        # W grows like the pole's distance to the power -2, so that W^(-1/2) is nearly linear in t.
        new = at + 2 * (w - w**1.5) / dw
        inside = (new > low[left]) & (new < high[left])
        t[left] = np.where(inside, new, (low[left] + high[left]) / 2)
        left = left[np.abs(t[left] - at) > _FLAT * at]
    return t


def _at_height(data: Preactivations, x: Array, tau: float) -> tuple[Array, Array]:
    """t (q,) with Im t = tau and Im z(t) = 0, Re t next to x; energy there."""
    for _ in range(_STEPS):
        z, slope = data.above_axis(x + 1j * tau)
        # Poles lie on the real axis, tau away: a step stays well within that.
        step = np.clip(-z.imag / slope.imag, -tau / 2, tau / 2)
        if np.nanmax(np.abs(step), initial=0.0) < 1e-4 * tau:
            break
        x = x + step
    return x + 1j * tau, z.real


def _at_energy(data: Preactivations, t: Array, z: Array, step: Array) -> tuple[Array, Array]:
    """t (q,) where z(t) is the z given, a `step` off that of the t given, by Newton's method; if it was met."""
    new = t
    for _ in range(_STEPS):
        value, slope = data.above_axis(new)
        met = np.abs(value - z) <= _MET * step
        if np.all(met | ~np.isfinite(step)):
            break
        move = (value - z) / (new * slope)  # of log t; in 1/t, to which z is nearly linear, of the last line
        # The argument of t halves at the most: t stays in the upper half plane.
        move = move * np.minimum(1, 0.5 * np.angle(new) / np.maximum(np.abs(move), 1e-300))
        new = new / (1 + move)
    return new, met


def _dot(left: Array, right: Array) -> Array:
    """Sums (q,) of products of two arrays (q, m)."""
    return np.asarray(np.einsum("qm,qm->q", left, right))


_BELOW = 0.8  # of t at the edge: no data point of a draw has its pole there
_FEWEST = 16  # draws for two coefficients


def control_variates(model: Network, data: Preactivations, alpha: float) -> Array:
    """Deviations of K and U of q draws from their means, (q, 2): see the top."""
    t = -_BELOW * edge_resolvent(model, alpha) * 2 / int(model.p)
    models, _, _ = problems(model, np.array([alpha]))
    means = average([kernel_k, kernel_u], models, np.array([t]), np.array([1 - t]))
    sums = np.zeros((len(data.y), 2))
    for f, share in zip(data.f, data.shares, strict=True):
        phi = f / (1 + t * f)
        sums[:, 0] += share * phi.mean(axis=1)
        sums[:, 1] += share * t * ((1 - data.y) * phi).mean(axis=1)
    return np.asarray(sums - np.concatenate(means))


def controlled_mean(values: Array, excess: Array) -> tuple[float, float]:
    """Mean of values (draws,) at zero excess (draws, 2), by regression, and its standard error; within the range of the draws.

    >>> x = np.linspace(-1, 3, 40)[:, None] * [1.0, 0.0]
    >>> tuple(round(number, 9) for number in controlled_mean(2.0 + 3 * x[:, 0], x))
    (2.0, 0.0)
    """
    draws = len(values)
    if draws < _FEWEST:
        return float(values.mean()), float(values.std(ddof=1) / np.sqrt(draws))
    centre = excess.mean(axis=0)
    inverse = np.linalg.pinv(excess - centre)
    slope = inverse @ (values - values.mean())
    rest = values - values.mean() - (excess - centre) @ slope
    # Error of a regression's value at zero excess: that of the mean, and of the slope over the way there.
    variance = np.sum(rest**2) / (draws - 1 - len(slope)) * (1 / draws + np.sum((centre @ inverse) ** 2))
    value = np.clip(values.mean() - centre @ slope, values.min(), values.max())
    return float(value), float(np.sqrt(variance))
