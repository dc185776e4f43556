"""The program `bbp`: one entry to sweep, phase, compare, plot, export, figures, descent and info."""

from __future__ import annotations

import sys

from bbp.console import commands, signals


def main() -> int:
    """Run the command named on the command line; the exit code is the command's."""
    if sys.argv[1:2] in (["-h"], ["--help"]):  # without the half second of SciPy that all others take
        print(commands.overview())
        return signals.end(0)
    try:
        from bbp.console import program
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] in ("bbp", "sims", "theory"):
            raise
        sys.stderr.write(
            f"bbp: error: {error.name} is not installed: the programs need all of `pip install hessian-bbp`,"
            " theory alone NumPy and SciPy\n"
        )
        return signals.end(1)
    return signals.end(program.guarded("bbp", lambda: program.dispatch(sys.argv[1:])))


if __name__ == "__main__":
    sys.exit(main())
