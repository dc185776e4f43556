"""The user's programs: sweeps, phase diagrams, comparisons and figures, stored in HDF5."""

__version__ = "0.1.0"
