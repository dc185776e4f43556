"""The block noise of the small matrix against dense samples, sector by sector, and what the matrix is made of."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.linalg import eigh
from scipy.special import gammainc, gammaincc
from scipy.stats import kstest

from theory.exact.committee import committee_labels
from theory.finite import draw as draw_module
from theory.finite import small_matrix
from theory.finite.anisotropy import add_tilt, label_sectors, soften, tilt
from theory.finite.block_noise import block_covariance
from theory.finite.bulk_block import hats, kept_levels, kept_part, signal_block, t_at
from theory.finite.draw import EXTREMES, draw
from theory.finite.label_bulk import Labels, edge_of, label_bulk
from theory.finite.law import finite_law, law_of_labels
from theory.finite.many_labels import coupled_labels, drawn_labels, lengths
from theory.finite.quenched import draw_gram
from theory.finite.small_matrix import small_pairs
from theory.model import Committee


def off_diagonal_blocks(model, alpha, n, samples, share, rng):
    """Measured block between the two teachers less its label part (samples, p, p), and T (samples, 3) of the labels of each.

    The exact Schur complement on the signal is the inverse of the resolvent between its directions; units of (p/2) H, dimension
    N - p - p_star.
    """
    p, size, left, sectors = int(model.p), n - int(model.p) - 2, [], []
    for _ in range(samples):
        teacher = np.linalg.qr(rng.standard_normal((n, 2)))[0].T
        student = rng.standard_normal((p, n))
        student /= np.linalg.norm(student, axis=1, keepdims=True)
        x = rng.standard_normal((round(alpha * n), n))
        lam, u = x @ student.T, x @ teacher.T
        weights = model.weights(lam, model.outputs(u)) * p / 2
        hessian = np.block([[x.T @ (weights[:, i, j, None] * x) / size for j in range(p)] for i in range(p)])
        labels = Labels.of(model, lam[None], u[None], size)
        t = label_bulk(labels, p * size, 5).t_edge * share
        z = labels.sums(t)[0][0]
        signal = np.kron(np.eye(p), teacher)  # block index first
        resolvent = signal @ np.linalg.solve(z * np.eye(p * n) - hessian, signal.T)
        block = (
            z * np.eye(2 * p)
            - np.linalg.inv(resolvent)
            - signal_block(labels, labels.u, t, np.ones(2, int))[0]
        )
        rung, end, _ = label_sectors(labels, t)
        left.append(block.reshape(p, 2, p, 2)[:, 0, :, 1])
        sectors.append((end**2 / (1 / t[:, None] ** 2 - rung) / size)[0])
    return np.array(left), np.array(sectors)


def test_block_noise_has_its_three_sectors():
    """p = p_star = 2, a = 1, alpha = 3, N = 60, 160 samples at 0.4 of the edge's t: the block between the two teachers is omega
    itself. Variance of its multiple of I, symmetric traceless (2 entries) and antisymmetric parts over that of T: within 4
    standard errors of 1 (false alarm 2e-4 in all) and 8 %, the size of 1/N corrections. The three differ by more than that: a
    single variance fails.
    """
    p, samples = 2, 160
    blocks, t = off_diagonal_blocks(Committee(p, 2, 1.0), 3.0, 60, samples, 0.4, np.random.default_rng(1))
    free, same, tied = (t[:, 0] - t[:, 1]) / p, (t[:, 1] + t[:, 2]) / 2, (t[:, 1] - t[:, 2]) / 2
    trace = (blocks[:, 0, 0] + blocks[:, 1, 1]) / np.sqrt(2)
    traceless = np.stack([(blocks[:, 0, 0] - blocks[:, 1, 1]), blocks[:, 0, 1] + blocks[:, 1, 0]]) / np.sqrt(
        2
    )
    turned = (blocks[:, 0, 1] - blocks[:, 1, 0]) / np.sqrt(2)
    parts = {
        "multiple of I": (trace**2, free + p * same + tied),
        "symmetric traceless": ((traceless**2).mean(axis=0), free + tied),
        "antisymmetric": (turned**2, free - tied),
    }
    for name, (found, predicted) in parts.items():
        ratio = found / predicted
        error = ratio.std(ddof=1) / np.sqrt(samples)
        assert abs(ratio.mean() - 1) < 4 * error + 0.08, (name, ratio.mean(), error)
    ends = [predicted.mean() for _, predicted in parts.values()]
    assert ends[0] > 2 * ends[1] > 2 * ends[2]


def test_sectors_of_labels_are_those_of_the_law():
    """40 draws of 8,000 labels: mean covariances are those of theory.finite.block_noise at N = infinity, within 4 standard
    errors (false alarm 1e-4) and 1 %."""
    model, alpha, n, t = Committee(2, 1, 1.5), 40.0, 200, np.full(40, 0.02)
    lam, u = committee_labels(model, 40 * int(alpha * n), np.random.default_rng(0))
    labels = Labels.of(model, lam.reshape(40, -1, 2), u.reshape(40, -1, 1), n)
    rung, end, _ = label_sectors(labels, t)
    t0, t1, t2 = (end**2 / (1 / t[:, None] ** 2 - rung) / n).T
    covariance = block_covariance(model, alpha, -0.02, n)
    for found, wanted in (
        (t1 + t2, covariance[0, 0, 1, 1]),
        ((t0 - t2) / 2, covariance[0, 1, 0, 1]),
    ):
        assert abs(found.mean() - wanted) < 4 * found.std() / np.sqrt(40) + 0.01 * wanted


def test_labels_are_independent_normal_variables():
    """400 draws of 50 labels: means of an entry's square, of a product of two in a label, and of the square of their mean are
    those of independent variables within 4 standard errors; r is chi-square (Kolmogorov-Smirnov, 1e-3). False alarm 1.2e-3."""
    directions, arrivals = coupled_labels(3, 50, range(400), 0)
    labels = directions * lengths(3, arrivals[:, :-1], arrivals[:, -1:])
    square = labels**2
    total = square.sum(axis=2)
    means = (
        square.mean(axis=(1, 2)),
        (square[..., 0] * square[..., 2]).mean(axis=1),
        total.mean(axis=1) ** 2 / 9,
    )
    for found, wanted in zip(means, (1, 1, 1 + 2 / 3 / 50), strict=True):
        assert abs(found.mean() - wanted) < 4 * found.std() / 20
    assert kstest(total.ravel(), "chi2", args=(3,)).pvalue > 1e-3


def test_extreme_labels_are_the_most_negative_and_draws_do_not_depend_on_the_batch():
    model = Committee(2, 1, 1.5)
    one, two = draw(model, 150, 100, range(2), 0), draw(model, 150, 100, range(1, 2), 0)
    extremes = one.extremes[0]
    assert 1 < extremes <= 8 < EXTREMES and one.labels.n[0] == 100 - 3 - extremes  # N / 12 at the most
    ours = slice(0, 2 * two.v.shape[2])
    if one.extremes[1] == one.extremes.max():
        np.testing.assert_array_equal(one.extreme[1][ours, ours], two.extreme[0])
    np.testing.assert_array_equal(one.couplings[1][:, :3], two.couplings[0][:, :3])
    ranked = np.sort(one.whole.f[0][0])
    assert one.labels.f[0][0].min() > ranked[extremes // 2]  # those among N labels are taken: nearly the same
    assert np.sum(one.labels.f[0][0] == 0) == extremes
    assert np.linalg.eigvalsh(one.extreme).min() < -0.8


@pytest.mark.parametrize(("p", "a"), [(2, 0.6), (3, 1.5)])
def test_tilt_is_what_a_matrix_of_resolvents_does(p, a):
    """The twin of theory.finite.anisotropy: T (p, p) with z = -1/T + (1/N) sum Phi(T) by iteration, labels of one draw, at
    0.8 of t at the isotropic edge, with the second-order term in z. The trace of T is p t but for a tenth of what it is off
    without that term; what T makes of the block beyond t I, on the teacher and a student, agrees to 6 % in norm:
    higher orders and the mean over the labels' directions, of order N^{-1/2}, make 0.4 to 3 % at N = 2,000."""
    bare = draw(Committee(p, 1, a), 2400, 2000, range(1), 1).labels
    labels, t, eye = soften(bare), 0.8 * edge_of(bare), np.eye(p)
    size = float(np.ravel(labels.n)[0])
    unit = labels.lam[0] / np.linalg.norm(labels.lam[0], axis=1, keepdims=True)
    low, high = (f[0][:, None, None] for f in labels.f)
    weights = low * eye + (high - low) * unit[:, :, None] * unit[:, None, :]

    def block(at, factor):
        phi = np.linalg.solve(eye + weights @ at, weights)
        return np.einsum("mij,m->ij", phi, factor) / size

    def solved(z):
        resolvent = t[0] * eye
        for _ in range(200):
            resolvent = -np.linalg.inv(z * eye - block(resolvent, np.ones(len(unit))))
        return resolvent

    resolvent = solved(labels.energy(t)[0])
    off = abs(np.trace(solved(bare.energy(t)[0])) / p - t[0])
    assert abs(np.trace(resolvent) / p - t[0]) < 0.1 * off
    tilted = tilt(labels, t)[0]
    for kind, factor in ((1, labels.y[0]), (2, labels.yhat[0])):
        twin = block(resolvent, factor) - block(t[0] * eye, factor)
        assert np.linalg.norm(twin) > 1e-4
        assert np.linalg.norm(tilted[kind] - twin) < 0.06 * np.linalg.norm(twin)


def test_what_stands_for_the_levels_left_out_is_smooth_next_to_the_edge():
    """p = 2: the mean block is singular at the edge, and the kept levels, with anisotropic couplings, hold all of
    that: the slope of what is left, on a teacher, between 0.01 and 0.03 of their width from the edge is within a
    third of that at 0.3 (the block's own slope there is more than five times as large)."""
    drawn = draw(Committee(2, 2, 0.5), 600, 150, range(4), 3)
    drawn = replace(drawn, labels=soften(drawn.labels))
    labels, order = drawn.labels, 2 * drawn.labels.n
    bulk = label_bulk(labels, order, 25)
    kept, at = kept_levels(drawn, bulk, order, 24), []
    reach = kept.energies[:, -1] - bulk.edge
    for share in (0.01, 0.03, 0.25, 0.35):
        t = t_at(labels, bulk.t_edge, bulk.edge - share * reach)
        block = signal_block(labels, drawn.v, t, drawn.kinds)
        add_tilt(block, tilt(labels, t), drawn.kinds)
        at.append([part[:, 0, 0] for part in (block, block - kept_part(kept, labels.energy(t)))])
    near, far = (at[1][k] - at[0][k] for k in (0, 1)), at[3][1] - at[2][1]
    whole, left = (part / 0.02 for part in near)
    assert np.all(np.abs(left / (far / 0.1) - 1) < 1 / 3)
    assert np.all(whole / left > 5)


def test_law_is_steady_in_what_it_need_not_depend_on(monkeypatch):
    """p = 2, p_star = 3, a = 0.6, alpha = 7, N = 100, 64 draws: with twice the levels told one by one, the chord of the
    block half as far from the edge, and other labels extreme, mean q2 moves by less than 5 % and 4 standard errors, the
    lowest eigenvalue by less than a fifth of its scatter and 4 (false alarm 4e-4)."""
    model, alpha, n = Committee(2, 3, 0.6), 7.0, 100
    base = finite_law(model, alpha, n, draws=64)
    for module, name, value in (
        (draw_module, "PER_OUTLIER", 12),
        (small_matrix, "_CLEAR", 0.15),
        (draw_module, "OWN", 0.33),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(module, name, value)
            law = finite_law(model, alpha, n, draws=64)
        for field, allowed in (("overlap", 0.05 * base.overlap.mean()), ("lowest", 0.2 * base.std("lowest"))):
            mean, error = law.mean(field)
            there, own = base.mean(field)
            assert abs(mean - there) < allowed + 4 * np.hypot(error, own), (name, field, mean, there)


def test_overlaps_are_shares():
    pairs = small_pairs(Committee(2, 2, 0.5), 300, 100, range(6), 0)
    assert np.all(np.diff(pairs.values, axis=1) >= 0)
    assert np.all((pairs.overlaps >= 0) & (pairs.overlaps <= 1 + 1e-12))
    assert np.all(pairs.known[:, :4])


def test_draws_with_given_labels_are_those_of_the_labels():
    """A draw whose own labels are given to it is the same draw; others share its edge and scatter about it."""
    model, m, n = Committee(1, 1, 0.5), 800, 200
    own = drawn_labels(model, m, n, range(1), 3)  # as finite_law draws them
    gram = draw_gram(model, n, np.random.default_rng([3, 0, 5]))
    lam, u = np.split(own.normals[0], 2, axis=1)
    free, given = (
        finite_law(model, m / n, n, draws=2, seed=3),
        law_of_labels(model, lam, u, n, gram=gram, draws=2, seed=3),
    )
    # grids of energies are made for all draws of a call together
    np.testing.assert_allclose(given.lowest[0], free.lowest[0], rtol=1e-3)
    assert abs(given.lowest[1] - free.lowest[1]) > 1e-3


def test_labels_explain_most_of_the_scatter_of_an_outlier():
    """Scatter given the labels, over that of all draws: below 1, and not nothing (physics: two terms of like size)."""
    model, n, alpha = Committee(1, 1, 0.3), 300, 6.0
    lam, u = committee_labels(model, round(alpha * n), np.random.default_rng(1))
    fixed = law_of_labels(model, lam, u, n, draws=60).std("lowest")
    assert 0.2 < fixed / finite_law(model, alpha, n, draws=60).std("lowest") < 0.9


@pytest.mark.parametrize("width", [2, 3, 9])
def test_lengths_of_labels_have_the_law_of_chi_square(width):
    """P(r' > r) is the share of the total that has arrived, over twenty orders of magnitude."""
    share = np.append(np.geomspace(1e-20, 0.5, 60), 1 - np.geomspace(0.5, 1e-9, 60))
    root = lengths(width, share[None], 1.0)[0, :, 0]
    np.testing.assert_allclose(gammaincc(width / 2, root**2 / 2), share, rtol=2e-8)
    np.testing.assert_allclose(gammainc(width / 2, root**2 / 2), -np.expm1(np.log(share)), rtol=2e-8)


@pytest.mark.parametrize("p", [1, 2])
def test_couplings_of_levels_have_the_covariance_of_their_bulk(p):
    """Bulks of one draw of labels, 200 of dimension 60: b b^T of their levels 3 to 6 to teacher and students, averaged, in
    units of its diagonal: each entry within 5 standard errors and 0.12, the size of what the levels'
    place and 1/N make (28 entries at most, false alarm 2e-5). Entries between students and teachers reach 0.3."""
    model, n, rng = Committee(p, 3, 0.7), 60, np.random.default_rng(5)
    drawn = draw(model, 10 * n * p, n, range(1), 2)
    w = p + 3
    drawn = replace(drawn, v=drawn.v[..., :w], extremes=0 * drawn.extremes, present=drawn.present[:, :w])
    drawn = replace(drawn, labels=soften(drawn.labels))
    labels, size = drawn.labels, int(drawn.labels.n[0])
    bulk = label_bulk(labels, p * size, 7)
    kept = kept_levels(drawn, bulk, np.array([p * size]), 6)
    covariance = np.einsum("lk,kab->ab", hats(np.array([2.0, 3.0, 4.0, 5.0]), 6) / 4, kept.covariance[0])
    lam, v = labels.lam[0], drawn.v[0]
    weights = labels.f[0][0][:, None, None] * np.eye(p) + (labels.f[-1] - labels.f[0])[0][:, None, None] * (
        lam[:, :, None] * lam[:, None] / np.sum(lam**2, axis=1)[:, None, None]
    )
    if p == 1:
        weights = labels.f[0][0][:, None, None]
    found = []
    for _ in range(200):
        x = rng.standard_normal((len(lam), size))
        blocks = [[(x * weights[:, i, j, None]).T for j in range(p)] for i in range(p)]
        hessian = np.block([[part @ x for part in row] for row in blocks]) / size
        across = np.block([[(part @ v).T for part in row] for row in zip(*blocks, strict=True)]) / size
        _, vectors = eigh(hessian, subset_by_index=[2, 5])
        found.append((across @ vectors) @ (across @ vectors).T / 4)
    unit = np.sqrt(np.diag(covariance))
    mean, error = np.mean(found, axis=0), np.std(found, axis=0) / np.sqrt(200)
    off = np.abs(covariance / np.outer(unit, unit) - np.eye(len(unit)))
    assert off.max() > 0.15
    np.testing.assert_array_less(
        np.abs(mean - covariance) / np.outer(unit, unit), (5 * error / np.outer(unit, unit)) + 0.12
    )
