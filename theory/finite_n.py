"""`theory.finite` and its modules under their first name."""

import sys

from theory import finite

sys.modules |= {
    name.replace("finite", "finite_n", 1): module
    for name, module in sys.modules.items()
    if name == finite.__name__ or name.startswith(f"{finite.__name__}.")
}
