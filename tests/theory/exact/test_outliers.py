"""Teacher outliers and overlaps: existence, uniqueness, limits, the closing gap; and student directions."""

import math

import mpmath as mp
import numpy as np
import pytest

import theory
from theory.exact import committee_preactivations
from theory.exact.bulk import edge_resolvent, z_of_g
from theory.exact.outliers import edge_gap, outlier_resolvent, student_margins
from theory.model import Network

CORNERS = [Network(p, p_star, a) for p in (1, 600, math.inf) for p_star in (1, 60) for a in (1e-4, 1e3)]


def random_models(number, *ends):
    """The corners of the range and `number` models within it; with each a value, uniform between `ends`, these included."""
    rng = np.random.default_rng(number)
    widths = [math.inf if rng.uniform() < 0.3 else int(rng.integers(1, 601)) for _ in range(number)]
    drawn = [Network(p, int(rng.integers(1, 61)), float(10 ** rng.uniform(-4, 3))) for p in widths]
    models = CORNERS + drawn
    if not ends:
        return models
    values = rng.uniform(*ends, len(models))
    values[: len(CORNERS)] = np.resize(ends, len(CORNERS))
    return [*zip(models, values, strict=True)]


NEAR = [*zip(CORNERS, np.resize([-1e-9, 1e-9], len(CORNERS)), strict=True)]


def test_outlier_exists_exactly_above_threshold(subtests):
    for model, log_ratio in random_models(60, -6, 6) + NEAR:
        with subtests.test(model=model, log_ratio=log_ratio):
            alpha = theory.threshold(model).alpha * math.exp(log_ratio)
            found, edge = next(iter(theory.outliers(model, alpha)), None), theory.edge(model, alpha)
            assert (found is not None) == (log_ratio > 0)
            if found is not None:
                g = outlier_resolvent(model, alpha)
                assert edge_resolvent(model, alpha) < g < 0
                assert found.value <= edge.value
                assert 0 < found.overlap <= 1
                assert found.value == pytest.approx(z_of_g(model, alpha, g), rel=1e-8, abs=1e-12)


def test_overlap_grows_with_samples_to_one(subtests):
    for model in random_models(25):
        with subtests.test(model=model):
            threshold = theory.threshold(model)
            at = threshold.alpha * np.array([1 + 1e-9, 1.01, 1.3, 3, 10, 1e3, 1e8])
            overlap = theory.spectrum(model, at).overlap
            assert np.all(np.diff(overlap) > 0)
            assert overlap[0] == pytest.approx(threshold.jump, abs=1e-4)
            assert overlap[-1] > 0.999


def test_gap_is_the_difference_where_that_has_digits():
    model = Network(2, 1, 0.3)
    alpha = theory.threshold(model).alpha * np.array([[0.9, 1.01, 1.03], [1.2, 2.0, 40.0]])
    branch = theory.spectrum(model, alpha)
    np.testing.assert_allclose(edge_gap(model, alpha), branch.edge - branch.outlier, rtol=1e-8)
    assert edge_gap(model, 3.0) == pytest.approx(
        theory.edge(model, 3.0).value - theory.outliers(model, 3.0)[0].value
    )


def test_above_a_continuous_threshold_overlap_grows_linearly_and_the_gap_quadratically():
    """Divided by these powers of alpha - alpha_BBP both tend to constants: from 1e-5 to 1e-7 they change by order 1e-5."""
    for model in (Network(1, 1, 0.5), Network(2, 1, 1e-3), Network(4, 2, 0.3)):
        alpha = theory.threshold(model).alpha
        at = alpha * (1 + np.array([1e-5, 1e-6, 1e-7]))
        slopes = theory.spectrum(model, at).overlap / (at / alpha - 1)
        np.testing.assert_allclose(slopes[1:], slopes[:-1], rtol=1e-4)
        curvatures = edge_gap(model, at) / (at / alpha - 1) ** 2
        np.testing.assert_allclose(curvatures[1:], curvatures[:-1], rtol=1e-3)


def test_infinite_width_is_the_limit_of_wide_students():
    """The distance to it halves where p doubles; values are of (p/2) H."""
    alpha = [2.0, 3.0, 20.0]
    limit, *wide = (theory.spectrum(Network(p, 2, 0.5), alpha) for p in (math.inf, 512, 1024))
    for name, scale in (("outlier", (256, 512)), ("overlap", (1, 1))):
        near, far = (s * getattr(w, name) - getattr(limit, name) for s, w in zip(scale, wide, strict=True))
        assert np.all(np.abs(near) < 0.02 * (1 + np.abs(getattr(limit, name))))
        np.testing.assert_allclose(near / far, 2, rtol=0.03)


@pytest.mark.parametrize("alpha, a", [(1e5, 1e-6), (1e5, 1e-9), (1e8, 1e-12), (2.0, 0.5)])
def test_an_outlier_tiny_beside_the_edge_keeps_its_digits(alpha, a):
    """p = inf, p_star = 2, where y is exponential: averages by the exponential integral, in 50 digits; z = -1/t + alpha K."""
    with mp.workdps(50):
        alpha, a = mp.mpf(alpha), mp.mpf(a)

        def inverse(t):
            """E[1/D], D = a + t + (1 - t) y."""
            ratio = (a + t) / (1 - t)
            return mp.exp(ratio) * mp.e1(ratio) / (1 - t)

        def excess(log_t):
            t = mp.exp(log_t)
            return mp.log(alpha * t * ((1 + a) ** 2 * inverse(t) - (1 + a)) / (1 - t) ** 2)

        (found,) = theory.outliers(Network(math.inf, 2, float(a)), float(alpha))
        g = outlier_resolvent(Network(math.inf, 2, float(a)), float(alpha))
        t = mp.re(mp.exp(mp.findroot(excess, mp.log(-g))))
        exact = -1 / t + alpha * ((1 + a) * inverse(t) - 1) / (1 - t)
        branch = theory.spectrum(Network(math.inf, 2, float(a)), float(alpha))
    assert found.value == pytest.approx(float(exact), rel=1e-11)
    assert float(branch.outlier) == found.value


@pytest.mark.parametrize("p, p_star, noise", [(1, 1, 0), (2, 2, 0), (1, 2, 1)])
def test_outliers_at_large_a(p, p_star, noise):
    """-1/t + alpha K in 50 digits: for p = p*, or p* = 2 and noise 1, z is 1/a^2 of either term. Then z ~ 1/a for a -> inf."""
    a = 1e6
    model = Network(p, p_star, a, noise=noise)
    alpha = 1.5 * theory.threshold(model).alpha
    (found,) = theory.outliers(model, alpha)
    with mp.workdps(50):
        k, k_star, b = mp.mpf(2) / p, mp.mpf(2) / p_star, mp.mpf(1) / (1 + noise)
        step, start = mp.mpf(1) / 10, mp.mpf("0.02") / (1 + a * b)
        x = [j * step for j in range(-50, int((mp.log(120 / (a * b * start))) / step) + 1)]
        nodes = [(start * mp.exp(v - mp.exp(-v)), 1 + mp.exp(-v)) for v in x]

        def averages(t):
            """K and U."""
            first = signal = mp.mpf(0)
            for s, growth in nodes:
                y = 1 / (1 + k_star * (1 - t) * s)
                mass = step * s * growth * mp.exp(-a * b * s) * y ** (1 / k_star)
                for c, share in ((b, 1 - k / 2), (3 * b, k / 2)):
                    z = c * t * s
                    yhat, each = (c / (1 + k * z), mass * share * (1 + k * z) ** (-1 / k))
                    first += each * (yhat - y)
                    signal += each * t * b * (yhat - y - y * (yhat - (1 + k_star) * y))
            return first, signal

        t = mp.mpf(-outlier_resolvent(model, alpha)) * k
        for _ in range(3):  # secants in log t from a double's root
            near = t * (1 + mp.mpf(10) ** -15)
            at, beside = (mp.log(alpha * averages(v)[1]) for v in (t, near))
            t = t * mp.exp(-at * mp.mpf(10) ** -15 / (beside - at))
        exact = k * (-1 / t + alpha * averages(t)[0])
    assert found.value == pytest.approx(float(exact), rel=1e-13, abs=0)
    for large in (1e10, 1e30, 1e60):
        model = Network(p, p_star, large, noise=noise)
        (found,) = theory.outliers(model, 1.5 * theory.threshold(model).alpha)
        assert large * found.value == pytest.approx(float(a * exact), rel=1e-4)
        assert 0 < found.overlap <= 1


def test_degeneracy():
    assert theory.outliers(Network(3, 2, 0.5), 9.0)[0].multiplicity == 6
    assert theory.outliers(Network(math.inf, 2, 0.5), 9.0)[0].multiplicity == math.inf


def test_no_student_direction_leaves_the_bulk(subtests):
    for model, log_alpha in random_models(60, -6, 12):
        with subtests.test(model=model, log_alpha=log_alpha):
            margins = student_margins(model, math.exp(log_alpha))
            assert len(margins) == (3 if model.p > 1 else 1) and max(margins.values()) <= 1e-12


def test_student_margins_from_sampled_labels():
    """alpha t (K - T) with T applied to a matrix of each kind, averaged over 400,000 drawn labels; 3 means within 5
    standard errors: false alarm 2e-6."""
    model, alpha = Network(3, 1, 0.5), 1.7
    t = -edge_resolvent(model, alpha) * 2 / model.p
    rng = np.random.default_rng(5)
    lam, u = committee_preactivations(model, 400_000, rng)
    y, yhat = np.mean(u**2, axis=1), np.mean(lam**2, axis=1)
    first, third = ((c * yhat - y) / (model.a + y + t * (c * yhat - y)) for c in (1, 3))
    trace = (2 * first + third) / 3
    antisymmetric = np.array([[0, 1, 0], [-1, 0, 0], [0, 0, 0]]) / math.sqrt(2)
    traceless = np.diag([1, -1, 0]) / math.sqrt(2)
    singlet = np.eye(3) / math.sqrt(3)
    found = student_margins(model, alpha).items()
    for (kind, margin), direction in zip(found, (antisymmetric, singlet, traceless), strict=True):
        turned = lam @ direction.T  # A lam
        along = np.einsum("mi,mi->m", turned, lam)
        # <A, E[phi A lam lam^T]> with phi = phi_1 (1 - n n^T) + phi_2 n n^T
        sample = first * np.einsum("mi,mi->m", turned, turned) + (third - first) * along**2 / (3 * yhat)
        margins = alpha * t * (trace - sample)
        assert abs(margins.mean() - margin) < 5 * margins.std() / math.sqrt(margins.size), kind


def test_student_of_one_unit_has_only_its_own_direction():
    assert list(student_margins(Network(), 2.0)) == ["singlet"]
