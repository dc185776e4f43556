"""The program `bbp`: one door to sweep, phase, compare, plot, figures, descent and info."""

from __future__ import annotations

import sys

from bbp import cli


def main() -> int:
    """Run the command named on the command line; the exit code is the command's."""
    return cli.guarded("bbp", lambda: cli.dispatch(sys.argv[1:]))


if __name__ == "__main__":
    sys.exit(main())
