"""The complexity of minima as an extremum over a few numbers.

Annealed count (Kac and Rice) of the minima of sum_mu l on the sphere |w|^2 = N at overlap m with the teacher, p = 1, derived
here by Sanov's theorem for the preactivations (lambda, u) of the samples: Sigma(m) = lim (1/N) log E[number]. With P_m the law
of preactivations at overlap m, F = d^2 l/d lambda^2 and l' = dl/d lambda, Sigma is the extremum over A, r, b (and beta, which
fixes the mean loss e) of

    Phi = 1/2 log(1 - m^2) - 1/2 log(alpha A) - log r + alpha log Z + alpha beta e
    Z = E_m[ (1 + r F) exp(-l'^2/(2 alpha A) - r lambda l' - b l' (u - m lambda) - beta l) ].

Where the factors come from: (1 - m^2)^(N/2) is the volume at overlap m. The gradient is Gaussian given the preactivations, of
variance alpha A = alpha E l'^2 a component, and its density is taken at zero. |det(H - s)| follows from the logarithmic
potential of the bulk at the multiplier s = alpha E[lambda l'] of the sphere, where r = -g solves the Dyson equation
alpha E[F/(1 + r F)] - 1/r = s. Preactivations have exp(N alpha entropy) arrangements. Stationarity, under P_m times the
integrand of Z:

    A = E l'^2,   alpha E[F/(1 + rF) - lambda l'] = 1/r,   E[l' (u - m lambda)] = 0,   E l = e.

A minimum has no sample with 1 + r F < 0: the rank-one term of one such sample alone makes an eigenvalue below s. So the law of
preactivations is that of 1 + r F > 0, and (1 + r F) stands for its positive part. What this constraint costs is in the
Kullback-Leibler divergence. So r may be larger than 1/|inf F|: weights need no lower bound, and minima have no smooth edge,
since they avoid the rare samples that would make one.

s lies left of the bulk while r is on the physical branch, alpha E[(r F/(1 + r F))^2] <= 1: the minima then have a gap
("stable"). Otherwise the most numerous sit at the edge ("marginal"). That s is the edge brings a multiplier rho < 0 of the
Dyson equation: Z gets the factor exp(-rho (F/(1 + rF) - lambda l')), which vanishes with all its derivatives where 1 + r F
does, and Phi the term rho/r. Stationarity in r is then alpha E[(r F/(1 + r F))^2] = 1.
Same subject by another route: Maillard, Bonnaire, Biroli, arXiv 2602.17779.

Averages are sums over nodes of the preactivations (`Nodes`): an analytic integrand on a product trapezoid. lambda and v are
independent N(0, 1), u = m lambda + sqrt(1 - m^2) v; noise before the teacher's activation, or on y itself, is one axis more.
The trapezoid converges like exp(-2 pi d / h), d the distance of the nearest pole to the real plane.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import root

from theory.model import Network

Array = NDArray[np.float64]
Unknowns = dict[str, float]  # a, r, b, beta and rho, as in `Saddle`

_RADIUS = 9.0  # of the plane: beyond it a Gaussian has 1e-18
_NOISE = 2.5  # steps of the plane to one of the noise, whose axis is the third: the plane's is then doubled
_RARE = -45.0  # log probability of a node relative to the most probable: less is left out
_TOL = 1e-10  # of the equations, each of order one
# r, E l'^2 and rho in natural units, from which the equations are solved where nothing near is known: about where quadratic
# networks have them between alpha = 1.2 and 20
_STARTS = (
    (0.8, 1.0, -0.3), (0.5, 2.0, -0.25), (1.4, 0.8, -0.12), (0.3, 4.0, -0.13), (1.0, 3.0, -0.15), (0.55, 12.0, -0.09),
    (0.15, 12.0, -0.06), (0.07, 50.0, -0.02), (2.4, 0.4, -0.05), (1.5, 4.0, -0.07),
)  # fmt: skip
_LOW, _MIDDLE = 0.05, 0.5  # quantiles of the weights and of |l'| that are these units
_CALLS = 60  # evaluations of the equations from one start
_BALANCING = 12  # steps of Newton's method for b
_SAME = 1e-8  # by which the margin of a marginal minimum may pass 1
_WIDE = 0.3  # least width of the law across l' = 0, in steps of the nodes: a narrower one is of single nodes
_FAR = 200.0  # entries beyond it are no answer


@dataclass(frozen=True)
class Nodes:
    """What enters the averages at every node, each an array (n,).

    lam, v     preactivation of the student, and of the teacher's part outside it
    weight     F, the second derivative of a sample's loss in lambda
    force      l', the first
    loss       l
    sideways   l' (u - m lambda), what pulls the student towards the teacher
    log_prior  logarithm of the probability of the node before any conditioning
    overlap    m
    step       h, of lambda and v
    """

    lam: Array
    v: Array
    weight: Array
    force: Array
    loss: Array
    sideways: Array
    log_prior: Array
    overlap: float
    step: float

    @property
    def u(self) -> Array:
        """Preactivation of the teacher."""
        return self.overlap * self.lam + math.sqrt(1 - self.overlap**2) * self.v

    @classmethod
    def of(cls, model: Network, overlap: float, h: float) -> Nodes:
        """Those of a model of p = p_star = 1 at step h."""
        noisy = bool(model.noise or model.output_noise)
        t, log_t = _axis(_RADIUS, 2 * h if noisy else h)
        lam, v = (x.ravel() for x in np.meshgrid(t, t, indexing="ij"))
        log_prior = np.add.outer(log_t, log_t).ravel()
        kept = log_prior > log_prior.max() + _RARE
        lam, v, log_prior = lam[kept], v[kept], log_prior[kept]
        zeta = xi = None
        if noisy:
            s, log_s = _axis(_RADIUS, 2 * _NOISE * h)
            lam, v = np.repeat(lam, len(s)), np.repeat(v, len(s))
            more = np.tile(s, len(log_prior))
            log_prior = np.add.outer(log_prior, log_s).ravel()
            kept = log_prior > log_prior.max() + _RARE
            lam, v, more, log_prior = lam[kept], v[kept], more[kept], log_prior[kept]
            zeta, xi = (more[:, None], None) if model.noise else (None, more)
        u = overlap * lam + math.sqrt(1 - overlap**2) * v
        y = model.outputs(u[:, None], zeta, xi)
        yhat, slope = model.student_outputs(lam[:, None]), model.slopes(lam[:, None])[:, 0]
        force = model.rule.first(y, yhat, model.a, np) * slope
        weight = model.weights_at(lam[:, None], y)[:, 0, 0]
        return cls(
            lam, v, weight, force, model.rule.value(y, yhat, model.a, np), force * (u - overlap * lam), log_prior, overlap,
            2 * h if noisy else h,
        )  # fmt: skip


def _axis(radius: float, h: float) -> tuple[Array, Array]:
    """Nodes of N(0, 1) and the logarithms of their probabilities, which sum to 1."""
    t = h * np.arange(-math.floor(radius / h), math.floor(radius / h) + 1, dtype=np.float64)
    square = np.asarray(-(t**2) / 2, dtype=np.float64)
    return np.asarray(t, dtype=np.float64), square - math.log(np.exp(square).sum())


@dataclass(frozen=True)
class Saddle:
    """One extremum. a is E l'^2; rho is 0 for gapped minima; beta 0 where the loss is free.

    probability  (n,) of the tilted law at the nodes
    margin       alpha E[(r F/(1 + r F))^2]: at most 1 on the physical branch
    """

    value: float
    a: float
    r: float
    b: float
    beta: float
    rho: float
    probability: Array
    margin: float

    @property
    def unknowns(self) -> Unknowns:
        """Where the equations are solved from, of either kind of extremum."""
        return {"a": self.a, "r": self.r, "b": self.b, "beta": self.beta, "rho": self.rho or -0.02}


def extremum(nodes: Nodes, alpha: float, loss: float | None, near: Iterable[Saddle] = ()) -> Saddle | None:
    """The extremum on the physical branch.

    Those near are continued where they can be; else the equations are solved from many places. None where that finds nothing.
    """
    for starts in ([found.unknowns for found in near], _spread(nodes, alpha)):
        for start in starts:
            for marginal in (False, True):  # marginal only where no stable minima are found
                found = _solved(_Problem(nodes, alpha, loss, marginal), start)
                if found is not None:
                    return found
    return None


def continued(nodes: Nodes, alpha: float, loss: float | None, found: Saddle) -> Saddle | None:
    """The extremum of the same kind that is reached from one found at other nodes, alpha or loss; None where that fails."""
    return _solved(_Problem(nodes, alpha, loss, bool(found.rho)), found.unknowns)


def tilted(
    nodes: Nodes, alpha: float, a: float, r: float, b: float, beta: float, rho: float
) -> tuple[Array, float]:
    """Probabilities of the tilted law at the nodes, and log Z."""
    one = 1 + r * nodes.weight
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        log = nodes.log_prior + np.log(one) - nodes.force**2 / (2 * alpha * a) - r * nodes.lam * nodes.force
        log = log - b * nodes.sideways - beta * nodes.loss
        if rho:
            log = log - rho * (nodes.weight / one - nodes.lam * nodes.force)
    log = np.where((one > 0) & ~np.isnan(log), log, -np.inf)
    # Relative to the largest: Z itself may overflow.
    top = float(log.max())
    if not math.isfinite(top):
        return np.full(len(log), np.nan), math.nan
    weights = np.exp(log - top)
    total = float(weights.sum())
    return weights / total, top + math.log(total)


def phi(
    nodes: Nodes, alpha: float, loss: float | None, a: float, r: float, b: float, beta: float, rho: float
) -> float:
    """Phi at any point; the complexity where it is stationary."""
    log_z = tilted(nodes, alpha, a, r, b, beta, rho)[1]
    # Volume at overlap m, and the density at zero of a Gaussian gradient
    fixed = 0.5 * math.log1p(-(nodes.overlap**2)) - 0.5 * math.log(alpha * a) - math.log(r)
    return fixed + alpha * log_z + rho / r + (0.0 if loss is None else alpha * beta * loss)


def _spread(nodes: Nodes, alpha: float) -> list[Unknowns]:
    """Places all over from which the equations are solved."""
    low = _quantile(nodes.weight, nodes.log_prior, _LOW)
    # 1 + r F = 0 at a low quantile of F; without negative weights 1/r is of the order of E F.
    r0 = 1 / abs(low) if low < 0 else 2 / float(np.exp(nodes.log_prior) @ nodes.weight)
    a0 = _quantile(np.abs(nodes.force), nodes.log_prior, _MIDDLE) ** 2
    a0 = a0 if a0 > 0 else float(np.exp(nodes.log_prior) @ nodes.force**2)
    scaled = [{"a": a * a0, "r": r * r0, "beta": 0.0, "rho": rho * r0} for r, a, rho in _STARTS]
    return [at | {"b": _balanced(nodes, alpha, at)} for at in scaled]


def _quantile(values: Array, log_prior: Array, share: float) -> float:
    """The value that a share of the samples have below it."""
    order = np.argsort(values)
    return float(values[order][np.searchsorted(np.cumsum(np.exp(log_prior[order])), share)])


def _balanced(nodes: Nodes, alpha: float, at: Unknowns) -> float:
    """The b at which nothing pulls towards the teacher, all else given: log Z is convex in b."""
    b = 0.0
    for _ in range(_BALANCING):
        p, _ = tilted(nodes, alpha, b=b, **at)
        mean = float(p @ nodes.sideways)
        spread = float(p @ nodes.sideways**2) - mean**2
        if not spread > 0:
            return 0.0
        # d log Z/db = -E[l' (u - m lambda)], d^2 log Z/db^2 its variance
        step = mean / spread
        # Far from the solution the law hangs on few nodes, and a whole step goes astray.
        b += float(np.clip(step, -1 - abs(b), 1 + abs(b)))
        if abs(step) < 1e-3 * (1 + abs(b)):
            break
    return b


@dataclass(frozen=True)
class _Problem:
    """The equations of one kind of extremum, in unknowns that are any real numbers: log A, log r, b, log(-rho), beta."""

    nodes: Nodes
    alpha: float
    loss: float | None
    marginal: bool

    @property
    def names(self) -> list[str]:
        """The unknowns."""
        open_ = {"rho": self.marginal, "beta": self.loss is not None}
        return [name for name in ("a", "r", "b", "rho", "beta") if open_.get(name, True)]

    def numbers(self, x: Array) -> tuple[Unknowns, Array]:
        """A, r, b, beta, rho at x, and the derivative of each unknown by its entry of x."""
        found = {"rho": 0.0, "beta": 0.0} | dict(zip(self.names, map(float, x), strict=True))
        slope = np.ones(len(x))
        # A, r and -rho are positive: their logarithms are free.
        found["a"], found["r"] = math.exp(found["a"]), math.exp(found["r"])
        slope[:2] = found["a"], found["r"]
        if "rho" in self.names:
            found["rho"] = -math.exp(found["rho"])
            slope[self.names.index("rho")] = found["rho"]
        return found, slope

    def entries(self, start: Unknowns) -> Array:
        """The x of a start."""
        logs = {"a": math.log(start["a"]), "r": math.log(start["r"]), "rho": math.log(-start["rho"])}
        return np.array([(start | logs)[name] for name in self.names])

    def miss(self, x: Array) -> tuple[Array, Array]:
        """What the equations miss, each in its own natural unit, and the matrix of derivatives by x."""
        size = len(self.names)
        failed = np.full(size, 1e3), np.eye(size)
        if not np.all(np.abs(x) < _FAR):
            return failed
        at, slope = self.numbers(x)
        n, alpha, a, r, rho = self.nodes, self.alpha, at["a"], at["r"], at["rho"]
        p, _ = tilted(n, alpha, **at)
        if np.isnan(p[0]):
            return failed
        kept = p > 0
        p, f, lam_force, square = p[kept], n.weight[kept], (n.lam * n.force)[kept], n.force[kept] ** 2
        resolved = f / (1 + r * f)
        dyson = resolved - lam_force
        # Derivatives of the logarithm of the law by the unknowns, then of each average: its covariance with them
        tilt = {
            "a": square / (2 * alpha * a**2),
            "r": dyson + rho * resolved**2,
            "b": -n.sideways[kept],
            "rho": -dyson,
            "beta": -n.loss[kept],
        }
        rows: list[tuple[Array, float, dict[str, float]]] = [
            (square / a, 1.0, {"a": -float(p @ square) / a**2}),
            (alpha * r * dyson, 1.0, {"r": alpha * float(p @ (dyson - r * resolved**2))}),
        ]
        if self.marginal:
            # d/dr of r F/(1 + r F) is F/(1 + r F)^2 = F/(1 + rF) - r (F/(1 + rF))^2.
            own = 2 * alpha * r * float(p @ (resolved**2 - r * resolved**3))
            rows.append((alpha * (r * resolved) ** 2, 1.0, {"r": own}))
        rows.append((n.sideways[kept] / math.sqrt(a), 0.0, {}))
        if self.loss is not None:
            rows.append((n.loss[kept] / self.loss, 1.0, {}))
        means = np.array([float(p @ row) for row, _, _ in rows])
        tilts = np.array([tilt[name] for name in self.names])
        # d<row> = <row tilt> - <row><tilt>, and what the row has of the unknown itself
        slopes = (np.array([row for row, _, _ in rows]) * p) @ tilts.T - np.outer(means, tilts @ p)
        for i, (_, _, own_slopes) in enumerate(rows):
            for name, value in own_slopes.items():
                if name in self.names:
                    slopes[i, self.names.index(name)] += value
        return means - np.array([target for _, target, _ in rows]), slopes * slope


def _resolved(nodes: Nodes, r: float, p: Array) -> Array:
    """F/(1 + r F), 0 where the law has nothing."""
    one = 1 + r * nodes.weight
    return np.divide(nodes.weight, one, out=np.zeros_like(one), where=(one > 0) & (p > 0))


def _solved(problem: _Problem, start: Unknowns) -> Saddle | None:
    """The extremum of one kind that is reached from a start; None unless on the physical branch, and held by many nodes."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        solved: Any = root(
            problem.miss,
            problem.entries(start),
            jac=True,
            method="hybr",
            options={"xtol": 1e-14, "maxfev": _CALLS},
        )
        if not np.all(np.isfinite(solved.x)) or np.abs(problem.miss(solved.x)[0]).max() >= _TOL:
            return None
    n, alpha = problem.nodes, problem.alpha
    at, _ = problem.numbers(solved.x)
    p, _ = tilted(n, alpha, **at)
    # Across l' = 0 the law is exp(-l'^2/(2 alpha A)), of width (alpha A)^(1/2) / |F| in lambda.
    wide = math.sqrt(alpha * at["a"]) > _WIDE * n.step * float(p @ np.abs(n.weight))
    margin = alpha * float(p @ (at["r"] * _resolved(n, at["r"], p)) ** 2)
    if not wide or margin > 1 + _SAME:
        return None
    return Saddle(float(phi(n, alpha, problem.loss, **at)), **at, probability=p, margin=margin)


def towards_teacher(nodes: Nodes, alpha: float, found: Saddle) -> tuple[float, float]:
    """s - Xi at the multiplier s of the sphere, positive where the teacher makes an eigenvalue below it, and the squared
    overlap with the teacher of an eigenvector whose eigenvalue is s.

    The gradient that vanishes has used the data in one direction, that of the forces l'; the rest of the data are as they
    were. Conditioned theory with this one force (`theory.path`), v the teacher's part outside the student, B = 1/(1 + r F):

        Xi = alpha E[v^2 F B] + r c^2/d,   c = alpha E[v l' F B],   d = alpha E[l'^2 B],   overlap = 1/(1 - dXi/dz),

    along z = alpha E[F B] - 1/r. At the edge dz/dr = 0, and so is the overlap.
    """
    r, f, force, v = found.r, nodes.weight, nodes.force, nodes.v
    p, one = alpha * found.probability, 1 + r * f
    b = np.divide(1, one, out=np.zeros_like(one), where=(one > 0) & (p > 0))
    c, d = float(p @ (v * force * f * b)), float(p @ (force**2 * b))
    xi = float(p @ (v**2 * f * b)) + r * c**2 / d
    square = (f * b) ** 2  # dB/dr = -F B^2
    c_r, d_r = -float(p @ (v * force * square)), -float(p @ (force**2 * f * b**2))
    xi_r = -float(p @ (v**2 * square)) + c**2 / d + r * (2 * c * c_r / d - c**2 * d_r / d**2)
    # z = alpha E[F B] - 1/r; at the edge dz/dr = 0
    z_r = 1 / r**2 - float(p @ square)
    s = float(p @ (nodes.lam * force))
    overlap = z_r / (z_r - xi_r) if z_r > 0 else 0.0
    return s - xi, overlap
