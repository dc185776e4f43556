"""What is known of SciPy's sequence without importing scipy.stats, which takes most of the time of importing theory."""

import subprocess
import sys

from scipy.stats import qmc

from theory.general.cubature import SOBOL_DIMENSIONS


def test_the_sequence_has_as_many_dimensions():
    assert SOBOL_DIMENSIONS == qmc.Sobol.MAXDIM


def test_help_imports_neither_jax_nor_statistics_nor_optimisation():
    program = """
import sys
from bbp import sweep
try:
    sweep.main(["--help"])
finally:
    print(sorted({"jax", "scipy.stats", "scipy.optimize"} & set(sys.modules)), file=sys.stderr)
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300)
    assert run.stderr == "[]\n"
