"""Names of before: one that users were told opens what took its place; any other fails in one line that says the new one."""

import sys
from functools import partial
from importlib.abc import Loader
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any


class Former(Loader):
    """Finder of the former modules of a package, and of names that modules had. Names in the tables are without the package.

    opens: former name -> the module that it opens (none of whose parent's own names it takes), or module:name of an object.
    moved: module -> its former names, which fail and say it.
    gone: former name -> what to use now, in words.
    """

    def __init__(self, package: str, opens: dict[str, str], moved: dict[str, str], gone: dict[str, str]):
        self.opens = {f"{package}.{old}": f"{package}.{new}" for old, new in opens.items()}
        self.says = {f"{package}.{old}": new for old, new in gone.items()}
        for new, names in moved.items():
            self.says |= {f"{package}.{old}": f"{package}.{new}" for old in names.split()}
        self.modules = {name.rpartition(".")[0] for name in (*self.opens, *self.says)} - {package}
        sys.meta_path.insert(0, self)  # ours first: some of these modules exist and lack a name

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """As a finder of `sys.meta_path`: for a name of the tables, or a module that lacks one; None for any other."""
        if name in self.opens or name in self.says:
            return ModuleSpec(name, self)
        spec = PathFinder.find_spec(name, path, target) if name in self.modules else None
        if spec is None or spec.loader is None:
            return None
        # A module that lacks names it had: it says so, and is a package to `import`, which asks for modules that were in it.
        execute = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            vars(module).setdefault("__path__", [])
            vars(module)["__getattr__"] = partial(self.get, name)
            execute(module)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec

    def exec_module(self, module: ModuleType) -> None:
        """Put what took its place where the module was looked for."""
        name = module.__name__
        sys.modules[name] = self.get(*name.rsplit(".", 1))

    def get(self, module: str, name: str) -> Any:
        """What `name` of `module` is now. Raises ImportError, whose words `from module import name` shows too."""
        former = f"{module}.{name}"
        if former in self.says:
            raise ImportError(f"{former} is now {self.says[former]}")
        if former not in self.opens:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        new, _, inside = self.opens[former].partition(":")
        __import__(new)
        return getattr(sys.modules[new], inside) if inside else sys.modules[new]


LABELS = "a tuple (lam, u, y): theory.Network.draw_labels"
MARGINS = "theory.student_margins, which gives a dict"
CURVE = "theory.finite.law(model, alphas, n) with .mean(name) and .std(name)"
MEANS = "theory.finite.law(model, alpha, n), which has means over draws"
ANSWER = "theory.finite.answer(model, alpha=, n=, share=), of which two are given"

THEORY = Former(
    "theory",
    opens={
        "TeacherBranch": "answers:Spectrum",
        "ThresholdMap": "answers:Threshold",
        "bbp_threshold": "general.spectrum:threshold",
        "bulk_edge": "general.spectrum:edge",
        "exact.density.atom": "general.density:atom",
        "exact.density.resolvent": "exact.resolvent",
        "exact.density.signal": "exact.density",
        "finite.law.FiniteLaw": "finite.law:Law",
        "finite.questions": "finite.threshold",
        "finite.typical": "finite.edge",
        "finite.validity": "finite.law",
        "general.GeneralSpectrum": "general.results:Found",
        "general.ModelMap": "answers:Threshold",
        "general.ModelThreshold": "answers:Threshold",
        "general.Spectrum": "general.results:Found",
        "general.network": "model.network",
        "minima.answers": "minima.count",
        "minima.overlaps": "minima.count",
        "minima.transition": "minima.count",
        "model.target": "model.activations",
        "outlier": "exact.outliers:outlier",
        "quenched": "finite.quenched",
        "teacher_branch": "general.spectrum:spectrum",
    },
    moved={
        "answers": "printing",
        "exact.bulk": "exact.conditions",
        "exact.committee": "exact.quadrature",
        "exact.density": "exact.density.density",
        "exact.transition": "exact.alpha_zero",
        "exact.weight_law": "exact.density.weight_law",
        "finite": "finite_n",
        "finite.block": "finite.anisotropy finite.bulk_block",
        "finite.bulk": "finite.label_bulk finite.levels",
        "finite.draw": "finite.random_numbers",
        "finite.many_labels": "finite.extreme_labels",
        "general.clouds": "general.orbits",
        "general.density": "general.resolvent",
        "general.extremes": "general.touching general.wide",
        "general.infimum": "general.floor general.lowest",
        "general.nodes": "general.panels",
        "general.spectrum": "front general.alpha_zero",
        "general.state": "general.symmetric",
        "given.labels": "given.population",
        "minima.saddle": "minima.labels minima.stability",
        "model.activations": "model.readout",
        "path.conditioned": "path.law",
    },
    gone={
        "StudentDirection": MARGINS,
        "exact.outliers.StudentDirection": MARGINS,
        "exact.outliers.student_outliers": MARGINS,
        "finite.block_noise": "theory.finite.law, which has the noise",
        "finite.edge.critical_overlap": "critical_amplitude(model) * n ** (-1/3)",
        "finite.edge.edge_scale": "finite_edge(model, alpha, n).scale",
        "finite.law.FiniteCurve": CURVE,
        "finite.law.finite_curve": CURVE,
        "finite.quenched.QuenchedMean": MEANS,
        "finite.quenched.mean_margin": MEANS,
        "finite.quenched.quenched_mean": MEANS,
        "finite.threshold.alpha_at": ANSWER,
        "finite.threshold.margin_threshold": "theory.finite.threshold(model, n), that of samples",
        "finite.threshold.n_at": ANSWER,
        "finite.threshold.share_at": ANSWER,
        "general.Labels": LABELS,
        "general.ScalarLaw": "theory.general.nodes.given_law(weight, spike, probability, infimum)",
        "general.activation_weight": "lambda lam, u, xi: model.weights(lam, model.outputs(u)), "
        "model = Network(activation=..., a=...)",
        "general.spikes.spikes": "SpikeBlock(dyson, v).spikes(edge)",
        "late_scipy": "scipy itself",
        "model.Labels": LABELS,
        "model.activations.outputs_of": "the reach of the Activation or Target",
        "model.activations.taken": "attains(end) of the Activation or Target",
        "model.network.Labels": LABELS,
        "student_outliers": MARGINS,
    },
)
