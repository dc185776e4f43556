"""What runs in processes of its own: `bbp explore` that prepares two diagrams beside its pages, and work for a helper."""

import os
import sys
import time

from bbp import explore
from theory.checks import ParameterError


def count(to, pause=0.0):
    """Counts, fails, sleeps, dies."""
    if to < 0:
        raise ParameterError(f"to must be positive, got {to}")
    if to == 0:
        os._exit(1)
    time.sleep(pause)
    return to


if __name__ == "__main__":
    from bbp.console import process
    from bbp.explorer import work

    work.TEACHERS = range(1, 3)
    process.begin()  # signals are answered as by the program
    sys.exit(explore.main())
