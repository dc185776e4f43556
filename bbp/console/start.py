"""The first thing a program does, before its seconds of imports. Imports the standard library alone."""

from __future__ import annotations

import importlib.util
import os
import sys

from bbp.console import signals, streams

try:
    import resource
except ImportError:  # not a POSIX system: no such limit
    resource = None  # type: ignore[assignment]

ADDRESSES = (
    2 * 10**9
)  # bytes of address space below which OpenBLAS and XLA abort the process as they start their threads


def is_program() -> bool:
    """Whether bbp is imported by `bbp ...` or `python -m bbp...`, and not by a process that one of these has spawned.

    sys.argv[0] is "-m" only while Python looks for the module that -m names.
    """
    words, name = sys.orig_argv, (getattr(sys, "argv", None) or [""])[0]
    module = words[words.index("-m") + 1] if "-m" in words[:-1] else ""
    by_name = os.path.basename(name) == "bbp" and name in words
    return by_name or (name == "-m" and module.partition(".")[0] == "bbp")


def stranger() -> str:
    """One line where Python would take `theory` or `sims` from a folder of the user's; nothing where they are ours."""
    home = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
    for name in ("theory", "sims"):
        spec = importlib.util.find_spec(name)
        if spec is None or spec.origin is None:
            return f"the package {name!r}, installed together with bbp, is not beside it in {home!r}"
        if os.path.dirname(os.path.dirname(os.path.realpath(spec.origin))) != home:
            place = os.path.dirname(spec.origin) if spec.submodule_search_locations else spec.origin
            return (
                f"{place!r} hides the package {name!r} that belongs to bbp: rename it, or start"
                " bbp in another directory"
            )
    return ""


def begin() -> None:
    """Streams fit for use, signals answered; SystemExit (1), with a line, where the imports to come would abort."""
    streams.prepare()
    signals.own()
    # A notebook's backend, inherited, breaks the import of matplotlib; no window is ever opened here.
    os.environ["MPLBACKEND"] = "agg"
    if resource is None:
        return
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit != resource.RLIM_INFINITY and limit < ADDRESSES:
        sys.stderr.write(
            f"bbp: error: the address space is limited to {limit / 1e9:.2g} GB (ulimit -v): {ADDRESSES / 1e9:g} GB are needed\n"
        )
        raise SystemExit(1)
