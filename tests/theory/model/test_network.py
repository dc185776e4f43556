"""Networks: derivatives against differences, weights against the loss and the committee, records, refusals; readouts, biases
and targets, spectra against the slow twin and closed cases."""

import math
from dataclasses import replace

import numpy as np
import pytest

from theory import edge
from theory.checks import ParameterError
from theory.exact import committee_weights
from theory.general import ACTIVATIONS, LOSSES, Activation, Covariance, Loss, Network
from theory.general.any_weight import general_spectrum
from theory.general.cubature import invariant_span, symmetry_classes
from theory.general.first_order import gradient_overlap
from theory.general.spectrum import route, solve, threshold
from theory.minima.saddle import Nodes
from theory.model import Target
from theory.model.covariance import covariance
from theory.path.conditioned import force

X = np.linspace(-3, 3, 25)
SPECS = ["levels:0.4@0.667,2.2@0.333", "power:1.2", "power:0.5@1000", "mp:0.5", "mp:1", "mp:3"]
_STEP = 1e-5  # central differences: error 1e-10 from the step, 1e-11 from rounding
PRODUCT = Target("product", lambda u, xp: xp.tanh(2 * u[..., 0] * u[..., 1]), -1.0, 1.0)
SIGN, SHIFT = np.array([1.0, -1.0]), np.array([0.5, -0.5])
OPPOSED = Network(
    2, 2, activation="tanh", loss="squared", readout=SIGN, bias=SHIFT, target=PRODUCT, noise=0.1
)


@pytest.mark.parametrize("name", [*ACTIVATIONS, *LOSSES])
def test_derivatives(name):
    """Of an activation, and of a loss in yhat."""
    if name in ACTIVATIONS:
        entry, at = ACTIVATIONS[name], lambda shift: (X + shift, np)
    else:
        entry, at = LOSSES[name], lambda shift: (np.abs(X), X**2 / 3 + shift, 0.7, np)
    for lower, upper in (("value", "first"), ("first", "second")):
        function, slope = getattr(entry, lower), getattr(entry, upper)
        difference = (function(*at(_STEP)) - function(*at(-_STEP))) / (2 * _STEP)
        np.testing.assert_allclose(slope(*at(0.0)), difference, atol=2e-8)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("name", ["quadratic", "tanh", "softplus"])
def test_weights_are_second_derivatives_of_the_loss(name, loss):
    model = Network(3, 2, 1.0, activation=name, loss=loss, noise=0.2)
    lam, _, y = model.draw_labels(20, np.random.default_rng(0))
    step = 1e-4 * np.eye(3)
    numeric = np.array(
        [
            [
                sum(
                    s * t * model.losses(lam + s * step[i] + t * step[j], y) for s in (1, -1) for t in (1, -1)
                )
                for j in range(3)
            ]
            for i in range(3)
        ]
    ) / (4e-8)
    np.testing.assert_allclose(model.weights(lam, y), np.moveaxis(numeric, 2, 0), atol=3e-6)


def test_the_default_is_the_committee():
    model = Network(2, 3, 0.4)
    lam, u, y = model.draw_labels(50, np.random.default_rng(1))
    assert model.is_committee and model == Network(2, 3, 0.4)
    np.testing.assert_allclose(
        model.weights(lam, y), committee_weights(0.4, lam, np.mean(u**2, axis=1)), rtol=1e-13
    )
    assert repr(model) == "Network(p=2, p_star=3, a=0.4)"
    with pytest.raises(ParameterError, match=r"^y must be the teacher's outputs"):
        model.weights(lam, u)
    for other in (
        {"noise": 0.1},
        {"covariance": "mp:0.5"},
        {"overlap": 0.2},
        {"activation": "he2", "a": 1.0},
    ):
        assert not Network(**other).is_committee


def test_labels_have_the_stated_second_moments():
    """400,000 samples: each of 25 products within 5 sigma of its mean, false-alarm rate 1e-5."""
    rows = 400_000
    gram = [[1.5, 0.3], [0.3, 0.9]]
    model = Network(2, 2, overlap=[[0.5, 0.1], [-0.3, 0.2]], gram=gram, noise=0.5)
    lam, u, y = model.draw_labels(rows, np.random.default_rng(2))
    v = np.concatenate([u, lam], axis=1)
    r = model.overlap_matrix
    wanted = np.block([[np.eye(2), r.T], [r, np.array(gram)]])
    products = v[:, :, None] * v[:, None, :]
    assert np.all(np.abs(products.mean(axis=0) - wanted) < 5 * products.std(axis=0) / math.sqrt(rows))
    assert abs(y.mean() - 1.5) < 5 * y.std() / math.sqrt(rows)


def test_scalar_overlap():
    model = Network(3, 2, overlap=0.6)
    np.testing.assert_allclose(model.overlap_matrix, [[0.6, 0], [0, 0.6], [0.6, 0]])
    np.testing.assert_allclose(model.gram_matrix, [[1, 0, 0.36], [0, 1, 0], [0.36, 0, 1]])
    mixing = model.mixing()
    np.testing.assert_allclose(mixing @ mixing.T, model.gram_matrix, atol=1e-14)


@pytest.mark.parametrize("spec", SPECS)
def test_covariances(spec):
    law = covariance(spec)
    assert covariance(law.spec) == law
    s, w = law.law()
    assert abs(w.sum() - 1) < 1e-14
    assert abs(w @ s - 1) < 1e-14
    drawn = law.eigenvalues(30_000)
    assert abs(drawn.mean() - 1) < 1e-13
    assert np.all(np.diff(drawn) >= 0)
    for moment in (0.5, 2.0):
        assert abs((drawn**moment).mean() - w @ s**moment) < 2e-3 * (w @ s**moment)


def test_marchenko_pastur_moments():
    """E s^2 = 1 + c, E s^3 = 1 + 3c + c^2."""
    for c in (0.3, 1.0, 2.5):
        s, w = covariance(f"mp:{c}").law()
        np.testing.assert_allclose([w @ s**2, w @ s**3], [1 + c, 1 + 3 * c + c * c], rtol=1e-12)


def test_records():
    wide = Activation("cube", lambda x, xp: x**3, lambda x, xp: 3 * x**2, lambda x, xp: 6 * x, "odd", 3)
    models = [
        Network(),
        Network(math.inf, 2, 3.0, noise=0.1, covariance="power:1.2"),
        Network(2, 1, 2.0, activation="tanh", teacher_activation="erf", overlap=[[0.1], [0.4]]),
        Network(2, 1, activation=wide, loss="squared", output_noise=0.3, gram=[[1.0, 0.2], [0.2, 1.0]]),
    ]
    for model in models:
        assert Network.of(model.record(), [wide]) == model
        assert hash(Network.of(model.record(), [wide])) == hash(model)
    with pytest.raises(ParameterError, match="activation must be one of"):
        Network.of(models[-1].record())
    with pytest.raises(ParameterError, match="keys"):
        Network.of({"q": 1})
    assert Network(covariance=Covariance.of([1.0, 1.0])) == Network()


WIDE = {"p": 2, "p_star": 2, "loss": "squared", "activation": "tanh"}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"p": 0}, "p must be an integer"),
        ({"activation": "cosine"}, "activation must be one of"),
        ({"loss": "hinge"}, "loss must be one of"),
        ({"noise": -0.1}, "noise must be a variance"),
        ({"output_noise": 0.1}, "output_noise must be 0 with the normalised loss"),
        ({"activation": "tanh", "a": 0.5}, "a must be at least 1 for a tanh teacher"),
        ({"activation": "he3"}, "loss must be another for a he3 teacher"),
        ({"loss": "squared", "a": 2.0}, "a must be left at 1 with the squared loss"),
        ({"covariance": "power"}, "covariance must be like"),
        ({"covariance": "levels:1@2@3"}, "levels must be eigenvalue@share"),
        ({"covariance": "levels:-1@1"}, "levels must have eigenvalues of at least 0"),
        ({"covariance": "mp:0"}, "mp must have one ratio"),
        ({"overlap": 1.5}, "overlap must lie between"),
        ({"overlap": [[0.1, 0.2]]}, "overlap must be one number or have shape"),
        ({"p": math.inf, "overlap": 0.1}, "overlap must be 0"),
        ({"p": 2, "gram": [[1, 0], [0.5, 1]]}, "gram must be a symmetric"),
        ({"overlap": [[1.2]]}, "positive semidefinite"),
        (WIDE | {"readout": (1.0,)}, "readout must be one number for each of 2 students, got shape (1,)"),
        (WIDE | {"bias": (1.0, np.nan)}, "bias must"),
        (WIDE | {"p": np.inf, "readout": (1.0, 1.0)}, "readout must not be given for p = inf"),
        (WIDE | {"target": "product"}, "target must be a Target"),
        (WIDE | {"target": PRODUCT, "p_star": 1}, "value of product must be a function"),
        (WIDE | {"target": Target("u", lambda u, xp: u)}, "value of u must be one finite number"),
        (
            WIDE | {"target": Target("u1", lambda u, xp: u[..., 0], -0.5)},
            "infimum and supremum of u1 must bound",
        ),
        (
            WIDE | {"target": PRODUCT, "a": 0.5, "loss": "normalised"},
            "a must be at least 1 for a product teacher",
        ),
        (WIDE | {"target": PRODUCT, "teacher_activation": "erf"}, "teacher_activation must be left"),
    ],
)
def test_refusals_are_one_clear_line(arguments, words):
    with pytest.raises(ParameterError) as caught:
        Network(**arguments)
    assert words in str(caught.value) and "\n" not in str(caught.value)


CUBIC = [lambda x, xp: x**3, lambda x, xp: 3 * x**2, lambda x, xp: 6 * x]
QUARTIC = [
    lambda y, t, a, xp: (y - t) ** 4 / a,
    lambda y, t, a, xp: -4 * (y - t) ** 3 / a,
    lambda y, t, a, xp: 12 * (y - t) ** 2 / a,
]


@pytest.mark.parametrize(
    ("kind", "functions", "words"),
    [
        (Activation, [lambda x: x, *CUBIC[1:]], "value of mine must"),
        (Activation, [lambda x, xp: x[:2], *CUBIC[1:]], "value of mine must"),
        (Activation, [lambda x, xp: xp.sqrt(x - 100), *CUBIC[1:]], "value of mine must"),
        (Activation, [*CUBIC[:2], lambda x, xp: 3 + 0 * x], "second of mine must be the derivative of first"),
        (Activation, [*CUBIC[:2], lambda x, xp: 6 * abs(x)], "second of mine"),
        (
            Activation,
            [CUBIC[0], lambda x, xp: 3.001 * x**2, lambda x, xp: 6.002 * x],
            "first of mine must be the derivative of value",
        ),
        # The ReLU's second derivative is no function: a 0 in its place is refused.
        (
            Activation,
            [lambda x, xp: xp.maximum(x, 0), lambda x, xp: 1.0 * (x > 0), lambda x, xp: 0 * x],
            r"derivative of first: it is not near x = -?0\.00",
        ),
        (Activation, [*CUBIC, "odd", 3, -50.0], "infimum of mine must bound its values"),  # far out too
        (
            Loss,
            [*QUARTIC[:2], lambda y, t, a, xp: 12 * (y - t) ** 2],
            "second of mine must be the derivative of first in yhat",
        ),
        (Target, [lambda u, xp: u[..., 0], 1.0, -1.0], "infimum of mine must lie below its supremum"),
    ],
)
@pytest.mark.filterwarnings("ignore:invalid value")
def test_functions_that_are_not_what_they_should_be(kind, functions, words):
    with pytest.raises(ParameterError, match=words):
        kind("mine", *functions)


@pytest.mark.parametrize("scale", [0.02, 1.0, 15.0])
@pytest.mark.parametrize("size", [1e-20, 1.0, 1e20])
def test_right_derivatives_pass_at_every_scale(scale, size):
    """Ripples and steps narrow and wide, of any height; and a second derivative with jumps of its own (x |x|)."""
    waves = [lambda x, xp, k=k: size * scale**-k * xp.sin(x / scale + k * math.pi / 2) for k in range(3)]
    Activation("waves", *waves)
    ramp = [
        lambda x, xp: size * scale * xp.logaddexp(x / scale, 0 * x),
        lambda x, xp: size * (1 + xp.tanh(x / scale / 2)) / 2,
        lambda x, xp: size / scale / xp.cosh(xp.clip(x / scale / 2, -300, 300)) ** 2 / 4,
    ]
    Activation("ramp", *ramp)
    Loss("quartic", *QUARTIC)
    Activation(
        "bent",
        lambda x, xp: size * x * abs(x),
        lambda x, xp: 2 * size * abs(x),
        lambda x, xp: 2 * size * xp.sign(x),
        "odd",
    )


@pytest.mark.parametrize(
    "bad", ["x", b"a", [], [[1]], {}, 10**400, np.ones(3), 1j, True, math.nan, math.inf], ids=str
)
def test_an_infimum_is_a_number(bad):
    with pytest.raises(ParameterError, match=r"^infimum must be [^\n]*$"):
        replace(ACTIVATIONS["tanh"], infimum=bad)
    with pytest.raises(ParameterError, match=r"^infimum (must be|of) [^\n]*$"):
        replace(PRODUCT, infimum=bad)


@pytest.mark.parametrize("value", [abs, "mine.py:f", [1.0, 2.0], np.ones(3)], ids=str)
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("activation", "an Activation .sims.functions.activation_of"),
        ("teacher_activation", "an Activation .sims.functions.activation_of"),
        ("loss", "a Loss .sims.functions.loss_of"),
        ("target", "target must be a Target .sims.functions.target_of"),
        ("covariance", "Covariance.of makes .* Covariance.of_function"),
    ],
)
def test_what_is_no_model_yet_is_told_how_to_be_one(name, words, value):
    with pytest.raises(ParameterError, match=words):
        Network(**{name: value})


def test_weights_and_forces_are_derivatives_of_the_loss_written_out():
    lam, u, _ = OPPOSED.draw_labels(20, np.random.default_rng(0))
    y = np.tanh(2 * u[:, 0] * u[:, 1])
    np.testing.assert_array_equal(OPPOSED.outputs(u), y)

    def loss(lam):
        return (y - np.tanh(lam[:, 0] + 0.5) + np.tanh(lam[:, 1] - 0.5)) ** 2 / 2

    np.testing.assert_allclose(OPPOSED.losses(lam, y), loss(lam), rtol=1e-13)
    step = 1e-4 * np.eye(2)
    slopes = np.stack([loss(lam + e) - loss(lam - e) for e in step], axis=1) / 2e-4
    np.testing.assert_allclose(force(OPPOSED, lam, y), slopes, atol=1e-7)
    bends = [
        [sum(s * t * loss(lam + s * e + t * f) for s in (1, -1) for t in (1, -1)) / 4e-8 for e in step]
        for f in step
    ]
    np.testing.assert_allclose(OPPOSED.weights(lam, y), np.moveaxis(bends, 2, 0), atol=1e-6)


def test_the_usual_readout_is_none_and_records_stay_as_they_were():
    plain = Network(2, 1, 0.5)
    assert Network(2, 1, 0.5, readout=[0.5, 0.5], bias=[0, 0]) == plain
    assert plain.is_committee and not {"readout", "bias", "target"} & set(plain.record())
    record = OPPOSED.record()
    assert (record["readout"], record["bias"], record["target"]) == ([1.0, -1.0], [0.5, -0.5], "product")
    assert Network.of(record, targets=[PRODUCT]) == OPPOSED
    assert hash(OPPOSED) == hash(Network.of(record, targets=[PRODUCT])) and route(OPPOSED) == "points"
    assert route(Network(2, 1, 0.5, readout=(0.4, 0.6))) == "points"


def test_the_mean_of_activations_as_a_target_is_the_teacher():
    """Two ways to the same numbers: the teachers are then one block, not two, on the same points."""
    mean = Target("mean", lambda u, xp: xp.mean(xp.tanh(u), axis=-1), -1.0, 1.0)
    options = {"p": 1, "p_star": 2, "a": 2.0, "activation": "tanh"}
    one, other = solve(Network(**options), 12.0), solve(Network(**options, target=mean), 12.0)
    np.testing.assert_allclose(other.edge, one.edge, rtol=1e-8)
    np.testing.assert_allclose(other.outliers, one.outliers, rtol=1e-8)
    np.testing.assert_allclose(other.overlaps, one.overlaps, rtol=1e-8)


def test_a_student_that_counts_for_nothing_leaves_the_other_alone():
    """c = (1, 0) is the network of one student with a block of zeros beside it: the same outlier, where that is negative."""
    alone = solve(Network(1, 1, activation="tanh", loss="squared"), 6.0)
    beside = solve(Network(2, 1, activation="tanh", loss="squared", readout=(1.0, 0.0)), 6.0)
    np.testing.assert_allclose(beside.outliers[0], alone.outliers[0], rtol=1e-7)
    np.testing.assert_allclose(beside.overlaps[0], alone.overlaps[0], rtol=1e-6)


def test_students_of_unlike_readout_are_not_averaged_over_their_permutations():
    for unlike in ({"readout": (1.0, 0.3)}, {"bias": (0.3, 0.0)}):
        assert symmetry_classes(Network(2, 1, **unlike), 1, 2) is None
        assert invariant_span(Network(2, 1, **unlike)) is None
    assert invariant_span(Network(2, 1, readout=(1.0, 1.0))).shape == (3, 1)
    assert invariant_span(Network(2, 1, bias=(1.0, 1.0))).shape == (3, 2)


def test_outliers_against_the_weight_written_out():
    """The general route of any weight, points of its own: within three of both errors, which 95 % lie within two of."""

    def weight(lam, u, xi):
        s = np.tanh(lam + SHIFT)
        slope = SIGN * (1 - s**2)
        gap = s @ SIGN - np.tanh(2 * u[:, 0] * u[:, 1])
        found = slope[:, :, None] * slope[:, None]
        found[:, [0, 1], [0, 1]] -= 2 * s * slope * gap[:, None]
        return found

    model = replace(OPPOSED, noise=0.0)
    found, twin = solve(model, 20.0), general_spectrum(weight, 20.0, 2, 2, points=2**12, scramblings=4)
    assert found.kind == twin.kind == "sharp" and len(found.outliers) == 1
    assert abs(found.outliers[0] + 10.382) < 0.003
    assert abs(found.edge - twin.edge) < 3 * np.hypot(found.edge_error, twin.edge_error)
    error = 3 * np.hypot(found.outliers_error[0], twin.outliers_error[0])
    assert abs(found.outliers[0] - twin.outliers[0]) < error


@pytest.mark.parametrize(
    "model",
    [
        Network(2, 1, loss="squared", readout=(1.0, -1.0)),  # yhat has no lower bound
        Network(1, 2, loss="squared", target=Target("u1 u2", lambda u, xp: u[..., 0] * u[..., 1])),
    ],
)
def test_unbounded_weights_have_no_edge(model):
    assert solve(model, 3.0).kind == threshold(model).kind == "no edge"


def test_first_order_and_minima_know_readouts_and_biases():
    """Of an even student with a bias, l' s' = 2 x (x^2 - tanh u) with x = lam + 1 gives moments in closed form."""
    model = Network(1, 1, teacher_activation="tanh", loss="squared", bias=(1.0,))
    u, weight = np.polynomial.hermite_e.hermegauss(80)
    weight = weight / weight.sum()
    signal = (2 * weight @ (u * np.tanh(u))) ** 2
    size = 4 * 76 + 4 * 2 * weight @ np.tanh(u) ** 2
    np.testing.assert_allclose(gradient_overlap(model, 3.0), 3 * signal / (size + 3 * signal), rtol=1e-9)
    shifted = Nodes.of(Network(1, 1, activation="tanh", loss="squared", bias=(0.7,)), 0.3, 0.5)
    u = 0.3 * shifted.lam + np.sqrt(1 - 0.3**2) * shifted.v
    slope = 1 - np.tanh(shifted.lam + 0.7) ** 2
    gap = np.tanh(shifted.lam + 0.7) - np.tanh(u)
    np.testing.assert_allclose(shifted.force, gap * slope, atol=1e-14)


def test_functions_that_change_under_one_name_have_answers_of_their_own():
    """As in a notebook, whose cell is run again: nothing that was remembered of the functions before is given."""

    def models(c):
        def slope(x, xp):
            return c * (1 - xp.tanh(c * x) ** 2)

        def second(x, xp):
            return -2 * c * xp.tanh(c * x) * slope(x, xp)

        student = Activation("mine", lambda x, xp: xp.tanh(c * x), slope, second, "odd", 0.0, -1.0)
        loss = Loss(
            "mine",
            lambda y, yhat, a, xp: c * (y - yhat) ** 2,
            lambda y, yhat, a, xp: -2 * c * (y - yhat),
            lambda y, yhat, a, xp: 2 * c + 0 * y,
        )
        target = Target("mine", lambda u, xp: xp.tanh(c * u[..., 0]), -1.0, 1.0, attained=False)
        tanh = Network(activation="tanh", loss="squared")
        return replace(tanh, activation=student), replace(tanh, loss=loss), replace(tanh, target=target)

    for before, after in zip(models(1.0), models(2.0), strict=True):
        assert before != after
        value = edge(before, 3.0).value
        assert abs(edge(after, 3.0).value - value) > 0.01 * abs(value)
    assert edge(models(2.0)[1], 3.0).value == pytest.approx(2 * edge(models(1.0)[1], 3.0).value, rel=1e-9)
