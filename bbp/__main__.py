"""The program `bbp`: one door to sweep, phase, compare, plot, export, figures, descent and info."""

from __future__ import annotations

import sys

from bbp.console import program, signals


def main() -> int:
    """Run the command named on the command line; the exit code is the command's."""
    return signals.end(program.guarded("bbp", lambda: program.dispatch(sys.argv[1:])))


if __name__ == "__main__":
    sys.exit(main())
