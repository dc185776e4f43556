"""`bbp explore` whose server prepares two diagrams beside its pages, not all: these take half a minute of a core.

The process that prepares them imports this module as well.
"""

import sys
from dataclasses import replace

from bbp import explore
from bbp.console import start
from bbp.explorer import phase_map

phase_map.BY_NAME = {"p_star": replace(phase_map.BY_NAME["p_star"], high=2)}

if __name__ == "__main__":
    start.begin()  # signals are answered as by the program
    sys.exit(explore.main())
