"""Complexity of minima: the convex case, whose one minimum is known in closed form; the functional itself; values found by other code."""

import math

import numpy as np
import pytest

from tests.cases import Case, failures  # noqa: F401
