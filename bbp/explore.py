"""Explore the model in the browser: spectra, thresholds, overlaps and phases that move with the controls, and real samples.

Serves a page on this machine alone, until Ctrl-C. From another machine: ssh -L 5006:localhost:5006 MACHINE, with bbp explore
--no-browser there, and http://localhost:5006 here. With --export it writes one HTML file instead, which needs no server
and no network.
"""

from __future__ import annotations

import argparse
import functools
import importlib.util
import sys

from bbp.console import program
from bbp.console.messages import RunError
from bbp.console.options import integer
from bbp.experiments import own
from bbp.files import disk
from theory.checks import ParameterError, shown

EXAMPLE = """  bbp explore                            opens a page in the browser
  bbp explore results/sweep.h5           with the samples of this file over the curves
  bbp explore --no-browser --port 5006   on a machine reached by ssh -L 5006:localhost:5006
  bbp explore --export page.html         one file, for a talk"""

LOCAL = "127.0.0.1"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options."""
    parser.add_argument(
        "file",
        nargs="?",
        metavar="FILE.h5",
        help="a sweep file, whose samples lie over the curves, or descents, which have a panel",
    )
    parser.add_argument("--port", metavar="PORT", help="port to listen at (the first free one from 5006)")
    parser.add_argument("--host", default=LOCAL, help="address to listen at (127.0.0.1: this machine alone)")
    parser.add_argument(
        "--origin",
        action="append",
        default=[],
        metavar="HOST:PORT",
        help="another address by which pages may be reached, such as that of a tunnel with another port; may be repeated",
    )
    parser.add_argument("--no-browser", action="store_true", help="print the address, open nothing")
    parser.add_argument(
        "--export",
        metavar="PAGE.html",
        help="write one file that needs no server, and end: about a minute of one core, with progress on the way",
    )
    parser.add_argument("--force", action="store_true", help="with --export: replace an existing file")
    for name in own.KINDS:
        several = name == "inputs"
        kind = name if several else f"{'an' if name[0] in 'aeiou' else 'a'} {name.replace('_', ' ')}"
        parser.add_argument(
            f"--{name.replace('_', '-')}",
            metavar="FILE" if several else "FILE.py:NAME",
            help=f"where {kind} of one's own {'lie' if several else 'lies'}, for links and for FILE.h5 if not where it says",
        )


def run(args: argparse.Namespace) -> int:
    """Serve, or export; the exit code."""
    if args.export is not None:
        _exclude(args)
        _check_target(args.export)
    elif args.force:
        raise ParameterError("--force is for --export")
    if importlib.util.find_spec("bokeh") is None:
        raise RunError("the explorer needs Bokeh: pip install 'hessian-bbp[explore]'")
    if args.export is not None:
        from bbp.explorer.export import export

        size = export(args.export, force=args.force)
        print(f"wrote {args.export} ({size / 2**20:.1f} MiB)")
        return program.OK
    port = None if args.port is None else integer(1, 65535)("port", args.port)
    for name in own.KINDS:
        if (value := getattr(args, name)) is not None and not isinstance(own.read(name, value), own.Text):
            raise ParameterError(
                f"{name} must be one's own here, FILE.py:NAME or package.module:NAME, got {shown(value)}"
            )
    from bbp.explorer import files, server

    held = files.read(args.file) if args.file is not None else []
    query = files.query_of(held)
    server.serve(args.host, port, args.origin, held, browser=not args.no_browser, query=query)
    return program.OK


def _check_target(text: str) -> None:
    """FileError, before anything is computed, where no file can be written."""
    folder = disk.destination(text, "--export").parent
    if folder.is_dir():  # else the export says that there is none
        disk.prepare_directory(folder)


def _exclude(args: argparse.Namespace) -> None:
    options = {
        "FILE.h5": args.file,
        "--port": args.port,
        "--origin": args.origin,
        "--no-browser": args.no_browser,
        "--host": args.host != LOCAL,
        **{f"--{name.replace('_', '-')}": getattr(args, name) for name in own.KINDS},
    }
    given = [name for name, value in options.items() if value]
    if given:
        raise ParameterError(f"--export writes a file of theory: it takes no {given[0]}")


main = functools.partial(
    program.program, "explore", add_arguments, run, summary=__doc__ or "", example=EXAMPLE
)


if __name__ == "__main__":
    sys.exit(main())
