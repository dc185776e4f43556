"""Before a sweep runs: how much work it is, how much memory it takes, about how long."""

from __future__ import annotations

import time

from bbp import adaptive, cli
from bbp.config import Config
from bbp.run import Execution
from bbp.store import describe as describe_model
from bbp.units import Point, Results, compute
from sims import sampling

PROBE = 300  # size p n of the matrix whose time is scaled up


def check_memory(config: Config, how: Execution) -> None:
    """ParameterError, with the bytes needed and what would fit, if the largest point does not fit in memory."""
