"""The bulk traced as a curve against the density that solves for each energy."""

from __future__ import annotations

import math

import numpy as np
import pytest

from theory.exact.bulk import bulk_edge, edge_resolvent
from theory.exact.density.density import bulk_curve, density
from theory.exact.density.weight_law import weight_law
from theory.model import Committee

# Sharp and smooth edges, an atom, a support that ends, |t| large (alpha next to 1), students and teachers of many units.
MODELS = [
    (Committee(1, 1, 0.5), 0.3),
    (Committee(2, 1, 0.05), 3.0),
    (Committee(7, 3, 3.6), 3.5),
    (Committee(40, 4, 0.12), 17.5),
    (Committee(3, 4, 6.2), 38.6),
    (Committee(2, 2, 1.0), 1.0 + 1e-7),
    (Committee(math.inf, 3, 0.3), 0.8),
    (Committee(math.inf, 8, 0.16), 12.9),
]


@pytest.mark.parametrize(("model", "alpha"), MODELS)
def test_curve_lies_on_the_density(model, alpha):
    """Wherever it is not exponentially small: there the rounding of the energy itself shows in the density."""
    scale = 1.0 if math.isinf(model.p) else model.p / 2
    edge = bulk_edge(model, alpha)
    start = scale / edge_resolvent(model, alpha)
    u = start + abs(start) * np.concatenate([[-0.1, -1e-3], np.geomspace(1e-3, 1e3, 30)])
    lam, t = bulk_curve(model, alpha, u)
    assert np.all(np.diff(lam[2:]) > 0) and np.all(t.imag[:2] == 0)
    inside = t.imag > 1e-30 * np.abs(t)
    assert np.sum(inside) >= 5 and np.all(lam[inside] > edge.value)
    rho = scale * t.imag / math.pi
    np.testing.assert_allclose(rho[inside], density(model, alpha, lam[inside]), rtol=1e-7)
    np.testing.assert_allclose((-1 / t).real, u, rtol=1e-5)


@pytest.mark.parametrize(("model", "alpha"), MODELS)
def test_few_digits_stay_on_the_axis_of_many(model, alpha):
    """A law of 9 digits is not quite positive: the height above the axis is found nevertheless."""
    scale = 1.0 if math.isinf(model.p) else model.p / 2
    start = scale / edge_resolvent(model, alpha)
    side = math.sqrt(alpha * abs(np.sum(weight_law(model).mass / weight_law(model).pole ** 2)))
    u = np.concatenate([start + abs(start) * np.geomspace(1e-6, 1e4, 40), side * np.geomspace(0.1, 30, 15)])
    u = np.unique(u[u != 0])
    few, many = (bulk_curve(model, alpha, u, digits)[1] for digits in (9, 15))
    assert np.all(np.isfinite(few)) and np.all(few.imag >= 0)
    np.testing.assert_allclose(few, many, rtol=0, atol=1e-4 * np.max(np.abs(many)))
