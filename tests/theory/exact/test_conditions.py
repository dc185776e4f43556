"""Safeguarded Newton on arrays: roots, brackets that grow, flat and kinked functions, giving up."""

import numpy as np
import pytest

from theory.checks import NotConverged
from theory.exact.conditions import Newton

INF = np.full(3, np.inf)


def test_roots_of_many_problems_at_once():
    target = np.array([1e-9, 0.3, 1e6])
    found = Newton().solve(lambda v, i: (target[i] - v**3, -3 * v**2), np.ones(3), np.zeros(3), INF)
    np.testing.assert_allclose(found, np.cbrt(target), rtol=1e-14)


def test_only_what_has_not_converged_is_evaluated():
    seen = []

    def function(v, index):
        seen.append(index.size)
        return np.where(index == 0, 1 - v, np.exp(-v) - 1e-12), np.where(index == 0, -1.0, -np.exp(-v))

    found = Newton().solve(function, np.array([0.5, 0.5, 0.5]), np.zeros(3), INF)
    np.testing.assert_allclose(found, [1, 12 * np.log(10), 12 * np.log(10)], rtol=1e-12)
    assert seen[0] == 3 and seen[-1] == 2


def test_the_bracket_holds_where_newton_would_leave_it():
    """arctan: Newton from far away diverges; the slope is also useless (0) left of the kink."""
    found = Newton().solve(
        lambda v, i: (-np.arctan(v - 3), -1 / (1 + (v - 3) ** 2)),
        np.array([40.0]),
        np.zeros(1),
        np.array([100.0]),
    )
    assert found[0] == pytest.approx(3, rel=1e-14)
    flat = Newton().solve(
        lambda v, i: (np.where(v < 2, 1.0, 3 - v), np.where(v < 2, 0.0, -1.0)),
        np.ones(1),
        np.zeros(1),
        INF[:1],
    )
    assert flat[0] == pytest.approx(3, rel=1e-14)


def test_rounding_does_not_send_it_back_and_forth_between_the_ends():
    """Near a small root of a function of order 1 values are a bit or two, and Newton steps lead from end to end."""
    start, bit = 3.01179386e-13, 4.4408921e-16
    found = Newton().solve(
        lambda v, i: (np.where(v < 3.02e-13, bit, -bit), np.full(1, -0.24991332)),
        np.array([start]),
        np.zeros(1),
        np.array([0.02]),
    )
    assert found[0] == pytest.approx(3.02e-13, abs=2e-15)


def test_nothing_to_solve():
    assert Newton().solve(lambda v, i: (v, v), np.empty(0), np.empty(0), np.empty(0)).size == 0


def test_giving_up_carries_the_best_estimate():
    with pytest.raises(NotConverged, match="1 of 1 roots not found in 3 steps") as failure:
        Newton(steps=3).solve(lambda v, i: (1e6 - v**3, -3 * v**2), np.ones(1), np.zeros(1), INF[:1])
    assert failure.value.best.shape == (1,) and failure.value.best[0] > 1
