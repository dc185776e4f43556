"""Methods of first order: on the host as compiled; in law over deferred data as over a matrix; each against its own theory."""

import io

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from sims.dynamics.flow import DYNAMICS, Rules, started
from sims.dynamics.methods import Descent, MessagePassing, PowerIteration
from sims.dynamics.problem import Matrix, Problem, retract
from sims.dynamics.run import descend, drawn, problem_of, trajectory
from theory.checks import ParameterError
from theory.general.spectral_methods import optimal
from theory.model import Committee, Network
from theory.path.deferred import Deferred

QUADRATIC, TANH = Network(a=0.5), Network(p=2, activation="tanh", loss="squared")
METHODS = {
    "gradient": (QUADRATIC, Descent(0.02)),
    "masks": (QUADRATIC, Descent(0.02, share=0.3)),
    "inertia and noise": (TANH, Descent(0.1, inertia=0.5, temperature=0.01)),
    "flow": (Network(p=2, a=0.5), Rules()),
    "amp": (QUADRATIC, MessagePassing()),
    "power": (Network(p=2, a=0.5), PowerIteration(optimal(), 2.0)),
}


def problem(model, m, n, rng, data="matrix", dtype=np.float64):
    """A problem without sims.instance's draws, and its teacher and start: cheap, of any size."""
    known = Deferred(m, n, rng, dtype=dtype, directions=min(400, max(m, n)))
    if data == "matrix":
        known = Matrix((rng.standard_normal((m, n)) / np.sqrt(n)).astype(dtype))
    teacher, student = retract(rng.standard_normal((1, n))), retract(rng.standard_normal((int(model.p), n)))
    u = np.asarray(known.push(teacher.astype(dtype)), float)
    return problem_of(model, known, model.outputs(u)), teacher, retract(student + 0.5 * teacher)


def seen(name, data, seed, n=30, alpha=3.0, marks=(1, 3, 6, 10)):
    """Four observables at four times of one trajectory: loss, overlap with the teacher and with the start, size of lam."""
    model, method = METHODS[name]
    rng = np.random.default_rng([seed, data == "matrix"])
    given, teacher, start = problem(model, round(alpha * n), n, rng, data)
    start = start * 0.5 if name == "amp" else start
    found = []
    for i, state in enumerate(trajectory(given, method, start, rng)):
        if i in marks:
            w = state.student
            found.append(
                (given.value(state.lam), w[0] @ teacher[0] / n, w[0] @ start[0] / n, np.mean(state.lam**2))
            )
        if i == marks[-1]:
            return np.array(found)
    return np.array(found + [found[-1]] * (len(marks) - len(found)))


@pytest.mark.parametrize("name", METHODS)
def test_the_law_over_deferred_data_is_that_over_a_matrix(name):
    """40 seeds each, four observables at four times: Kolmogorov-Smirnov of all sixteen, false alarm 1e-4 (Bonferroni)."""
    samples = {
        data: np.array([seen(name, data, seed) for seed in range(40)]) for data in ("matrix", "deferred")
    }
    for t in range(4):
        for o in range(4):
            both = samples["matrix"][:, t, o], samples["deferred"][:, t, o]
            assert stats.ks_2samp(*both).pvalue > 1e-4 / 16, (t, o)


@pytest.mark.parametrize("dynamics", DYNAMICS)
def test_a_step_on_the_host_is_the_compiled_one(dynamics):
    rng = np.random.default_rng(1)
    host, _, start = problem(Network(p=2, a=0.5), 90, 30, rng)
    (renewed, step), numbers = DYNAMICS[dynamics], Rules().numbers(np.dtype(float))
    state = renewed(host, started(host, start), numbers)
    for _ in range(3):
        state = step(host, state, numbers)

    @jax.jit
    def compiled(x, loss, state):
        return step(Problem(Matrix(x), *loss, host.model, host.nodes), state, numbers)

    numbers = jax.tree.map(jnp.asarray, numbers)
    there = compiled(jnp.asarray(host.data.x), host[1:5], state)
    here = step(host, state, Rules().numbers(np.dtype(float)))
    assert here.time > state.time
    for a, b in zip(here, there, strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9 * float(np.max(np.abs(b), initial=1.0)))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", METHODS)
def test_states_keep_their_dtype_and_resume_bit_for_bit(name, dtype):
    """What numpy.savez keeps of data, state and generator is enough."""
    model, method = METHODS[name]
    rng = np.random.default_rng(2)
    given, _, start = problem(model, 90, 30, rng, "deferred", np.dtype(dtype))
    start = 0.5 * start if name == "amp" else start
    going = trajectory(given, method, start, rng)
    state = [next(going) for _ in range(4)][-1]
    file = io.BytesIO()
    np.savez(file, **{f"data_{k}": v for k, v in given.data.state().items()}, **state._asdict())
    file.seek(0)
    kept = np.load(file)
    data = Deferred.resumed({k[5:]: v for k, v in kept.items() if k.startswith("data_")})
    again = type(state)(*(kept[field] for field in state._fields))
    # data and method draw from one generator here
    resumed = trajectory(given._replace(data=data), method, start, data.rng, again)
    next(resumed)
    for expected, found, _ in zip(going, resumed, range(3), strict=False):
        assert expected.student.dtype == np.dtype(dtype)
        assert all(np.array_equal(a, b) for a, b in zip(expected, found, strict=True))


def test_without_inertia_mask_and_noise_a_step_is_that_of_the_gradient():
    rng = np.random.default_rng(3)
    given, _, start = problem(TANH, 60, 20, rng)
    method = Descent(0.1)
    first = method.step(given, method.begin(given, start), rng)
    lam = given.data.x @ start.T
    force = TANH.rule.first(given.y, np.mean(np.tanh(lam), axis=1), 1.0, np)[:, None] / 2 / np.cosh(lam) ** 2
    whole = force.T @ given.data.x / given.unit
    slope = whole - start * np.sum(whole * start, axis=1, keepdims=True) / 20
    np.testing.assert_allclose(first.student, retract(start - 0.1 * slope), atol=1e-12)
    second = Descent(0.1, inertia=0.5).step(given, first, rng)
    assert second.time == pytest.approx(0.3)


def test_masks_have_the_mean_of_the_whole_gradient_and_noise_its_variance():
    """400 steps from one point: mean displacement within 5 sigma of that of the gradient; squares of the noise likewise."""
    rng = np.random.default_rng(4)
    given, _, start = problem(QUADRATIC, 30, 10, rng)
    state = Descent(1e-6).begin(given, start)
    plain = Descent(1e-6).step(given, state, rng).student - start
    masked = np.array([Descent(1e-6, share=0.4).step(given, state, rng).student - start for _ in range(400)])
    spread = masked.std(axis=0) / np.sqrt(400)
    assert np.all(np.abs(masked.mean(axis=0) - plain) < 5 * spread)
    noisy = [Descent(1e-6, temperature=100.0).step(given, state, rng).student - start for _ in range(400)]
    squares = np.sum((np.array(noisy) - plain) ** 2, axis=(1, 2)) / (2e-4)
    assert abs(squares.mean() - 9) < 5 * np.sqrt(18 / 400)  # chi-square of the tangent space, N - 1 = 9


def test_message_passing_follows_its_state_evolution():
    """alpha = 2, quadratic teacher: q' = L / (1 + L), L = alpha E[g^2]; means of 12 samples at N = 1,000 within 5 sigma."""
    n, alpha, rng, rounds = 1000, 2.0, np.random.default_rng(5), 5
    z = rng.standard_normal((2, 400_000))
    q, expected = 0.2, []
    for _ in range(rounds):
        omega = np.sqrt(q) * z[0]
        force, _ = MessagePassing().output(omega, (omega + np.sqrt(1 - q) * z[1]) ** 2, 1 - q)
        gain = alpha * np.mean(force**2)
        q = gain / (1 + gain)
        expected.append(q)
    found = []
    for seed in range(12):
        rng = np.random.default_rng([6, seed])
        given, teacher, noise = problem(QUADRATIC, round(alpha * n), n, rng, "deferred", np.float32)
        noise = rng.standard_normal((1, n))
        start = 0.2 * teacher + np.sqrt(0.2 * 0.8) * retract(noise - teacher * (noise @ teacher.T / n))
        states = [
            s
            for s, _ in zip(trajectory(given, MessagePassing(), start, rng), range(rounds + 1), strict=False)
        ]
        found.append([float(s.student[0] @ teacher[0]) / n for s in states[1:]])
    error = np.std(found, axis=0, ddof=1) / np.sqrt(12)
    assert np.all(
        np.abs(np.mean(found, axis=0) - expected) < 5 * error + 2e-3
    )  # 2e-3: the Monte Carlo integral, 1/N


def test_power_iteration_finds_the_top_of_the_weighted_covariance():
    rng = np.random.default_rng(7)
    given, _, start = problem(Network(p=2, a=0.5), 240, 30, rng)
    weights = optimal()(given.y)
    matrix = (given.data.x * weights[:, None]).T @ given.data.x
    values, vectors = np.linalg.eigh(matrix)
    shift = -values[0]
    method = PowerIteration(optimal(), shift)
    *_, state = (s for s, _ in zip(trajectory(given, method, start, rng), range(400), strict=False))
    span = state.student / np.sqrt(30)
    ratio = ((values[-3] + shift) / (values[-2] + shift)) ** 400
    assert np.linalg.norm(span @ vectors[:, -2:]) ** 2 > 2 - max(1e-9, 1e3 * ratio**2)


def test_a_public_descent_is_the_same_sample_on_either_route():
    """Teacher and start are those of the draw; over a matrix the path is that of its data."""
    found = {
        d: descend(Committee(1, 1, 0.5), 60, 4.0, data=d, steps=30, records=5) for d in ("matrix", "deferred")
    }
    given, teacher, student = drawn(Committee(1, 1, 0.5), 60, 4.0, dtype="float32")
    for track in found.values():
        assert np.array_equal(track.teacher, teacher)
        assert np.isclose(track.overlap_matrix[0, 0, 0], student[0] @ teacher[0] / 60, atol=1e-6)
        assert np.all(np.diff(track.time) >= 0) and np.all(np.diff(track.loss) <= 0)
        assert track.steps[-1] >= 30 and track.gradient[-1] < track.gradient[0]
    assert np.array_equal(np.asarray(given.data.push(student)), found["matrix"].problem.data.push(student))


def test_a_public_descent_ends_where_it_is_told():
    track = descend(QUADRATIC, 40, 3.0, Descent(0.01), time=0.05, data="deferred")
    assert track.steps[-1] == 5
    track = descend(
        QUADRATIC, 40, 3.0, until=lambda state: state.taken > 9, start=lambda w, t: retract(w + t)
    )
    assert track.overlap_matrix[0, 0, 0] > 0.4 and track.steps[-1] >= 9


def test_covariance_of_the_inputs_is_kept():
    """lam of the teacher has variance 1 over a spread covariance: mean of u^2 within 5 sigma of the trace."""
    model = Network(a=0.5, covariance="mp:0.5")
    track = descend(model, 200, 40.0, Descent(1e-3), steps=1, data="deferred", directions=20)
    roots = track.problem.data.roots.astype(float)
    weight = np.sum(roots**2 * track.teacher[0] ** 2) / 200
    u2 = track.problem.data.push(track.teacher)[:, 0].astype(float) ** 2
    assert abs(np.mean(u2) / weight - 1) < 5 * np.sqrt(2 / 8000)


def test_starts_of_message_passing():
    given, _, start = problem(QUADRATIC, 20, 10, np.random.default_rng(8))
    with pytest.raises(ParameterError, match="shorter than sqrt"):
        MessagePassing().begin(given, start)
    with pytest.raises(ParameterError, match="one row, got 2"):
        MessagePassing().begin(given, np.concatenate([start, start]))
