"""float32 where a is small: right as long as it is allowed, refused where it is not."""

from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest

from bbp import sweep
from sims import checks, hessian
from sims.checks import require_resolved, weight_spread
from sims.instance import draw
from sims.sampling import SOLVERS, sample_grid, sample_point
from tests.sims.instances import quick_rows
from theory.checks import ParameterError
from theory.model import Committee
from theory.model.network import Network

LIMIT = checks.ERROR / (2 * checks.FLOOR * np.finfo(np.float32).eps)


def double(drawn):
    """Eigenvalues of the same numbers in float64."""
    named = {name: jnp.asarray(getattr(drawn, name), jnp.float64) for name in ("data", "student", "teacher")}
    wide = replace(drawn, **named)
    data = np.asarray(wide.data)[: drawn.m]
    upper = np.triu(hessian.dense_blas(data, hessian.weights_of(wide)))
    return np.linalg.eigvalsh(upper + np.triu(upper, 1).T)


@quick_rows("p, a", (2, 1e-3), slow=[(1, 1e-2), (1, 2e-3)])
@pytest.mark.parametrize("solver", ["dense", "krylov"])
def test_what_is_allowed_is_right(p, a, solver):
    """Close to the limit: the lowest eigenvalues of float32 are those of the same numbers in float64, to 1e-3 of the lowest."""
    model, n, alpha = Committee(p, 1, a), 100, 1.5
    require_resolved(model, n, alpha, "float32")
    for sample in range(3):
        drawn = draw(model, n, alpha, seed=0, sample=sample, dtype="float32")
        exact = double(drawn)[: p + 4]
        given = draw(model, n, alpha, seed=0, sample=sample, dtype="float32", data=SOLVERS[solver].rows)
        (found,) = SOLVERS[solver].solve([given], p + 4)
        assert np.max(np.abs(found.values - exact)) < 1e-3 * abs(exact[0])


@pytest.mark.parametrize(("p", "a"), [(1, 1e-5), (2, 1e-6)])
def test_what_would_be_wrong_is_refused(p, a, capsys, tmp_path):
    """Where the matrix-free solver gives other numbers than the dense one, both "converged" (0.5 of the lowest at a = 1e-5)."""
    model = Committee(p, 1, a)
    assert weight_spread(model, 150) > LIMIT
    for call in (
        lambda: sample_point(model, 100, 1.5, [0], 0, dtype="float32"),
        lambda: sample_grid([(model, 1.5)], 100, eigenpairs=3, dtype="float32"),
    ):
        with pytest.raises(
            ParameterError, match=r"^dtype must be float64 at a = 1e-0\d: weights span [^\n]*$"
        ):
            call()
    words = f"--p {p} --a {a} --n 100 --alpha-grid 1.5 --dtype float32 --out".split()
    assert sweep.main([*words, str(tmp_path / "x.h5")]) == 2
    assert "dtype must be float64" in capsys.readouterr().err
    require_resolved(model, 100, 1.5, "float64")


def test_the_spread_does_not_depend_on_the_scale_of_the_weights():
    small, large = (weight_spread(Committee(1, 1, a), 100) for a in (1e8, 1e12))
    assert small == pytest.approx(large, rel=1e-6)
    for model in (
        Network(a=9.0, activation="tanh"),
        Network(2, 1, loss="squared"),
        Network(a=1.0, noise=0.3),
    ):
        assert 1 < weight_spread(model, 100) < LIMIT
