"""Samples of gradient descent: recovery and its absence, starts, independence of the batch, failures, memory."""

from types import SimpleNamespace

import numpy as np
import pytest

from sims import instance
from sims.dynamics import hessians
from sims.dynamics.flow import End, Rules
from sims.dynamics.samples import DescentResult, bytes_needed, hessian_moments, sample_descents
from sims.dynamics.starts import hessian_start, signed, spectral_refusal
from tests.sims.instances import host_draw, quick_rows
from theory.checks import ParameterError
from theory.model import Committee
from theory.model.network import Network

SHORT = Rules(steps=30)


def test_recovery_at_large_alpha():
    found = sample_descents(Committee(2, 1, 1.0), 100, 10.0, range(4), rules=Rules(steps=1000))
    assert np.all(found.m2[:, 0] < 0.3)
    # for p > p_star the loss grows as the fourth power of the distance along some directions: 1 - m2 falls as 1
    # / time only
    assert np.all(found.m2[:, -1] > 0.99)
    assert np.all(found.loss[:, -1] < 1e-5 * found.loss[:, 0])
    assert not np.any(found.reason)


@pytest.mark.slow
def test_no_recovery_at_tiny_alpha():
    """10 samples for N = 100 directions: the final m2 stays at the size 1/N of a random direction.

    The largest of two squared N(0, 1/N) overlaps exceeds 16/N with probability 1.3e-4; for 4 samples 5e-4.
    """
    found = sample_descents(Committee(2, 1, 1.0), 100, 0.1, range(4), rules=Rules(steps=1000))
    assert np.all(found.m2[:, -1] < 0.16)
    assert np.all(found.loss[:, -1] < 1e-3 * found.loss[:, 0])


def test_a_sample_is_that_of_its_index_whatever_the_batch():
    model = Committee(2, 1, 0.7)
    whole = sample_descents(model, 30, 2.0, range(4), seed=5, rules=SHORT, eigenpairs=3, hessians=3)
    parts = sample_descents(
        model, 30, 2.0, [3, 1, 0], seed=5, rules=SHORT, eigenpairs=3, hessians=3, batch=2, workers=1
    )
    for name in ("overlap_matrix", "loss", "gradient", "time", "steps", "eigenvalues", "overlaps", "code"):
        np.testing.assert_allclose(
            getattr(parts, name), getattr(whole, name)[[3, 1, 0]], rtol=1e-9, atol=1e-9, err_msg=name
        )


def test_shapes_and_what_they_hold():
    model = Committee(2, 2, 0.7)
    found = sample_descents(model, 20, 3.0, [7], seed=1, rules=SHORT, eigenpairs=5, hessians=4)
    records = len(SHORT.recorded_steps)
    assert found.overlap_matrix.shape == (1, records, 2, 2)
    assert found.eigenvalues.shape == found.overlaps.shape == (1, 4, len(hessians.FRAMES), 5)
    drawn = host_draw(model, 20, 3.0, seed=1, sample=7)
    start = np.asarray(drawn.student) @ np.asarray(drawn.teacher).T / 20
    np.testing.assert_allclose(found.overlap_matrix[0, 0], start, atol=1e-13)
    first, _ = hessians.lowest_along(drawn, np.asarray(drawn.student)[None], 5)
    np.testing.assert_allclose(found.eigenvalues[0, 0], first[0], atol=1e-11)
    np.testing.assert_array_equal(found.hessian_records, hessian_moments(records, 4))
    assert found.hessian_records[0] == 0 and found.hessian_records[-1] == records - 1
    # nothing is predicted where it is not asked
    assert all(np.all(np.isnan(rows)) for rows in found.predicted.values())


def test_measures_of_the_overlap_matrix():
    found = SimpleNamespace(overlap_matrix=np.array([[[0.6, -0.8], [0.1, 0.2]]]))
    assert DescentResult.m2.fget(found) == pytest.approx([0.64])
    # a row inside the span of the teacher, turned away from its rows
    assert DescentResult.projection.fget(found) == pytest.approx([1.0])


@quick_rows(
    "start, p, p_star", ("hessian", 3, 2), ("spectral", 3, 2), slow=[("hessian", 1, 1), ("spectral", 1, 1)]
)
def test_informed_starts_know_more_than_random_ones(start, p, p_star):
    model, alpha = Committee(p, p_star, 1.0), 6.0 * p_star
    known = {
        name: sample_descents(model, 60, alpha, range(4), start=name, rules=SHORT).projection
        for name in ("random", start)
    }
    assert np.mean(known[start][:, 0]) > 0.4 > np.mean(known["random"][:, 0]) + 0.1


@quick_rows(
    "model",
    Network(2, 1, 2.0, "tanh"),
    Network(1, 1, 1.0, "softplus", loss="squared", teacher_activation="quadratic"),
    slow=[Network(1, 1, 0.5, covariance="power:1", noise=0.2)],
)
def test_networks_start_at_the_lowest_vectors_of_their_hessian(model):
    """The rows lie in the span of the blocks of those vectors, and no row turned round has a lower loss."""
    drawn = host_draw(model, 20, 5.0)
    data, y = np.asarray(drawn.data)[: drawn.m], np.asarray(instance.outputs(drawn))
    student = hessian_start(drawn, data, y)
    pairs = hessians.lowest_plain(drawn, np.asarray(drawn.student), y, int(model.degeneracy))
    p = int(model.p)
    for k, row in enumerate(student):
        block = np.linalg.qr(pairs.vectors.reshape(p, 20, -1)[k])[0]
        assert np.sum((block.T @ row) ** 2) == pytest.approx(20, rel=1e-9)
        turned = student.copy()
        turned[k] *= -1
        assert model.losses(data @ student.T, y).sum() <= model.losses(data @ turned.T, y).sum()


def test_students_are_turned_where_the_loss_has_a_sign():
    model = Network(2, 1, 2.0, "tanh")
    drawn = host_draw(model, 12, 6.0)
    data, y = np.asarray(drawn.data)[: drawn.m], np.asarray(instance.outputs(drawn))
    teacher = np.asarray(drawn.teacher)
    found = signed(model, data, y, np.concatenate([-teacher, teacher]))
    np.testing.assert_array_equal(found, np.concatenate([teacher, teacher]))
    even = Committee(2, 1, 1.0)
    np.testing.assert_array_equal(
        signed(even, data, y**2, -np.tile(teacher, (2, 1))), -np.tile(teacher, (2, 1))
    )


def test_the_spectral_start_is_refused_where_its_weights_are_not_optimal():
    for model, words in (
        (Network(a=2.0, activation="tanh"), "quadratic teacher"),
        (Network(noise=0.1), "no noise"),
    ):
        with pytest.raises(ParameterError, match=words):
            sample_descents(model, 20, 3.0, [0], start="spectral", rules=SHORT)
    assert not spectral_refusal(Network(a=2.0, activation="tanh", teacher_activation="quadratic"))


def test_a_start_of_ones_own():
    def start(drawn, data, y):
        return np.asarray(drawn.teacher)

    found = sample_descents(Committee(1, 1, 1.0), 20, 3.0, range(3), start=start, rules=SHORT)
    np.testing.assert_allclose(found.m2, 1, rtol=1e-12)
    np.testing.assert_array_equal(found.code, End.CONVERGED)


def test_a_start_that_fails_is_recorded_and_the_rest_goes_on():
    def start(drawn, data, y):
        if drawn.student[0, 0] == host_draw(drawn.model, 20, 3.0, sample=1).student[0, 0]:
            raise np.linalg.LinAlgError("no eigenvectors today")
        return np.asarray(drawn.student)

    model = Committee(1, 1, 1.0)
    found = sample_descents(model, 20, 3.0, range(3), start=start, rules=SHORT, eigenpairs=2)
    good = sample_descents(model, 20, 3.0, range(3), rules=SHORT, eigenpairs=2)
    assert found.reason.tolist() == ["", "no start: no eigenvectors today", ""]
    assert (
        found.code[1] == End.NOT_FINITE
        and np.all(np.isnan(found.m2[1]))
        and np.all(np.isnan(found.eigenvalues[1]))
    )
    np.testing.assert_array_equal(found.m2[[0, 2]], good.m2[[0, 2]])


def test_what_does_not_fit_in_memory_is_refused_with_what_would(monkeypatch):
    model = Committee(2, 1, 1.0)
    one = bytes_needed(model, 100, 2.0, batch=1, records=40)
    assert one > 8 * 200 * 100
    monkeypatch.setattr("sims.machine.available_bytes", lambda: 10 * one)
    with pytest.raises(
        ParameterError, match=r"need .* GiB for a batch of 50, the limit is .*; a batch of [1-9]\d* fits"
    ):
        sample_descents(model, 100, 2.0, range(50), batch=50, rules=SHORT)
    monkeypatch.setattr("sims.machine.available_bytes", lambda: 1000)
    with pytest.raises(ParameterError, match="a smaller N or alpha fits"):
        sample_descents(model, 100, 2.0, range(2), rules=SHORT)


@pytest.mark.slow
def test_float32_recovers_too():
    found = sample_descents(
        Committee(1, 1, 1.0), 30, 10.0, range(4), rules=Rules(steps=300), dtype="float32", eigenpairs=2
    )
    assert np.sum(found.m2[:, -1] > 0.999) >= 3
    assert not np.any(found.reason) and np.all(np.isfinite(found.eigenvalues))
