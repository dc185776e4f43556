"""What gradient descent shows, checked against the reference descents in data/descent (data/README.md: how they were made).

Alarms are set at 3 standard errors, 1.3e-3 one-sided where the errors are right; the files are fixed, so each either
holds or not.
"""

from pathlib import Path

import numpy as np
import pytest

from bbp.analysis.recovery import recovery
from bbp.experiments import models
from bbp.files import dataset, variables
from sims.dynamics.flow import End, Rules
from sims.dynamics.samples import sample_descents
from theory.exact.transition import bbp_threshold

FOLDER = Path(__file__).parents[3] / "data" / "descent"


def held(p, a, n, more=""):
    return dataset.open(FOLDER / f"descent_p{p}_a{a}_n{n}{more}.h5")


@pytest.mark.parametrize(("p", "a", "n"), [(2, 0.5, 100), (4, 0.5, 100), (2, 1.5, 100)], ids=str)
def test_wide_students_recover_at_smaller_alpha_than_the_teachers_width(p, a, n):
    wide, narrow = (recovery(held(width, a, n), n, "random") for width in (p, 1))
    error = np.hypot(wide.midpoint_error, narrow.midpoint_error)
    assert narrow.midpoint - wide.midpoint > 3 * error


@pytest.mark.parametrize("p", [1, 2])
def test_half_of_the_samples_recover_only_above_the_hessians_threshold(p):
    for a in (0.5, 1.5):
        found = held(p, a, 100)
        seen = recovery(found, 100, "random")
        assert found.alpha_bbp == pytest.approx(bbp_threshold(models.of(found)).alpha, rel=1e-9)
        assert seen.midpoint - found.alpha_bbp > 3 * seen.midpoint_error


def test_informed_starts_recover_at_smaller_alpha_than_random_ones():
    found = held(1, 0.5, 100, "_path")
    final = {
        start: found.m2.values[0, i, :, :, -1].mean(axis=-1) for i, start in enumerate(found.start.values)
    }
    middle = found.alpha.values == 2.0
    assert final["spectral"][middle] > final["hessian"][middle] > final["random"][middle]


def test_the_informative_direction_is_there_at_the_start_and_lost_on_the_way():
    """In samples that do not recover: largest q2 of the lowest eigenvectors, start against end, paired."""
    found = held(1, 0.5, 100, "_path")
    for i, alpha in enumerate(found.alpha.values):
        stuck = found.m2.values[0, 0, i, :, -1] < 0.5
        q2 = found.overlaps.values[0, 0, i, stuck, :, 1].max(axis=-1)
        if alpha > found.alpha_bbp and stuck.sum() >= 8:
            drop = q2[:, 0] - q2[:, -1]
            assert drop.mean() > 3 * drop.std(ddof=1) / np.sqrt(len(drop))


def test_the_loss_never_rises_and_all_have_converged():
    """To a gradient of 1e-6 or a loss per sample of 1e-6."""
    for path in FOLDER.glob("*.h5"):
        found = dataset.open(path)
        assert np.all(found.code == End.CONVERGED)
        loss, gradient = found.loss.values, found.gradient.values
        assert np.all(np.diff(loss, axis=-1) <= 1e-12 * loss[..., :1])
        assert np.all(found.status == variables.DONE)
        per_sample = loss[..., -1] / np.round(found.alpha.values * 100)[:, None]
        assert np.all((gradient[..., -1] <= 1.001e-6) | (per_sample <= 1.001e-6))


def test_a_sample_of_the_file_is_computed_again():
    """Early on the path: later rounding differences between machines may have grown."""
    found = held(2, 0.5, 100)
    config = dataset.config(found)
    again = sample_descents(
        models.of(found),
        100,
        2.0,
        [5],
        rules=Rules(steps=config["steps"], records=config["records"], loss_floor=1e-6),
    )
    i = found.alpha.values.tolist().index(2.0)
    np.testing.assert_allclose(found.overlap_matrix[0, 0, i, 5, :4], again.overlap_matrix[0, :4], atol=1e-9)
