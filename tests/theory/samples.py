"""Dense samples of the tests of theory: their Hessians and lowest pairs. No test here."""

import numpy as np
from scipy.linalg import eigh


def rows(many, n, rng):
    """Independent rows (many, n) of norm sqrt(n)."""
    return on_spheres(rng.standard_normal((many, n)))


def on_spheres(w):
    """Rows (many, n) at the norm sqrt(n)."""
    return w * np.sqrt(w.shape[1]) / np.linalg.norm(w, axis=1, keepdims=True)


def orthogonal(many, n, rng):
    """Orthogonal rows (many, n) of norm sqrt(n)."""
    return np.linalg.qr(rng.standard_normal((n, many)))[0].T * np.sqrt(n)


def hessian(f, x):
    """The Hessian (p n, p n), block index first, of weights f (m, p, p) on rows x (m, n)."""
    return np.block([[(x.T * f[:, i, j]) @ x for j in range(f.shape[1])] for i in range(f.shape[1])])


def lowest(model, x, w, t, k=1, y=None):
    """The k lowest eigenvalues (k,) at students w (p, n), and squared overlaps (k,) of their vectors with the teachers t."""
    f = model.weights(x @ w.T, model.outputs(x @ t.T) if y is None else y)
    values, vectors = eigh(hessian(f, x), subset_by_index=[0, k - 1])
    along = np.tensordot(t, vectors.reshape(*w.shape, k), (1, 1))
    return values, np.sum(along**2, axis=(0, 1)) / w.shape[1]
