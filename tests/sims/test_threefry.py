"""Keys folded on the host are those that JAX folds. Normal variates: their law, and the circle they are made on."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from sims import threefry

COUNT = 200_000
draw = jax.jit(threefry.normal_row, static_argnums=(1, 2))
circle = jax.jit(threefry.circle, static_argnums=1)
box_muller = jax.jit(threefry.box_muller, static_argnums=1)


@pytest.fixture(scope="module", params=["float64", "float32"])
def variates(request):
    return np.asarray(draw(jax.random.key(11, impl="threefry2x32"), COUNT, request.param))


def test_law(variates):
    """Kolmogorov-Smirnov, and mean to fourth moment within 4.5 sigma: false alarms 1e-4 in all, the seed being fixed."""
    z = variates.astype(np.float64)
    assert stats.kstest(z, "norm").pvalue > 1e-5
    for power, mean, variance in ((1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96)):
        assert abs(np.mean(z**power) - mean) < 4.5 * np.sqrt(variance / COUNT)


def test_tails(variates):
    """Numbers beyond 3 and 4 are Poisson, within 4.5 sigma of their means, 540 and 12.7 (false alarms 1e-5 each)."""
    for level in (3.0, 4.0):
        mean = 2 * COUNT * stats.norm.sf(level)
        assert abs(np.sum(np.abs(variates) > level) - mean) < 4.5 * np.sqrt(mean)


def test_the_pair_of_one_angle_is_independent(variates):
    """Both halves of a draw share radius and angle: correlations of values and squares within 4.5 sigma of 0."""
    first, second = variates[: COUNT // 2].astype(np.float64), variates[COUNT // 2 :].astype(np.float64)
    for f in (lambda z: z, np.square, np.abs):
        assert abs(np.corrcoef(f(first), f(second))[0, 1]) < 4.5 * np.sqrt(2 / COUNT)


@pytest.mark.parametrize("dtype, word", [("float64", "uint64"), ("float32", "uint32")])
def test_circle(dtype, word):
    size = np.dtype(word).itemsize * 8
    words = np.random.default_rng(0).integers(0, 2**size, 20_000, dtype=word)
    words[:5] = [0, 2**size - 1, 2 ** (size - 2), 2 ** (size - 1), 3 * 2 ** (size - 2)]
    cosine, sine = circle(jnp.asarray(words), dtype)
    tolerance = 4 * np.finfo(dtype).eps
    np.testing.assert_allclose(cosine**2 + sine**2, 1, atol=tolerance)
    # each quadrant is turned back by an eighth of a circle: a rotation, which the law does not see
    angle = 2 * np.pi * (words.astype(np.float64) / 2.0**size - 0.125)
    np.testing.assert_allclose(cosine, np.cos(angle), atol=tolerance)
    np.testing.assert_allclose(sine, np.sin(angle), atol=tolerance)


@pytest.mark.parametrize(
    "dtype, word, bits, largest", [("float64", "uint64", 53, 8.65), ("float32", "uint32", 32, 6.76)]
)
def test_extreme_words_give_finite_variates(dtype, word, bits, largest):
    top = np.iinfo(word).max
    z = np.abs(np.concatenate(box_muller(jnp.asarray([[0, top], [top // 8, top // 8]], word), dtype)))
    assert np.all(np.isfinite(z)) and np.isclose(np.max(z), largest, atol=0.02)
    assert np.isclose(largest, np.sqrt(2 * (bits + 1) * np.log(2)), atol=0.02)


@pytest.mark.parametrize("n", [1, 7])
def test_lengths(n):
    assert draw(jax.random.key(0, impl="threefry2x32"), n, "float64").shape == (n,)


def test_folds_are_those_of_jax():
    rng = np.random.default_rng(0)
    keys, words = (rng.integers(0, 2**32, shape, dtype=np.uint32) for shape in ((40, 2), 40))
    keys[0], words[1] = 2**32 - 1, 2**32 - 1
    wrapped = jax.random.wrap_key_data(keys, impl="threefry2x32")
    expected = jax.random.key_data(jax.vmap(jax.random.fold_in)(wrapped, words))
    np.testing.assert_array_equal(threefry.fold(keys, words), expected)
    np.testing.assert_array_equal(threefry.fold(keys[3], words[3]), expected[3])
    crossed = threefry.fold(keys, [[0], [1]])
    assert crossed.shape == (2, 40, 2) and np.array_equal(crossed[1, 5], threefry.fold(keys[5], 1))
