"""The numbers of docs/what_survives.md: thresholds of other activations, with noise, correlated inputs and overlap.

python -m benchmarks.what_survives            (two minutes on one core)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from theory.general import Network, model_map

WIDTHS = [1, 2, 4, 16, math.inf]
NOISES = [0.0, 0.1, 0.3, 1.0]
SPECTRA = [None, "power:0.5", "power:1", "power:1.2", "power:2"]
OVERLAPS = [0.0, 0.2, 0.4, 0.6, 0.8, 0.9, 0.99, 1.0]


def main() -> None:
    """Print one table for each question."""
    for name in ("tanh", "erf", "softplus"):
        table(f"{name}, a", Network(activation=name), p=[1, 2, 3, 4, math.inf], a=[2.0, 10.0])
    table("noise, a = 0.5", Network(a=0.5), p=WIDTHS, noise=NOISES)
    table("power law, a = 0.5", Network(a=0.5), p=[1, 2, 4], covariance=SPECTRA)
    table("overlap m, p = 1", Network(), a=[1.0], overlap=OVERLAPS)


def table(title: str, model: Network, **axes: Sequence[Any]) -> None:
    """alpha_BBP over two parameters: c continuous, d discontinuous, and where the outlier enters the bulk again."""
    (_, rows), (_, columns) = axes.items()
    found = model_map(model, **axes)
    print(f"\n{title:<20}" + "".join(f"{v!s:>20}" for v in columns))
    for i, row in enumerate(rows):
        cells = []
        for j in range(len(columns)):
            until = f" to {found.until[i, j]:.3g}" if math.isfinite(found.until[i, j]) else ""
            kind = str(found.kind[i, j])
            error = f"({found.alpha_error[i, j]:.4f})" if found.alpha_error[i, j] > 5e-5 else ""
            cells.append(kind if kind == "none" else f"{found.alpha[i, j]:.4f}{error} {kind[0]}{until}")
        print(f"{row!s:<20}" + "".join(f"{cell:>20}" for cell in cells))


if __name__ == "__main__":
    main()
