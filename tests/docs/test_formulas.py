r"""Every displayed formula of the pages of docs/, evaluated: its sides against each other, by own quadratures.

A formula is known by its text: one that is added or changed has no check until it is written here. Averages run over Gauss
rules of the two chi-squares, roots are those of `scipy.optimize`; what the package computes stands on the other side.
"""

import re
from functools import partial
from pathlib import Path
from zlib import crc32

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import roots_genlaguerre

import theory
from sims import hessian
from theory import (
    Inputs,
    Network,
    density,
    student_margins,
    z_of_g,
)
from theory.exact.bulk import edge_resolvent
from theory.exact.outliers import outlier_resolvent
from theory.finite.edge import finite_edge, pole_probability
from theory.general.spectrum import solve
from theory.given import given, population
from theory.path import closure, conditioned
from theory.path.projected import ProjectedDyson

DOCS = Path(__file__).parents[2] / "docs"
P, P_STAR, A, ALPHA = 3, 2, 1.0, 5.0  # 2/p is not p/2
MODEL = Network(P, P_STAR, A)
TWO = Network(2, 1, A)  # for matrices
CONTINUOUS = Network(2, 1, 0.6)
CONTINUOUS_ONE = Network(1, 1, 0.5)
close = partial(np.testing.assert_allclose, rtol=1e-8)


def chi(k, nodes=160):
    """Gauss rule of chi^2_k / k."""
    x, w = roots_genlaguerre(nodes, k / 2 - 1)
    return 2 * x / k, w / w.sum()


class Averages:
    """E over (yhat, y) of a committee, and the functions of t and g that docs/theory.md names."""

    def __init__(self, model):
        self.p, self.p_star, self.a = int(model.p), int(model.p_star), float(model.a)
        (x, v), (y, w) = chi(self.p), chi(self.p_star)
        self.yhat, self.y, self.weight = x[:, None], y[None, :], v[:, None] * w[None, :]

    def mean(self, values):
        return np.sum(self.weight * values)

    def both(self, value):
        """Values at the two eigenvalues, c = 1 and 3, with their weights (p - 1)/p and 1/p."""
        return (self.p - 1) / self.p * value(1) + value(3) / self.p

    def d(self, t, c):
        return self.a + c * t * self.yhat + (1 - t) * self.y

    def phi(self, t, c):
        """In units of (p/2) H."""
        return (c * self.yhat - self.y) / self.d(t, c)

    def f(self, c):
        return 2 / self.p * (c * self.yhat - self.y) / (self.a + self.y)

    def resolved(self, g, c):
        """phi_c(g) in units of H."""
        return self.f(c) / (1 - g * self.f(c))

    def k(self, g):
        return self.mean(self.both(lambda c: self.resolved(g, c)))

    def s(self, g):
        return self.mean(self.y * self.both(lambda c: self.resolved(g, c)))

    def w(self, t):
        return self.mean(self.both(lambda c: (t * self.phi(t, c)) ** 2))

    def u(self, t):
        return t * self.mean((1 - self.y) * self.both(lambda c: self.phi(t, c)))

    def v(self, t):
        return self.mean(self.y * self.both(lambda c: (t * self.phi(t, c)) ** 2))


def slope(function, x, h=1e-4):
    """Derivative to O(h^4)."""
    return (8 * (function(x + h) - function(x - h)) - function(x + 2 * h) + function(x - 2 * h)) / (12 * h)


def resolvent():
    e = Averages(MODEL)
    for g in (-0.2, -0.6):
        close(1 / g, z_of_g(MODEL, ALPHA, g) - ALPHA * e.k(g))


def walk_units():
    e, t = Averages(MODEL), 0.6
    g = -P * t / 2
    for c in (1, 3):
        close(1 - g * e.f(c), e.d(t, c) / (e.a + e.y))
        close(P / 2 * e.resolved(g, c), e.phi(t, c))
        assert np.all(e.d(t, c) > 0)


def walk():
    e, edge = Averages(CONTINUOUS), theory.edge(CONTINUOUS, 6.0)
    assert edge.kind == "sharp"
    t = -edge_resolvent(CONTINUOUS, 6.0)
    close(6.0 * e.w(t), 1)
    assert abs(slope(lambda g: float(z_of_g(CONTINUOUS, 6.0, g)), edge_resolvent(CONTINUOUS, 6.0))) < 1e-6
    found = theory.outliers(CONTINUOUS, 6.0)[0]
    out = -outlier_resolvent(CONTINUOUS, 6.0)
    close(6.0 * e.u(out), 1)
    close(found.value, 6.0 * e.s(outlier_resolvent(CONTINUOUS, 6.0)))
    assert out < t
    threshold = theory.threshold(CONTINUOUS)
    both = brentq(lambda t: e.u(t) - e.w(t), 0.1, 0.999, xtol=1e-14)
    close([threshold.alpha, threshold.alpha], [1 / e.u(both), 1 / e.w(both)])
    assert (threshold.kind, theory.threshold(MODEL).kind) == ("continuous", "discontinuous")
    e = Averages(MODEL)
    assert e.w(1) <= e.u(1) and theory.edge(MODEL, 0.9 / e.w(1)).kind == "smooth"
    assert theory.edge(MODEL, 1.1 / e.w(1)).kind == "sharp"


def sign():
    e = Averages(MODEL)
    for alpha in (0.3, 1.0):
        for t in (0.1, 0.5, 0.9):
            inside = 1 - alpha + alpha * e.mean(e.both(lambda c, t=t: (e.a + e.y) / e.d(t, c)))
            close(z_of_g(MODEL, alpha, -P * t / 2), -2 / (P * t) * inside)
            assert inside > 0


def tilted():
    e, s, t = Averages(Network(2, 3, A)), 0.7, 0.4
    for c in (1, 3):
        tilt = np.exp(-s * e.d(t, c))
        close(e.mean(tilt * c * e.yhat) / e.mean(tilt), c / (1 + 2 * c * t * s / e.p))
        close(e.mean(tilt * e.y) / e.mean(tilt), 1 / (1 + 2 * (1 - t) * s / e.p_star))


def mass():
    e, s, t = Averages(Network(2, 3, A)), 0.7, 0.4
    for c in (1, 3):
        whole = np.exp(-A * s) * (1 + 2 * c * t * s / 2) ** (-2 / 2) * (1 + 2 * (1 - t) * s / 3) ** (-3 / 2)
        close(e.mean(np.exp(-s * e.d(t, c))), whole)


def outlier_values():
    e, found = Averages(MODEL), theory.outliers(MODEL, ALPHA)[0]
    close(found.value, 1 / outlier_resolvent(MODEL, ALPHA) + ALPHA * e.k(outlier_resolvent(MODEL, ALPHA)))
    close(found.value, ALPHA * e.s(outlier_resolvent(MODEL, ALPHA)))


def overlap():
    e, found = Averages(MODEL), theory.outliers(MODEL, ALPHA)[0]
    t, g = -2 * outlier_resolvent(MODEL, ALPHA) / P, outlier_resolvent(MODEL, ALPHA)
    slopes = slope(e.s, g) / slope(lambda g: float(z_of_g(MODEL, ALPHA, g)), g)
    close(found.overlap, 1 / (1 - ALPHA * slopes), rtol=1e-6)
    close(found.overlap, (1 - ALPHA * e.w(t)) / (1 - ALPHA * e.w(t) + ALPHA * e.v(t)))


def discontinuous():
    e, value = Averages(MODEL), theory.threshold(MODEL).alpha
    close(value, 1 / e.u(1))
    close(value, P_STAR / 2 / e.mean(e.both(lambda c: 1 / (c * e.yhat + e.a))))


def round_law(model, angles=8):
    """Nodes lam (n, 2) of p = 2, y (n,) and probabilities: for averages of even polynomials of degree 6 in the direction."""
    e = Averages(model)
    angle = 2 * np.pi * np.arange(angles) / angles
    around = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    lam = np.broadcast_to(np.sqrt(2 * e.yhat)[..., None, None] * around, (e.yhat.size, e.y.size, angles, 2))
    y, weight = (np.broadcast_to(part[..., None], lam.shape[:3]) for part in (e.y, e.weight / angles))
    return lam.reshape(-1, 2), y.ravel(), weight.ravel()


def matrices(model, lam, y):
    """F (n, p, p) as docs/model.md has it."""
    p, yhat = lam.shape[1], np.mean(lam**2, axis=1)
    outer = 2 / p * lam[:, :, None] * lam[:, None, :] + (yhat - y)[:, None, None] * np.eye(p)
    return 2 / p * outer / (model.a + y)[:, None, None]


def student_modes():
    g, e = -0.4, Averages(TWO)
    lam, y, weight = round_law(TWO)
    F = matrices(TWO, lam, y)
    resolved = np.linalg.solve(np.eye(2) - g * F, F)
    full = np.einsum("n,nk,nl,nij->kilj", weight, lam, lam, resolved).reshape(4, 4)
    one, two = (e.mean(e.yhat * e.resolved(g, c)) for c in (1, 3))
    vectors = {"antisym": [0, 1, -1, 0], "singlet": [1, 0, 0, 1], "traceless": [1, 0, 0, -1]}
    for name, t in (("antisym", one), ("singlet", two), ("traceless", one + 2 / (2 + 2) * (two - one))):
        close(full @ vectors[name], t * np.array(vectors[name], float), atol=1e-10)


def student_signs():
    alpha = ALPHA
    t, e = -2 * edge_resolvent(MODEL, ALPHA) / P, Averages(MODEL)
    k = e.mean(e.both(lambda c: e.phi(t, c)))
    one, two, d1, d2 = e.phi(t, 1), e.phi(t, 3), e.d(t, 1), e.d(t, 3)
    first = 2 / P * e.mean(e.yhat * (e.a + e.y) * (1 / (d1 * d2) - 1 / d1**2))
    second = -6 / P * e.mean(e.yhat * (e.a + e.y) / d2**2) - (P - 1) / P * e.mean(two - one)
    close([k - e.mean(e.yhat * one), k - e.mean(e.yhat * two)], [first, second])
    assert first <= 0 and second <= 0
    margins = student_margins(MODEL, ALPHA)
    close([margins["antisymmetric"], margins["singlet"]], [alpha * t * first, alpha * t * second])


def any_weight():
    g, z = outlier_resolvent(TWO, ALPHA), theory.outliers(TWO, ALPHA)[0].value
    lam, y, weight = round_law(TWO)
    F = matrices(TWO, lam, y)
    resolved = np.linalg.solve(np.eye(2) - g * F, F)
    close(np.eye(2) / g, z * np.eye(2) - ALPHA * np.einsum("n,nij->ij", weight, resolved), atol=1e-8)
    teacher = ALPHA * np.einsum("n,n,nij->ij", weight, y, resolved)  # v = u: E[u^2 | y] = y
    assert abs(np.linalg.det(z * np.eye(2) - teacher)) < 1e-8


def lehner():
    lam, y, weight = round_law(TWO)
    F = matrices(TWO, lam, y)

    def lowest(q):
        a = q - q @ np.linalg.solve(q + F, np.broadcast_to(q, F.shape))
        return np.linalg.eigvalsh(-q + ALPHA * np.einsum("n,nij->ij", weight, a))[0]

    edge = theory.edge(TWO, ALPHA)
    best = -np.eye(2) / edge_resolvent(TWO, ALPHA)
    close(lowest(best), edge.value)
    for away in (0.01 * best, -0.01 * best, [[0.2, 0.1], [0.1, -0.1]], [[0.0, 0.4], [0.4, 0.3]]):
        assert lowest(best + away) < edge.value


def residue():
    """One block of the determinant: x is the teacher's direction, Xi(z) = alpha S(g(z))."""
    found, e = theory.outliers(MODEL, ALPHA)[0], Averages(MODEL)

    def g_of(z):
        near = outlier_resolvent(MODEL, ALPHA)
        return brentq(lambda g: z_of_g(MODEL, ALPHA, g) - z, 1.1 * near, 0.9 * near, xtol=1e-14)

    close(found.overlap, 1 / (1 - slope(lambda z: ALPHA * e.s(g_of(z)), found.value, 1e-3)), rtol=1e-6)


def inputs():
    model, alpha = Network(1, 1, 1.0, covariance="levels:0.5@0.5,1.5@0.5"), 6.0
    s, share, e = np.array([0.5, 1.5]), np.array([0.5, 0.5]), Averages(Network(1, 1, 1.0))
    found = solve(model, alpha)
    assert len(found.outliers) == 1

    def h(j, z, kappa):
        return np.sum(share * s**j / (z - s * kappa))

    def g_of(z):  # the root next to g = 0: z = 1 / g there
        return brentq(lambda g: h(1, z, alpha * e.k(g)) - g, -0.35, -1e-3, xtol=1e-14)

    def beyond(z):
        g = g_of(z)
        kappa = alpha * e.k(g)
        return g, alpha * e.s(g) - kappa, h(2, z, kappa)

    place = float(found.outliers[0])
    g, excess, second = beyond(place)
    close(excess * second, 1, rtol=1e-7)
    rate = slope(lambda z: np.prod(beyond(z)[1:]), place, 1e-3)
    close(float(found.overlaps[0]), excess * g**2 / -rate, rtol=1e-5)


def given_rows():
    """At the outlier of one draw, all from the rows: an eigenvalue of W^(1/2) D W^(1/2) is -1, with G the root next to 0."""
    rng, n, m = np.random.default_rng(5), 40, 320
    x = rng.standard_normal((m, n)) * np.sqrt(np.where(np.arange(n) < n / 2, 0.7, 1.3))
    w = rng.standard_normal((2, n))
    w *= np.sqrt(n) / np.linalg.norm(w, axis=1)[:, None]
    rows = Inputs.of(x)
    known = population(rows)
    x = rows.take(np.arange(m))
    found = given(CONTINUOUS_ONE, known, x, w[:1], w[1:])[0]
    assert len(found.outliers) == 1 and known.apart == 0
    both = x @ w.T / np.sqrt(n)
    f = CONTINUOUS_ONE.weights(both[:, :1], CONTINUOUS_ONE.outputs(both[:, 1:]))[:, 0, 0]
    root = (known.vectors * np.sqrt(known.s)) @ known.vectors.T
    b = np.linalg.qr(root @ w.T)[0].T
    xi = x @ np.linalg.inv(root)
    v = xi @ b.T
    outside = np.linalg.qr(b.T, mode="complete")[0][:, 2:]
    s = np.linalg.eigvalsh(outside.T @ root @ root @ outside)
    z = found.lowest

    def kappa_of(g):
        return np.sum(f / (1 - g * f)) / n

    g = brentq(lambda g: np.sum(s / (z - s * kappa_of(g))) / n - g, 0.999 / f.min(), -1e-6, xtol=1e-15)
    kappa = kappa_of(g)
    big_xi = (v.T * (f / (1 - g * f))) @ v / n
    e = kappa * root @ root - z * np.eye(n)
    loads = b @ root
    inside = loads @ np.linalg.inv(e) @ loads.T
    levels = np.linalg.eigvals((big_xi - kappa * np.eye(2)) @ inside)  # those of the symmetric form
    close(levels.real.min(), -1, rtol=1e-6)


def counted_minima():
    """The largest of N |rho| x - N^2 x^3 / (12 k), whose second part is s^3 / 24 at s = x in units of the edge's scale."""
    rho, k, n = 0.3, 0.7, 50
    x = np.linspace(0, 1, 200_001)
    scale = n ** (2 / 3) * (2 / k) ** (1 / 3)
    close(np.max(n * rho * x - (scale * x) ** 3 / 24), 4 / 3 * rho**1.5 * np.sqrt(k * n), rtol=1e-6)


def sharp_edge():
    alpha, n = ALPHA, 1000
    edge = theory.edge(MODEL, alpha)
    assert edge.kind == "sharp"
    bend = float(z_of_g(MODEL, alpha, edge_resolvent(MODEL, alpha), derivative=2))
    kappa = (P * n) ** (2 / 3) * (2 / abs(bend)) ** (1 / 3)
    close(kappa, finite_edge(MODEL, alpha, n).scale)
    mean_tw1 = -1.2065335745820  # Bornemann, Math. Comp. 79 (2010) 871
    close(finite_edge(MODEL, alpha, n).lowest, edge.value - mean_tw1 / kappa, rtol=1e-6)
    # the count below the edge plus x, 2 / (3 pi) (kappa x)^{3/2}, is p N times the integrated density
    x, w = np.polynomial.legendre.leggauss(20)
    reach = 1e-3
    places, weights = edge.value + reach * ((1 + x) / 2) ** 2, w * reach * (1 + x) / 2
    count = P * n * np.sum(weights * density(MODEL, alpha, places))
    close(
        count, 2 / (3 * np.pi) * (kappa * reach) ** 1.5, rtol=0.02
    )  # next order: reach over the scale of the edge


def smooth_edge():
    rng, delta, m = np.random.default_rng(5), 0.8, 40
    model = Network(1, 1, 1.0)
    y, yhat = rng.standard_normal((2, 10_000, m)) ** 2
    for c in (3,):
        with np.errstate(divide="ignore"):
            pole = np.where(y > c * yhat, (model.a + y) / (y - c * yhat), np.inf)
        p = float(pole_probability(model, delta))
        close(np.mean(delta * y > model.a + c * (1 + delta) * yhat), p, atol=5 * np.sqrt(p / y.size))
        share = np.mean(
            np.min(pole, axis=1) > 1 + delta
        )  # of 10,000 draws: 5 sigma, and M P^2 / 2 for the exponential
        close(share, np.exp(-m * p), atol=5 * np.sqrt(share * (1 - share) / 1e4) + m * p**2)
    far = brentq(lambda d: 500 + np.log(pole_probability(model, d)), 8e-4, 0.1)  # M = e^500
    close(far, model.a * model.p_star / (2 * 500), rtol=0.02)


def small():
    """A draw of N = 5, M = 7, p = p* = 2, with its sums over rows written out."""
    rng, model = np.random.default_rng(1), Network(2, 2, 0.7)
    x, w, w_star = (
        rng.standard_normal((7, 5)) / np.sqrt(5),
        rng.standard_normal((2, 5)),
        rng.standard_normal((2, 5)),
    )
    u = np.array([[w_star[row] @ one for row in range(2)] for one in x])
    lam = np.array([[w[row] @ one for row in range(2)] for one in x])
    return model, x, w, w_star, u, lam


def preactivations():
    model, _, _, _, u, lam = small()
    close(model.weights(lam, model.outputs(u)), matrices(model, lam, np.mean(u**2, axis=1)))


def labels():
    *_, u, lam = small()
    wide = Network(2, 2, 0.7)
    close(wide.outputs(u), (u[:, 0] ** 2 + u[:, 1] ** 2) / 2)
    close(np.mean(wide.student.value(lam, np), axis=-1), (lam[:, 0] ** 2 + lam[:, 1] ** 2) / 2)


def loss():
    model, *_, u, lam = small()
    y, yhat = np.mean(u**2, axis=1), np.mean(lam**2, axis=1)
    close(np.sum(model.losses(lam, model.outputs(u))), sum((y - yhat) ** 2 / (model.a + y)) / 2)


def second_derivative():
    model, x, _, _, u, lam = small()
    F = matrices(model, lam, np.mean(u**2, axis=1))
    full = np.einsum("mqr,mi,mj->qirj", F, x, x).reshape(10, 10)
    close(hessian.dense(x, model.weights(lam, model.outputs(u))), full, atol=1e-12)


def path_block():
    """p = 1: at an outlier of conditioned theory the block is singular, and its slope gives the overlap."""
    rng, n, m = np.random.default_rng(1), 100, 400
    x, w = rng.standard_normal((m, n)) / n**0.5, n**0.5 * np.eye(n)
    model = Network(a=0.5)
    used = closure(x, w[:1], w[1:2], rng.standard_normal((m, 3)) * (x @ w[1])[:, None])
    found, inner = conditioned(model, used), n - used.images.shape[1]
    weights = model.weights(used.lam, model.outputs(used.u))
    dyson, d = ProjectedDyson(weights, 1 / inner, used.forces), weights[:, 0, 0]

    def block(z):
        g = -1 / dyson.state_at(z * n / inner).q[0, 0]
        known, b = used.images, 1 / (1 - g * d)
        left = used.forces.T * (b * d) @ known
        middle = used.forces.T * b @ used.forces
        return (known.T * (d * b) @ known - g * left.T @ np.linalg.solve(middle, left)) / n

    z, step = found.outliers[0], 1e-4
    levels, vectors = np.linalg.eigh(z * np.eye(used.images.shape[1]) - block(z))
    at = int(np.argmin(np.abs(levels)))
    close(levels[at], 0, atol=1e-9)
    null = vectors[:, at]
    slope = null @ (block(z + step) - block(z - step)) @ null / (2 * step)
    close((null @ used.teacher[:, 0]) ** 2 / (1 - slope), found.overlaps[0], rtol=1e-4)


CHECKS = {
    "descents.md": {r"\Xi=\frac1N": ("2e32e747", path_block)},
    "theory.md": {
        r"\frac1g = z-\alpha K(g)": ("57ad556c", resolvent),
        r"1-gf_c=\frac{D_c}{a+y}": ("638277b1", walk_units),
        r"\begin{aligned} \text{edge}": ("09575e07", walk),
        r"z=-\frac2{pt}\Big(1-\alpha+\alpha\,\mathbb E\Big[\frac{a+y}D\Big]\Big)<0": ("3e4179fe", sign),
        r"\hat m=\frac{c}{1+2cts/p}": ("770a4b80", tilted),
        r"e^{-as}\,(1+2cts/p)^{-p/2}": ("71c03511", mass),
        r"z(g)=\frac1g+\alpha K(g)": ("fb1da9af", outlier_values),
        r"q^2=\frac1{1-\alpha S'(g)/z'(g)}": ("5e1fe077", overlap),
        r"\alpha_\mathrm{BBP}=\frac1{U(1)}": ("da85c410", discontinuous),
        r"T_\text{antisym}": ("7aaa3fbf", student_modes),
        r"\begin{aligned} K-": ("fce319e7", student_signs),
        r"G^{-1}=z-": ("7824ca4c", any_weight),
        r"\text{left edge}": ("65aa6bc3", lehner),
        r"q^2=\frac1{1-x^T\Xi'(z)x}": ("954e1c0f", residue),
        r"g=h_1": ("34b73611", inputs),
        r"\kappa=(pN)^{2/3}": ("3a66f4d3", sharp_edge),
        r"P(\text{smallest}>1+\delta)": ("f87ed525", smooth_edge),
    },
    "model.md": {
        r"u_l = w^*_l\cdot x": ("25d2a3af", preactivations),
        r"y = \frac1{p^*}": ("db8fb053", labels),
        r"\mathcal L(w)": ("fa27f60c", loss),
        r"H_{qq'}": ("4eb5842f", second_derivative),
    },
    "inputs.md": {r"G=\frac1N\sum_s": ("c0a4604c", given_rows)},
    "minima.md": {r"\log E[\text{number}]": ("d719cb4d", counted_minima)},
}


def formulas(page):
    return [
        re.sub(r"\s+", " ", text).strip()
        for text in re.findall(r"\$\$([\s\S]*?)\$\$", page.read_text("utf-8"))
    ]


@pytest.mark.parametrize("page", CHECKS)
def test_every_displayed_formula_has_a_check_written_for_its_text(page):
    shown = formulas(DOCS / page)
    assert {text: f"{crc32(text.replace(' ', '').encode()):08x}" for text in shown} == {
        text: digest
        for text in shown
        for start, (digest, _) in CHECKS[page].items()
        if text.startswith(start)
    }, "look at the check of what changed, then write its digest there"
    assert len(shown) == len(CHECKS[page])


def test_no_other_page_displays_one():
    assert not [p.name for p in DOCS.rglob("*.md") if p.name not in CHECKS and formulas(p)]


@pytest.mark.parametrize("check", [check for page in CHECKS.values() for _, check in page.values()])
def test_formulas_hold(check):
    check()
