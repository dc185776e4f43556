"""Solving the scalar Dyson equation Z(t) = -1/t + alpha K(t) = z in the upper half plane, in units of (p/2) H.

The solution t is unique: two of them, t and t', would need 1/(t t') = alpha E[f^2/((1 + t f)(1 + t' f))],
against the Cauchy-Schwarz inequality and Im Z(t) = Im z >= 0; inside the support this holds for real z too.
So whatever converges in the upper half plane is right.

Newton's method is applied to the unknown 1/t, in which Z is linear both for t -> 0 (far away) and for t -> inf (lambda -> 0
when alpha < 1). Where t is close to the real axis the imaginary part of the equation is written as

    Im Z(x + iy) - Im z = y ( 1/|t|^2 + alpha Re slope(x, t) ) - alpha pi jump(x) - Im z,

each term of which is known with relative accuracy: an imaginary part of 1e-100 comes out right in relative
terms. No fixed point in z is iterated to convergence.

On the real line the bulk is a curve (`trace`), found without solving for the energy. With w = -1/t = u + iv the Dyson equation
(theory.exact.density) reads lambda = w + alpha E[ f w/(w - f) ], whose imaginary part

    v ( 1 - alpha E[ f^2 / ((f - u)^2 + v^2) ] ) = 0

has, as the average falls with v, one solution v > 0 at each u inside the support and none outside it; lambda rises with u
along the curve (P. Biane, Indiana Univ. Math. J. 46, 705, 1997, has the same for the free convolution with a semicircle). So
a whole density costs one real unknown for each point and no path from far above the axis: lambda follows from u.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from theory.checks import NotConverged
from theory.exact.weight_law import WeightLaw, half_width

Complex = NDArray[np.complex128]
Real = NDArray[np.float64]
Mask = NDArray[np.bool_]

STEPS = 30  # Newton steps before giving up on a starting point
STAGES = 400  # moves towards the real axis before giving up on a point
SHRINK = 0.2  # factor by which a stage reduces the distance above z
NEAR_AXIS = 1e-3  # Im t below this times |t|: use the imaginary part in its accurate form
WAITING = 3  # Newton steps in which Im t so close to the axis may wait for Re t
SETTLED_SQUARE = 1e-15  # change of (Im t / |t|)^2 that does not move Re t
TINY = 1e-290  # imaginary parts below this are as good as 0


def solve(law: WeightLaw, alpha: Real, z: Complex) -> Complex:
    """t with Z(t) = z at alpha, z (n,), Im z >= 0, by following Z(t) = z + i eta from eta large down to 0.

    Every point moves at its own pace: a stage whose Newton iteration fails is shortened. Raises
    NotConverged, whose `best` holds the last t of every point.
    """
    if not z.size:
        return np.empty(0, dtype=np.complex128)
    t, eta = _far_above(law, alpha, z)
    shrink = np.full(z.size, SHRINK)
    result = np.empty(z.size, dtype=np.complex128)
    todo = np.arange(z.size)
    floor = 1e-13 * (
        np.abs(z) + np.where(alpha >= 1, np.minimum((alpha - 1) ** 2, 1), 0)
    )  # t turns at these scales
    for _ in range(STAGES):
        here = t[todo]
        derivative = 1 / here**2 + alpha[todo] * law.transform(here)[1]
        target = eta[todo] * shrink[todo]
        final = (target < floor[todo]) | ((shrink[todo] <= SHRINK) & _in_reach(here, derivative, eta[todo]))
        target[final] = 0.0
        with np.errstate(divide="ignore", invalid="ignore"):  # no guess: the last point serves
            # Along Z(t) = z + i eta: dt = i d eta / Z'(t).
            guess = here + 1j * (target - eta[todo]) / derivative
        guess = np.where(guess.imag > 0.2 * here.imag, guess, here)
        new, good = newton(law, alpha[todo], z[todo] + 1j * target, guess, loose=~final)
        eta[todo[good]], t[todo[good]] = target[good], new[good]
        # In logarithms: half a stage after a failure, twice after a success.
        shrink[todo] = np.where(good, np.maximum(shrink[todo] ** 2, SHRINK), np.sqrt(shrink[todo]))
        result[todo[good & final]] = new[good & final]
        todo = todo[~(good & final)]
        if not todo.size:
            return result
    result[todo] = t[todo]
    raise NotConverged(f"the resolvent did not converge at {todo.size} of {z.size} points", result)


def solve_many(law: WeightLaw, alpha: float, energy: Real, start: float) -> Complex:
    """t at one alpha and increasing real energies (n,) inside the support, whose left edge is at u = `start`: Newton's method
    from between the places of a `look`, from scratch where that fails."""
    places, known = look(law, alpha, start)
    places = places * half_width(law.model)  # as those are that were asked for
    edge, good = places[0], known.imag > 0
    if np.sum(good) < 2:
        return solve(law, np.full(energy.size, alpha), energy.astype(np.complex128))
    places, known = places[good], known[good]
    everything = np.union1d(places, energy)
    at, wanted = np.searchsorted(everything, places), np.searchsorted(everything, energy)
    root, t = np.sqrt(np.maximum(everything - edge, 0)), np.zeros(everything.size, dtype=np.complex128)
    t[at] = known
    fresh = np.setdiff1d(wanted, at)
    first, last = fresh[fresh < at[0]], fresh[fresh > at[-1]]
    between = fresh[(fresh > at[0]) & (fresh < at[-1])]
    t[between] = _interpolate(law, alpha, root, t, at, between)
    # Towards the edge Im t falls like the root.
    t[first] = known[0].real + 1j * known[0].imag * root[first] / root[at[0]]
    t[last] = known[-1]
    z: Complex = everything.astype(np.complex128)
    t[fresh], good = newton(law, np.full(fresh.size, alpha), z[fresh], t[fresh])
    lost = fresh[~good]
    if lost.size:
        t[lost] = solve(law, np.full(lost.size, alpha), z[lost])
    return t[wanted]


def newton(law: WeightLaw, alpha: Real, z: Complex, t: Complex, loose: Any = False) -> tuple[Complex, Mask]:
    """Newton's method for Z(t) = z from t, all (n,): the solution, and where it converged.

    Im t stays positive, or underflows to 0; `loose` marks points that only pass by and need a few digits.
    """
    t = t.copy()
    good = np.zeros(t.size, dtype=bool)
    loose = np.broadcast_to(loose, t.shape)
    todo = np.arange(t.size)
    for count in range(STEPS):
        at, passing = t[todo], loose[todo] | (count == STEPS - 1)
        new, near, small = _step(law, alpha[todo], z[todo], at, passing, count >= WAITING)
        # A step across the axis leaves the half plane in which the solution is unique.
        low = new.imag < np.where(near, 0.0, 0.1 * at.imag)
        new.imag[low] = 0.1 * at.imag[low]
        t[todo] = new
        good[todo[small]] = True
        todo = todo[~small & np.isfinite(new)]
        if not todo.size:
            break
    return t, good


def _step(
    law: WeightLaw, alpha: Real, z: Complex, t: Complex, loose: Mask, late: bool
) -> tuple[Complex, Mask, Mask]:
    """t after a Newton step; where that is one of Re t alone, with Im t from the accurate form once all of these are settled or
    it is `late`; and where it is the last: quadratic convergence makes the error after a step far smaller than the step."""
    residual, derivative, noise = _equation(law, alpha, z, t)
    near = t.imag < NEAR_AXIS * np.abs(t)
    flat = near & _flat(derivative)
    bent = near & ~flat
    if np.any(bent):
        x, y = t[bent].real, t[bent].imag
        factor = 1 / np.abs(t[bent]) ** 2 + alpha[bent] * law.slope(x, t[bent]).real
        residual.imag[bent] = y * factor - alpha[bent] * math.pi * law.jump(x) - z[bent].imag
    # rounding noise there, and Re F times it would swamp a tiny Im t
    residual.imag[flat], derivative.imag[flat] = 0.0, 0.0
    step = _moebius(t, residual, derivative)
    step.imag[flat] = 0.0
    new, real, imag = t + step, np.abs(step.real), np.abs(step.imag)
    exact, tolerance = np.abs(residual) < noise, np.where(loose, 1e-3, np.where(flat, 1e-11, 1e-8))
    steady = (imag <= np.maximum(tolerance * new.imag, TINY)) & (real <= tolerance * new.imag)
    small = exact | np.where(flat, real <= tolerance * np.abs(t), steady)
    held = small[flat]
    small[flat] = False
    if np.any(flat) and (late or np.all(held)):  # one look at the accurate form for all that are ready
        new[flat] = _near(law, alpha[flat], new[flat].real, z[flat].imag)
        # Im t moves Re t in second order
        second = np.abs(new[flat].imag ** 2 - t[flat].imag ** 2)
        small[flat] = held & (loose[flat] | (second <= SETTLED_SQUARE * np.abs(t[flat]) ** 2))
    return new, flat, small


def _equation(law: WeightLaw, alpha: Real, z: Complex, t: Complex) -> tuple[Complex, Complex, Real]:
    """F = Z(t) - z, its derivative, and the rounding error of F."""
    eps = 4 * np.finfo(float).eps
    value, slope = law.transform(t)
    residual = -1 / t + alpha * value - z
    derivative = 1 / t**2 + alpha * slope
    noise = eps * (1 / np.abs(t) + np.abs(alpha * value) + np.abs(z))
    cancels = (np.abs(alpha - 1) < 0.01) & (
        np.abs(t) > 100
    )  # -1/t + alpha K(t) = -(1 - alpha + alpha R)/t there
    if np.any(cancels):
        far, rest, share = t[cancels], 1 - alpha[cancels], alpha[cancels]
        left, left_slope = law.remainder(far)
        sum_ = rest + share * left
        residual[cancels] = -sum_ / far - z[cancels]
        derivative[cancels] = (sum_ / far - share * left_slope) / far
        noise[cancels] = eps * (np.abs(sum_ / far) + np.abs(z[cancels]))
    return residual, derivative, noise


def _moebius(t: Complex, residual: Complex, derivative: Complex) -> Complex:
    """Change of t in a Newton step for the unknown 1/t."""
    # d(1/t) = -F / (dF/d(1/t)), written for t
    ratio = residual / (t * derivative)
    return -t * ratio / (1 + ratio)


def _flat(derivative: Complex) -> Mask:
    """Where Z' is real to a part in a thousand: away from edges and close to the axis."""
    return np.abs(derivative.imag) < 1e-3 * np.abs(derivative.real)


def _far_above(law: WeightLaw, alpha: Real, z: Complex) -> tuple[Complex, Real]:
    """A distance eta so far above z that the plain iteration contracts fast, and t there to a few digits."""
    spread = math.sqrt(abs(np.sum(law.mass / law.pole**2)))  # sqrt of E f^2
    # Far above the spectrum, whose size is of order alpha (1 + (E f^2)^(1/2)).
    eta = np.asarray(4 * (1 + np.abs(z) + alpha * (1 + spread)), dtype=np.float64)
    t: Any = -1 / (z + 1j * eta)
    for _ in range(5):
        t = -1 / (z + 1j * eta - alpha * law.transform(t)[0])
    return t, eta


def _in_reach(t: Complex, derivative: Complex, eta: Real) -> Mask:
    """Where eta may be dropped at once: it hardly moves t, or the equation is close to linear (tails)."""
    small = eta < 0.3 * np.abs(derivative) * t.imag
    tail = (t.imag < NEAR_AXIS * np.abs(t)) & _flat(derivative)
    return small | tail


def _interpolate(law: WeightLaw, alpha: float, root: Real, t: Complex, known: Any, at: Any) -> Complex:
    """Starting points at indices `at` from t at `known`: cubic Hermite for 1/t in root = sqrt(energy - edge)."""
    place = np.searchsorted(known, at)
    inverse = 1 / t[known]
    # d(1/t)/d root = -(1/t^2) (2 root) / Z'
    slope = -2 * root[known] / (1 + alpha * t[known] ** 2 * law.transform(t[known])[1])
    before, after = place - 1, place
    width = np.maximum(root[known[after]] - root[known[before]], np.finfo(float).tiny)
    r = (root[at] - root[known[before]]) / width
    value = (
        inverse[before] * (1 + 2 * r) * (1 - r) ** 2
        + inverse[after] * r**2 * (3 - 2 * r)
        + width * r * (1 - r) * (slope[before] * (1 - r) - slope[after] * r)
    )
    first, last = -inverse[before].imag, -inverse[after].imag
    smaller, larger = np.minimum(first, last), np.maximum(first, last)
    # In a tail Im t is exponentially small: the cubic is lost there, the logarithm is smooth.
    geometric = np.maximum(first, TINY) ** (1 - r) * np.maximum(last, TINY) ** r
    sane = (-value.imag > 0.1 * smaller) & (-value.imag < 10 * larger) & (smaller > 1e-3 * larger)
    value.imag = np.where(sane, value.imag, -geometric)
    start = 1 / value
    # Where a tail ends not even that is: there the height of the curve above its Re(1/t).
    if np.any(rises := ~sane & (larger > NEAR_AXIS * np.abs(value))):
        start[rises] = trace(law, alpha, -value.real[rises])[1]
    return start


NEWTON_STEPS = 60  # of Newton's method, which cannot leave the interval below the solution
SETTLED = (
    1e-8  # relative change of v^2 that is the last: its error, by quadratic convergence, is below rounding
)
# of a look: distances of u from 0 in units of (alpha E f^2)^(1/2), and from the edge in units of its own
LOOK_SIDES, LOOK_STEPS = np.geomspace(1e-3, 30, 30), np.geomspace(1e-3, 1e3, 20)
CLOSE = 0.03  # Im t below this times Re t: the share in its accurate form, where the weight has no density


def trace(law: WeightLaw, alpha: float, u: Real) -> tuple[Real, Complex]:
    """Energies lambda (n,) and t (n,) there, from u = Re(-1/t) (n,), u != 0; increasing u give increasing energies.

    Where v turns out below NEAR_AXIS |u| the point stands at Re t = -1/u instead, and its imaginary part has
    relative accuracy as in theory.exact.resolvent. Im t = 0 where u is outside the support.
    """
    v = NEAR_AXIS * np.abs(u)
    inside = _share(law, alpha, u, v)[0] >= 1
    t = np.empty(u.size, dtype=np.complex128)
    t[inside] = -1 / (u[inside] + 1j * _height(law, alpha, u[inside], v[inside]))
    t[~inside] = _near(law, alpha, -1 / u[~inside])
    return (-1 / t + alpha * law.transform(t)[0]).real, t


@lru_cache(maxsize=64)
def look(law: WeightLaw, alpha: float, start: float) -> tuple[Real, Complex]:
    """Eigenvalues of the Hessian (n,), increasing from the left edge on, which is at u = `start` < 0, and t there: `trace` at
    distances from the edge and from 0 in geometric progression."""
    side = math.sqrt(alpha * abs(np.sum(law.mass / law.pole**2))) * LOOK_SIDES
    u = np.unique(np.concatenate([-side, side, start + abs(start) * LOOK_STEPS]))
    lam, t = trace(law, alpha, u[(u > start) & (u != 0)])
    edge = -1 / start
    value = start + alpha * law.transform(np.array([edge], dtype=np.complex128))[0].real
    return np.append(value, lam) / half_width(law.model), np.append(edge + 0j, t)


def _share(law: WeightLaw, alpha: float, u: Real, v: Real) -> tuple[Real, Real]:
    """alpha E[f^2/((f - u)^2 + v^2)] and its derivative by v^2."""
    w: Any = u + 1j * v
    t: Any = -1 / w
    value, slope = law.transform(t)
    # alpha E[ f^2 / |f - w|^2 ] = -alpha Im K(t) / Im w, with t = -1/w
    share = -alpha * value.imag / v
    # Off the support of f and close to the axis, Im K is nearly 0 and not divided by v: a law of few digits would show.
    gap = (
        (t.real > (-law.model.a if math.isinf(law.model.p) else 0.0))
        & (t.real < 1)
        & (t.imag < CLOSE * np.abs(t.real))
    )
    share[gap] = -alpha * law.slope(t.real[gap], t[gap]).real / np.abs(w[gap]) ** 2
    return share, -(alpha * (slope / w**2).real + share) / (2 * v**2)


def _height(law: WeightLaw, alpha: float, u: Real, v: Real) -> Real:
    """v (n,) where the share is 1, from v where it is larger. Newton's method for 1/share as a function of v^2, which is
    concave and rising (the share being a Stieltjes function of v^2): from above it leads below, from there to the solution.
    A law of few digits may bend the share close to the axis: what leaves the bracket halves it, in the logarithm."""
    lower = v**2
    upper = np.full(u.size, alpha * abs(np.sum(law.mass / law.pole**2)))  # the share is below alpha E f^2/v^2
    square, todo = np.sqrt(lower * np.maximum(lower, upper)), np.flatnonzero(lower < upper)
    for _ in range(NEWTON_STEPS):
        at = square[todo]
        share, slope = _share(law, alpha, u[todo], np.sqrt(at))
        low = share >= 1
        lower[todo[low]], upper[todo[~low]] = at[low], at[~low]
        with np.errstate(divide="ignore"):
            # Newton's method for 1/share = 1
            new = at + share * (1 - share) / slope
        lost = ~((new >= lower[todo]) & (new <= upper[todo]))
        new[lost] = np.sqrt(lower[todo[lost]] * upper[todo[lost]])
        square[todo] = new
        todo = todo[np.abs(new - at) > SETTLED * new]
        if not todo.size:
            break
    return np.sqrt(square)


def _near(law: WeightLaw, alpha: Any, x: Real, height: Any = 0.0) -> Complex:
    """t (n,) close to the real axis, at its real parts x, for energies at `height` above the axis:
    y (1/|t|^2 + alpha Re slope(x, t)) = alpha pi jump(x) + height."""
    source = alpha * math.pi * law.jump(x) + height
    t: Any = x + 0j
    for _ in range(4):  # (Im t)^2 < NEAR_AXIS^2 x^2 is all that changes from one to the next
        before = t
        t = x + 1j * np.maximum(source / (1 / np.abs(t) ** 2 + alpha * law.slope(x, t).real), 0.0)
        if np.array_equal(t, before):
            break
    return t
