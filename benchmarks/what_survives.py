"""The numbers of docs/what_survives.md: thresholds of other activations, with noise, correlated inputs and overlap.

python -m benchmarks.what_survives [NAME ...]     all tables (three minutes on one core), or those named
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import Any

from theory.general import Network, gradient_overlap, model_map

WIDTHS = [1, 2, 4, 16, math.inf]
NOISES = [0.0, 0.1, 0.3, 1.0]
SPECTRA = [None, "power:0.5", "power:1", "power:1.2", "power:2"]
OVERLAPS = [0.0, 0.2, 0.4, 0.6, 0.8, 0.9, 0.99, 1.0]
ACTIVATIONS = "tanh", "erf", "softplus"


def main() -> None:
    """Print one table for each question."""
    for name in ACTIVATIONS:
        if asked(name):
            table(f"{name}, a", Network(activation=name), p=[1, 2, 3, 4, 8, math.inf], a=[2.0, 10.0])
    for a in (0.5, 2.0):
        if asked("noise"):
            table(f"noise, a = {a}", Network(a=a), p=WIDTHS, noise=NOISES)
        if asked("power"):
            table(f"power law, a = {a}", Network(a=a), p=WIDTHS, covariance=SPECTRA)
    if asked("overlap"):
        table("overlap m, p = 1", Network(), a=[1.0], overlap=OVERLAPS)
    if asked("gradient"):
        gradients()


def asked(name: str) -> bool:
    """Whether a table is wanted."""
    return len(sys.argv) < 2 or name in sys.argv[1:]


def table(title: str, model: Network, **axes: Sequence[Any]) -> None:
    """alpha_BBP over two parameters: c continuous, d discontinuous, then alpha_0; where the outlier enters the bulk again."""
    (_, rows), (_, columns) = axes.items()
    found = model_map(model, **axes)
    print(f"\n{title:<20}" + "".join(f"{v!s:>26}" for v in columns), flush=True)
    for i, row in enumerate(rows):
        cells = []
        for at in ((i, j) for j in range(len(columns))):
            kind = str(found.kind[at])
            until = f" to {found.until[at]:.3g}" if math.isfinite(found.until[at]) else ""
            zero = "" if kind != "discontinuous" else f" {number(found.alpha_0[at], found.alpha_0_error[at])}"
            alpha = number(found.alpha[at], found.error[at])
            cells.append(kind if kind == "none" else f"{alpha} {kind[0]}{zero}{until}")
        print(f"{row!s:<20}" + "".join(f"{cell:>26}" for cell in cells))


def number(value: float, error: float) -> str:
    """Four decimals, or two digits of an error that shows there; a dash for NaN."""
    if math.isnan(value):
        return "-"
    if error <= 5e-5:
        return f"{value:.4f}"
    places = max(0, 1 - math.floor(math.log10(error)))
    return f"{value:.{places}f}({round(error * 10**places)})"


def gradients() -> None:
    """Squared overlap of the gradient at initialisation with the teacher, a = 2, alpha = 1."""
    print(f"\n{'gradient':<20}" + "".join(f"{p!s:>10}" for p in WIDTHS[:3] + WIDTHS[-1:]))
    for name in (*ACTIVATIONS, "quadratic"):
        models = (Network(p, activation=name, a=2.0) for p in WIDTHS[:3] + WIDTHS[-1:])
        print(f"{name:<20}" + "".join(f"{gradient_overlap(model, 1.0):>10.3f}" for model in models))


if __name__ == "__main__":
    main()
