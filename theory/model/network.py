"""The model in general: activation, loss, noise, covariance of the inputs and overlap with the teacher as options.

    u_l = w*_l.x      y = mean_l s*(u_l + sqrt(noise) zeta_l) + sqrt(output_noise) xi      x = Sigma^(1/2) N(0, I_N / N)
    lam_k = w_k.x     yhat = mean_k s(lam_k)                 zeta, xi ~ N(0, 1)            Hessian of sum_mu l(y, yhat)

At N = inf (u, lam) is a Gaussian vector of unit variances: E[u u^T] = I, E[lam u^T] = R, E[lam lam^T] = Q. With a readout c,
biases b and a `target` f* outputs are yhat = sum_k c_k s(lam_k + b_k), c = 1/p and b = 0 without, and y = f*(u_1 .. u_p*).
Weights are diagonal plus rank one, with l' and l'' the derivatives of the loss in yhat:

    F = l'' grad yhat grad yhat^T + l' Hess yhat = diag(l' c s''(lam + b)) + l'' (c s'(lam + b)) (c s'(lam + b))^T.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from theory.checks import (
    TEACHERS,
    ParameterError,
    broadcast,
    count,
    finite,
    generator,
    normalisation,
    one,
    real,
    shown,
    variance,
    width,
)
from theory.model.activations import Activation, Target, activation, read, shifted, target, weighed
from theory.model.covariance import Covariance, covariance
from theory.model.inputs import Inputs, inputs
from theory.model.losses import Loss, loss

Array = Any
Matrix = tuple[tuple[float, ...], ...]

_LATER = "readout", "bias", "target", "inputs"  # fields that records of before do not have
_SPARE = 1e-9  # by how much rounding may make a Gram matrix indefinite


@dataclass(frozen=True)
class Network:
    """A teacher-student pair; validated, immutable, hashable. All defaults: the quadratic committee.

    p                   width of the student: an integer from 1 to 1e300, or math.inf (all numbers are then those of (p/2) H)
    p_star              width of the teacher: an integer from 1 to 1e40
    a                   parameter of the loss: from 1e-100 to 1e60; 1.0, and without meaning, for losses that have none
    activation          of the student: a name of `theory.model.activations.ACTIVATIONS`, or an Activation
    teacher_activation  of the teacher, None for that of the student
    loss                a name of `theory.model.losses.LOSSES`, or a Loss
    noise               variance Delta of the Gaussian noise added to every u_l, before the teacher's activation
    covariance          of the inputs: a Covariance, the text of one (see `covariance`), or None for the identity
    overlap             m in [-1, 1]: student row k is w_k = m w*_(k mod p_star) + sqrt(1 - m^2) (a direction of its own);
                        or the (p, p_star) matrix R of overlaps w_k.w*_l / N, kept as nested tuples
    gram                (p, p) matrix Q of the students' products w_k.w_j / N, kept as nested tuples; None: rows of norm
                        sqrt(N) that share nothing but what R makes them share
    output_noise        variance of Gaussian noise added to y itself
    readout             (p,) weights c of the students' outputs, kept as a tuple; None: their mean, c = 1/p
    bias                (p,) numbers b added to the students' preactivations, kept as a tuple; None: 0
    target              a Target f*(u_1 .. u_p*) in the place of the mean of the teacher's activations; noise is added to every
                        u_l before it
    inputs              an Inputs: rows of one's own in the place of Gaussian ones, of which a sample has M without repetition;
                        theory of these is `theory.given`

    Raises ParameterError on anything unfit, and on what cannot be combined:
    * a loss that needs a + y > 0 with output_noise, or with a teacher whose outputs may fall below -a: the loss of such
      labels is negative and without bound, or undefined;
    * p = inf with an overlap, Gram matrix, readout or bias; a target with a teacher_activation; inputs with a covariance.

    >>> model = Network(p=2, activation="tanh", a=2.0, noise=0.3)
    >>> model.degeneracy, model
    (2, Network(p=2, p_star=1, a=2.0, activation='tanh', noise=0.3))
    """

    p: int | float = 1
    p_star: int = 1
    a: float = 1.0
    activation: str | Activation = "quadratic"
    teacher_activation: str | Activation | None = None
    loss: str | Loss = "normalised"
    noise: float = 0.0
    covariance: Covariance | str | None = None
    overlap: float | Matrix = 0.0
    gram: Matrix | None = None
    output_noise: float = 0.0
    readout: tuple[float, ...] | None = None
    bias: tuple[float, ...] | None = None
    target: Target | None = None
    inputs: Inputs | None = None

    def __post_init__(self) -> None:
        keep = partial(object.__setattr__, self)
        keep("p", width("p", self.p))
        keep("p_star", count("p_star", self.p_star, largest=TEACHERS))
        keep("a", one("a", normalisation("a", self.a)))
        entry, rule = activation(self.activation), loss(self.loss)
        keep("activation", entry)
        if self.teacher_activation is not None:
            teacher = activation(self.teacher_activation)
            keep("teacher_activation", None if teacher == entry else teacher)
        keep("loss", rule)
        for name in ("noise", "output_noise"):
            keep(name, one(name, variance(name, getattr(self, name))))
        if self.covariance is not None:
            law = covariance(self.covariance)
            keep("covariance", None if law.is_identity else law)
        keep("overlap", _overlap(self.overlap, (self.p, self.p_star)))
        keep("gram", _gram(self.gram, self.p))
        keep("readout", _student_numbers("readout", self.readout, self.p, 1 / self.p))
        keep("bias", _student_numbers("bias", self.bias, self.p, 0.0))
        if self.target is not None:
            if self.teacher_activation is not None:
                raise ParameterError("teacher_activation must be left at None with a target, which has none")
            keep("target", target(self.target).tried(self.p_star))
        if self.inputs is not None and inputs(self.inputs) and self.covariance is not None:
            raise ParameterError("covariance must be None with inputs of one's own, which have theirs")
        self._check_loss(rule)
        self._check_students()

    def _check_loss(self, rule: Loss) -> None:
        if not rule.has_a and self.a != 1.0:
            raise ParameterError(
                f"a must be left at 1 with the {rule.name} loss, which has none, got {self.a}"
            )
        if not rule.positive:
            return
        if self.output_noise:
            raise ParameterError(
                f"output_noise must be 0 with the {rule.name} loss, which needs a + y > 0: Gaussian noise added to y "
                f"itself makes it negative for some labels, got {self.output_noise}; noise (before the activation) is fit"
            )
        taught = self._taught
        if math.isinf(taught.infimum):
            raise ParameterError(
                f"loss must be another for a {taught.name} teacher, whose y has no lower bound: the {rule.name} one "
                "needs a + y > 0"
            )
        if self.a + taught.infimum < 0:
            raise ParameterError(
                f"a must be at least {-taught.infimum:g} for a {taught.name} teacher with the {rule.name} loss, "
                f"which needs a + y > 0, got {self.a}"
            )

    def _check_students(self) -> None:
        if math.isinf(self.p):
            if self.gram is not None or self.overlap != 0.0:
                raise ParameterError("overlap must be 0, and gram not given, for p = inf")
            return
        if isinstance(self.overlap, tuple) or self.gram is not None:
            # The Gram matrix of the students' parts outside the span of the teacher's rows.
            perpendicular = self.gram_matrix - self.overlap_matrix @ self.overlap_matrix.T
            if np.linalg.eigvalsh(perpendicular)[0] < -_SPARE:
                raise ParameterError(
                    "gram - overlap overlap^T must be positive semidefinite: no students have these overlaps"
                )

    @classmethod
    def of(
        cls,
        record: Mapping[str, Any],
        activations: Iterable[Activation] = (),
        losses: Iterable[Loss] = (),
        targets: Iterable[Target] = (),
        rows: Iterable[Inputs] = (),
    ) -> Network:
        """The Network that a `record` describes; activations, losses, targets and inputs of one's own are found by name among
        those given.

        Raises ParameterError on unknown keys or names, and as the constructor.

        >>> Network.of(Network(p=2, covariance="mp:0.5").record()) == Network(p=2, covariance="mp:0.5")
        True
        """
        names = {f.name for f in fields(cls)}
        if not isinstance(record, Mapping) or not set(record) <= names:
            raise ParameterError(f"record of a network must have the keys {', '.join(sorted(names))}")
        values = dict(record)
        of: dict[str, tuple[Any, Iterable[Any]]] = {
            "activation": (activation, activations),
            "teacher_activation": (activation, activations),
            "loss": (loss, losses),
            "target": (target, targets),
        }
        for key, (find, own) in of.items():
            if values.get(key) is not None:
                values[key] = find(values[key], own)
        if values.get("inputs") is not None:
            values["inputs"] = {each.name: each for each in rows}.get(values["inputs"], values["inputs"])
        return cls(**values)

    def __repr__(self) -> str:
        usual = {f.name: f.default for f in fields(self)}
        always = "p", "p_star", "a"
        told = [f"{k}={v!r}" for k, v in self.record().items() if k in always or v != usual[k]]
        return f"Network({', '.join(told)})"

    def record(self) -> dict[str, Any]:
        """The fields as plain numbers, texts, lists and None (p = inf as math.inf), from which `of` makes an equal Network;
        readout, bias and target only where there are such."""
        whole = {f.name: _plain(getattr(self, f.name)) for f in fields(self)}
        return {name: value for name, value in whole.items() if name not in _LATER or value is not None}

    @property
    def student(self) -> Activation:
        """The student's activation."""
        return activation(self.activation)

    @property
    def teacher(self) -> Activation:
        """The teacher's activation; without meaning where there is a target."""
        return activation(self.activation if self.teacher_activation is None else self.teacher_activation)

    @property
    def reach(self) -> tuple[float, float]:
        """Lowest and highest output y: the whole line with output noise."""
        return (-math.inf, math.inf) if self.output_noise else self._taught.reach

    def attains(self, end: float) -> bool:
        """Whether an end of `reach` is an output at finite u."""
        return self._taught.attains(end)

    @property
    def _taught(self) -> Activation | Target:
        return self.teacher if self.target is None else self.target

    @property
    def is_mean(self) -> bool:
        """Whether both outputs are means of activations: no readout, no bias, no target."""
        return self.readout is None and self.bias is None and self.target is None

    @property
    def even_students(self) -> bool:
        """Whether the loss stays the same when one student changes its sign: even activations without bias or overlap."""
        return (
            self.student.parity == "even" and self.bias is None and self.overlap == 0.0 and self.gram is None
        )

    @property
    def rule(self) -> Loss:
        """The loss."""
        return loss(self.loss)

    @property
    def degeneracy(self) -> int | float:
        """Number of eigenvalues that carry the teacher: p p_star."""
        return self.p * self.p_star

    @property
    def is_quadratic(self) -> bool:
        """Whether the exact theory of the quadratic committee holds: quadratic activations, the normalised loss and
        students without overlap, both outputs means, no inputs of one's own. Noise and covariance are allowed."""
        names = self.student.name, self.teacher.name, self.rule.name
        plain = self.gram is None and self.overlap == 0.0 and self.is_mean and self.inputs is None
        return names == ("quadratic", "quadratic", "normalised") and plain

    @property
    def is_committee(self) -> bool:
        """Whether nothing but the widths and a differs from the defaults: the quadratic committee without options."""
        return self.is_quadratic and self.noise == 0 and self.covariance is None

    @property
    def overlap_matrix(self) -> NDArray[np.float64]:
        """R (p, p_star), R_kl = w_k.w*_l / N. Raises ParameterError for p = inf."""
        if isinstance(self.overlap, tuple):
            return np.array(self.overlap)
        k = np.arange(self._finite_p())
        matrix = np.zeros((len(k), self.p_star))
        matrix[k, k % self.p_star] = self.overlap
        return matrix

    @property
    def gram_matrix(self) -> NDArray[np.float64]:
        """Q (p, p), Q_kj = w_k.w_j / N. Raises ParameterError for p = inf."""
        if self.gram is not None:
            return np.array(self.gram)
        # Rows of norm sqrt(N) share what their teachers make them share, m^2 where it is the same one.
        shared = self.overlap_matrix @ self.overlap_matrix.T
        np.fill_diagonal(shared, 1.0)
        return shared

    def mixing(self) -> NDArray[np.float64]:
        """L (p, p_star + p) with lam = L v for independent N(0, 1) v = (u, own directions of the students): L = (R, C) with
        C C^T = Q - R R^T symmetric. Raises ParameterError for p = inf."""
        r = self.overlap_matrix
        values, vectors = np.linalg.eigh(self.gram_matrix - r @ r.T)
        # The symmetric root: it treats equal students alike.
        own = (vectors * np.sqrt(np.clip(values, 0, None))) @ vectors.T
        return np.concatenate([r, own], axis=1)

    def levels(self) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
        """Eigenvalues and probabilities of the covariance of the inputs; None for the identity.

        Raises ParameterError for inputs of one's own, of which `theory.given` knows more than a law of eigenvalues.
        """
        if self.inputs is not None:
            raise ParameterError(
                f"inputs must be None here: this theory is that of Gaussian rows, got {self.inputs.words} (theory.given)"
            )
        return None if self.covariance is None else covariance(self.covariance).law()

    def outputs(self, u: Array, zeta: Array | None = None, xi: Array | None = None, xp: Any = np) -> Array:
        """Teacher outputs y (...) of preactivations u (..., p_star); zeta (..., p_star) and xi (...) are the normals of
        noise and output_noise, None leaves that noise out. xp is the namespace of the arrays, numpy or jax.numpy."""
        if xp is np:
            u = real("u", u)
        if zeta is not None and self.noise:
            u = u + math.sqrt(self.noise) * zeta
        y = xp.mean(self.teacher.value(u, xp), axis=-1) if self.target is None else self.target.value(u, xp)
        return y if xi is None or not self.output_noise else y + math.sqrt(self.output_noise) * xi

    def weight_parts(self, lam: Array, y: Array, a: Any = None, xp: Any = np) -> tuple[Array, Array, Array]:
        """Weights as F = diag(diagonal) + coefficient gradient gradient^T: diagonal (..., p), coefficient (...) and gradient
        (..., p) of preactivations lam (..., p) and teacher outputs y (...). a: None for the model's own."""
        if xp is np:
            lam, y = real("lam", lam), real("y", y)
        a, yhat = self.a if a is None else a, self.student_outputs(lam, xp)
        bent = self.student.second(shifted(lam, self.bias, xp), xp)
        # l' c s'' on the diagonal, l'' of the rank-one part, c s' its direction
        diagonal = weighed(self.rule.first(y, yhat, a, xp)[..., None] * bent, self.readout, xp)
        return diagonal, self.rule.second(y, yhat, a, xp), self.slopes(lam, xp)

    def student_outputs(self, lam: Array, xp: Any = np) -> Array:
        """yhat (...) of preactivations lam (..., p)."""
        return read(self.student.value(shifted(lam, self.bias, xp), xp), self.readout, xp)

    def slopes(self, lam: Array, xp: Any = np) -> Array:
        """Derivatives (..., p) of yhat in lam (..., p)."""
        return weighed(self.student.first(shifted(lam, self.bias, xp), xp), self.readout, xp)

    def weights(self, lam: ArrayLike, y: ArrayLike) -> NDArray[np.float64]:
        """Weights F (..., p, p) of preactivations lam (..., p) and teacher outputs y (...), those of `outputs` of u.

        Leading shapes broadcast. Raises ParameterError on other shapes, of u in the place of y too, on entries that are not
        finite, and on entries so large that a weight is none.

        >>> model = Network(2, 1, 0.5)
        >>> lam, u, y = model.draw_labels(5, np.random.default_rng(0))
        >>> model.weights(lam, y).shape
        (5, 2, 2)
        """
        lam, y = np.asarray(finite("lam", lam)), np.asarray(finite("y", y))
        if lam.ndim < 1 or lam.shape[-1] != self.p < math.inf:
            raise ParameterError(f"lam must have shape (..., {self.p}), got {lam.shape}")
        if y.ndim != lam.ndim - 1:
            raise ParameterError(
                f"y must be the teacher's outputs, model.outputs(u), with one axis less than lam, got shape {y.shape}"
            )
        broadcast(lam=lam[..., 0], y=y)
        with np.errstate(all="ignore"):
            f = self.weights_at(lam, y)
        if not np.all(np.isfinite(f)):
            raise ParameterError("lam and y must be small enough for weights that do not overflow")
        return np.asarray(f)

    def weights_at(self, lam: Array, y: Array) -> Array:
        """The same, unchecked."""
        diagonal, coefficient, gradient = self.weight_parts(lam, y)
        outer = gradient[..., :, None] * gradient[..., None, :]
        return coefficient[..., None, None] * outer + diagonal[..., None] * np.eye(lam.shape[-1])

    def losses(self, lam: Array, y: Array, xp: Any = np) -> Array:
        """Losses (...) of the same arguments; the Hessian is that of their sum."""
        if xp is np:
            lam, y = real("lam", lam), real("y", y)
        return self.rule.value(y, self.student_outputs(lam, xp), self.a, xp)

    def draw_labels(self, m: int, rng: np.random.Generator) -> tuple[Array, Array, Array]:
        """Preactivations and outputs of m samples as N -> inf: lam (m, p), u (m, p_star), y (m,), the last with their noise.

        Raises ParameterError unless m is a count, rng a numpy.random.Generator, p finite.

        >>> lam, u, y = Network(p=2, p_star=3).draw_labels(5, np.random.default_rng(0))
        >>> lam.shape, u.shape, y.shape
        ((5, 2), (5, 3), (5,))
        """
        m, rng, p = count("m", m, 0), generator("rng", rng), self._finite_p()
        # Independent directions: the teacher's, then the students' own.
        v = rng.standard_normal((m, self.p_star + p))
        u = v[:, : self.p_star]
        zeta = rng.standard_normal(u.shape) if self.noise else None
        xi = rng.standard_normal(m) if self.output_noise else None
        return v @ self.mixing().T, u, self.outputs(u, zeta, xi)

    def _finite_p(self) -> int:
        if math.isinf(self.p):
            raise ParameterError("p must be finite for students, labels and weights one by one, got inf")
        return int(self.p)


def network(model: Any) -> Network:
    """`model` itself; ParameterError unless it is a Network."""
    if not isinstance(model, Network):
        raise ParameterError(f"model must be a Network, got {shown(model)}")
    return model


def _plain(value: Any) -> Any:
    """A field as a number, text, list or None."""
    if isinstance(value, Activation | Loss | Target | Inputs):
        return value.name
    if isinstance(value, Covariance):
        return value.spec
    if isinstance(value, tuple):
        return [list(row) if isinstance(row, tuple) else row for row in value]
    return value


def _overlap(value: Any, shape: tuple[float, float]) -> float | Matrix:
    if np.ndim(value) == 0:
        number = one("overlap", finite("overlap", value))
        if not abs(number) <= 1:
            raise ParameterError(f"overlap must lie between -1 and 1, got {number}")
        return number
    return _matrix("overlap", value, shape)


def _gram(value: Any, p: float) -> Matrix | None:
    if value is None:
        return None
    rows = _matrix("gram", value, (p, p))
    matrix = np.array(rows)
    if not np.allclose(matrix, matrix.T, rtol=0, atol=_SPARE * np.abs(matrix).max()):
        raise ParameterError("gram must be a symmetric matrix")
    return tuple(map(tuple, ((matrix + matrix.T) / 2).tolist()))


def _matrix(name: str, value: Any, shape: tuple[float, float]) -> Matrix:
    array = np.asarray(finite(name, value))
    if array.shape != shape:
        raise ParameterError(f"{name} must be one number or have shape {shape}, got {array.shape}")
    return tuple(map(tuple, array.tolist()))


def _student_numbers(name: str, value: Any, p: float, usual: float) -> tuple[float, ...] | None:
    """A number for each student as a tuple; None for what they are without it."""
    if value is None:
        return None
    if math.isinf(p):
        raise ParameterError(f"{name} must not be given for p = inf")
    array = np.asarray(finite(name, value))
    if array.shape != (p,):
        raise ParameterError(f"{name} must be one number for each of {p} students, got shape {array.shape}")
    return None if np.all(array == usual) else tuple(array.tolist())
