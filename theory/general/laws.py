"""Laws of weights of networks for `theory.general.isotropic`: p = 1, p = inf, even students. As nodes of product rules, or of
quadratic committees exactly (`quadratic_law`).

The averages run over the teacher (its preactivation u, or the law of y where F depends on u through y alone) and over the
student (lam at p = 1 and, since blocks decouple, at p = inf; the length of lam for quadratic students of any p). Weights
f(x, y) have poles of 1/(q + f) near the real plane, where a Gauss rule fails. The trapezoidal rule in v with

    x = c + r sinh v,   r = 1e-3,   c = c(y) the x where f(x, y) is lowest,

takes a pole at c + i eps with any eps >= r to a distance of at least pi/2 from the axis, hence converges like exp(-pi^2/(2 h))
(the Gaussian limits it) however close the pole is, with no more nodes than without the map. The rule is refined until the
results are steady: `h` is an argument.

At p = inf these are the outliers of all combinations of the students but their sum, and the infimum of the weights is that
of all p: `theory.general.extremes`.

Noise before the teacher's activation: with u = (c u' + noise part), c = 1/sqrt(1 + Delta), y depends on u' ~ N(0, 1) alone;
spike directions v = (u, own direction of the student) are then Gaussian given (u', lam), and E[v v^T | u', lam] stands for
v v^T in the blocks.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from theory.exact.averages import Widths, average, kernel_k, kernel_u, kernel_v, kernel_w
from theory.exact.bulk import at_outlier, unit
from theory.general.extremes import convex, rare_infimum
from theory.general.infimum import Infimum, plane_infimum, valley
from theory.general.isotropic import Averages, Block, Law, node_averages
from theory.general.quadrature import chi_square_law, panels
from theory.model.activations import Activation
from theory.model.network import Network

Array = NDArray[Any]

_RADIUS = 1e-3  # of the sinh map: poles nearer than this to the real axis are not resolved
_REACH = 9.5  # standard deviations that the nodes cover: what is left out is 2e-21
_POLYNOMIAL = "quadratic", "he2"  # activations whose mean over a layer is a chi-square, up to a shift
# codimension of the lowest weights up to which E (q_min + f)^-2 diverges, so that no edge is smooth
_DIVERGES = 4
_FEW_DIGITS = 1e-2  # of K, below which X as a difference has lost them


def isotropic(model: Network) -> bool:
    """Whether G is a multiple of the identity, the averages have two dimensions and both outputs are means of activations."""
    through_y = model.p_star == 1 or model.teacher.name in _POLYNOMIAL
    if not through_y or model.output_noise or not model.is_mean:
        return False
    if model.p == 1:
        return model.p_star == 1 or model.overlap == 0.0
    free = model.overlap == 0.0 and model.gram is None
    return free and (math.isinf(model.p) or model.student.name in _POLYNOMIAL)


def student_weight(model: Network) -> Callable[[Array, Array], tuple[Array, ...]]:
    """Weights (branches) as functions of (x, y), broadcasting: x = lam at p = 1 and p = inf, else x = |lam| / sqrt(p).

    At p = inf yhat is its mean, blocks decouple and (p/2) F = l' s''(lam) / 2. A quadratic student has the eigenvalues
    (2/p) l' with multiplicity p - 1 and (2/p) (l' + 2 l'' x^2) along lam.
    """
    student, rule, a, p = model.student, model.rule, model.a, model.p
    if math.isinf(p):
        mean = _mean(student)

        def wide(x: Array, y: Array) -> tuple[Array, ...]:
            x, y = np.broadcast_arrays(x, y)
            # (p/2) F without its rank-one part, which acts along the sum of the students alone
            return (rule.first(y, np.full(y.shape, mean), a, np) * student.second(x, np) / 2,)

        return wide
    if p == 1:

        def single(x: Array, y: Array) -> tuple[Array, ...]:
            x, y = np.broadcast_arrays(x, y)
            yhat = student.value(x, np)
            slope, bend = student.first(x, np), student.second(x, np)
            return (rule.second(y, yhat, a, np) * slope**2 + rule.first(y, yhat, a, np) * bend,)

        return single

    def split(x: Array, y: Array) -> tuple[Array, ...]:
        x, y = np.broadcast_arrays(x, y)
        yhat = student.value(x, np)
        across = (2 / p) * rule.first(y, yhat, a, np)
        return across, across + (4 / p) * rule.second(y, yhat, a, np) * x**2

    return split


@lru_cache(maxsize=256)
def infimum_of(model: Network) -> Infimum:
    """Infimum of the weights of an isotropic model, in its units; for p = inf of all that occur at finite p."""
    typical = typical_infimum(model)
    return rare_infimum(model, typical, model.teacher.reach) if math.isinf(model.p) else typical


@lru_cache(maxsize=256)
def typical_infimum(model: Network) -> Infimum:
    """The same, for p = inf of the weights that have a probability there: those with yhat at its mean."""
    weight = student_weight(model)

    def lowest(x: Array, y: Array) -> Array:
        return np.minimum.reduce(weight(x, y))

    start = -math.inf if model.p == 1 or math.isinf(model.p) else 0.0
    unit = model.a if model.rule.has_a else 1.0
    if _one_direction(model):
        m = float(model.overlap_matrix[0, 0])  # lam = m u, of length |m|
        return plane_infimum(
            lambda x, y: lowest(x, model.teacher.value(x / m, np) + 0 * y), (0.0, 0.0), start
        )
    if math.isinf(model.p):
        mean = _mean(model.student)
        return plane_infimum(lowest, model.teacher.reach, start, lambda x: np.full(np.shape(x), mean), unit)
    return plane_infimum(lowest, model.teacher.reach, start, lambda x: model.student.value(x, np), unit)


def _one_direction(model: Network) -> bool:
    """Whether the one student is the teacher, seen without noise: y is a function of lam."""
    if model.p != 1 or model.overlap == 0.0 or model.noise:
        return False
    return float(model.gram_matrix[0, 0]) - float(model.overlap_matrix[0, 0]) ** 2 <= 0


def across(model: Network) -> bool:
    """Whether the lowest eigenvalues at p = inf are those across the sum of the students: `theory.general.extremes`."""
    even = model.student.parity == "even"
    return not math.isinf(model.p) or even or convex(model, model.teacher.reach)


def closed(model: Network, found: Infimum) -> bool:
    """Whether averages exist at q_min: not where the infimum is taken on a set of few codimensions."""
    if found.value >= 0:
        return False
    if found.place == "far":
        return True
    # A mean inside its range is met on a set of one codimension, an end only where every u_l takes it.
    teacher = 1 if found.place == "inside" else model.p_star
    if found.place in ("low", "high") and not model.teacher.attains(found.y):
        return True
    # x = |lam| = 0 is a point of p dimensions, any other length a sphere.
    length = model.p if not math.isinf(model.p) and found.x == 0 else 1
    return teacher + length > _DIVERGES


def node_law(model: Network, h: float, rare: bool = True) -> Law:
    """The law of an `isotropic` model at step h; raises ValueError where its weights are unbounded below.

    rare   whether weights that have no probability at p = inf, but do at every finite p, bound q
    """
    found = _bounded(model, rare)
    return _law(model, found, _built(model, h, found, _RADIUS))


@lru_cache(maxsize=8)
def panel_law(model: Network, d: float, tolerance: float, most: int, rare: bool = True) -> Law:
    """The law by panels that resolve averages at q = q_min + d: for weights with narrow valleys, which no one map of the line
    resolves, and for poles nearer than those that `node_law` does. Larger d are resolved with it.

    tolerance   of K, K2 and the averages of the teacher's and the student's squares, relative
    most        nodes
    """
    found = _bounded(model, rare)
    q = max(0.0, -found.value) + d
    single = model.p == 1 or math.isinf(model.p)
    spread = _student_given(model, _Teacher.of(model, np.zeros(1), np.ones(1)))[1] if single else 1.0
    lines = (model.p_star, 1 if single else int(model.p))

    def built(t: Array, x: Array, probability: Array) -> _Built:
        teacher = _Teacher.of(model, t if model.p_star == 1 else t**2 / model.p_star, probability)
        if not single:
            return _of_lengths(model, teacher, x**2 / int(model.p), np.ones(len(x)))
        lam = _student_given(model, teacher)[0] + spread * x
        return _of_lines(model, teacher, lam, np.ones(len(x)))

    def tests(t: Array, x: Array) -> Array:
        f, shares, *_ = built(t, x, np.ones(len(t)))
        with np.errstate(all="ignore"):
            # What K, K2 and the spike blocks average, so that panels are fine where these vary.
            a = f * (q / (q + f))
        parts = (shares * a).reshape(-1, len(t)), (shares * a**2).reshape(-1, len(t))
        first, second = (part.sum(axis=0) for part in parts)
        return np.stack([first, second, second * t**2, second * x**2])

    t, x, weight = panels(tests, lines, tolerance, most)
    return _law(model, found, built(t, x, weight))


def _bounded(model: Network, rare: bool) -> Infimum:
    found = (infimum_of if rare else typical_infimum)(model)
    if not math.isfinite(found.value):
        raise ValueError("weights without a lower bound have no law here")
    return found


def _law(model: Network, found: Infimum, built: _Built) -> Law:
    f, coefficients, rows, blocks = built
    there = np.isfinite(f)  # not at preactivations so rare that a + y is 0 to rounding
    if not np.all(there) and np.sum(coefficients[~there]) < 1e-9:
        f, coefficients, rows = f[there], coefficients[there], tuple(row[:, there] for row in rows)
    q_min = max(0.0, -found.value)
    # The root mean square weight, where no infimum sets a scale.
    scale = float(np.sqrt(coefficients @ f**2 / np.sum(np.abs(coefficients))))
    scale = min(scale, float(np.max(np.abs(f)))) if q_min == 0 else max(q_min, 1e-300)
    at = node_averages(f, coefficients, rows, q_min, scale)
    return Law(at, blocks, q_min, closed(model, found), scale)


@lru_cache(maxsize=16)
def weight_nodes(model: Network, h: float, radius: float = _RADIUS) -> tuple[Array, Array]:
    """Weights (n,) and their probabilities (n,) of an `isotropic` model, bounded below or not: what K is made of.

    radius  of the sinh map: a larger one needs fewer nodes, where poles of 1/(1 - g f) keep away from the real plane
    """
    return _built(model, h, infimum_of(model), radius)[:2]


@dataclass(frozen=True)
class _Teacher:
    """Nodes of the teacher's law: y (m,), probabilities (m,), E[u^2 | y] (m,) of each u_l, and u' (m,) where p_star = 1."""

    y: Array
    probability: Array
    square: Array
    u: Array | None

    @classmethod
    def of(cls, model: Network, seen: Array, probability: Array) -> _Teacher:
        """From u' (m,) where p_star = 1, else from |u'|^2 / p_star."""
        clean, line = 1 / (1 + model.noise), model.p_star == 1
        square = clean * (seen**2 if line else seen) + 1 - clean
        if line:
            return cls(model.teacher.value(seen / math.sqrt(clean), np), probability, square, seen)
        return cls(seen / clean + model.teacher.value(np.zeros(1), np)[0], probability, square, None)

    def along(self, many: int) -> _Teacher:
        """Every node `many` times."""
        u = None if self.u is None else np.repeat(self.u, many)
        y, probability, square = (np.repeat(v, many) for v in (self.y, self.probability, self.square))
        return _Teacher(y, probability, square, u)


def _teacher_nodes(model: Network, h: float, found: Infimum, radius: float) -> _Teacher:
    if model.p_star > 1:
        return _Teacher.of(model, *chi_square_law(model.p_star))
    # Poles of 1/(q + f) lie next to the lowest weights: nodes crowd there.
    centre = _inverse(model, found.y) if found.place == "inside" else 0.0
    u, probability = _line(np.array([centre]), 0.0, 1.0, h, radius)
    return _Teacher.of(model, u[0], probability[0])


def _inverse(model: Network, y: float) -> float:
    """The u' within reach where the teacher's output is nearest to y."""
    u = np.linspace(-_REACH, _REACH, 200_001)
    return float(u[np.argmin(np.abs(model.teacher.value(u * math.sqrt(1 + model.noise), np) - y))])


def _line(centre: Array, mean: Array | float, sigma: float, h: float, radius: float) -> tuple[Array, Array]:
    """Nodes and probabilities (m, n) of N(mean, sigma^2) under the sinh map about each centre (m,)."""
    mean = np.broadcast_to(np.asarray(mean, float), centre.shape)
    centre = np.clip(centre, mean - _REACH * sigma, mean + _REACH * sigma)
    reach = float(np.max(np.abs(centre - mean))) + _REACH * sigma
    radius = radius * sigma
    count = math.ceil(math.asinh(reach / radius) / h)
    v = h * np.arange(-count, count + 1)
    x = centre[:, None] + radius * np.sinh(v)
    away = (x - mean[:, None]) / sigma
    # dx = radius cosh v dv
    weight = np.exp(-(away**2) / 2) * (radius * h / (sigma * math.sqrt(2 * math.pi))) * np.cosh(v)
    return x, weight


def _mean(entry: Activation) -> float:
    """E s(x), x ~ N(0, 1)."""
    x, weight = _line(np.zeros(1), 0.0, 1.0, 0.1, _RADIUS)
    return float(weight[0] @ entry.value(x[0], np))


_Built = tuple[Array, Array, tuple[Array, ...], tuple[Block, ...]]


def _built(model: Network, h: float, found: Infimum, radius: float) -> _Built:
    teacher = _teacher_nodes(model, h, found, radius)
    single = model.p == 1 or math.isinf(model.p)
    return _single(model, h, teacher, radius) if single else _split(model, teacher)


def _single(model: Network, h: float, teacher: _Teacher, radius: float) -> _Built:
    """p = 1, or one block of p = inf: lam on the line, correlated with u' where the student overlaps with the teacher."""
    mean, spread = _student_given(model, teacher)
    if spread == 0:
        lam, inner = mean[:, None], np.ones((len(mean), 1))
    else:
        weight = student_weight(model)
        centre = valley(lambda x, y: weight(x, y)[0], teacher.y)
        # In lam too nodes crowd where the weight is lowest, at every y.
        lam, inner = _line(centre, mean, spread, h, radius)
    return _of_lines(model, teacher.along(lam.shape[1]), lam.ravel(), inner.ravel())


def _student_given(model: Network, teacher: _Teacher) -> tuple[Array, float]:
    """Mean (n,) of lam given u', and its standard deviation: 0 where the student is the teacher, seen without noise."""
    if teacher.u is None or math.isinf(model.p) or model.overlap == 0.0:
        size = 1.0 if math.isinf(model.p) else float(model.gram_matrix[0, 0])
        return np.zeros(len(teacher.y)), math.sqrt(size)
    m, size = float(model.overlap_matrix[0, 0]), float(model.gram_matrix[0, 0])
    clean = 1 / (1 + model.noise)
    # E[lam u'] = m / (1 + Delta)^(1/2): the rest of lam's variance is its spread.
    return m * math.sqrt(clean) * teacher.u, math.sqrt(max(size - m**2 * clean, 0.0))


def _of_lines(model: Network, teacher: _Teacher, lam: Array, inner: Array) -> _Built:
    """What nodes (n,) of the teacher and lam (n,) with probabilities `inner` given the teacher make at p = 1 or p = inf."""
    wide = math.isinf(model.p)
    m = 0.0 if wide or model.overlap == 0.0 else float(model.overlap_matrix[0, 0])
    size = 1.0 if wide else float(model.gram_matrix[0, 0])
    probability = teacher.probability * inner
    f = student_weight(model)(lam, teacher.y)[0]
    # exp(-x^2/2) underflows far out.
    keep = probability > 0
    if teacher.u is None or (model.student.parity == "even" and m == 0):
        rows: tuple[Array, ...] = (
            (teacher.square * probability)[None, :],
            (lam**2 / size * probability)[None, :],
        )
        blocks: tuple[Block, ...] = (
            Block(np.array([True]), np.zeros((1, 1)), model.degeneracy),
            Block(np.array([False]), np.eye(1), model.p),
        )
    else:
        rows = (_conditional(m, size, model.noise, teacher.u, lam) * probability,)
        own = np.array([m, math.sqrt(max(size - m**2, 0))]) / math.sqrt(size)
        blocks = (Block(np.array([True, False]), np.outer(own, own), model.p),)
    return f[keep], probability[keep], tuple(row[:, keep] for row in rows), blocks


def _conditional(m: float, size: float, noise: float, u: Array, lam: Array) -> Array:
    """E[v v^T | u', lam], packed (3, n); v = (u, own), lam = m u + sqrt(size - m^2) own, u' = (u + noise)/sqrt(1 + Delta)."""
    clean, own = math.sqrt(1 / (1 + noise)), math.sqrt(max(size - m**2, 0.0))
    joint = np.array([[1.0, m * clean], [m * clean, size]])
    cross = np.array([[clean, m], [0.0, own]])
    # Gaussian conditioning: E[v v^T | x] = (gain x)(gain x)^T + cov(v) - gain cross^T
    gain = cross @ np.linalg.pinv(joint, rcond=1e-14, hermitian=True)
    left = np.eye(2) - gain @ cross.T
    first, second = gain @ np.stack([u, lam])
    return np.stack([first**2 + left[0, 0], first * second + left[0, 1], second**2 + left[1, 1]])


def _split(model: Network, teacher: _Teacher) -> _Built:
    """Quadratic students of 2 <= p < inf over the length of lam."""
    square, inner = chi_square_law(int(model.p))
    many = len(teacher.y)
    return _of_lengths(model, teacher.along(len(square)), np.tile(square, many), np.tile(inner, many))


def _of_lengths(model: Network, teacher: _Teacher, length: Array, inner: Array) -> _Built:
    """What nodes (n,) of the teacher and of |lam|^2 / p make for quadratic students: branches of multiplicity p - 1 and 1."""
    p = int(model.p)
    across, along = student_weight(model)(np.sqrt(length), teacher.y)
    probability, seen = teacher.probability * inner, teacher.square
    shares = np.concatenate([probability * (1 - 1 / p), probability / p])
    kinds = [
        (
            seen * (1 - 1 / p),
            seen / p,
            model.degeneracy,
        ),  # the teacher, then rotations, scale and shapes of the student
        (length, 0 * length, p * (p - 1) // 2),
        (0 * length, length, 1),
        (length * (1 - 2 / (p + 2)), length * (2 / (p + 2)), p * (p + 1) // 2 - 1),
    ]
    rows = tuple(np.concatenate([probability * one, probability * two])[None, :] for one, two, _ in kinds)
    blocks = tuple(Block(np.array([i == 0]), np.eye(1) * (i > 0), many) for i, (*_, many) in enumerate(kinds))
    return np.concatenate([across, along]), shares, rows, blocks


def quadratic_law(model: Network) -> Law:
    """Exact averages of a quadratic Network (`is_quadratic`): with any noise before the square those of one Laplace integral
    (`theory.exact.averages`).

    Students never have outliers of their own on the left (`theory.exact.outliers`: K <= X, whatever the covariance), so the one
    block is the teacher's.
    """
    models, scale = Widths.of([model.p], model.p_star, model.a, model.noise), unit(model)

    def averages(d: float) -> Averages:
        """With t = unit/q, K2 = W/t^2, X = K - U/t and X2 = V/t^2, in units of the unit."""
        q = scale + d
        t, rest = scale / q, d / q
        at = models, np.array([t]), np.array([rest])
        k, w, u, v = (float(value[0]) for value in average([kernel_k, kernel_w, kernel_u, kernel_v], *at))
        # U = t (K - S), X = S
        x = k - u / t
        if abs(x) < _FEW_DIGITS * abs(k):  # as at large a, where E[y f] is of order 1/a^2
            x = float(at_outlier(*at)[0])
        of_block, of_squares = np.array([[scale * x]]), np.array([[scale**2 * v / t**2]])
        return Averages(scale * k, scale**2 * w / t**2, lambda _: of_block, lambda _: of_squares)

    teacher = Block(np.array([True]), np.zeros((1, 1)), model.degeneracy)
    return Law(averages, (teacher,), scale, True, scale)
