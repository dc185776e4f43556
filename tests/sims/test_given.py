"""Samples on rows of one's own: which rows, the same by every way to the Hessian, and theory with its verdict."""

import numpy as np
import pytest

import sims
from sims.given import _heavy, judged, predicted
from sims.instance import chosen, draw_on_host
from sims.sampling import sample_grid
from theory import Inputs, Network, ParameterError
from theory.given.covariance import heaviest

N = 24
X = np.random.default_rng(0).standard_normal((400, N)) * np.linspace(0.5, 1.5, N)
MODEL = Network(2, 1, 0.5, inputs=Inputs.of(X))


def test_rows_are_those_given_each_at_most_once():
    drawn = sims.draw(MODEL, N, 3.0, seed=1)
    rows = np.asarray(drawn.data)[: drawn.m] * np.sqrt(N)
    all_rows = MODEL.inputs.take(np.arange(400))
    distance = np.abs(rows[:, None] - all_rows[None]).max(axis=2)
    which = distance.argmin(axis=1)
    assert distance.min(axis=1).max() < 1e-12 and len(set(which)) == drawn.m == 72
    assert not np.asarray(drawn.data)[drawn.m :].any()


def test_teacher_and_student_are_those_of_gaussian_rows():
    own, gaussian = (sims.draw(model, N, 3.0, seed=1) for model in (MODEL, Network(2, 1, 0.5)))
    np.testing.assert_array_equal(own.student, gaussian.student)
    np.testing.assert_array_equal(own.teacher, gaussian.teacher)


def test_draws_nest_and_are_the_same_on_the_host():
    small, large = (np.asarray(sims.draw(MODEL, N, a, seed=1, shared=True).data) for a in (2.0, 5.0))
    np.testing.assert_array_equal(small[:48], large[:48])
    (host,) = draw_on_host(MODEL, N, 3.0, [4], seed=1)
    one = sims.draw(MODEL, N, 3.0, seed=1, sample=4)
    np.testing.assert_array_equal(host.data, one.data)
    np.testing.assert_array_equal(host.student, one.student)
    (pairs,) = sample_grid([(MODEL, 2.0)], N, eigenpairs=2, seed=1)
    shared = np.linalg.eigvalsh(sims.hessian(sims.draw(MODEL, N, 2.0, seed=1, shared=True)))
    np.testing.assert_allclose(pairs.values, shared[:2], atol=1e-6)


def test_samples_are_those_of_the_matrix():
    whole = np.linalg.eigvalsh(sims.hessian(sims.draw(MODEL, N, 3.0, seed=1)))[:3]
    found = sims.sample(MODEL, N, 3.0, [0], 1, eigenpairs=3, solver="dense")
    np.testing.assert_allclose(found.eigenvalues[0], whole, atol=1e-10)


def test_a_descent_takes_the_rows():
    start = sims.descend(MODEL, N, 3.0, seed=1)
    assert np.isfinite(start.loss).all()


def test_more_rows_than_there_are():
    with pytest.raises(ParameterError, match=r"at most 16\.6667: inputs has 400 rows"):
        sims.draw(MODEL, N, 20.0)
    with pytest.raises(ParameterError, match="n must be 24"):
        sims.sample(MODEL, 25, 2.0, [0], 1)


def test_gaussian_rows_are_called_gaussian_and_a_mixture_is_not():
    """Rows that are Gaussian, alpha = 1; and rows with 2 % of their entries, each where it falls."""
    x = np.random.default_rng(0).standard_normal((120, 40))
    found = judged(Network(1, 1, 0.5, inputs=Inputs.of(x)), 1.0)
    assert found.kind == "Gaussian", found.reason
    spiky = np.where(np.random.default_rng(1).random(X.shape) < 0.02, X, 0)
    assert judged(Network(1, 1, 0.5, inputs=Inputs.of(spiky)), 4.0, 8, 8).kind == "neither"
    with pytest.raises(ParameterError, match="inputs"):
        predicted(sims.draw(Network(), N, 2.0))


RARE = np.random.default_rng(3).standard_normal((12_000, 48))
RARE[[10, 9000, 11_500]] *= 20  # in 2.4 % of all draws
SKEWED = np.random.default_rng(4).standard_t(2.5, (1500, 32))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_rare_heavy_rows_decide_the_mean_whether_drawn_or_not(seed):
    found = judged(Network(inputs=Inputs.of(RARE)), 2.0, 16, 16, seed)
    assert found.kind == "neither" and ("large norm" in found.reason or "not known" in found.reason)


def test_rare_rows_are_found_by_putting_them_into_draws():
    model = Network(inputs=Inputs.of(RARE))
    assert set(heaviest(model.inputs)[:3]) == {10, 9000, 11_500}
    (one, *_) = _heavy(model, 2.0, 0, 64, 1)
    assert one.count == 1 and one.met == pytest.approx(96 / 12_000) and one.change > 20
    drawn = sims.draw(model, 48, 2.0, seed=1)
    first = int(chosen(drawn.words, 12_000, 96)[0])
    assert predicted(drawn, put=first)[0].lowest == pytest.approx(predicted(drawn)[0].lowest, rel=1e-9)


@pytest.mark.slow
def test_skewed_draws_have_no_mean_by_sixteen():
    """Draws of Student's t with 2.5 degrees: heavy ones have most of the scatter."""
    found = judged(Network(inputs=Inputs.of(SKEWED)), 2.0, 16, 16)
    assert found.kind == "neither" and found.reason


def test_rows_of_few_directions_are_sampled_without_theory():
    rng = np.random.default_rng(2)
    x = np.outer(rng.standard_normal(100), np.ones(12))
    x[:, 0] += rng.standard_normal(100)
    found = judged(Network(inputs=Inputs.of(x)), 2.0, 8, 8)
    assert found.kind == "neither" and "4 directions, got 2 of 12" in found.reason
