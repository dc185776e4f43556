"""The Krylov space step by step: Q stays orthonormal, T stays Q' H Q; and the lowest pairs of T without `eigh`."""

import itertools

import jax.numpy as jnp
import numpy as np
import pytest

from sims.krylov import Plan, Settings
from sims.krylov.space import FEW, Space, inverse_of, lowest, spectral_norm, times
from tests.sims.instances import with_spectrum

ORDER, BLOCK = 360, 6
SPECTRA = {
    "even": np.linspace(-1.0, 30.0, ORDER),
    # a right tail as in a Hessian: few values, far off, that converge in a few steps and tempt single passes to lose them
    "tail": np.concatenate([np.linspace(-1.0, 5.0, ORDER - 8), np.geomspace(20.0, 1000.0, 8)]),
    "degenerate": np.concatenate([np.full(5, -2.0), np.linspace(-1.0, 10.0, ORDER - 5)]),
    "low rank": np.concatenate([[-3.0, -1.0], np.zeros(ORDER - 30), np.linspace(1.0, 9.0, 28)]),
    "two values": np.concatenate([np.full(ORDER // 2, -1.0), np.full(ORDER - ORDER // 2, 1.0)]),
}


def grown(spectrum, dtype, steps):
    """A space after some steps, each followed by a restart where it is full, its matrix, and how many blocks waited then."""
    matrix = np.asarray(with_spectrum(spectrum)[0], dtype)
    plan = Plan.of(ORDER, np.dtype(dtype), 4, 2, Settings(block=BLOCK, basis=240))
    rng = np.random.default_rng(3)
    space, waiting = Space(jnp.asarray(rng.standard_normal((ORDER, BLOCK)), dtype), plan, rng), []
    for _ in range(steps):
        space.take(jnp.asarray(matrix) @ space.next)
        waiting.append(len(space.waiting))
        if space.full:
            space.restart()
    space.meet()
    return space, matrix.astype(np.float64), waiting


def columns(space):
    return np.asarray(space.basis.combine(np.eye(space.dimension)), np.float64)


def grown_spaces():
    """Every spectrum in one precision before a restart, and in the other after two; the rest is slow."""
    for name, steps, dtype in itertools.product(SPECTRA, (1, 2, 7, 20, 39, 60), ("float64", "float32")):
        single = name in ("tail", "two values")
        late = single == (dtype == "float32")
        quick = steps == (60 if late else 20) or (steps == 1 and name == "even")
        yield pytest.param(name, steps, dtype, marks=() if quick else pytest.mark.slow)


@pytest.mark.parametrize(("name", "steps", "dtype"), list(grown_spaces()))
def test_the_basis_is_orthonormal_and_t_is_its_projection(name, steps, dtype):
    """To 30 eps and 30 eps |H|, restarts (two in 60 steps) and blocks that wait for the second of their pair included."""
    space, matrix, _ = grown(SPECTRA[name], dtype, steps)
    q, eps = columns(space), float(np.finfo(dtype).eps)
    assert np.max(np.abs(q.T @ q - np.eye(space.dimension))) < 30 * eps
    norm = np.max(np.abs(SPECTRA[name]))
    t = space.projected[: space.dimension, : space.dimension]
    assert np.max(np.abs(q.T @ matrix @ q - t)) < 30 * eps * norm
    # the block to come: what H Q has outside Q lies in it
    b = BLOCK
    rest = matrix @ q - q @ (q.T @ matrix @ q)
    last = rest[:, -b:] - np.asarray(space.next, np.float64) @ space.factor
    if not space.coupled:  # right after a restart the block couples to all Ritz vectors
        assert np.max(np.abs(last)) < 100 * eps * norm
        assert np.max(np.abs(rest[:, :-b]), initial=0.0) < 100 * eps * norm


def test_blocks_wait_for_one_another():
    """Otherwise the tests above would not see it; less where rounding grows fast."""
    assert grown(SPECTRA["even"], "float64", 12)[2] == [0, 1, 2, 0] * 3
    assert max(grown(1e3 * SPECTRA["even"], "float32", 12)[2]) == 2  # in any units
    # the space is exhausted after two steps
    assert max(grown(SPECTRA["two values"], "float32", 12)[2]) < 2


def arrow(d, b, kept, seed=0):
    """A projected matrix: block tridiagonal, after a restart that kept some Ritz vectors."""
    rng = np.random.default_rng(seed)
    t = np.zeros((d, d))
    t[np.arange(kept), np.arange(kept)] = np.sort(rng.uniform(-3, 3, kept))
    for i in range(kept, d, b):
        here = slice(i, min(i + b, d))
        t[here, here] = rng.standard_normal(t[here, here].shape)
        past = slice(0, i) if i == kept else slice(i - b, i)
        t[here, past] = rng.standard_normal(t[here, past].shape)
    return (t + t.T) / 2


@pytest.mark.parametrize(
    ("d", "b", "kept"), [(96, 8, 0), (120, 8, 40), (44, 4, 24), (8, 8, 0), (90, 6, 84), (16, 8, 16)]
)
def test_the_pattern_holds_the_projected_matrix(d, b, kept):
    t = arrow(d, b, kept)
    columns = np.random.default_rng(1).standard_normal((d, b))
    np.testing.assert_allclose(times(t, b, kept, columns), t @ columns, atol=1e-12)
    exact = np.linalg.norm(t, 2)
    assert 0.8 * exact < spectral_norm(t, b, kept) <= exact * (1 + 1e-12)
    inverse = inverse_of(t, b, kept, -2 * exact)
    np.testing.assert_allclose(inverse(t @ columns + 2 * exact * columns), columns, atol=1e-12)


@pytest.mark.parametrize("kept", [0, 80])
@pytest.mark.parametrize("guess", [-1e-3, 5.0, -2.0])
def test_lowest_pairs_of_the_projected_matrix(kept, guess):
    """From any guess, an exact copy of the lowest pair (two matrices side by side) included."""
    t = np.kron(arrow(240, 4, kept // 2), np.eye(2))
    values = np.linalg.eigvalsh(t)
    found, vectors = lowest(t, np.zeros((8, 8)), kept, 6, (values[0] + guess, 0.1), 1e-8)
    np.testing.assert_allclose(found[:6], values[:6], atol=1e-10)
    np.testing.assert_allclose((t @ vectors - vectors * found)[:, :6], 0, atol=1e-8)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(8), atol=1e-12)


def test_no_lowest_pairs_where_they_do_not_converge():
    """Of a matrix without a lowest pair that stands out the inverse would want more steps than it is given."""
    assert lowest(arrow(480, 4, 0), np.zeros((4, 4)), 0, 4, (-1e9, 1.0), 1e-8) is None


def test_the_pairs_without_eigh_are_those_of_eigh(monkeypatch):
    matrix, _ = with_spectrum(np.linspace(-1.0, 40.0, 900))
    plan = Plan.of(900, np.dtype("float64"), 4, 2, Settings(block=8, basis=640))
    rng = np.random.default_rng(4)
    space = Space(jnp.asarray(rng.standard_normal((900, 8))), plan, rng)
    for step in range(1, 56):
        space.take(jnp.asarray(matrix) @ space.next)
        if step % 10 == 5 and space.dimension >= FEW * 8:
            _, estimates = space.ritz()
            values = space.lowest
            with monkeypatch.context() as patched:
                patched.setattr("sims.krylov.space.lowest", lambda *_: None)
                _, exact = space.ritz()
            np.testing.assert_allclose(estimates[:4], exact[:4], rtol=0.2, atol=1e-9)
            np.testing.assert_allclose(values[:4], space.lowest[:4], atol=1e-2 * np.max(exact[:4]))
    assert space.dimension > FEW * 8
