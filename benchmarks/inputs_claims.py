"""Theory for rows of one's own beside Hessians of these rows, on data that ship inside scikit-learn and scikit-image.

    python benchmarks/inputs_claims.py [--alphas 2,4,8] [--sets "NAME;NAME"] [--out FILE.json] [--figure FILE.h5]

For each set and alpha (`bbp.gallery.inputs`): the verdict, from 16 to 64 draws of seed 0, and 16 other draws that it has not
seen: mean lambda_1 and q2 with standard errors, and what theory says of these with the covariance alone and with scales of the
rows, verdict or not. --figure writes the data of `bbp figures inputs`. Needs the extra `inputs`.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

from bbp import gallery
from bbp.gallery import inputs

SAMPLES = 16


def line(row: dict[str, Any]) -> str:
    """A row in words."""
    off = (row["theory"] - row["found"]) / abs(row["found"])
    said = (
        "-"
        if row["verdict"] == "neither"
        else f"{row['theory']:.3g} +- {row['theory_error']:.2g} ({off:+.0%})"
    )
    return (
        f"{row['set']:38} N={row['n']:3} alpha={row['alpha']:g}: found {row['found']:8.3g} +- {row['found_error']:.2g},"
        f" q2 {row['q2']:.3f}; covariance alone {row['gaussian']:8.3g}, q2 {row['gaussian_q2']:.3f}; with tau"
        f" {row['elliptical']:8.3g}, q2 {row['elliptical_q2']:.3f}; {row['verdict']}: {said}"
    )


def main() -> None:
    """Print, and write with --out."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--alphas", default=",".join(map(str, inputs.ALPHA)))
    parser.add_argument("--sets", default=";".join(inputs.SETS))
    parser.add_argument("--out", type=Path)
    parser.add_argument("--figure", type=Path)
    args = parser.parse_args()
    found, start = [], time.perf_counter()
    for name in args.sets.split(";"):
        rows = inputs.SETS[name]()
        for alpha in map(float, args.alphas.split(",")):
            if round(alpha * rows.shape[1]) <= len(rows):
                found.append(inputs.measured(name, rows, alpha, SAMPLES, 0))
                print(line(found[-1]), flush=True)
        if args.out:
            args.out.write_text(json.dumps(found, indent=1) + "\n")
    if args.figure:
        gallery.save(
            args.figure, inputs.inputs, inputs.arrays(found), gallery.Effort(), time.perf_counter() - start
        )
    told = [row for row in found if row["verdict"] != "neither"]
    off = [row for row in told if abs(row["theory"] - row["found"]) > 0.2 * abs(row["found"])]
    far = [
        r for r in off if abs(r["theory"] - r["found"]) > 3 * np.hypot(r["theory_error"], r["found_error"])
    ]
    print(
        f"{len(found)} cases, {len(told)} with a law: off by more than 20 % {len(off)}, by more than three errors {len(far)}"
    )


if __name__ == "__main__":
    main()
