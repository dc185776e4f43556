"""theory by itself: imported and computing where nothing but NumPy and SciPy is installed."""

import subprocess
import sys

CODE = """
import sys
for name in ("jax", "jaxlib", "h5py", "matplotlib", "xarray", "pandas", "tqdm", "sims", "bbp"):
    sys.modules[name] = None  # an import of it fails
import numpy, scipy.special, time
begun = time.process_time()
import theory
spent = time.process_time() - begun
assert spent < 0.3, f"importing theory takes {spent:.2f} s beyond NumPy and SciPy"
assert not {"scipy.optimize", "scipy.stats", "scipy.interpolate"} & set(sys.modules)
from theory import Network, density, edge, outliers, threshold
law, at_n = theory.finite.law, theory.finite.threshold
assert theory.finite.quantile and theory.finite.quenched and theory.path.closure and theory.minima.complexity
model = Network(activation="tanh", a=2.0)
assert edge(model, 3.0).route == "nodes" and len(outliers(model, 3.0)) == 1
assert threshold(Network()).kind == "continuous" and density(Network(), 1.5, 0.5) > 0
assert law(Network(), 2.0, 100, draws=8).lowest.shape == (8,) and at_n.__name__ == "threshold"
"""


def test_theory_needs_numpy_and_scipy_alone():
    """The bound of 0.3 s is of this process's own time."""
    run = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
