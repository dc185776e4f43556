"""Make the figures of the paper, and what it lacks: theory and samples, each with its data in HDF5.

A figure whose data were computed before, with the same options, is drawn again without computing; where no options are given,
whatever were its own. One that fails is reported and the others go on.
"""

from __future__ import annotations

import argparse
import functools
import sys
import time
from pathlib import Path

from bbp import gallery
from bbp.console import messages, options, program
from bbp.console.messages import FileError, log
from bbp.console.options import integer
from bbp.experiments.options import MOST_SAMPLES
from bbp.files import disk
from bbp.gallery import ENTRIES, Effort, Entry
from bbp.plots import style
from bbp.plots.style import render
from theory.checks import ParameterError

LARGEST_N = 10**6  # of a sample in a figure
Stored = tuple[gallery.Data, str]  # of a figure, and words on where they are from

EXAMPLE = """  bbp figures --out figures                     all, quick mode: under ten minutes on two cores
  bbp figures phi overlap --out figures --paper
  bbp figures phi --n 200,400,800 --samples 300 --format pdf"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `bbp figures`."""
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"figures to make (all): {', '.join(ENTRIES)}"
    )
    parser.add_argument("--out", default="results/figures", metavar="DIR", help="directory (%(default)s)")
    parser.add_argument("--paper", action="store_true", help="sizes of the paper; hours on two cores")
    parser.add_argument(
        "--n", metavar="LIST", help="input dimensions N in place of the figures' own, such as 200,400"
    )
    parser.add_argument("--samples", metavar="S", help="samples a point in place of the figures' own")
    parser.add_argument("--seed", default="0", help="of the samples (%(default)s)")
    parser.add_argument(
        "--format", choices=["png", "pdf", "svg"], default="png", help="of the pictures (%(default)s)"
    )
    parser.add_argument("--force", action="store_true", help="compute again and replace what is there")


def _sizes(text: str) -> tuple[int, ...]:
    """Input dimensions, rising."""
    return tuple(sorted(integer(1, LARGEST_N)("n", each) for each in options.integers("n", text)))


def run(args: argparse.Namespace) -> int:
    """Carry out the command; 1 if a figure failed."""
    effort = Effort(
        mode="paper" if args.paper else "quick",
        n=None if args.n is None else _sizes(args.n),
        samples=None if args.samples is None else integer(2, MOST_SAMPLES)("samples", args.samples),
        seed=options.seed("seed", args.seed),
    )
    entries = [_entry(name) for name in args.names] or list(ENTRIES.values())
    out = disk.home(args.out)
    for entry in entries:
        for suffix in ("h5", args.format):
            disk.destination(out / f"{entry.name}.{suffix}")
    disk.prepare_directory(out)
    stored = {entry.name: None if args.force else _stored(out, entry, effort) for entry in entries}
    failed = 0
    with messages.Progress(len(entries), unit="figure") as progress:
        for entry in entries:
            failed += not _make(entry, effort, out, args.format, stored[entry.name])
            progress.advance(note=entry.name)
    return program.FAILED if failed else program.OK


def _make(entry: Entry, effort: Effort, out: Path, form: str, stored: Stored | None) -> bool:
    """Data and picture of one figure; whether it was made."""
    path = disk.destination(out / f"{entry.name}.h5")
    try:
        if stored is not None:
            data, how = stored
        else:
            start = time.perf_counter()
            arrays = entry.build(effort)
            seconds = time.perf_counter() - start
            gallery.save(path, entry, arrays, effort, seconds)
            data, _ = gallery.load(path)
            how = f"computed in {messages.duration(seconds)}"
        with style.figure_style():
            figure = entry.draw(data)
        picture = disk.destination(out / f"{entry.name}.{form}")
        disk.write_bytes(picture, render(figure, form, 300))
    except Exception as error:  # whatever went wrong with one figure, the others go on
        log.error("%s failed: %s: %s", entry.name, type(error).__name__, " ".join(str(error).split()))
        log.debug("traceback", exc_info=True)
        return False
    program.show(f"{picture} ({how}): {entry.caption}")
    return True


def _stored(out: Path, entry: Entry, effort: Effort) -> Stored | None:
    """The figure's data if they are there and answer these options, or none were given; FileError if they answer others."""
    path = out / f"{entry.name}.h5"
    if not path.exists():
        return None
    data, config = gallery.load(path)
    if effort == Effort():
        wanted = gallery.asked(entry, effort)
        own = [f"{name} = {config.get(name)}" for name in wanted if config.get(name) != wanted[name]]
        return data, "data were there" + (f", of {', '.join(own)}" if own else "")
    if config != gallery.config(entry, effort):
        raise FileError(f"{str(path)!r} was made with other options (--force replaces it; or another --out)")
    return data, "data were there"


def _entry(name: str) -> Entry:
    if name not in ENTRIES:
        raise ParameterError(
            f"no figure {name!r}{options.nearest(name, list(ENTRIES))}; there are {', '.join(ENTRIES)}"
        )
    return ENTRIES[name]


main = functools.partial(
    program.program, "figures", add_arguments, run, summary=__doc__ or "", example=EXAMPLE
)


if __name__ == "__main__":
    sys.exit(main())
