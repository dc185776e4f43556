"""Work for the tests of the worker: counts, fails, sleeps, dies."""

import os
import time

from theory.checks import ParameterError


def count(request):
    """Counts to request["to"] with a pause at each step; negative: fails; 0: the process ends."""
    to = request["to"]
    if to < 0:
        raise ParameterError(f"to must be positive, got {to}")
    if to == 0:
        os._exit(1)
    for step in range(1, to + 1):
        time.sleep(request.get("pause", 0))
        yield {"kind": "progress", "done": step}
    yield {"kind": "result", "to": to}
