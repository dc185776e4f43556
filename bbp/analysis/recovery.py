"""What descents say about recovery: how many samples recover, where half of them do, where m2 leaves chance.

Success of a sample: its final `projection` (max_k sum_l m_kl^2, which is m2 for p_star = 1) exceeds a stated threshold. A
sample below it has ended elsewhere if it has converged (or no step lowers its loss), and is still moving if its steps ran out:
where it goes is then not known.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray
from scipy.special import erf

from bbp.analysis.estimates import Estimate, bootstrap, columns, fraction, lines, matched, with_interval
from bbp.analysis.finite_size import midpoint
from bbp.experiments import models
from bbp.files.variables import described
from theory.checks import ParameterError, positive

Array = NDArray[np.float64]
THRESHOLD = 0.5
ONSET_SIGMAS = 3.0
STEP_LIMIT = 1  # of sims.dynamics.flow.End, which would bring JAX along
AVERAGES = {
    "success": "share of samples that recover the teacher",
    "elsewhere": "share of samples that end without it",
    "moving": "share of samples without it whose steps ran out",
    "final": "mean m2 at the end",
    "initial": "mean m2 of the starts",
}


def recovery(
    found: xr.Dataset, n: int, start: str, threshold: float = THRESHOLD, seed: int = 0
) -> xr.Dataset:
    """Recovery at input dimension n from `start`; samples without a result are left out. Raises ParameterError.

    success            (alpha,) fraction of samples whose final projection exceeds the threshold
    elsewhere, moving  of the others: fractions of samples that have ended, and whose steps ran out
    final              mean final m2; initial: mean m2 of the starts
    midpoint           alpha at which the fraction is 1/2, by a logistic fit, error by resampling
    midpoint_if_moving_recover   the same, had all samples recovered that still moved; equal to it where none did
    onset              smallest alpha of the grid from which on the mean final m2 exceeds the mean m2 of RANDOM students
                       of the same N by ONSET_SIGMAS standard errors, at this and every larger alpha; NaN if there is none

    all but the last with NAME_error, NAME_low, NAME_high.
    """
    threshold = positive("threshold", threshold)
    if threshold >= 1:
        raise ParameterError(f"threshold must be below 1, got {threshold!r}")
    rng = np.random.default_rng(seed)
    place = found.isel(n=_position(found, "n", n), start=_position(found, "start", start))
    m2, projection, code = (place[name].values for name in ("m2", "projection", "code"))
    hits = np.where(np.isfinite(projection[:, :, -1]), projection[:, :, -1] > threshold, np.nan)
    moving = np.where(np.isfinite(hits), (hits == 0) & (code == STEP_LIMIT), np.nan)
    alpha = found.alpha.values
    made = {"final": [bootstrap(row, rng, bounds=(0, 1)) for row in m2[:, :, -1]]}
    middle = midpoint(alpha, hits, rng)
    made["initial"] = [bootstrap(row, rng, bounds=(0, 1)) for row in m2[:, :, 0]]
    shares = {"success": hits, "elsewhere": 1 - hits - moving, "moving": moving}
    made |= {name: [fraction(row) for row in rows] for name, rows in shares.items()}
    own: dict[str, Any] = {}
    for name, words in AVERAGES.items():
        own |= columns(name, ["alpha"], made[name], {"long_name": words})
    late = midpoint(alpha, hits + moving, rng) if np.nansum(moving) else middle
    own |= columns("midpoint", [], middle) | columns("midpoint_if_moving_recover", [], late)
    own["onset"] = (), onset(alpha, made["final"], chance(found.attrs["p"], found.attrs["p_star"], n))
    return xr.Dataset(own, {"alpha": alpha})


def averages(found: xr.Dataset, threshold: float = THRESHOLD) -> xr.Dataset:
    """Averages over the samples of descents (n, start, alpha), with NAME_error, and of shares NAME_low and NAME_high: success,
    elsewhere, moving (shares), final, initial (means of m2); see `recovery`."""
    ends = [name + end for name in ("final", "initial") for end in ("_low", "_high")]
    along = [
        xr.concat([recovery(found, n, start, threshold) for start in found.start.values.tolist()], "start")
        for n in found.n.values.tolist()
    ]
    whole = xr.concat(along, "n", combine_attrs="override").drop_vars(ends)
    kept = whole[[name for name, values in whole.data_vars.items() if "alpha" in values.dims]]
    kept = kept.assign_coords(n=found.n.values, start=found.start.values).transpose("n", "start", "alpha")
    return described(kept.assign_attrs(ordered=1))


def onset(alpha: Array, final: list[Estimate], base: float) -> float:
    """The first alpha from which on every mean final m2 lies ONSET_SIGMAS of its standard errors above `base`."""
    clear = np.array([e.value - base > ONSET_SIGMAS * e.error for e in final])
    kept = np.logical_and.accumulate(clear[::-1])[::-1]
    return float(alpha[np.argmax(kept)]) if kept.any() else float("nan")


def chance(p: int | float, p_star: int, n: int) -> float:
    """Mean of m2 for random students: of the largest of p p_star squared N(0, 1/N) overlaps (as N grows).

    E[max] = integral of 1 - P(g^2 < x)^(p p_star), P(g^2 < x) = erf(sqrt(x/2)), by the trapezoid rule in sqrt(x).
    """
    root = np.linspace(0, 12, 20_001)
    return float(np.trapezoid((1 - erf(root / np.sqrt(2)) ** (int(p) * p_star)) * 2 * root, root)) / n


def _position(found: xr.Dataset, name: str, value: int | str) -> int:
    held = found[name].values.tolist()
    if value not in held:
        raise ParameterError(f"{name} must be one of {', '.join(map(str, held))}, got {value!r}")
    return held.index(value)


def table(found: xr.Dataset, threshold: float = THRESHOLD) -> str:
    """Recovery against alpha for each N and start, and where it begins."""
    told = [
        f"{models.words(models.of(found))}: {models.threshold_words(found.alpha_bbp, found.kind)}",
        f"recovered: final overlap above {threshold:g}; elsewhere: ended below; moving: below, out of steps;",
        "means with bootstrap errors, shares with 95 % intervals",
    ]
    for n in found.n.values.tolist():
        for start in found.start.values.tolist():
            told += ["", *_rows(found, n, start, recovery(found, n, start, threshold))]
    return "\n".join(told)


def _rows(found: xr.Dataset, n: int, start: str, seen: xr.Dataset) -> list[str]:
    heads = [("alpha", "9.4g"), ("m2 at start", ">16"), ("m2 at end", ">16"), ("recovered", ">20")]
    heads += [("elsewhere", "9.2f"), ("moving", "6.2f")]
    rows = []
    for i, alpha in enumerate(seen.alpha.values):
        at = {name: float(values) for name, values in seen.isel(alpha=i).data_vars.items()}
        means = [f"{at[name]:7.4f} ± {at[f'{name}_error']:6.4f}" for name in ("initial", "final")]
        share = with_interval(at["success"], at["success_low"], at["success_high"])
        rows.append([alpha, *means, share, at["elsewhere"], at["moving"]])
    onset = f"{float(seen.onset):.4g}" if np.isfinite(seen.onset) else "-"
    last = f"the final m2 stays above that of random students from alpha = {onset} on"
    return [f"N = {n}, start {start}", *lines(heads, rows), *_half(found, seen), last]


def _half(found: xr.Dataset, seen: xr.Dataset) -> list[str]:
    """Where half of the samples recover; between where and where if some still move, which may yet."""
    share, moving, alpha = seen.success.values, seen.moving.values, seen.alpha.values
    late = _place(float(seen.midpoint), float(seen.midpoint_error), alpha, share)
    if not np.any(moving > 0):
        return [f"half of the samples recover {late}"]
    middle, error = float(seen.midpoint_if_moving_recover), float(seen.midpoint_if_moving_recover_error)
    early = _place(middle, error, alpha, share + moving)
    steps = found.step.values[-1]
    return [
        f"half of the samples recover {early} if all do that still moved after {steps} steps,",
        f"{late} if none does: --steps gives them more",
    ]


def _place(middle: float, error: float, alpha: np.ndarray, share: np.ndarray) -> str:
    if not np.isfinite(middle):
        below = np.isfinite(share[0]) and share[0] > 0.5
        return f"below alpha = {alpha[0]:g}" if below else f"at no alpha up to {alpha[-1]:g}"
    if not np.isfinite(error):
        return f"near alpha = {middle:.3g} (too near an end of the grid for an error)"
    return "at alpha = " + " ± ".join(matched(middle, error))
