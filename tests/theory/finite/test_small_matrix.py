"""The small matrix: what it need not depend on, and draws that share their preactivations."""

from dataclasses import replace

import numpy as np

from theory import finite
from theory.finite import draw as draw_module
from theory.finite import small_matrix
from theory.finite.draw import draw, draw_preactivations, gram_factor
from theory.finite.law import quenched_law
from theory.finite.small_matrix import airy_eigenvalues, small_pairs
from theory.finite.tracy_widom import MEAN, VARIANCE
from theory.model import Network


def test_law_is_steady_in_what_it_need_not_depend_on(monkeypatch):
    """p = 2, p_star = 2, a = 2, alpha = 3, N = 80, 64 draws: with twice the kept eigenvalues, the chord of the
    block half as far from the edge, and other data points extreme, mean q2 moves by less than 5 % and 4 standard errors, the
    lowest eigenvalue by less than a fifth of its scatter and 4 (false alarm 4e-4)."""
    model, alpha, n = Network(2, 2, 2.0), 3.0, 80
    base = finite.law(model, alpha, n, draws=64)
    for module, name, value in (
        (draw_module, "PER_OUTLIER", 12),
        (small_matrix, "_CLEAR", 0.15),
        (draw_module, "OWN", 0.33),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(module, name, value)
            law = finite.law(model, alpha, n, draws=64)
        for field, allowed in (("overlap", 0.05 * base.overlap.mean()), ("lowest", 0.2 * base.std("lowest"))):
            mean, error = law.mean(field)
            there, own = base.mean(field)
            assert 0 < abs(mean - there) < allowed + 4 * np.hypot(error, own), (name, field, mean, there)


def test_mean_outliers_do_not_hang_on_the_last_digit():
    """Where Newton's method has settled, rounding decides on which side of the root it stands, and must decide no more."""
    for model, n in ((Network(1, 1, 1.0), 400), (Network(2, 1, 0.3), 100), (Network(2, 2, 0.1), 300)):
        drawn = draw(model, 2 * n, n, range(64), 0)
        found = small_matrix._outlier(drawn)
        for nudge in (-3e-15, 1e-15, 4e-15):
            nudged = replace(drawn, t_edge=drawn.t_edge * (1 + nudge))
            np.testing.assert_allclose(small_matrix._outlier(nudged), found, rtol=1e-9)


def test_overlaps_are_shares():
    pairs = small_pairs(draw(Network(2, 2, 0.5), 300, 100, range(6), 0), range(6))
    assert np.all(np.diff(pairs.values, axis=1) >= 0)
    assert np.all((pairs.overlaps >= 0) & (pairs.overlaps <= 1 + 1e-12))
    assert np.all(pairs.known[:, :4])


def test_draws_with_given_preactivations_are_those_of_the_preactivations():
    """A draw whose own preactivations are given to it is the same draw; others share its edge and scatter about it."""
    model, m, n = Network(1, 1, 0.5), 800, 200
    own = draw_preactivations(model, m, n, range(1), 3)[0]  # as the law draws them
    factor = gram_factor(model, n, np.random.default_rng([3, 0, 5]))
    lam, u, gram = own.lam[0], own.u[0], factor @ factor.T
    free, given = (
        finite.law(model, m / n, n, draws=2, seed=3),
        quenched_law(model, lam, u, n, gram=gram, draws=2, seed=3),
    )
    # grids of energies are made for all draws of a call together
    np.testing.assert_allclose(given.lowest[0], free.lowest[0], rtol=1e-3)
    assert abs(given.lowest[1] - free.lowest[1]) > 1e-3


def test_eigenvalues_are_those_of_the_whole_matrix():
    # 25 eigenvalues are taken from all rows, 24 from the leading ones
    np.testing.assert_allclose(
        airy_eigenvalues(64, 24), airy_eigenvalues(64, 25)[:, :24], rtol=1e-10, atol=1e-10
    )


def test_eigenvalues_have_the_moments_of_tracy_widom():
    """The lowest eigenvalue in y is minus Tracy-Widom's variable: mean and variance within 4 sigma of its."""
    low = airy_eigenvalues(256, 24)[:, 0]
    assert (
        abs(low.mean() + MEAN) < 4 * np.sqrt(VARIANCE / 256) + 0.05
    )  # order 400 differs from the limit by about 0.03
    assert abs(low.var(ddof=1) - VARIANCE) < 4 * VARIANCE * np.sqrt(2 / 256) + 0.1
