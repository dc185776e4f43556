"""Theory at the students of a descent: both routes are those of theory/; what each sees of a student that fits its labels."""

import numpy as np
import pytest

from sims import instance
from sims.descent.path import Rules
from sims.descent.samples import sample_descents
from sims.descent.theory import NAMES, annealed_at, at_overlaps, predicted_along, quenched_at
from theory.exact.bulk import bulk_edge
from theory.exact.outliers import outlier
from theory.finite.quenched import quenched
from theory.model import Committee
from theory.model.network import Network


def test_students_without_overlap_are_those_of_the_committee():
    model = Committee(1, 1, 0.5)
    edge, place, overlap = annealed_at(model, np.eye(2), 2.0)
    expected = outlier(model, 2.0)
    assert edge == pytest.approx(bulk_edge(model, 2.0).value, rel=1e-9)
    assert (place, overlap) == pytest.approx((expected.value, expected.overlap), rel=1e-8)


def test_both_routes_are_those_of_the_students_at_hand():
    model = Committee(1, 1, 0.5)
    drawn = instance.draw(model, 60, 3.0)
    student, teacher = np.asarray(drawn.student), np.asarray(drawn.teacher)
    found = predicted_along(drawn, np.stack([student, student]))
    assert set(found) == set(NAMES) and all(
        rows[0] == rows[1] or np.isnan(rows[0]) for rows in found.values()
    )
    rows = np.concatenate([teacher, student])
    gram = rows @ rows.T / 60
    at = at_overlaps(model, gram)
    assert at.overlap_matrix[0, 0] == gram[1, 0] and at.gram_matrix[0, 0] == 1
    lam, u = (np.asarray(x) for x in instance.labels(drawn))
    expected = quenched(model, lam, u, 60, gram)
    assert found["quenched_edge"][0] == pytest.approx(expected.edge, rel=1e-9)
    assert found["annealed_edge"][0] == pytest.approx(annealed_at(model, gram, 3.0)[0], rel=1e-12)


def test_where_there_is_no_theory_there_is_no_number():
    """Quenched theory is that of quadratic committees; the weight of a squared loss has no left edge to predict."""
    model = Network(1, 1, 2.0, "tanh")
    assert np.all(np.isnan(quenched_at(model, np.ones((5, 1)), np.ones((5, 1)), np.eye(2), 5)))
    found = annealed_at(Network(1, 1, loss="squared"), np.eye(2), 2.0)
    assert np.all(np.isnan(found))
    placed = Network(1, 1, 0.5, overlap=0.3)  # a committee all the same, once its students are given
    lam = u = np.random.default_rng(0).standard_normal((300, 1))
    assert np.isfinite(quenched_at(placed, lam[::-1], u, np.eye(2), 100)[0])


def test_a_descent_keeps_what_theory_says_where_it_is_asked():
    """Students that fit the labels and do not find the teacher: the Hessian's lowest eigenvalue rises, as the quenched theory
    says by more than half, and theory at the overlaps hardly (by less than half). Fixed seeds; bounds, not digits."""
    model, asked = Committee(1, 1, 0.5), {"rules": Rules(steps=1500), "eigenpairs": 1, "hessians": 2}
    found = sample_descents(model, 60, 1.2, range(4), theory=True, **asked)
    silent = sample_descents(model, 60, 1.2, [0], **asked)
    assert all(np.all(np.isnan(rows)) for rows in silent.predicted.values())
    lost = found.m2[:, -1] < 0.5
    assert lost.sum() >= 3
    rise = np.diff(found.eigenvalues[lost, :, 0, 0])
    assert np.all(rise > 0.5)
    assert np.all(np.diff(found.predicted["quenched_edge"][lost]) > 0.5 * rise)
    assert np.all(np.abs(np.diff(found.predicted["annealed_edge"][lost])) < 0.5 * rise)
