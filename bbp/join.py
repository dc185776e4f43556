"""Results put together: seeds, sizes, grids of alpha and models of several sweeps, or of several descents, in one file.

What would mix silently is refused: other kinds of result, random streams or precisions, and parts that disagree about a draw.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from bbp.console import program
from bbp.console.program import callable_as
from bbp.experiments.options import data_file
from bbp.files import disk

EXAMPLE = """  bbp join results/seed0.h5 results/seed1.h5 --out results/both.h5
  bbp join results/n*.h5 --out results/sizes.h5"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `bbp join`."""
    parser.add_argument("files", nargs="+", metavar="FILE.h5", help="sweeps, or descents")
    parser.add_argument("--out", required=True, metavar="FILE.h5", help="the file to write")
    parser.add_argument("--force", action="store_true", help="replace it if it exists")


def run(args: argparse.Namespace) -> int:
    """Join and write."""
    out = data_file("out", args.out)
    disk.require_apart({"out": out}, args.files)
    disk.require_free(out, force=args.force)
    found = join(args.files, out=out)
    sizes = ", ".join(
        f"{found.sizes[name]} {name}"
        for name in ("model", "n", "start", "alpha", "sample")
        if name in found.dims
    )
    program.show(f"wrote {out}: {sizes}")
    return program.OK


def main(argv: Sequence[str] | None = None) -> int:
    """The program `bbp join`."""
    return program.program("join", add_arguments, run, argv, summary=__doc__ or "", example=EXAMPLE)


def join(parts: Iterable[Any], *, out: str | Path | None = None) -> Any:
    """One result of several sweeps, or of several descents: see `bbp.analysis.join.join`.

    Parameters
    ----------
    parts
        Files, or Datasets as `bbp.open` gives them.
    out
        The file to write; none where not given.

    Returns
    -------
    xarray.Dataset
        Over the union of models, N, alpha and samples.

    Raises
    ------
    theory.checks.ParameterError
        For nothing to join, and for what would mix silently.
    """
    from bbp.analysis.join import join as joined
    from bbp.files import dataset

    place = None if out is None else data_file("out", out)
    found = joined(parts)
    if place is not None:
        disk.prepare_directory(place.parent)
        dataset.write(place, found)
    return found


callable_as(__name__, join)
if __name__ == "__main__":
    sys.exit(main())
