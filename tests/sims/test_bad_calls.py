"""Every bad call of a public function of sims ends in one line: a ParameterError that names the argument."""

import itertools

import numpy as np

import sims
from sims import instance
from sims.density import lanczos_quadrature
from sims.dynamics.flow import Rules
from sims.dynamics.samples import bytes_needed as descent_bytes
from sims.dynamics.samples import sample_descents
from sims.functions import activation_of
from sims.instance import draw_on_host
from sims.krylov import krylov_bytes
from sims.krylov.solver import Settings, lowest_krylov
from sims.operator import hessian_operator
from sims.rows import rows_of
from sims.sampling import bytes_needed, preferred_solver, sample_grid, sample_point
from sims.solvers.dense import dense_bytes, lowest_dense
from theory.checks import ParameterError
from theory.model import Committee

MODEL = Committee(1, 1, 1.0)
BAD = (
    None, "x", b"x", "", [], {}, (), -1, 0, 2.5, 1e400, float("nan"), 10**400, 1j, True, object(), [1, 2], [[1.0, "a"]],
    np.eye(2), np.array([None]), Committee(float("inf")), lambda: None,
)  # fmt: skip


def calls():
    drawn = instance.draw(MODEL, 8, 2.0)
    operator = hessian_operator(drawn)
    point = {"model": MODEL, "n": 8, "alpha": 2.0}
    seeds = {"seed": 0, "dtype": "float64"}
    return {
        "draw": (instance.draw, {**point, **seeds, "sample": 0, "data": False, "shared": False}),
        "draw_on_host": (draw_on_host, {**point, **seeds, "samples": [0]}),
        "samples_of": (instance.samples_of, {"alpha": 2.0, "n": 8}),
        "point_words": (instance.point_words, {"seed": 0, "n": 8, "alpha": 2.0}),
        "labels": (instance.labels, {"instance": drawn}),
        "outputs": (instance.outputs, {"instance": drawn}),
        "sample_point": (
            sample_point,
            {**point, **seeds, "samples": [0], "eigenpairs": 2, "solver": "dense", "batch": 1, "observables": []},
        ),
        "lowest": (sims.lowest, {"drawn": drawn, "k": 2, "solver": "dense"}),
        "hessian": (sims.hessian, {"drawn": drawn}),
        "density_of_states": (sims.density_of_states, {"drawn": drawn, "probes": 2, "steps": 4, "seed": 0}),
        "bytes_needed": (
            bytes_needed,
            {**point, "eigenpairs": 2, "dtype": "float64", "solver": "dense", "batch": 1},
        ),
        "lowest_dense": (lowest_dense, {"hessian": np.eye(3), "k": 1, "signal": np.eye(3)[:, :1], "overwrite": False}),
        "lowest_krylov": (
            lowest_krylov,
            {"operator": operator, "k": 1, "degeneracy": 1, "settings": Settings(basis=64)},
        ),
        "operator": (operator, {"vectors": np.ones((1, 8, 2))}),
        "hessian_operator": (hessian_operator, {"instance": drawn, "size": 16}),
        "rows_of": (rows_of, {"instance": drawn, "size": 16}),
        "lanczos_quadrature": (
            lanczos_quadrature,
            {"operator": operator, "probes": 2, "steps": 3, "seed": 0},
        ),
        "sample_grid": (
            sample_grid,
            {"points": [(MODEL, 2.0)], "n": 8, "eigenpairs": 2, **seeds, "settings": Settings(basis=64)},
        ),
        "krylov_bytes": (
            krylov_bytes,
            {**point, "eigenpairs": 2, "dtype": "float64", "settings": Settings(), "sets": 1, "devices": 1},
        ),
        "dense_bytes": (dense_bytes, {**point, "eigenpairs": 2, "dtype": "float64"}),
        "preferred_solver": (preferred_solver, {**point, "k": 2, "dtype": "float64"}),
        "Rules": (
            Rules,
            {"steps": 5, "records": 3, "tolerance": 0.1, "share": 1.0, "armijo": 0.25, "power_iterations": 2},
        ),
        "sample_descents": (
            sample_descents,
            {
                **point, **seeds, "samples": [0], "start": "random", "rules": Rules(steps=2, records=2),
                "eigenpairs": 0, "hessians": 2, "batch": 1, "workers": 1, "memory": 2**30,
            },
        ),
        "descent_bytes": (descent_bytes, {**point, "batch": 1, "records": 2, "dtype": "float64"}),
        "activation_of": (
            activation_of,
            {"name": "own", "value": np.sign, "parity": "none", "growth": 0.0, "infimum": -2.0},
        ),
    }  # fmt: skip


def test_every_bad_call_ends_in_one_line():
    wrong = []
    for name, (function, good) in calls().items():
        for argument, bad in itertools.product(good, BAD):
            said = f"{name} {argument}={bad!r:.30}"
            try:
                function(**{**good, argument: bad})
            except ParameterError as error:
                if "\n" in str(error) or len(str(error)) > 400:
                    wrong.append(f"{said}: {str(error)[:200]}")
            except Exception as error:
                wrong.append(f"{said}: {type(error).__name__} {str(error)[:90]}")
    assert not wrong, f"{len(wrong)}:\n" + "\n".join(wrong)
