"""Keys folded on the host are those that JAX folds."""

import jax
import numpy as np

from sims import threefry


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
