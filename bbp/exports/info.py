"""What is in a file: what `bbp info` prints."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
import xarray as xr

from bbp import store
from bbp.analysis import summary
from bbp.console import program
from bbp.console.errors import FileError
from bbp.engine.experiment import short
from bbp.engine.parts import Parts
from bbp.engine.tasks import Results
from bbp.experiments import models
from bbp.exports import about
from bbp.files import dataset, product
from bbp.files.variables import DONE, FAILED, NOT_RUN


def run(args: argparse.Namespace) -> int:
    """Describe the file on stdout."""
    path = Path(args.file)
    if not path.exists() and Parts(path).exist():
        program.show(_unfinished(path, Parts(path)))
        return program.OK
    if path.name.endswith(Parts.ENDING) and path.is_dir():
        whole = str(path).removesuffix(Parts.ENDING)
        raise FileError(f"{args.file!r} is the directory of an unfinished run: bbp info {whole}")
    found = dataset.open(path)
    form = found.attrs["format"]
    if form != store.FORMAT:
        if args.table or args.json:
            raise FileError(f"{args.file!r} is a {form} file: --table and --json are for sweeps")
        program.show(about.about(found))
        return program.OK
    sweeps = product.split(found)
    if args.json:
        print(json.dumps([dataset.config(sweep) for sweep in sweeps], indent=1))
        return program.OK
    program.show("\n\n".join(describe(sweep) for sweep in sweeps))
    program.show("\n" + "\n".join(about.listed(found)))
    if args.table:
        program.show("\n" + "\n\n".join(summary.table(sweep) for sweep in sweeps))
    return program.OK


def describe(sweep: xr.Dataset) -> str:
    """A sweep in some lines of text."""
    status, attributes = sweep.status.values, sweep.attrs
    seconds = sweep.unit_seconds.values if "unit_seconds" in sweep else np.zeros(0)
    versions = _versions(attributes.get("versions"))
    counts = [np.sum(status == code) for code in (DONE, FAILED, NOT_RUN)]
    lines = {
        "sweep": f"{models.words(models.of(sweep))}, {models.threshold_words(sweep.alpha_bbp, sweep.kind)}",
        "finished": "yes" if attributes.get("finished") else "no",
        "N": short(sweep.n.values.tolist()),
        "alpha": short(sweep.alpha.values.tolist()),
        "samples": "{} a point; {} done, {} failed, {} not run".format(sweep.sizes["sample"], *counts),
        "eigenpairs": str(sweep.sizes["eigenpair"]),
        "seed": f"{attributes.get('seed')} ({attributes.get('prng', 'unknown')})",
        "computed": f"in {attributes.get('dtype')} on {attributes.get('device')}, "
        f"{len(seconds)} units, {program.duration(float(seconds.sum()))}",
        "written": f"{attributes.get('created')} at commit {attributes.get('commit')}",
        "versions": ", ".join(f"{name} {number}" for name, number in versions.items()),
    }
    if (status == FAILED).any():
        lines["first failure"] = str(sweep.reason.values[status == FAILED][0])
    return "\n".join(f"{name:14}{text}" for name, text in lines.items())


def _versions(text: object) -> dict[str, str]:
    """The versions of packages in this JSON text; none where it is of another shape."""
    try:
        found = json.loads(str(text))
    except (ValueError, RecursionError):
        return {}
    return {str(name): str(number) for name, number in found.items()} if isinstance(found, dict) else {}


def _unfinished(path: Path, parts: Parts) -> str:
    plan, results = parts.read_plan(), Results(parts.load())
    return (
        f"{str(path)!r}, a {plan['experiment']}, is not written yet: {results.samples} samples in"
        f" {len(results.units)} units are kept in {str(parts.path)!r}, {results.failed} failed"
    )
