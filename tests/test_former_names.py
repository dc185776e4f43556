"""Names that users were told before: they work, or one line says the new one."""

import ast
import importlib
import pkgutil
from pathlib import Path

import pytest

import bbp
import sims
import theory
from bbp.former import FORMER
from sims.former import SIMS
from theory.former import THEORY

# What README, CHANGELOG, pages, examples and `__all__` of version 0.4 named and lies elsewhere now: with where it works ...
WORKS = {
    "sims.activations.activation_of": "sims.functions:activation_of",
    "sims.card.product_seconds": "sims.machine:product_seconds",
    "sims.instance.labels": "sims.instance:preactivations",
    "sims.krylov.memory.krylov_bytes": "sims.krylov:krylov_bytes",
    "sims.krylov.settings.Settings": "sims.krylov:Settings",
    "sims.limits.free_bytes": "sims.machine:free_bytes",
    "sims.losses.loss_of": "sims.functions:loss_of",
    "sims.observables.Observable": "sims.signal:Observable",
    "sims.operator.operator.hessian_operator": "sims.operator:hessian_operator",
    "sims.pinned.pinned": "sims.backend:pinned",
    "sims.resolution.require_resolved": "sims.checks:require_resolved",
    "sims.targets.target_of": "sims.functions:target_of",
    "theory.TeacherBranch": "theory:Spectrum",
    "theory.ThresholdMap": "theory:Threshold",
    "theory.bbp_threshold": "theory:threshold",
    "theory.bulk_edge": "theory:edge",
    "theory.exact.committee_labels": "theory.exact:committee_preactivations",
    "theory.exact.density.atom": "theory:atom",
    "theory.exact.density.resolvent.solve": "theory.exact.resolvent:solve",
    "theory.exact.density.signal.level_overlap": "theory.exact.density:level_overlap",
    "theory.finite.law.FiniteLaw": "theory.finite.law:Law",
    "theory.finite.law.law_of_labels": "theory.finite.law:quenched_law",
    "theory.finite.law.finite_law": "theory.finite:law",
    "theory.finite.questions.quantile": "theory.finite:quantile",
    "theory.finite.threshold.Answer": "theory:Threshold",
    "theory.finite.threshold.alpha_bbp_finite": "theory.finite:threshold",
    "theory.finite.typical.pole_probability": "theory.finite.edge:pole_probability",
    "theory.finite.validity.doubt": "theory.finite.law:doubt",
    "theory.general.GeneralSpectrum": "theory.answers:Found",
    "theory.general.ModelMap": "theory:Threshold",
    "theory.general.ModelThreshold": "theory:Threshold",
    "theory.general.Spectrum": "theory.answers:Found",
    "theory.general.network.Network": "theory:Network",
    "theory.minima.answers.complexity": "theory.minima:complexity",
    "theory.minima.label_law": "theory.minima:preactivation_law",
    "theory.minima.overlaps.most_numerous": "theory.minima:most_numerous",
    "theory.minima.transition.threshold": "theory.minima:threshold",
    "theory.model.Committee": "theory:Network",
    "theory.model.target.Target": "theory:Target",
    "theory.path.Conditioned": "theory.answers:Prediction",
    "theory.path.used.closure": "theory.path:closure",
    "theory.quenched.Quenched": "theory.answers:Prediction",
    "theory.quenched.quenched": "theory.finite:quenched",
    "theory.teacher_branch": "theory:spectrum",
}
# ... or that it fails.
FAILS = """
bbp.console.errors.FileError bbp.console.errors.Interrupted bbp.console.errors.RunError bbp.files.atomic.sealed bbp.store.load
bbp.store.load_all sims.descent.path.Path sims.descent.path.descend sims.one_draw.GridResult theory.StudentDirection
theory.exact.density.weight_law.weight_law
theory.exact.alpha_zero.alpha_zero_map theory.exact.conditions.split theory.finite.block_noise.ladder
theory.finite.edge.edge_scale theory.finite.extreme_labels.LabelTail theory.finite.law.FiniteCurve
theory.finite.questions.alpha_at theory.finite.threshold.margin_threshold theory.finite_n.law theory.finite_n.quantile
theory.finite_n.quenched theory.finite_n.threshold theory.front.alpha_zero theory.front.edge theory.general.Labels
theory.general.ScalarLaw theory.general.activation_weight theory.general.floor.floor theory.general.network.Labels
theory.general.symmetric.Symmetric theory.general.wide.convex theory.model.Labels theory.path.law.lowest_pairs
theory.quenched.QuenchedMean theory.quenched.mean_margin theory.quenched.quenched_mean theory.student_outliers
""".split()
TABLES = [name for table in (THEORY, SIMS) for name in table.says] + list(FORMER)


def asked(name):
    """`from module import name`, as users write it."""
    module, _, last = name.rpartition(".")
    space = {}
    exec(f"from {module} import {last} as found", space)
    return space["found"]


@pytest.mark.parametrize("name", WORKS)
def test_a_name_that_users_were_told_works(name):
    assert asked(name) is pkgutil.resolve_name(WORKS[name])


@pytest.mark.parametrize("name", [*FAILS, *TABLES])
def test_what_went_or_moved_says_in_one_line_what_takes_its_place(name):
    with pytest.raises(ImportError, match=r"^(theory|sims|bbp)\.[^ \n]+ is now [^\n]+$") as caught:
        importlib.import_module(name) if name in TABLES else asked(name)
    new = str(caught.value).split(" is now ")[1]
    if new.replace(".", "").isidentifier():
        pkgutil.resolve_name(new)


def names_of(module):
    """What the text of a module binds at its top, and its submodules: not what former names that were asked for have set."""
    path = Path(module.__file__)
    found = {other.stem for other in path.parent.iterdir()} if path.stem == "__init__" else set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            found |= {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        else:
            found |= {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}
    return found


def test_a_former_module_takes_no_name_of_the_module_that_it_was_in():
    """`import a.b` sets b in a."""
    for old, new in [*THEORY.opens.items(), *SIMS.opens.items()]:
        parent, _, last = old.rpartition(".")
        assert ":" in new or last not in names_of(importlib.import_module(parent)), old


def test_names_that_are_nowhere_are_told_as_ever():
    for package in (theory, sims, bbp):
        with pytest.raises(AttributeError, match=f"module '{package.__name__}' has no attribute 'nothing'"):
            getattr(package, "nothing")  # noqa: B009
    with pytest.raises(ModuleNotFoundError, match=r"No module named 'theory\.nothing'"):
        importlib.import_module("theory.nothing")


def test_first_names_of_the_front():
    model = theory.Network(a=0.5)
    assert theory.teacher_branch(model, 3.0).outlier == theory.outliers(model, 3.0)[0].value
