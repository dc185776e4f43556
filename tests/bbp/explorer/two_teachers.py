"""`bbp explore` whose server prepares two diagrams beside its pages, not all: these take a while of a core."""

import sys

from bbp import explore
from bbp.console import process
from bbp.explorer import work

work.TEACHERS = range(1, 3)

if __name__ == "__main__":
    process.begin()  # signals are answered as by the program
    sys.exit(explore.main())
