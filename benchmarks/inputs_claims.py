"""Theory for rows of one's own beside Hessians of these rows, on data that ship inside scikit-learn and scikit-image.

    python benchmarks/inputs_claims.py [--alphas 2,4,8] [--sets NAME,NAME] [--out FILE.json]

For each set and alpha: the verdict (`sims.given.judged`, 16 to 64 draws of seed 0), and 16 other draws (seed 1) that it has not
seen: mean lambda_1 and q2 with standard errors, and what theory says with the covariance alone and with scales of the rows,
verdict or not, of the same draws. Needs the extra `inputs` (scikit-learn, scikit-image).
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import sims
from sims.given import judged, predictions
from theory import Inputs, Network
from theory.given import marks

SIZE, COLOURED, PATCHES = 16, 9, 20_000
FRESH = 16


def patches(image: np.ndarray, size: int, seed: int = 0) -> np.ndarray:
    """PATCHES random squares (PATCHES, size size channels) of a picture (height, width[, channels])."""
    rng = np.random.default_rng(seed)
    top, left = (rng.integers(0, length - size, PATCHES) for length in image.shape[:2])
    return np.stack(
        [image[i : i + size, j : j + size].ravel() for i, j in zip(top, left, strict=True)]
    ).astype(float)


def whitened(rows: np.ndarray) -> np.ndarray:
    """Rows of covariance 1 in the directions that vary."""
    rows = rows - rows.mean(axis=0)
    values, vectors = np.linalg.eigh(rows.T @ rows / len(rows))
    kept = values > 1e-6 * values[-1]
    return rows @ vectors[:, kept] / np.sqrt(values[kept])


def normalised(rows: np.ndarray) -> np.ndarray:
    """Each row less its mean, of norm 1 (contrast normalisation); rows without contrast are left out."""
    rows = rows - rows.mean(axis=1, keepdims=True)
    norms = np.linalg.norm(rows, axis=1)
    return rows[norms > 1e-6 * norms.max()] / norms[norms > 1e-6 * norms.max(), None]


def standardised(rows: np.ndarray) -> np.ndarray:
    """Columns of mean 0 and variance 1; constant ones as they are."""
    spread = rows.std(axis=0)
    return (rows - rows.mean(axis=0)) / np.where(spread > 0, spread, 1)


def sets() -> Iterator[tuple[str, np.ndarray]]:
    """Name and rows of every set."""
    from skimage import data
    from sklearn import datasets

    yield "digits", datasets.load_digits().data
    yield "breast cancer, standardised", standardised(datasets.load_breast_cancer().data)
    yield "wine, standardised", standardised(datasets.load_wine().data)
    yield "diabetes", datasets.load_diabetes().data
    china, flower = (datasets.load_sample_image(name).astype(float) for name in ("china.jpg", "flower.jpg"))
    for name, picture in (("china", china), ("flower", flower)):
        grey = patches(picture.mean(axis=2), SIZE)
        yield f"{name}, grey patches", grey
        yield f"{name}, whitened", whitened(grey)
        yield f"{name}, contrast-normalised", normalised(grey)
        yield f"{name}, contrast-normalised, whitened", whitened(normalised(grey))
        yield f"{name}, colour patches", patches(picture, COLOURED)
        yield f"{name}, colour whitened", whitened(patches(picture, COLOURED))
    for name in ("camera", "coins", "page"):
        grey = patches(getattr(data, name)().astype(float), SIZE)
        yield f"{name}, whitened", whitened(grey)
        yield f"{name}, contrast-normalised", normalised(grey)


def measure(name: str, rows: np.ndarray, alphas: list[float]) -> list[dict[str, Any]]:
    """A row of the table for every alpha that the set has rows for."""
    inputs = Inputs.of(rows, name=name)
    own, found = marks(inputs), []
    for alpha in (alpha for alpha in alphas if round(alpha * inputs.n) <= inputs.count):
        model = Network(a=0.5, inputs=inputs)
        start = time.perf_counter()
        verdict = judged(model, alpha)
        seconds = time.perf_counter() - start
        fresh = sims.sample(model, inputs.n, alpha, range(FRESH), 1, eigenpairs=1)
        said = predictions(model, inputs.n, alpha, range(FRESH), 1)
        values = np.column_stack([fresh.eigenvalues, fresh.overlaps, said[:, :4]])
        mean, error = values.mean(axis=0), values.std(axis=0, ddof=1) / np.sqrt(FRESH)
        found.append(
            {
                "set": name, "rows": inputs.count, "n": inputs.n, "alpha": alpha, "verdict": verdict.kind,
                "theory": verdict.lowest, "theory_error": verdict.lowest_error,
                "theory_q2": verdict.overlap, "theory_q2_error": verdict.overlap_error, "why": verdict.reason,
                "found": mean[0], "found_error": error[0], "q2": mean[1], "q2_error": error[1],
                "gaussian": mean[2], "elliptical": mean[3], "gaussian_q2": mean[4], "elliptical_q2": mean[5],
                "spread": own.spread, "raw": own.raw, "whitened": own.whitened, "apart": own.apart, "seconds": seconds,
            }
        )  # fmt: skip
        print(line(found[-1]), flush=True)
    return found


def line(row: dict[str, Any]) -> str:
    """A row in words."""
    off = (row["theory"] - row["found"]) / abs(row["found"])
    said = (
        f"{row['theory']:8.3g} +- {row['theory_error']:.2g} ({off:+.0%})"
        if row["verdict"] != "neither"
        else "       -"
    )
    return (
        f"{row['set']:38} N={row['n']:3} alpha={row['alpha']:g}: found {row['found']:8.3g} +- {row['found_error']:.2g},"
        f" q2 {row['q2']:.3f}; covariance alone {row['gaussian']:8.3g}, q2 {row['gaussian_q2']:.3f}; with tau"
        f" {row['elliptical']:8.3g}, q2 {row['elliptical_q2']:.3f}; {row['verdict']}: {said}  [{row['seconds']:.0f} s]"
    )


def main() -> None:
    """Print, and write with --out."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--alphas", default="2,4,8")
    parser.add_argument("--sets", default="")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    alphas, chosen, found = [float(alpha) for alpha in args.alphas.split(",")], args.sets.split(";"), []
    for name, rows in sets():
        if args.sets and name not in chosen:
            continue
        found += measure(name, rows, alphas)
        if args.out:
            args.out.write_text(json.dumps(found, indent=1) + "\n")
    off = [
        r
        for r in found
        if r["verdict"] != "neither" and abs(r["theory"] - r["found"]) > 0.2 * abs(r["found"])
    ]
    far = [
        r for r in off if abs(r["theory"] - r["found"]) > 3 * np.hypot(r["theory_error"], r["found_error"])
    ]
    print(
        f"{len(found)} rows, {sum(r['verdict'] != 'neither' for r in found)} with a law; off by more than 20 %: {len(off)},"
    )
    print(f"and by more than three errors: {len(far)}")


if __name__ == "__main__":
    main()
