"""Draws: what they depend on and what they do not, their law, their geometry."""

import jax
import numpy as np
import pytest
from scipy import stats

from sims import instance
from sims.instance import draw_on_host
from sims.threefry import row_block
from tests.sims.instances import quick_rows
from theory.checks import ParameterError
from theory.model import Committee
from theory.model.network import Network

N = 60
MODEL = Committee(2, 2, 0.3)


def rows_of(alpha, **options):
    drawn = instance.draw(MODEL, N, alpha, **options)
    return np.asarray(drawn.data)[: drawn.m]


@quick_rows("dtype", "float64", slow=["float32"])
def test_geometry(dtype):
    drawn = instance.draw(Committee(3, 2, 0.3), N, 2.5, dtype=dtype)
    eps = np.finfo(dtype).eps
    assert (drawn.m, drawn.n, drawn.data.shape) == (150, N, (256, N))
    assert drawn.data.dtype == drawn.student.dtype == drawn.teacher.dtype == dtype
    np.testing.assert_allclose(drawn.teacher @ drawn.teacher.T, N * np.eye(2), atol=20 * N * eps)
    np.testing.assert_allclose(np.sum(np.square(drawn.student), axis=1), N, rtol=20 * eps)
    assert abs(drawn.student[0] @ drawn.student[1]) > 1e-3  # student rows are not made orthogonal
    assert not np.any(drawn.data[drawn.m :]) and np.all(np.any(drawn.data[: drawn.m], axis=1))


def test_rows_nest_and_any_block_can_be_drawn_again():
    drawn = instance.draw(MODEL, N, 200 / N, shared=True)
    key = instance.data_key(drawn.key)
    long = np.asarray(drawn.data)[:200]
    np.testing.assert_array_equal(instance._device_rows(key, 200, N, "float64", None)[:200], long)
    for start, count in ((0, 1), (63, 2), (100, 100)):
        block = row_block(key, np.uint32(start), count, N, "float64")
        np.testing.assert_array_equal(block, long[start : start + count])


def test_shared_draws_nest_across_alpha():
    short, long = rows_of(1.5, shared=True), rows_of(2.5, shared=True)
    np.testing.assert_array_equal(long[: len(short)], short)
    one, other = (instance.draw(MODEL, N, alpha, shared=True, data=False) for alpha in (1.5, 2.5))
    np.testing.assert_array_equal(one.teacher, other.teacher)


def test_a_draw_depends_on_seed_n_alpha_and_sample_alone():
    same = rows_of(1.5, seed=3, sample=2)
    np.testing.assert_array_equal(same, rows_of(1.5, seed=3, sample=2))
    others = [
        rows_of(1.5, seed=4, sample=2),
        rows_of(1.5, seed=3, sample=1),
        rows_of(np.nextafter(1.5, 2), seed=3, sample=2),
        rows_of(1.5, seed=3, sample=2, shared=True),
    ]
    assert all(not np.any(other == same) for other in others)
    words = {instance.point_words(0, n, 1.0).tobytes() for n in range(1, 50)}
    assert len(words) == 49


@pytest.mark.parametrize(
    "shared, dtype, student, teacher, row",
    [
        (False, "float64", 0.5373817595230516, -1.080986539420471, 0.4593321431756515),
        (False, "float32", 1.1617661714553833, -1.390235185623169, -0.10137484967708588),
        (True, "float64", 0.480644900711712, 0.44266808057908197, 0.2630351560741464),
        (True, "float32", 0.32798320055007935, -0.4028626084327698, 0.12281695753335953),
    ],
)
def test_the_stream_is_the_one_it_is_called(shared, dtype, student, teacher, row):
    """Variates of stream 1, written down. If this fails, samples have changed: give `instance.STREAM` a new number first."""
    assert instance.STREAM == "threefry2x32/1"
    model = Committee(2, 2, 0.5)
    drawn = instance.draw(model, 7, 1.5, seed=3, sample=4, shared=shared, dtype=dtype)
    found = [float(drawn.student[1, 1]), float(drawn.teacher[1, 1]), float(drawn.data[9, 1])]
    np.testing.assert_allclose(found, [student, teacher, row], rtol=1e-12 if dtype == "float64" else 1e-5)


def test_widths_share_their_rows():
    """Student row k and teacher row l are the same directions whatever p and p_star, up to orthogonalisation."""
    narrow, wide = instance.draw(Committee(1, 1, 0.3), N, 1.5), instance.draw(Committee(4, 3, 1.0), N, 1.5)
    np.testing.assert_allclose(wide.student[:1], narrow.student, rtol=1e-14)
    np.testing.assert_allclose(wide.teacher[:1], narrow.teacher, rtol=1e-12)


def test_different_seeds_are_independent():
    """Correlation of two draws of 9000 entries is N(0, 1/9000): within 4.5 sigma, false alarm 7e-6 a pair."""
    draws = [rows_of(2.5, seed=seed).ravel() for seed in (0, 1, 2**40)] + [rows_of(2.5, sample=1).ravel()]
    correlations = np.corrcoef(draws)[np.triu_indices(4, 1)]
    assert np.max(np.abs(correlations)) < 4.5 / np.sqrt(len(draws[0]))


def test_law_of_rows_and_preactivations():
    """Rows are N(0, 1/N); preactivations are u = w*.x and lam = w.x, standard normal (Kolmogorov-Smirnov, 1e-5)."""
    drawn = instance.draw(MODEL, N, 100.0)
    data = np.asarray(drawn.data)[: drawn.m]
    assert stats.kstest(data.ravel() * np.sqrt(N), "norm").pvalue > 1e-5
    lam, u = instance.preactivations(drawn)
    assert lam.shape == (6000, 2) and u.shape == (6000, 2)
    np.testing.assert_allclose(lam, data @ np.asarray(drawn.student).T, atol=1e-12)
    for column in (*lam.T, *u.T):
        assert stats.kstest(column, "norm").pvalue > 1e-5


def test_directions_are_uniform():
    """First component of a direction in dimension 5 against its exact law, x^2 ~ Beta(1/2, 2): 600 of each kind."""
    draws = [instance.draw(MODEL, 5, 1.0, sample=i, data=False) for i in range(300)]
    for rows in (np.concatenate([d.student for d in draws]), np.concatenate([d.teacher for d in draws])):
        assert stats.kstest(rows[:, 0] ** 2 / 5, stats.beta(0.5, 2).cdf).pvalue > 1e-4
        assert abs(np.mean(np.sign(rows[:, 0]))) < 4.5 / np.sqrt(600)
    inner = [d.student[0] @ d.teacher[0] / 5 for d in draws]
    assert abs(np.mean(inner)) < 4.5 * np.sqrt(1 / 5 / 300)


def test_preactivations_without_data_are_those_with_data():
    with_data, without = (instance.draw(MODEL, N, 2.5, data=data) for data in (True, False))
    assert without.data is None
    for left, right in zip(instance.preactivations(with_data), instance.preactivations(without), strict=True):
        np.testing.assert_allclose(left, right, atol=1e-13)


def test_padded_lengths():
    lengths = [instance.padded(m) for m in range(1, 5000)]
    assert all(length >= m for m, length in enumerate(lengths, start=1))
    assert all(length < m + max(128, m / 8 + 1) for m, length in enumerate(lengths, start=1))
    assert len({length for length in lengths if 2048 < length <= 4096}) <= 8


@pytest.mark.parametrize(
    "alpha, n, m", [(0.5, 1, None), (0.51, 1, 1), (1.0, 1, 1), (2.5, 3, 8), (1e-4, 4999, None)]
)
def test_number_of_samples(alpha, n, m):
    if m is None:
        with pytest.raises(ParameterError, match="must round to at least one sample"):
            instance.samples_of(alpha, n)
    else:
        assert instance.samples_of(alpha, n) == m


NARROW, WIDE = (Committee(1, 1, 1.0), 30, 1.3), (Committee(3, 2, 0.5), 64, 0.7)


@quick_rows(
    "model, n, alpha, dtype",
    (*NARROW, "float64"),
    (*WIDE, "float32"),
    slow=[(*NARROW, "float32"), (*WIDE, "float64")],
)
def test_instances_drawn_on_the_host_are_those_drawn_apart(model, n, alpha, dtype):
    samples = [4, 0, 7, *range(20, 55)]  # more than share the making of their keys
    together = list(draw_on_host(model, n, alpha, samples, seed=11, dtype=dtype))
    assert len(together) == len(samples)
    for found, sample in zip(together[:3] + together[-1:], samples[:3] + samples[-1:], strict=True):
        apart = instance.draw(model, n, alpha, seed=11, sample=sample, dtype=dtype)
        assert found.m == apart.m and np.array_equal(
            jax.random.key_data(found.key), jax.random.key_data(apart.key)
        )
        for name in ("student", "teacher", "data"):
            np.testing.assert_array_equal(np.asarray(getattr(found, name)), np.asarray(getattr(apart, name)))


def test_noise_is_a_stream_of_its_own():
    """Sample mu has the same noise whatever the block, M and the other noise; its law is normal (Kolmogorov-Smirnov, 1e-5)."""
    model, key = (
        Network(1, 3, noise=0.5),
        instance.draw(Network(1, 3), 20, 5.0, seed=1, shared=True, data=False).key,
    )
    zeta, xi = instance.teacher_noise(model, key, 0, 3000)
    assert xi is None and zeta.shape == (3000, 3) and zeta.dtype == np.float64
    np.testing.assert_array_equal(instance.teacher_noise(model, key, 100, 7)[0], zeta[100:107])
    both = Network(1, 3, loss="squared", noise=0.5, output_noise=0.1)
    again, xi = instance.teacher_noise(both, key, 0, 3000)
    np.testing.assert_array_equal(again, zeta)
    rows = np.asarray(row_block(instance.data_key(key), 0, 3000, 20)) * np.sqrt(20)
    for column in (*np.asarray(zeta).T, np.asarray(xi)):
        assert stats.kstest(column, "norm").pvalue > 1e-5
        assert abs(np.corrcoef(column, rows[:, 0])[0, 1]) < 4.5 / np.sqrt(3000)
    drawn = instance.draw(model, 20, 5.0, seed=1, shared=True)
    u = instance.preactivations(drawn)[1]
    expected = np.mean((u + np.sqrt(0.5) * np.asarray(zeta)[: drawn.m]) ** 2, axis=1)
    np.testing.assert_allclose(instance.outputs(drawn), expected, rtol=1e-13)


@pytest.mark.parametrize("spec", ["levels:0.4@0.667,2.2@0.333", "power:1.2", "mp:0.5"])
def test_inputs_have_the_covariance(spec):
    """Column i of the inputs has variance s_i / N: a chi-squared of M degrees for each, false alarm 1e-6 a column."""
    drawn = instance.draw(Network(1, 1, covariance=spec), 12, 400.0)
    s = drawn.model.covariance.eigenvalues(12)
    assert abs(s.mean() - 1) < 1e-14
    squares = np.sum(np.square(drawn.data), axis=0) * 12 / s
    low, high = stats.chi2(drawn.m).ppf([5e-7, 1 - 5e-7])
    assert np.all((low < squares) & (squares < high))


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_students_have_the_overlaps(dtype):
    eps, n = np.finfo(dtype).eps, 30
    matrix, products = ((0.5, 0.1), (-0.2, 0.3)), ((1.0, 0.4), (0.4, 1.2))
    for overlap, gram in ((0.6, None), (-1.0, None), (matrix, None), (matrix, products)):
        model = Network(2, 2, overlap=overlap, gram=gram)
        drawn = instance.draw(model, n, 2.0, dtype=dtype, data=False)
        w, t = np.asarray(drawn.student, np.float64), np.asarray(drawn.teacher, np.float64)
        np.testing.assert_allclose(w @ t.T / n, model.overlap_matrix, atol=20 * eps)
        products = w @ w.T / n
        np.testing.assert_allclose(np.diag(products), np.diag(model.gram_matrix), atol=20 * eps)
        if gram is not None:
            np.testing.assert_allclose(products, model.gram_matrix, atol=20 * eps)
    with pytest.raises(ParameterError, match="N must be at least 4"):
        instance.draw(model, 3, 2.0)
