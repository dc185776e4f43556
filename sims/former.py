"""Names of before: one that users were told opens what took its place; any other fails in one line that says the new one."""

from theory.former import Former

SIMS = Former(
    "sims",
    opens={
        "backend": "pinned",
        "checks": "resolution",
        "checks:require_resolved": "sampling.require_resolved",
        "checks:weight_spread": "sampling.weight_spread",
        "dynamics.flow": "dynamics.state",
        "functions": "activations losses targets",
        "instance:preactivations": "instance.labels",
        "krylov": "krylov.memory krylov.settings",
        "machine": "card limits",
        "operator": "operator.operator",
        "sampling": "one_draw",
        "signal": "observables",
    },
    says={
        "a difference of eigenvalues": "signal.gap",
        "a list of sims.solvers.Eigenpairs, one a point": "one_draw.GridResult sampling.GridResult",
        "pairs.code == 0 for each pairs of the list": "one_draw.converged",
        "sims.backend": "blas",
        "sims.dynamics": "descent",
        "sims.dynamics.flow": "dynamics.steps",
        "sims.dynamics.problem": "dynamics.sphere",
        "sims.dynamics.flow.End": "dynamics.flow.Code dynamics.state.Code",
        "sims.dynamics.flow.Rules, a method itself": "dynamics.methods.Ruled",
        "sims.hessian.form": "hessian.Functions hessian.functions_of",
        "sims.instance": "host_draws students",
        "sims.operator.HessianOperator": "krylov.InUnits krylov.memory.InUnits krylov.settings.InUnits "
        "krylov.solver.BlockOperator krylov.solver.InUnits",
        "sims.krylov.space": "krylov.projected",
        "sims.machine": "memory",
        "sims.operator.hessian_operator(..., mesh=sims.rows.row_mesh())": "operator.sharded sharded",
        "sims.operator.hessian_operator(..., points=)": "one_draw.SharedDraw one_draw.shared_draw operator.weighted",
        "sims.rows": "operator.rows",
        "sims.solvers.dense and sims.tridiagonal": "dense",
        "sims.solvers.krylov": "krylov.sample",
        "sims.threefry": "operator.halves",
        "theory.Network.losses(lam, y)": "hessian.loss",
        "theory.Network.weight_parts(lam, y, a, xp)": "hessian.weight_parts",
        "theory.Network.weights(lam, y)": "hessian.weights",
    },
)
