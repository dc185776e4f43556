"""Shared fixtures: the table of right values that the theory must reproduce."""

import json
from pathlib import Path

import jax
import pytest

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_dtype_promotion", "standard")


@pytest.fixture(scope="session")
def reference():
    """Right values: thresholds, tricritical points, edges, outliers, overlaps, densities."""
    return json.loads((Path(__file__).parents[1] / "data" / "values.json").read_text())
