"""The program `bbp`: one entry to all commands, each a module of this package. `bbp --help` is answered at once."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence

from bbp import __version__
from bbp.console import process

COMMANDS = {
    "sweep": "sample Hessians over alpha beside the theory, into one HDF5 file",
    "phase": "thresholds alpha_BBP, their kind and overlap jump over (p, a)",
    "compare": "finite-N samples against theory: a table and a figure",
    "fit": "laws in N of what samples of several sizes say",
    "join": "several sweeps, or descents, in one file",
    "quantile": "at which alpha, in what share of draws, at which N the signal shows",
    "plot": "the figure that fits a file",
    "export": "a table of any file as CSV, LaTeX or JSON",
    "figures": "every figure of the documentation",
    "descent": "gradient descent and the Hessian along it",
    "explore": "the model in the browser: curves that move, samples, phases",
    "info": "what is in this file",
}


def overview() -> str:
    """The text of `bbp --help`."""
    lines = [f"  {name:9} {summary}" for name, summary in COMMANDS.items()]
    return "\n".join(
        [
            "usage: bbp [-h] [--version] COMMAND ...",
            "",
            "Hessian BBP transitions of quadratic teacher-student networks: theory, samples, figures.",
            "",
            "commands (each also as python -m bbp.COMMAND):",
            *lines,
            "",
            "example:",
            "  bbp sweep --alpha-grid --p 1 --a 1.0 --n 400 --samples 16 --out results/sweep.h5",
            "  bbp plot results/sweep.h5 --out sweep.png",
        ]
    )


def dispatch(argv: Sequence[str]) -> int:
    """Hand over to the named command, which is imported only then."""
    if not argv or argv[0] in ("-h", "--help"):
        print(overview(), file=sys.stdout if argv else sys.stderr)
        return 0 if argv else 2
    from bbp.console import options, program  # late: help is answered without NumPy

    if argv[0] == "--version":
        print(f"bbp {__version__}")
        return program.OK
    if argv[0] not in COMMANDS:
        near = options.nearest(argv[0], list(COMMANDS))
        return program.complain("bbp", f"no command {argv[0]!r}{near} (see bbp --help)", program.USAGE)
    return importlib.import_module(f"bbp.{argv[0]}").main(argv[1:])


def main() -> int:
    """Run the command named on the command line; the exit code is the command's."""
    process.prepare()
    if sys.argv[1:2] in (["-h"], ["--help"]):
        return process.end(dispatch(sys.argv[1:]))
    try:
        from bbp.console import program
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] in ("bbp", "sims", "theory"):
            raise
        sys.stderr.write(
            f"bbp: error: {error.name} is not installed: the programs need all of `pip install hessian-bbp`,"
            " theory alone NumPy and SciPy\n"
        )
        return process.end(1)
    return process.end(program.guarded("bbp", lambda: dispatch(sys.argv[1:])))


if __name__ == "__main__":
    sys.exit(main())
