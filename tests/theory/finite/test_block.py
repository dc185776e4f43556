"""What the bulk gives in the block of singled-out directions: noise, anisotropy and couplings, against dense samples."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.linalg import eigh

from tests.theory.samples import hessian, orthogonal, rows
from theory.finite.block import (
    anisotropy,
    hats,
    kept_eigenvalues,
    kept_part,
    ladder_sectors,
    mean_block,
    signal_block,
    t_at,
    with_second_order,
)
from theory.finite.bulk import Preactivations, bulk_curve, edge_of
from theory.finite.draw import draw
from theory.model import Network


def off_diagonal_blocks(model, alpha, n, samples, share, rng):
    """Measured block between the two teachers less its part by disorder (samples, p, p), and T (samples, 3) of the
    preactivations of each.

    The exact Schur complement on the signal is the inverse of the resolvent between its directions; units of (p/2) H, dimension
    N - p - p_star.
    """
    p, size, left, sectors = int(model.p), n - int(model.p) - 2, [], []
    for _ in range(samples):
        teacher, student = orthogonal(2, n, rng) / np.sqrt(n), rows(p, n, rng) / np.sqrt(n)
        x = rng.standard_normal((round(alpha * n), n))
        lam, u = x @ student.T, x @ teacher.T
        whole = hessian(model.weights(lam, model.outputs(u)) * p / 2, x) / size
        data = Preactivations.of(model, lam[None], u[None], size)
        t = bulk_curve(data, p * size, 5).t_edge * share
        z = data.sums(t)[0][0]
        signal = np.kron(np.eye(p), teacher)  # block index first
        resolvent = signal @ np.linalg.solve(z * np.eye(p * n) - whole, signal.T)
        block = (
            z * np.eye(2 * p) - np.linalg.inv(resolvent) - signal_block(data, data.u, t, np.ones(2, int))[0]
        )
        rung, end, _ = ladder_sectors(data, t)
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
    blocks, t = off_diagonal_blocks(Network(p, 2, 1.0), 3.0, 60, samples, 0.4, np.random.default_rng(1))
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


@pytest.mark.parametrize(("p", "a"), [(2, 0.6), (3, 1.5)])
def test_tilt_is_what_a_matrix_of_resolvents_does(p, a):
    """The twin of the linear response: T (p, p) with z = -1/T + (1/N) sum Phi(T) by iteration, preactivations of one draw, at
    0.8 of t at the isotropic edge, with the second-order term in z. The trace of T is p t but for a tenth of what it is off
    without that term; what T makes of the block beyond t I, on the teacher and a student, agrees to 6 % in norm:
    higher orders and the mean over the preactivations' directions, of order N^{-1/2}, make 0.4 to 3 % at N = 2,000."""
    bare = draw(Network(p, 1, a), 2400, 2000, range(1), 1).data
    data, t, eye = with_second_order(bare), 0.8 * edge_of(bare), np.eye(p)
    size = float(np.ravel(data.n)[0])
    unit = data.lam[0] / np.linalg.norm(data.lam[0], axis=1, keepdims=True)
    low, high = (f[0][:, None, None] for f in data.f)
    weights = low * eye + (high - low) * unit[:, :, None] * unit[:, None, :]

    def block(at, factor):
        phi = np.linalg.solve(eye + weights @ at, weights)
        return np.einsum("mij,m->ij", phi, factor) / size

    def solved(z):
        resolvent = t[0] * eye
        for _ in range(200):
            resolvent = -np.linalg.inv(z * eye - block(resolvent, np.ones(len(unit))))
        return resolvent

    resolvent = solved(data.energy(t)[0])
    off = abs(np.trace(solved(bare.energy(t)[0])) / p - t[0])
    assert abs(np.trace(resolvent) / p - t[0]) < 0.1 * off
    tilted = anisotropy(data, t)[0]
    for kind, factor in ((1, data.y[0]), (2, data.yhat[0])):
        twin = block(resolvent, factor) - block(t[0] * eye, factor)
        assert np.linalg.norm(twin) > 1e-4
        assert np.linalg.norm(tilted[kind] - twin) < 0.06 * np.linalg.norm(twin)


def test_what_stands_for_the_eigenvalues_left_out_is_smooth_next_to_the_edge():
    """p = 2: the mean block is singular at the edge, and the kept eigenvalues, with anisotropic couplings, hold all of
    that: the slope of what is left, on a teacher, between 0.01 and 0.03 of their width from the edge is within a
    third of that at 0.3 (the block's own slope there is more than five times as large)."""
    drawn = draw(Network(2, 2, 0.5), 600, 150, range(4), 3)
    drawn = replace(drawn, data=with_second_order(drawn.data))
    data, order = drawn.data, 2 * drawn.data.n
    bulk = bulk_curve(data, order, 25)
    kept, at = kept_eigenvalues(drawn, bulk, order, 24), []
    reach = kept.energies[:, -1] - bulk.edge
    for share in (0.01, 0.03, 0.25, 0.35):
        t = t_at(data, bulk.t_edge, bulk.edge - share * reach)
        block = mean_block(drawn, t)
        at.append([part[:, 0, 0] for part in (block, block - kept_part(kept, data.energy(t)))])
    near, far = (at[1][k] - at[0][k] for k in (0, 1)), at[3][1] - at[2][1]
    whole, left = (part / 0.02 for part in near)
    assert np.all(np.abs(left / (far / 0.1) - 1) < 1 / 3)
    assert np.all(whole / left > 5)


@pytest.mark.parametrize("p", [1, 2])
def test_couplings_of_eigenvalues_have_the_covariance_of_their_bulk(p):
    """Bulks of one draw of preactivations, 200 of dimension 60: b b^T of their eigenvalues 3 to 6 to teacher and students,
    averaged, in units of its diagonal: each entry within 5 standard errors and 0.12, the size of what the eigenvectors' place
    and 1/N make (28 entries at most, false alarm 2e-5). Entries between students and teachers reach 0.3."""
    model, n, rng = Network(p, 3, 0.7), 60, np.random.default_rng(5)
    drawn = draw(model, 10 * n * p, n, range(1), 2)
    w = p + 3
    drawn = replace(drawn, v=drawn.v[..., :w], extremes=0 * drawn.extremes, present=drawn.present[:, :w])
    drawn = replace(drawn, data=with_second_order(drawn.data))
    data, size = drawn.data, int(drawn.data.n[0])
    bulk = bulk_curve(data, p * size, 7)
    kept = kept_eigenvalues(drawn, bulk, np.array([p * size]), 6)
    covariance = np.einsum("lk,kab->ab", hats(np.array([2.0, 3.0, 4.0, 5.0]), 6) / 4, kept.covariance[0])
    lam, v = data.lam[0], drawn.v[0]
    weights = data.f[0][0][:, None, None] * np.eye(p) + (data.f[-1] - data.f[0])[0][:, None, None] * (
        lam[:, :, None] * lam[:, None] / np.sum(lam**2, axis=1)[:, None, None]
    )
    if p == 1:
        weights = data.f[0][0][:, None, None]
    found = []
    for _ in range(200):
        x = rng.standard_normal((len(lam), size))
        # Rows of the directions and of the bulk alike: the blocks between them.
        across = np.block([[(v.T * weights[:, i, j]) @ x for j in range(p)] for i in range(p)]) / size
        _, vectors = eigh(hessian(weights, x) / size, subset_by_index=[2, 5])
        found.append((across @ vectors) @ (across @ vectors).T / 4)
    unit = np.sqrt(np.diag(covariance))
    mean, error = np.mean(found, axis=0), np.std(found, axis=0) / np.sqrt(200)
    off = np.abs(covariance / np.outer(unit, unit) - np.eye(len(unit)))
    assert off.max() > 0.15
    np.testing.assert_array_less(
        np.abs(mean - covariance) / np.outer(unit, unit), (5 * error / np.outer(unit, unit)) + 0.12
    )
