"""Configuration of the site: Sphinx, pages in Markdown (MyST), tutorials executed while it is built."""

from __future__ import annotations

import os
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path[:0] = [str(ROOT), str(HERE)]
# Tutorials run in kernels of their own: they find the package, and no thread of a BLAS keeps the others waiting.
os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "20")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# What JAX compiles for one tutorial serves the processes of the others.
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(HERE / "_build" / "jax"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
os.environ["PYDEVD_DISABLE_FILE_VALIDATION"] = (
    "1"  # the kernel's debugger warns about frozen modules otherwise
)

import docstrings  # noqa: E402
import pages  # noqa: E402
import reference  # noqa: E402

from bbp import __version__  # noqa: E402

project = "hessian-bbp"
author = "the authors of hessian-bbp"
copyright = author
release = version = __version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.mathjax",
    "sphinx.ext.viewcode",
    "sphinx-mathjax-offline",  # MathJax and its fonts beside the pages: formulas need no network
]
source_suffix = {".md": "myst-nb", ".rst": "restructuredtext"}
exclude_patterns = ["_build", "_generated/include", "_generated/notebooks"]
nitpicky = True
nitpick_ignore_regex = reference.FOREIGN
suppress_warnings = ["ref.python"]  # types of one name in two modules, in signatures
myst_enable_extensions = ["dollarmath", "amsmath", "colon_fence", "deflist", "fieldlist"]
myst_heading_anchors = 4
myst_dmath_double_inline = True

nb_execution_mode = "cache"
nb_execution_cache_path = str(HERE / "_build" / "cache")
nb_execution_timeout = 180
nb_execution_raise_on_error = True
nb_merge_streams = True
nb_execution_in_temp = True

autodoc_typehints = "signature"
autodoc_preserve_defaults = True
autodoc_type_aliases = {name: name for name in ("ArrayLike", "Array", "Values", "Model", "Locking")}
autodoc_member_order = "bysource"
python_use_unqualified_type_names = True
maximum_signature_line_length = 90

html_theme = "furo"
html_title = f"hessian-bbp {release}"
html_theme_options = {"navigation_with_keys": True}
html_copy_source = False
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_search_scorer = str(HERE / "_static" / "scorer.js")
# The network is not looked at: links that leave the site are checked for their form alone.
linkcheck_ignore = [r"https?://.*"]


def setup(app) -> None:
    """Pages made from the code are written before any page is read; docstrings become restructured text."""
    pages.write(HERE)
    app.connect("source-read", pages.offer_notebook)
    app.connect("autodoc-process-docstring", docstrings.process)
    app.connect("build-finished", reference.check)
