"""Modules of before: `import` of one fails in one line that says where it is now."""

from typing import Any

MOVED = {
    "bbp.__main__": "console.commands",
    "bbp.analysis.comparison": "analysis.comparison_table",
    "bbp.analysis.estimates": "analysis.bootstrap exports.digits",
    "bbp.analysis.phase": "experiments.phase_file",
    "bbp.analysis.scaling": "analysis.scaling_table",
    "bbp.analysis.spectrum": "analysis.edge_statistics analysis.given",
    "bbp.analysis.summary": "analysis.finite_theory analysis.theory_curves",
    "bbp.console.messages": "console.devices console.errors console.progress engine.cache",
    "bbp.console.options": "console.grids",
    "bbp.console.process": "console.signals console.start console.streams",
    "bbp.engine.run": "engine.units engine.tasks",
    "bbp.experiments.base": "engine.experiment",
    "bbp.experiments.descent": "experiments.descent_file",
    "bbp.experiments.program": "experiments.carry_out",
    "bbp.experiments.phase": "experiments.phase_minima",
    "bbp.experiments.samples": "experiments.cost",
    "bbp.experiments.sweep": "experiments.assemble",
    "bbp.explorer.curves": "explorer.networks explorer.phase_map",
    "bbp.explorer.files": "explorer.descentfile explorer.sweepfile",
    "bbp.explorer.samples": "explorer.jobs explorer.limits explorer.sampler",
    "bbp.explorer.work": "explorer.worker",
    "bbp.export": "exports.export",
    "bbp.exports.tables": "exports.text",
    "bbp.files.dataset": "files.look",
    "bbp.files.disk": "files.atomic files.outputs",
    "bbp.files.product": "analysis.join",
    "bbp.files.variables": "files.provenance",
    "bbp.gallery": "gallery.base gallery.entries",
    "bbp.gallery.descent": "gallery.descent_theory gallery.lifetime",
    "bbp.gallery.finite_size": "gallery.edge gallery.eigenvalues gallery.finite gallery.phi gallery.scatter gallery.spectra",
    "bbp.gallery.overlaps": "gallery.activations gallery.spectral",
    "bbp.gallery.recovery": "gallery.growth",
    "bbp.gallery.thresholds": "gallery.survives",
    "bbp.open(path), of several models bbp.files.product.split(bbp.open(path))": "store",
    "bbp.plots.layout": "plots.legends plots.room",
    "bbp.plots.style": "plots.render",
    "bbp.plots.sweep": "plots.compare",
    "bbp.plots.sweep, descent or phase": "plots.panels",
    "sims itself": "late_sims",
}
FORMER = {f"bbp.{old}": new for new, names in MOVED.items() for old in names.split()}


def find_spec(name: str, path: Any = None, target: Any = None) -> None:
    """As the last finder of `sys.meta_path`: ImportError for a module that moved."""
    if name in FORMER:
        raise ImportError(f"{name} is now {FORMER[name]}")
