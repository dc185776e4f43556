"""The API reference is complete: every function and class of every `__all__`, and every public one of any module, is in it.

That each entry made it into the site is checked when that is built (docs/reference.py, `check`).
"""

import re
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from bbp import __version__
from bbp.files import variables

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def site():
    """The modules of docs/ that make pages."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(DOCS))
        import docstrings
        import pages
        import reference

        yield reference, docstrings, pages
    for name in ("reference", "docstrings", "pages"):
        sys.modules.pop(name, None)


def test_every_exported_name_is_documented(site):
    reference, *_ = site
    exported = reference.exported()
    assert {"theory.Network", "theory.outliers", "theory.general.Network"} <= set(exported)
    missing = {name: home for name, home in exported.items() if home not in reference.documented()}
    ours = {name: home for name, home in missing.items() if home.partition(".")[0] in reference.PACKAGES}
    assert not ours


def test_a_module_that_was_added_is_seen(site):
    reference, *_ = site
    names = {module.name for module in reference.modules()}
    assert {
        "theory.exact.bulk",
        "theory.finite.quenched",
        "sims.krylov.solver",
        "bbp.exports.tables",
    } <= names


def test_pages_hold_a_directive_for_each_name(site, tmp_path):
    reference, *_ = site
    reference.write(tmp_path)
    text = "\n".join(page.read_text() for page in tmp_path.glob("*.rst"))
    for name in reference.documented():
        assert f":: {name}\n" in text


@pytest.mark.parametrize(
    ("text", "converted"),
    [
        ("Of p* and `code`.", "Of p\\* and ``code``."),
        ("Edge.\n\n    1/g = z\n    t = 1", "Edge.\n\n::\n\n    1/g = z\n    t = 1"),
        ("Words\n\na   the one\nb   the other", "Words\n\n::\n\n    a   the one\n    b   the other"),
        ("One.\n\n>>> 1 + 1\n2", "One.\n\n>>> 1 + 1\n2"),
        ("* first\n  goes on\n* second", "* first goes on\n\n* second"),
    ],
)
def test_docstrings_become_restructured_text(site, text, converted):
    assert site[1].converted(text).strip() == converted


def test_names_become_links(site):
    assert ":py:obj:`theory.exact.bulk.edge_resolvent <theory.exact.bulk.edge_resolvent>`" in site[
        1
    ].converted("See `theory.exact.bulk.edge_resolvent`.")


def test_every_variable_is_on_the_page_of_files(site):
    """Whatever a program needs of a file is told, by its name in memory."""
    page = site[2].layouts()
    for needed in variables.REQUIRED.values():
        for name in needed:
            part = re.sub("_(error|low|high)$", "", name.removeprefix("widths_"))
            assert part in page, name


def test_one_version(site):
    """The package, the citation and the newest heading of the changes name one version."""
    root = DOCS.parent
    cited = re.search(r"^version: (\S+)$", (root / "CITATION.cff").read_text(), re.MULTILINE).group(1)
    newest = re.search(r"^## (\S+)", (root / "CHANGELOG.md").read_text(), re.MULTILINE).group(1)
    assert cited == newest == __version__


def test_executed_pages_are_notebooks(site):
    """Each with the cells of its page, valid, without a role of Sphinx; the page links to it below its title."""
    *_, pages = site
    pytest.importorskip("myst_nb", reason="with the extra docs alone")
    nbformat = pytest.importorskip("nbformat")
    found = pages.executed(DOCS)
    assert {page.stem for page in DOCS.glob("tutorials/*.md")} | {"ten_lines"} == {
        page.stem for page in found
    }
    for page in found:
        made = nbformat.reads(pages.notebook(page), 4)
        nbformat.validate(made)
        code = [cell for cell in made.cells if cell.cell_type == "code"]
        assert len(code) == page.read_text().count("```{code-cell}") > 0
        assert not any("{doc}" in cell.source for cell in made.cells)
        text = [page.read_text()]
        pages.offer_notebook(SimpleNamespace(srcdir=DOCS), str(page.relative_to(DOCS).with_suffix("")), text)
        assert (
            f"\n\n{{download}}`This page as a notebook </_generated/notebooks/{page.stem}.ipynb>`\n"
            in text[0]
        )


@pytest.mark.slow
def test_ten_lines_run_as_a_notebook(site, tmp_path, monkeypatch):
    *_, pages = site
    pytest.importorskip("myst_nb", reason="with the extra docs alone")
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    monkeypatch.setenv("PYTHONPATH", str(DOCS.parent))
    made = nbformat.reads(pages.notebook(DOCS / "ten_lines.md"), 4)
    nbclient.NotebookClient(made, timeout=120, resources={"metadata": {"path": str(tmp_path)}}).execute()
    outputs = [output for cell in made.cells if cell.cell_type == "code" for output in cell.outputs]
    assert sum("image/png" in output.get("data", {}) for output in outputs) == 2
