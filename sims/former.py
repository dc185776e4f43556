"""Names of before: one that users were told opens what took its place; any other fails in one line that says the new one."""

from theory.former import Former

SIMS = Former(
    "sims",
    opens={
        "activations": "functions",
        "card": "machine",
        "krylov.memory": "krylov.settings",
        "limits": "machine",
        "losses": "functions",
        "observables": "signal",
        "operator.operator": "operator",
        "operator.sharded": "sharded",
        "pinned": "backend",
        "resolution": "sampling",
        "targets": "functions",
    },
    moved={
        "backend": "blas",
        "dynamics": "descent",
        "dynamics.flow": "dynamics.steps",
        "dynamics.problem": "dynamics.sphere",
        "dynamics.state.End": "dynamics.state.Code",
        "instance": "host_draws students",
        "krylov.solver": "krylov.settings.InUnits",
        "krylov.space": "krylov.projected",
        "machine": "memory",
        "rows": "operator.rows",
        "solvers.krylov": "krylov.sample",
        "threefry": "operator.halves",
    },
    gone={
        "dense": "sims.solvers.dense and sims.tridiagonal",
        "one_draw.GridResult": "a list of sims.solvers.Eigenpairs, one a point",
        "one_draw.SharedDraw": "sims.operator.hessian_operator(..., points=)",
        "one_draw.converged": "pairs.code == 0 for each pairs of the list",
        "one_draw.shared_draw": "sims.operator.hessian_operator(..., points=)",
        "sharded.ShardedOperator": "sims.operator.HessianOperator on sims.sharded.ShardedRows",
    },
)
