"""Questions of overlaps at finite N: at which alpha, in what share of draws, at which N does the signal show?

Of --alpha, --n and --share two are given and the third is the answer, from the law of the lowest pairs (theory.finite.law);
--samples checks it by samples of the Hessian.
"""

from __future__ import annotations

import argparse
import functools
import math
import sys
from typing import Any

import numpy as np

from bbp.analysis.estimates import Estimate, fraction
from bbp.analysis.summary import of_samples
from bbp.console import program
from bbp.console.options import integer, number, one_width, seed
from bbp.experiments.models import MODEL
from bbp.experiments.options import MOST_DRAWS, MOST_SAMPLES
from sims.machine import ROOM, available_bytes
from sims.sampling import sample_point
from theory.checks import ParameterError
from theory.finite.law import UNKNOWN, law_bytes
from theory.finite.threshold import OBSERVABLES, answer
from theory.model import Network

LAW = "± is of the number of draws alone; docs/finite_n.md says how far the law lies from samples (--samples checks)"
EXAMPLE = """  bbp quantile --n 800 --p 2 --a 1.5 --q2 0.1 --share 0.9      alpha at which 90 % of draws have q2 > 0.1
  bbp quantile --n 800 --p 2 --a 1.5 --alpha 1.5               share of draws with q2 > 0.1 there
  bbp quantile --alpha 1.5 --p 2 --a 1.5 --share 0.9           N at which it is 90 %
  bbp quantile --n 200 --a 0.5 --share 0.5 --of informative    alpha at which half of the draws are informative"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `bbp quantile`."""
    parser.add_argument("--p", default="1", help="student width (%(default)s)")
    parser.add_argument("--p-star", default="1", help="teacher width (%(default)s)")
    parser.add_argument("--a", default="1.0", help="normalisation of the loss (%(default)s)")
    parser.add_argument("--n", help="input dimension N")
    parser.add_argument("--alpha", help="samples per dimension M/N")
    parser.add_argument("--share", help="share of draws, between 0 and 1")
    parser.add_argument(
        "--q2", default="0.1", help="squared overlap to exceed, between 0 and 1 (%(default)s)"
    )
    parser.add_argument(
        "--of", default="overlap", metavar="WHAT",
        help=f"one of {', '.join(OBSERVABLES)}: the mean q2 of the p p* lowest eigenvectors, that of the lowest one, or"
        " whether the mean of the lowest exceeds every other, the largest is among them, or is the lowest's (%(default)s)",
    )  # fmt: skip
    parser.add_argument("--draws", default="400", help="draws of labels, levels and couplings (%(default)s)")
    parser.add_argument("--samples", help="check the share by so many samples of the Hessian")
    parser.add_argument("--seed", default="0", help="of draws and samples (%(default)s)")
    if isinstance(parser, program.Parser):
        parser.elsewhere(
            [option.written for option in MODEL], "finite-N theory is for the quadratic committee only"
        )


def run(args: argparse.Namespace) -> int:
    """Answer the question, and print what was asked with it."""
    given = {name: getattr(args, name) for name in ("alpha", "n", "share") if getattr(args, name) is not None}
    if len(given) != 2:
        raise ParameterError(
            f"give two of --alpha, --n and --share, got {len(given)}: the third is the answer"
        )
    model = Network(one_width("p", args.p), integer()("p_star", args.p_star), number("a", args.a))
    options = {
        "q2": number("q2", args.q2),
        "of": args.of,
        "draws": integer(10, MOST_DRAWS)("draws", args.draws),
        "seed": seed("seed", args.seed),
    }
    samples = None if args.samples is None else integer(2, MOST_SAMPLES)("samples", args.samples)
    asked: dict[str, Any] = {
        name: (integer() if name == "n" else number)(name, text) for name, text in given.items()
    }
    found = answer(model, **asked, **options, before=lambda alpha, n: _require_room(model, alpha, n))
    error = f"{found.error:.2g}" if math.isfinite(found.error) else "not determined"
    words = f"{args.of} > {options['q2']:g}" if args.of.startswith("overlap") else args.of
    if "share" not in asked:
        said = f"share = {found.share:.4g} ± {error} at alpha = {found.alpha:g}, N = {found.n}: {words}"
    elif "n" not in asked:
        said = f"N = {found.n} ± {error}: {found.share:.3f} of draws have {words} at alpha = {found.alpha:g}"
    else:
        said = (
            f"alpha = {found.alpha:.4g} ± {error}: {found.share:.3f} of draws have {words} at N = {found.n}"
        )
    program.show(said)
    program.show(LAW)
    if found.reason:
        program.show(f"{UNKNOWN} here: {found.reason}; check with --samples")
    if samples is not None:
        checked = sampled(model, found.alpha, found.n, samples, **options)
        interval = f"95 % interval {checked.low:.3f} to {checked.high:.3f}"
        program.show(f"samples: share = {checked.value:.3f} of {samples}, {interval}")
    return program.OK


def _require_room(model: Network, alpha: float, n: int) -> None:
    """ParameterError where a draw's labels would not fit in memory."""
    need, free = law_bytes(model, alpha, n), available_bytes()
    if free is not None and need > ROOM * free:
        raise ParameterError(
            f"a draw of labels at alpha = {alpha:g}, N = {n} takes {need / 2**30:.3g} GiB, and {free / 2**30:.3g} are free"
        )


def sampled(
    model: Network, alpha: float, n: int, samples: int, *, q2: float, of: str, seed: int, draws: int = 0
) -> Estimate:
    """Share of so many samples for which `of` is above q2 (or holds), with Wilson's interval. Raises ParameterError."""
    d, order = int(model.degeneracy), int(model.p) * n
    wants_all = of in ("informative", "among", "first")
    found = sample_point(
        model, n, alpha, range(samples), seed, eigenpairs=min(d + 24, order) if wants_all else None
    )
    seen, rest = of_samples(model, found), found.overlaps[:, d:].max(axis=1, initial=0.0)
    hits = {
        "overlap": seen.overlap > q2,
        "overlap_lowest": found.overlaps[:, 0] > q2,
        "informative": seen.overlap > rest,
        "among": seen.phi_group == 1,
        "first": seen.phi == 1,
    }[of]
    unknown = np.isnan({"among": seen.phi_group, "first": seen.phi}.get(of, seen.lowest))
    return fraction(np.where(unknown, np.nan, hits))


main = functools.partial(
    program.program, "quantile", add_arguments, run, summary=__doc__ or "", example=EXAMPLE
)


if __name__ == "__main__":
    sys.exit(main())
