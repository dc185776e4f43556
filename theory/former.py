"""Names of before: one that users were told opens what took its place; any other fails in one line that says the new one."""

import sys
from functools import partial
from importlib.abc import Loader
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any


class Former(Loader):
    """Finder of the former modules of a package, and of names that modules had. Former names are without the package.

    opens: module, or module:name of an object -> its former names, which open it; the module above has no such name.
    says: what to use now -> the former names that fail in a line with it.
    """

    def __init__(self, package: str, opens: dict[str, str], says: dict[str, str]):
        self.opens = {
            f"{package}.{old}": f"{package}.{new}" for new, names in opens.items() for old in names.split()
        }
        self.says = {f"{package}.{old}": new for new, names in says.items() for old in names.split()}
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


THEORY = Former(
    "theory",
    opens={
        "answers:Found": "general.GeneralSpectrum general.Spectrum general.results.Found",
        "answers:Prediction": "finite.edge.FiniteEdge finite.quenched.Quenched given.Given path.Conditioned "
        "path.conditioned.Conditioned",
        "answers:Spectrum": "TeacherBranch",
        "answers:Threshold": "ThresholdMap finite.threshold.Answer general.ModelMap general.ModelThreshold",
        "exact:committee_preactivations": "exact.committee_labels",
        "exact.density": "exact.density.signal",
        "exact.resolvent": "exact.density.resolvent",
        "finite.edge": "finite.typical",
        "finite.edge:kernel_variance": "finite.edge.label_variance",
        "finite.large_n": "finite.many_labels",
        "finite.law": "finite.validity",
        "finite.law:Law": "finite.law.FiniteLaw",
        "finite.law:quenched_law": "finite.law.law_of_labels",
        "finite.law:law": "finite.law.finite_law",
        "finite.quenched": "quenched",
        "finite.threshold": "finite.questions",
        "finite.threshold:threshold": "finite.threshold.alpha_bbp_finite",
        "general.correlated": "general.levels",
        "general.cubature": "general.clouds",
        "general.density:atom": "exact.density.atom",
        "general.density:density": "exact.density.density",
        "general.isotropic:given_law": "general.nodes.given_law",
        "general.quadrature:chi_square_law": "exact.committee.chi_square_law",
        "general.spectrum:edge": "bulk_edge exact.bulk.bulk_edge",
        "general.spectrum:spectrum": "teacher_branch exact.outliers.teacher_branch",
        "general.spectrum:threshold": "bbp_threshold exact.transition.bbp_threshold",
        "minima:preactivation_law": "minima.label_law",
        "minima.count": "minima.answers minima.overlaps minima.transition",
        "model.activations": "model.target",
        "path.conditioned": "path.used",
        "model.network": "general.network",
        "model.network:Network": "Committee model.Committee",
    },
    says={
        "SpikeBlock(dyson, v).spikes(edge)": "general.spikes.spikes",
        "a tuple (lam, u, y): theory.Network.draw_labels": "general.Labels model.Labels model.network.Labels",
        "attains(end) of the Activation or Target": "model.activations.taken",
        "critical_amplitude(model) * n ** (-1/3)": "finite.edge.critical_overlap",
        "finite_edge(model, alpha, n).scale": "finite.edge.edge_scale",
        "lambda lam, u, xi: model.weights(lam, model.outputs(u)), of a Network model": "general.activation_weight",
        "scipy itself": "late_scipy",
        "the reach of the Activation or Target": "model.activations.outputs_of",
        "theory.answers": "general.results printing",
        "theory.exact.bulk": "exact.conditions",
        "theory.exact": "exact.committee",
        "theory.exact.transition": "exact.alpha_zero",
        "theory.exact.weight_law": "exact.density.weight_law",
        "theory.finite": "finite_n",
        "theory.finite.answer(model, alpha=, n=, share=), of which two are given": "finite.threshold.alpha_at "
        "finite.threshold.n_at finite.threshold.share_at",
        "theory.finite.block": "finite.anisotropy finite.bulk_block",
        "theory.finite.bulk": "finite.label_bulk finite.levels",
        "theory.finite.draw": "finite.random_numbers",
        "theory.finite.law(model, alpha, n), which has means over draws": "finite.quenched.QuenchedMean "
        "finite.quenched.mean_margin finite.quenched.quenched_mean",
        "theory.finite.law(model, alphas, n) with .mean(name) and .std(name)": "finite.law.FiniteCurve finite.law.finite_curve",
        "theory.finite.law, which has the noise": "finite.block_noise",
        "theory.finite.large_n": "finite.extreme_labels",
        "theory.finite.threshold(model, n), that of samples": "finite.threshold.margin_threshold",
        "theory.general.cubature": "general.orbits",
        "theory.general.density": "general.resolvent",
        "theory.general.extremes": "general.touching general.wide",
        "theory.general.infimum": "general.floor general.lowest",
        "theory.general.quadrature": "exact.quadrature general.panels",
        "theory.general.isotropic.given_law(weight, spike, probability, infimum)": "general.ScalarLaw",
        "theory.general.spectrum": "front general.alpha_zero",
        "theory.general.state": "general.symmetric",
        "theory.given.covariance": "given.population",
        "theory.given.hessian": "given.labels",
        "theory.minima.saddle": "minima.labels minima.stability",
        "theory.model.activations": "model.readout",
        "theory.path.conditioned": "path.law",
        "theory.outliers(model, alpha), a tuple": "outlier exact.outliers.outlier",
        "theory.student_margins, which gives a dict": "StudentDirection student_outliers "
        "exact.outliers.StudentDirection exact.outliers.student_outliers",
    },
)
