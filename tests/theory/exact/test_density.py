"""Density, resolvent, atom and moments against quadrature, mpmath, limits and each other; the curve that traces it;
pooled eigenvalues of dense Hessians drawn here with NumPy, independently of sims.
"""

import math

import mpmath as mp
import numpy as np
import pytest
from scipy import stats

import theory
from tests.theory.samples import hessian
from tests.theory.spectra import exact_t, gauss, integrate
from theory import atom, density
from theory.exact import committee_preactivations
from theory.exact.bulk import edge_resolvent, z_of_g
from theory.exact.density import moment, stieltjes
from theory.exact.resolvent import trace
from theory.exact.weight_law import Rule, excess_density, student_law, teacher_law, weight_law
from theory.model import Network

# model, alpha; sharp and smooth edges, alpha below, at and above 1, small and large widths and a
POINTS = [
    (Network(1, 1, 0.5), 2.0),
    (Network(1, 1, 0.5), 0.5),
    (Network(1, 2, 1.0), 1.0),
    (Network(2, 1, 1.0), 0.8),
    (Network(2, 1, 0.3), 1.5),
    (Network(4, 2, 0.3), 5.0),
    (Network(3, 3, 1e-3), 1.2),
    (Network(16, 1, 1.0), 0.7),
    (Network(64, 20, 0.5), 9.0),
]
SHARP = [point for point in POINTS if theory.edge(*point).kind == "sharp"]
SMOOTH = [(Network(2, 1, 1.0), 0.8), (Network(1, 1, 1.0), 0.5), (Network(16, 1, 1.0), 0.7)]


def unit(model):
    return 1.0 if math.isinf(model.p) else model.p / 2


def corners(points, kept):
    """These of the points by default, the others with -m slow."""
    return [
        pytest.param(*point, id=name, marks=() if i in kept else pytest.mark.slow)
        for i, (point, name) in enumerate(zip(points, names(points), strict=True))
    ]


def names(points):
    return [f"p{model.p}-p*{model.p_star}-a{model.a}-alpha{alpha}" for model, alpha in points]


def test_both_kinds_of_edge_are_among_the_points():
    kinds = [theory.edge(*point).kind for point in POINTS]
    assert kinds.count("sharp") >= 4 and kinds.count("smooth") >= 2


def test_reference_densities(reference):
    """The tabulated values were taken at Im z = 1e-7: the resolvent there reproduces them, the density nearly."""
    for row in reference["density"]:
        model = Network(row["p"], row["p_star"], row["a"])
        blurred = -stieltjes(model, row["alpha"], row["lam"] + 1e-7j).imag / math.pi
        assert blurred == pytest.approx(row["rho"], rel=1e-12)
        assert density(model, row["alpha"], row["lam"]) == pytest.approx(row["rho"], rel=1e-6)


@pytest.mark.parametrize(("model", "alpha"), corners(POINTS, (1, 8)))
def test_mass_moments_and_cauchy_transform(model, alpha):
    """Mass with the atom, three moments against the free-cumulant formula, and the resolvent, within 1e-11 by quadrature."""
    z = np.array([-1.5 + 0.3j, 0.4 + 0.5j, -1 + 1j, 40 + 9j])
    found = integrate(
        model, alpha, lambda lam: np.concatenate([[lam**k for k in range(4)], 1 / (z[:, None] - lam)])
    )
    mass, *rest = found[:4].real
    assert mass + atom(model, alpha) == pytest.approx(1, abs=1e-11)
    for k, value in enumerate(rest, start=1):
        assert value == pytest.approx(moment(model, alpha, k), rel=1e-11)
    np.testing.assert_allclose(found[4:] + atom(model, alpha) / z, stieltjes(model, alpha, z), rtol=1e-11)


@pytest.mark.parametrize(
    ("p_star", "alpha"),
    [pytest.param(1, 0.7, marks=pytest.mark.slow), (6, 0.4), pytest.param(2, 3.0, marks=pytest.mark.slow)],
)
def test_mass_at_infinite_width(p_star, alpha):
    """p = inf has a right edge too: found here as the point beyond which the density is exactly 0."""
    model = Network(math.inf, p_star, 1.0)
    inside, outside = theory.edge(model, alpha).value + 0.5, 30.0
    while outside - inside > 1e-14 * outside:
        middle = 0.5 * (inside + outside)
        inside, outside = (middle, outside) if density(model, alpha, middle) > 0 else (inside, middle)
    powers = integrate(model, alpha, lambda lam: np.stack([lam**k for k in range(4)]), inside)
    assert powers[0] + atom(model, alpha) == pytest.approx(1, abs=1e-10)
    np.testing.assert_allclose(
        powers[1:], [moment(model, alpha, k) for k in (1, 2, 3)], rtol=1e-9, atol=1e-10
    )


@pytest.mark.parametrize(("p", "p_star", "a"), [(1, 1, 0.7), (2, 1, 1.0), (2, 2, 2.0), (3, 1, 0.5)])
def test_moments_from_the_weights(p, p_star, a):
    """E (1/p) Tr F^n from Network.weights itself: polynomials in lam by Gauss-Hermite, u by quadrature in |u|."""
    model, alpha = Network(p, p_star, a), 1.3
    x, h = np.polynomial.hermite_e.hermegauss(8)
    grid = np.stack([axis.ravel() for axis in np.meshgrid(*[x] * p, indexing="ij")], axis=1)
    prob = np.prod(np.meshgrid(*[h / h.sum()] * p, indexing="ij"), axis=0).ravel()
    radius, weight = np.polynomial.legendre.leggauss(400)
    radius, weight = 7 * (radius + 1), 7 * weight * (7 * (radius + 1)) ** (p_star - 1)
    weight = weight * np.exp(-(radius**2) / 2)
    u = np.zeros((radius.size, p_star))
    u[:, 0] = radius
    f = model.weights(grid[:, None, :], model.outputs(u)[None, :])
    cumulants, power = [], np.eye(p)
    for _ in range(3):
        power = power @ f
        trace = np.trace(power, axis1=-2, axis2=-1) / p
        cumulants.append(alpha * float(prob @ trace @ (weight / weight.sum())))
    k1, k2, k3 = cumulants
    assert moment(model, alpha, 0) == 1.0
    assert moment(model, alpha, 1) == pytest.approx(k1, rel=1e-12)
    assert moment(model, alpha, 2) == pytest.approx(k2 + k1**2, rel=1e-12)
    assert moment(model, alpha, 3) == pytest.approx(k3 + 3 * k1 * k2 + k1**3, rel=1e-12)
    assert moment(model, np.array([alpha, 2.0]), 2)[0] == pytest.approx(k2 + k1**2, rel=1e-12)


MP_POINTS = [
    (Network(8, 1, 0.5), 0.7, -0.1 + 1e-3j),
    (Network(4, 2, 0.3), 0.7, 1e-3 + 1e-3j),
    (Network(6, 5, 1e-3), 1.0, 4 + 0.1j),
    (Network(3, 1, 1e-4), 1.5, -0.3 + 0.1j),
    (Network(512, 1, 1.0), 1.5, 1e-3 + 1e-5j),
    (Network(math.inf, 3, 0.5), 2.0, -0.4 + 1e-2j),
    (Network(math.inf, 1, 1e-4), 0.4, -0.5 + 1e-3j),
]  # every second by default: two teachers, small a, p = inf


@pytest.mark.parametrize(
    ("model", "alpha", "z"),
    [p if i % 2 else pytest.param(*p, marks=pytest.mark.slow) for i, p in enumerate(MP_POINTS)],
)
def test_resolvent_against_mpmath(model, alpha, z):
    """Secant steps at 25 digits, inner average in closed form and outer one on another contour, move g by 1e-14."""
    t = -stieltjes(model, alpha, z) / unit(model)
    exact = exact_t(model, alpha, mp.mpc(z) * unit(model), t, 25)
    assert abs(complex(exact) - t) < 1e-14 * abs(t)
    assert float(exact.imag) == pytest.approx(t.imag, rel=1e-12)


TAILS = [(Network(math.inf, 1, 1.0), 0.7, distance) for distance in (0.05, 0.0085)]
TAILS += [pytest.param(Network(math.inf, 1, 1.0), 0.7, 0.0026, marks=pytest.mark.slow)]
TAILS += [(Network(math.inf, 2, 0.8), 1.1, 0.01), (Network(8, 1, 1.0), 0.6, 0.0016)]
TAILS += [
    pytest.param(Network(2, 1, 1.0), 0.8, distance, marks=pytest.mark.slow)
    for distance in (0.004, 0.0025, 0.0007, 0.0004)
]


@pytest.mark.parametrize(("model", "alpha", "distance"), TAILS)
def test_tail_of_a_smooth_edge_against_mpmath(model, alpha, distance):
    """Densities down to 1e-105, to a relative 1e-10, from a solution with as many digits as the density needs."""
    lam = theory.edge(model, alpha).value + distance
    rho = density(model, alpha, lam)
    t = -stieltjes(model, alpha, lam + 1e-300j) / unit(model)
    digits = 20 + int(-math.log10(rho))
    exact = exact_t(model, alpha, mp.mpf(lam) * unit(model), t, digits)
    assert rho < 1e-2 and theory.edge(model, alpha).kind == "smooth"
    assert float(exact.imag * unit(model) / mp.pi) == pytest.approx(rho, rel=1e-10)


@pytest.mark.parametrize(
    ("p", "p_star", "a", "v"),
    [
        (64, 1, 1e-3, 7000.0),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in [(16, 3, 0.01, 7000.0), (8, 1, 1.0, 100.0)]
        ),
    ],
)
def test_tails_of_the_weights_against_mpmath(p, p_star, a, v):
    """D(v) of (y - w)/(a + w), 1e-28 to 1e-72, where the students' own tails at 0 decide; alone, and with v of another size."""
    upper, lower = teacher_law(Network(p, p_star, a)), student_law(Network(p, p_star, a))

    def density_of(law, x):
        half, x = mp.mpf(law.dof) / 2, x / mp.mpf(law.scale)
        return (
            law.share / mp.mpf(law.scale) * half**half / mp.gamma(half) * x ** (half - 1) * mp.exp(-half * x)
        )

    def integrand(log_b):
        b = mp.exp(log_b)
        return sum(density_of(law, b) for law in lower) * (a + b) * density_of(upper[0], b + v * (a + b)) * b

    with mp.workdps(25):
        exact = float(mp.quad(integrand, [mp.mpf(-40), -20, *np.linspace(-12, 4, 161)]))
    for others in ([], [0.01]):
        found = excess_density(upper, lower, a, np.array([*others, v]), Rule())[-1]
        assert found == pytest.approx(exact, rel=1e-12, abs=0)


def test_tail_reaches_below_1e_100():
    model, alpha = Network(math.inf, 1, 1.0), 0.7
    rho = density(model, alpha, theory.edge(model, alpha).value + np.array([0.0085, 0.0026, 0.0013]))
    assert 1e-31 < rho[0] < 1e-29 and 1e-110 < rho[1] < 1e-99 and 1e-220 < rho[2] < 1e-200


@pytest.mark.parametrize(("model", "alpha"), SMOOTH)
def test_law_of_the_smooth_edge(model, alpha):
    """log rho = -A/distance + ...: at t > 1 only labels y > (a + w t)/(t - 1) resonate, so A = (p_star/2) a dz/dt."""
    edge = theory.edge(model, alpha)
    slope = (
        -z_of_g(model, alpha, edge_resolvent(model, alpha), derivative=1) * unit(model) ** 2
    )  # d((p/2) z)/dt at t = 1
    distance = np.array([2e-3, 1e-3])
    rho = density(model, alpha, edge.value + distance / unit(model))
    bound = model.p_star / 2 * model.a * slope
    power = np.diff(np.log(rho))[0] / np.diff(1 / distance)[0]
    assert power == pytest.approx(-bound, rel=0.05)


@pytest.mark.parametrize(("model", "alpha"), SHARP, ids=names(SHARP))
def test_law_of_the_sharp_edge(model, alpha):
    """rho = sqrt(2 (lambda - edge)/|z''|)/pi at the edge."""
    edge = theory.edge(model, alpha)
    curvature = z_of_g(model, alpha, edge_resolvent(model, alpha), derivative=2)
    near = 1e-9 * abs(edge.value)
    expected = math.sqrt(2 * near / abs(curvature)) / math.pi
    assert density(model, alpha, edge.value + near) == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize(("model", "alpha"), POINTS, ids=names(POINTS))
def test_exactly_zero_left_of_the_edge_and_positive_right_of_it(model, alpha):
    edge = theory.edge(model, alpha).value
    assert np.all(density(model, alpha, edge - np.array([0.0, 1e-12, 1e-3, 1.0, 1e6])) == 0)
    right = density(model, alpha, edge + np.geomspace(0.02 * abs(edge), 20 * abs(edge), 50))
    assert np.all(right > 0)


@pytest.mark.parametrize(("model", "alpha"), POINTS, ids=names(POINTS))
def test_resolvent_inverts_z_of_g_left_of_the_edge(model, alpha):
    """z(g) on the real branch is computed by other formulas (theory.exact.averages); just above it the resolvent returns g."""
    g = np.linspace(0.05, 0.95, 7) * edge_resolvent(model, alpha)
    z = z_of_g(model, alpha, g)
    slope = z_of_g(model, alpha, g, derivative=1)
    back = stieltjes(model, alpha, z + 1e-30j)
    np.testing.assert_allclose(back.real, g, rtol=1e-11)
    np.testing.assert_allclose(back.imag, 1e-30 / slope, rtol=1e-9)


@pytest.mark.parametrize("alpha", [0.3, 0.8, 0.999])
def test_density_next_to_the_atom(alpha):
    """Continuous at 0 down to any scale; the limit there is alpha q(0)/(1 - alpha), q(0) the density of f at 0."""
    model = Network(2, 3, 0.7)
    at_zero = density(model, alpha, 0.0)
    tiny = density(model, alpha, np.array([-1e-40, -1e-15, 1e-15, 1e-40]))
    np.testing.assert_allclose(tiny, at_zero, rtol=1e-6)
    y, h = np.linspace(0, 60, 1_000_001, retstep=True)
    student = 0.5 * (np.exp(-y) + np.exp(-y / 3) / 3)  # yhat ~ exponential for p = 2
    teacher = 1.5**1.5 * np.sqrt(y) * np.exp(-1.5 * y) / math.gamma(1.5)
    q = np.sum(student * teacher * (model.a + y)) * h
    assert at_zero == pytest.approx(alpha * q / (1 - alpha), rel=1e-6)


def test_density_at_zero_where_it_is_singular():
    assert density(Network(1, 1, 1.0), 0.5, 0.0) == math.inf
    assert density(Network(2, 1, 1.0), 1.0, 0.0) == math.inf
    assert math.isfinite(density(Network(1, 1, 1.0), 1.01, 0.0))
    assert math.isfinite(density(Network(math.inf, 1, 1.0), 0.5, 0.0))
    lam = np.array([1e-12, 1e-14, 1e-20, 1e-26, 1e-30, 1e-60])
    for side in (lam, -lam):
        rho = density(Network(2, 1, 1.0), 1.0, side)  # alpha = 1: like |lambda|^(-1/2)
        np.testing.assert_allclose(np.diff(np.log(rho)) / np.diff(np.log(lam)), -0.5, atol=1e-4)


def test_shapes_and_broadcasting():
    model = Network(2, 1, 0.3)
    lam = np.linspace(-1.2, 3, 12).reshape(3, 4)
    single = density(model, 1.5, lam)
    assert single.shape == (3, 4) and isinstance(density(model, 1.5, 0.5), float)
    assert single[1, 2] == pytest.approx(density(model, 1.5, lam[1, 2]), rel=1e-12)
    both = density(model, np.array([0.7, 1.5])[:, None, None], lam)
    assert both.shape == (2, 3, 4)
    np.testing.assert_allclose(both[1], single, rtol=1e-10)
    z = lam + 0.1j
    assert stieltjes(model, np.array([0.7, 1.5])[:, None, None], z).shape == (2, 3, 4)
    assert isinstance(stieltjes(model, 1.5, 1j), complex)
    assert density(model, 1.5, np.array([])).shape == (0,)
    assert stieltjes(model, 1.5, np.array([], dtype=complex)).shape == (0,)
    np.testing.assert_array_equal(atom(model, np.array([0.25, 1.0, 3.0])), [0.75, 0.0, 0.0])
    shuffled = np.array([3.0, -0.5, 3.0, -9.0, -0.5])
    np.testing.assert_array_equal(
        density(model, 1.5, shuffled)[[0, 1]], density(model, 1.5, shuffled)[[2, 4]]
    )


def test_many_points_agree_with_single_ones():
    """Interpolated starting points must not change the answer: 3,000 points against points solved from scratch."""
    for model, alpha in (POINTS[0], POINTS[1], POINTS[3], POINTS[7]):
        edge = theory.edge(model, alpha).value
        lam = np.concatenate([np.linspace(edge, 5 * abs(edge), 2990), [1e-9, -1e-9, 0.3, 1e3]])
        rho = density(model, alpha, lam)
        some = np.arange(0, lam.size, 61)
        np.testing.assert_allclose(rho[some], [density(model, alpha, x) for x in lam[some]], rtol=1e-8)


@pytest.mark.parametrize("p", [1, 2, math.inf])
def test_fewer_digits_are_fewer_digits(p):
    model = Network(p, 1, 0.5)
    lam = theory.edge(model, 2.0).value + np.geomspace(0.01, 2, 20)
    exact = density(model, 2.0, lam)
    errors = [np.max(np.abs(density(model, 2.0, lam, digits=k) / exact - 1)) for k in (8, 10, 12)]
    assert errors[2] < errors[1] < errors[0] < 1e-6


# Sharp and smooth edges, an atom, a support that ends, |t| large (alpha next to 1), students and teachers of many units.
TRACED = [
    (Network(1, 1, 0.5), 0.3),
    (Network(2, 1, 0.05), 3.0),
    (Network(7, 3, 3.6), 3.5),
    (Network(40, 4, 0.12), 17.5),
    (Network(3, 4, 6.2), 38.6),
    (Network(2, 2, 1.0), 1.0 + 1e-7),
    (Network(math.inf, 3, 0.3), 0.8),
    (Network(math.inf, 8, 0.16), 12.9),
]


@pytest.mark.parametrize(("model", "alpha"), TRACED)
def test_curve_lies_on_the_density(model, alpha):
    """Wherever it is not exponentially small: there the rounding of the energy itself shows in the density."""
    scale = 1.0 if math.isinf(model.p) else model.p / 2
    edge = theory.edge(model, alpha)
    start = scale / edge_resolvent(model, alpha)
    u = start + abs(start) * np.concatenate([[-0.1, -1e-3], np.geomspace(1e-3, 1e3, 30)])
    lam, t = trace(weight_law(model), alpha, u)
    lam = lam / scale
    assert np.all(np.diff(lam[2:]) > 0) and np.all(t.imag[:2] == 0)
    inside = t.imag > 1e-30 * np.abs(t)
    assert np.sum(inside) >= 5 and np.all(lam[inside] > edge.value)
    rho = scale * t.imag / math.pi
    np.testing.assert_allclose(rho[inside], density(model, alpha, lam[inside]), rtol=1e-7)
    np.testing.assert_allclose((-1 / t).real, u, rtol=1e-5)


@pytest.mark.parametrize(("model", "alpha"), TRACED)
def test_few_digits_stay_on_the_axis_of_many(model, alpha):
    """A law of 9 digits is not quite positive: the height above the axis is found nevertheless."""
    scale = 1.0 if math.isinf(model.p) else model.p / 2
    start = scale / edge_resolvent(model, alpha)
    side = math.sqrt(alpha * abs(np.sum(weight_law(model).mass / weight_law(model).pole ** 2)))
    u = np.concatenate([start + abs(start) * np.geomspace(1e-6, 1e4, 40), side * np.geomspace(0.1, 30, 15)])
    u = np.unique(u[u != 0])
    few, many = (trace(weight_law(model, digits), alpha, u)[1] for digits in (9, 15))
    assert np.all(np.isfinite(few)) and np.all(few.imag >= 0)
    np.testing.assert_allclose(few, many, rtol=0, atol=1e-4 * np.max(np.abs(many)))


@pytest.mark.parametrize(
    ("model", "alpha"),
    [
        (Network(41, 15, 0.05484), 0.26343),
        (Network(19, 3, 0.18586), 1.0012),
    ],
)
def test_tails_among_others(model, alpha):
    """Places of a tail, whose densities span 200 decades, are the same at once and one by one."""
    edge = theory.edge(model, alpha).value
    lam = edge + abs(edge) * np.geomspace(1e-5, 10, 40)
    alone = np.array([density(model, alpha, place) for place in lam])
    assert np.min(alone[alone > 0]) < 1e-200 and np.max(alone) > 1e-3
    np.testing.assert_allclose(density(model, alpha, lam), alone, rtol=1e-5, atol=1e-295)


BINS, SAMPLES, ALARM = 12, 60, 1e-3
POOLED = [
    pytest.param(Network(1, 1, 0.7), 1.5, 300, 11, marks=pytest.mark.slow),
    (Network(2, 1, 1.0), 0.8, 150, 12),
]


def eigenvalues(model, alpha, n, rng):
    """Eigenvalues of one Hessian, (p n,), from the labels of round(alpha n) samples."""
    m = round(alpha * n)
    lam, u = committee_preactivations(model, m, rng)
    f = model.weights(lam, model.outputs(u))
    return np.linalg.eigvalsh(hessian(f, rng.standard_normal((m, n)) / math.sqrt(n)))


def quantiles(model, alpha):
    """Points that cut the continuous part of the theory's spectrum into BINS equal masses, and its whole mass."""
    edge = theory.edge(model, alpha).value
    far = 400 / (model.p * min(model.a, 1))
    small = np.geomspace(1e-6, 1, 200) * abs(edge)
    points = np.unique(np.concatenate([edge + np.linspace(0, 4, 1001) * abs(edge), -small, small, [far]]))
    points = np.concatenate([points[points >= edge], np.geomspace(4 * abs(edge), far, 200)[1:-1]])
    ends = np.sort(points)
    mass = gauss(lambda lam: density(model, alpha, lam), np.stack([ends[:-1], ends[1:]], axis=1))
    cumulative = np.concatenate([[0.0], np.cumsum(mass)])
    wanted = np.linspace(0, cumulative[-1], BINS + 1)[1:-1]
    return np.interp(wanted, cumulative, ends), cumulative[-1]


def chance(spectra, size, model, alpha):
    """Probability of counts as far from the theory as these, by Hotelling's test on all bins but the last."""
    cuts, mass = quantiles(model, alpha)
    edges = np.concatenate([[-np.inf], cuts, [np.inf]])
    counts = np.array([np.histogram(values, edges)[0] for values in spectra])[:, :-1]
    off = counts.mean(axis=0) - mass / BINS * size
    k, n = off.size, len(spectra)
    squared = n * off @ np.linalg.solve(np.cov(counts.T), off)
    return stats.f.sf(squared * (n - k) / (k * (n - 1)), k, n - k)


@pytest.mark.parametrize(("model", "alpha", "n", "seed"), POOLED)
def test_pooled_eigenvalues_follow_the_density(model, alpha, n, seed):
    """Counts in 12 bins of equal mass over 60 matrices of side 300, against the theory's.

    Eigenvalues of one matrix repel each other and share its labels, so counts are not multinomial: their covariance is
    taken between matrices (Hotelling's T^2; the counts add up, so one bin is left out). A right density fails in 1 of
    1,000 draws. The test has to reject, with room to spare, alpha wrong by 3%.
    """
    rng = np.random.default_rng(seed)
    spectra = [eigenvalues(model, alpha, n, rng) for _ in range(SAMPLES)]
    zeros = [np.count_nonzero(np.abs(values) < 1e-9) for values in spectra]
    size = model.p * n
    assert set(zeros) == {round(atom(model, alpha) * size)}
    spectra = [values[np.abs(values) >= 1e-9] for values in spectra]
    assert chance(spectra, size, model, alpha) > ALARM
    assert chance(spectra, size, model, 0.97 * alpha) < ALARM / 10
    assert chance(spectra, size, model, 1.03 * alpha) < ALARM / 10
