"""Results put together: seeds, sizes, grids of alpha and models of several sweeps, or of several descents, in one file.

What would mix silently is refused: other kinds of result, random streams or precisions, and parts that disagree about a draw.
"""

from __future__ import annotations

import argparse
import functools
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from bbp.console import program
from bbp.console.program import callable_as
from bbp.experiments.options import data_file
from bbp.files import disk
from theory.checks import ParameterError, shown

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


main = functools.partial(program.program, "join", add_arguments, run, summary=__doc__ or "", example=EXAMPLE)


def join(parts: Iterable[Any], *, out: str | Path | None = None) -> Any:
    """One result of several sweeps, or of several descents.

    Parameters
    ----------
    parts
        Files, or Datasets as `bbp.open` gives them.
    out
        The file to write; none where not given.

    Returns
    -------
    xarray.Dataset
        Over the union of models, N, alpha and samples: see `bbp.files.product.join`.

    Raises
    ------
    theory.checks.ParameterError
        For nothing to join, for a file given twice, and for what would mix silently.

    >>> join(["data/finite_size/far.h5", "data/finite_size/far1600.h5"]).n.values.tolist()
    [200, 400, 800, 1600]
    """
    from bbp.files import dataset, product

    place = None if out is None else data_file("out", out)
    if isinstance(parts, str | bytes | Mapping) or not isinstance(parts, Iterable):
        raise ParameterError(f"parts must be a list of files or results, got {shown(parts)}")
    found = product.join(dataset.open_all(parts))
    if place is not None:
        disk.prepare_directory(place.parent)
        dataset.write(place, found)
    return found


callable_as(__name__, join)
if __name__ == "__main__":
    sys.exit(main())
