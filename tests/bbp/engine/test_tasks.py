"""What units free stays with the process, whatever the environment says of malloc; and what a process of units imports."""

import os
import subprocess
import sys

FAULTS = """
import resource, sys
import numpy as np
from bbp.engine import tasks

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(20):
        np.ones(2**17)  # 1 MiB
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

mapped = faults()
print(tasks.keep_memory(), mapped, (faults(), faults())[1])
import bbp.experiments.samples
print(*(name for name in ("xarray", "pandas", "h5py") if name in sys.modules))
"""


def test_arrays_are_not_mapped_afresh():
    """As dask sets its workers up every array of 1 MiB costs 256 pages; kept, none (a few, for Python has its own).

    And a process that only computes samples has imported nothing for files: half a second.
    """
    env = os.environ | {"MALLOC_TRIM_THRESHOLD_": "65536", "PYTHONPATH": os.pathsep.join(sys.path)}
    said = subprocess.run([sys.executable, "-c", FAULTS], env=env, capture_output=True, text=True, check=True)
    numbers, imported = said.stdout.splitlines()
    assert imported == ""
    kept, mapped, after = numbers.split()
    if kept == "True":
        assert int(mapped) > 20 * 200 and int(after) < 100, said.stdout
