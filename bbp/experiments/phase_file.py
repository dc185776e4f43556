"""A phase diagram as a Dataset: alpha_BBP, its kind and what belongs to it over (p, a).

    p, a                           coordinates; p is a float, inf for infinite width
    alpha_bbp, jump                (p, a): the transition, and the jump of the squared overlap (0 if continuous)
    kind                           (p, a) "continuous", "discontinuous"; networks without a threshold: "none", "no edge",
                                   "unresolved"; "" where it was not computed, or failed
    reason                         (p, a) why it failed, or empty
    alpha_0_overlap,               (p, a): the two estimates of alpha_0; NaN where an estimate has no root, alpha_BBP where the
    alpha_0_continuation           transition is continuous
    p_c                            (a): the smallest width whose transition is discontinuous, missing if beyond 2^40
    a_c, alpha_c                   (p): where the kind changes, and alpha_BBP there; a_c = 0 and alpha_c = its limit for p = inf
    n, finite_a                    coordinates of the finite-N thresholds, if any were asked for
    alpha_bbp_n, alpha_bbp_n_error (n, p, finite_a), NaN for p = inf, and where it failed
    alpha_bbp_n_reason             (n, p, finite_a) why it failed, or empty
    bbp_time, bbp_time_error       (p, alpha, at_a), alpha a coordinate, if asked for: when gradient flow loses (or gains) the
                                   outlier at N = infinity, NaN where it does not
    bbp_time_kind, bbp_time_reason (p, alpha, at_a) "lost", "born", "none", "no edge", "unresolved"; why it failed, or empty
    width, at_a                    coordinates of the lines: alpha_BBP against p at a few a
    widths_alpha_bbp, ...          (width, at_a): what the lines up to alpha_0 are over (p, a)
    attributes                     p_star, versions (JSON), commit, finished, config (JSON)

In the file (`bbp.files.dataset`) widths_alpha_bbp is /widths/alpha_bbp and config is /config.
"""

from __future__ import annotations

import numpy as np
import xarray as xr

FORMAT = "bbp-phase"
MAP = ("alpha_bbp", "jump", "alpha_0_overlap", "alpha_0_continuation", "kind", "reason")  # over (p, a)


def widths(phase: xr.Dataset) -> xr.Dataset:
    """The lines of a phase diagram as a map over (p, a) of its own."""
    own = {f"widths_{name}": name for name in MAP if f"widths_{name}" in phase}
    return phase[list(own)].rename(own).rename({"width": "p", "at_a": "a"})


def discontinuous(found: xr.Dataset) -> np.ndarray:
    """(p, a) whether q2 jumps."""
    return found.kind.values == "discontinuous"
