"""Laws in N of what samples of several sizes say: exponents and constants with intervals, and which law is left.

Reads sweeps or descents (several files are joined) or a phase diagram with thresholds at finite N. For every number, at every
alpha, each law limit + c f(N), f = N^-1/2, N^-2/3, 1/N, 1/log N or N^-x, is fitted through the sizes and tested by its
chi-square. A law is named only where every other is rejected, at four sizes or more.
"""

from __future__ import annotations

import argparse
import functools
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from bbp.console import messages, options, program
from bbp.console.messages import FileError
from bbp.console.program import callable_as
from bbp.files import disk
from theory.checks import RATIOS, ParameterError, count, finite, one, shown

if TYPE_CHECKING:
    import xarray as xr

EXAMPLE = """  bbp fit results/n200.h5 results/n400.h5 results/n800.h5 results/n1600.h5
  bbp fit results/sizes.h5 --of overlap,threshold --alpha 1.2 --out laws.pdf
  bbp fit results/sizes.h5 --of overlap --limit free
  bbp fit results/phase.h5 --save results/laws.h5"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `bbp fit`."""
    add = parser.add_argument
    add(
        "files", nargs="+", metavar="FILE.h5", help="sweeps, descents, or a phase diagram; several are joined"
    )
    add(
        "--of", metavar="LIST",
        help="of sweeps: lowest (against the outlier or the edge), overlap (q2), threshold (alpha where phi is 1/2), width (of"
        " the rise of phi), or another observable of the file; of descents and phase diagrams: threshold (default: these)",
    )  # fmt: skip
    add("--alpha", metavar="LIST", help="only these alphas of the file (default: all)")
    add(
        "--limit",
        default="theory",
        help="at N = infinity: theory (fitted where it knows none), free (fitted), or a number (default %(default)s)",
    )
    add("--seed", default="0", help="of the resampling behind errors of thresholds (default %(default)s)")
    add("--model", metavar="INDEX", help="only this one of several models")
    add("--save", metavar="FILE.h5", help="file of the numbers to write (one model only)")
    add("--out", metavar="FIG", help="figure to draw: .png, .pdf, .svg, .eps or .pgf (one model only)")
    add("--force", action="store_true", help="replace files that exist")


def run(args: argparse.Namespace) -> int:
    """Fit, print, write."""
    of = None if args.of is None else [name.strip() for name in args.of.split(",")]
    model = None if args.model is None else options.integer(0)("model", args.model)
    limit = _limit(args.limit)
    seed = options.seed("seed", args.seed)
    places = {
        name: disk.destination(value)
        for name, value in (("save", args.save), ("out", args.out))
        if value is not None
    }
    if "save" in places and places["save"].suffix not in (".h5", ".hdf5"):
        raise ParameterError(f"save must end in .h5 or .hdf5, got {args.save!r}")
    form = ""
    if "out" in places:  # only now SciPy and matplotlib: --help and wrong options are answered at once
        from bbp import plot

        form = plot.form_of(places["out"])
    disk.require_apart(places, args.files)
    for path in places.values():
        disk.require_free(path, force=args.force)
    found = _fits(args.files, model, {"of": of, "alpha": args.alpha, "limit": limit, "seed": seed})
    if places and len(found) > 1:
        raise FileError(f"the files hold {len(found)} models: a file or a figure shows one (--model INDEX)")
    from bbp.analysis.scaling import table
    from bbp.files import dataset

    program.show("\n\n".join(table(one) for one in found))
    for path in places.values():
        disk.prepare_directory(path.parent)
    if "save" in places:
        dataset.write(places["save"], found[0])
        messages.log.info("wrote %s", places["save"])
    if "out" in places:
        disk.write_bytes(places["out"], plot.render(plot.draw(found[0]), form, 300))
        messages.log.info("wrote %s", places["out"])
    return program.OK


def _limit(value: Any) -> str | float:
    """theory, free, or a number."""
    if isinstance(value, str) and value in ("theory", "free"):
        return value
    try:
        number = float(value) if isinstance(value, str) else value
    except ValueError:
        raise ParameterError(f"limit must be theory, free or a number, got {value!r}") from None
    found = one("limit", finite("limit", number))
    if abs(found) > RATIOS:
        raise ParameterError(f"limit must be at most {RATIOS:g}, got {found:g}")
    return found


def _fits(sources: Sequence[Any], model: int | None, given: dict[str, Any]) -> list[xr.Dataset]:
    """The fits of each model of files or results, joined where there are several."""
    from bbp.analysis import scaling
    from bbp.files import dataset, product

    if given["alpha"] is not None:
        given = {**given, "alpha": options.numbers("alpha", given["alpha"])}
    opened = dataset.open_all(sources)
    whole = opened[0] if len(opened) == 1 else product.join(opened)
    parts = product.split(whole)
    if model is not None:
        if not 0 <= model < len(parts):
            raise ParameterError(f"model must be an index below {len(parts)}, got {model}")
        parts = [parts[model]]
    return [scaling.fit(part, **given) for part in parts]


main = functools.partial(program.program, "fit", add_arguments, run, summary=__doc__ or "", example=EXAMPLE)


def fit(
    source: Any,
    *,
    of: Sequence[str] | None = None,
    alpha: Sequence[float] | None = None,
    limit: str | float = "theory",
    seed: int = 0,
    model: int | None = None,
) -> Any:
    """Laws in N of results of several sizes.

    Parameters
    ----------
    source : xarray.Dataset, path, or several of either
        Sweeps or descents, joined where there are several (`bbp.join`), or a phase diagram with thresholds at finite N.
    of, alpha, limit, seed
        See `bbp.analysis.scaling.fit`.
    model
        Only the model of this index, of several.

    Returns
    -------
    xarray.Dataset
        As `bbp.analysis.scaling.fit`; a list of them, one a model, where there are several.

    Raises
    ------
    theory.checks.ParameterError
        As `bbp.analysis.scaling.fit` and `bbp.join`; FileError for what is no file of bbp's.
    """
    several = source if isinstance(source, list | tuple) else [source]
    of = [of] if isinstance(of, str) else of
    if of is not None and not (
        isinstance(of, list | tuple) and of and all(isinstance(name, str) for name in of)
    ):
        raise ParameterError(f"of must be names of what is fitted, got {shown(of)}")
    model = None if model is None else count("model", model, 0)
    found = _fits(
        several, model, {"of": of, "alpha": alpha, "limit": _limit(limit), "seed": options.seed("seed", seed)}
    )
    return found[0] if len(found) == 1 else found


callable_as(__name__, fit)
if __name__ == "__main__":
    sys.exit(main())
