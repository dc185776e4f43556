"""Dense samples of six networks against the theory of each: another code, drawn by JAX, knows nothing of the averages."""

import numpy as np
import pytest

from sims.sampling import sample_point
from theory.general import Network, spectrum

MODELS = {
    "tanh": (Network(a=3.0, activation="tanh"), 6.0),
    "sigmoid": (Network(a=1.0, activation="sigmoid"), 6.0),
    "noise": (Network(a=2.0, noise=0.3), 6.0),
    "two levels": (Network(a=0.5, noise=0.3, covariance="levels:0.4@2,2.2@1"), 4.0),
    "Marchenko-Pastur": (Network(a=0.5, covariance="mp:0.5"), 4.0),
    "overlap": (Network(a=1.0, overlap=0.8), 5.0),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_lowest_eigenvalue_and_shares(name):
    """16 samples at N = 500, fixed seed: the lowest eigenvalue and its squared overlaps with teacher and student within 4.1
    standard errors (15 degrees of freedom: false-alarm rate 1e-3 each, 2e-2 for all 18) and a bias of (3 |value| + 1)/N."""
    (model, alpha), n, samples = MODELS[name], 500, 16
    found = spectrum(model, alpha)
    drawn = sample_point(model, n, alpha, range(samples), seed=7)
    pairs = (
        (found.outliers[0], drawn.eigenvalues[:, 0]),
        (found.overlaps[0] * found.teacher_share[0], drawn.overlaps[:, 0]),
        (found.overlaps[0] * found.student_share[0], drawn.student_shares[:, 0]),
    )
    for theory, values in pairs:
        error = values.std(ddof=1) / np.sqrt(samples)
        assert abs(values.mean() - theory) < 4.1 * error + (3 * abs(theory) + 1) / n
