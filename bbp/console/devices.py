"""What is said of the devices that JAX finds or does not find: a line each."""

from __future__ import annotations

import logging
import os
import pkgutil
from importlib import import_module
from pathlib import Path

from bbp.console.progress import log
from bbp.console.streams import one_line

_LOOKS = "jax._src.xla_bridge"  # JAX's module that looks for devices, and its logger
_PLUGINS = "jax_plugins"
_NAMES = {"cuda", "gpu"}
GPU = "pip install 'hessian-bbp[gpu]'"


class _Plugin(logging.Filter):
    """JAX tells of a plugin that does not start by a traceback, and goes on without: a line instead, or none in a process of
    a run, whose parent has told it."""

    tell = True

    def filter(self, record: logging.LogRecord) -> bool:
        if not record.exc_info or "plugin" not in record.getMessage():
            return True
        if self.tell and (not _asked() or _asked() - _NAMES):  # else an error follows, with the same words
            log.warning("no GPU is used: %s", _why(one_line(record.exc_info[1])))
        return False


_PLUGIN = _Plugin()


def heed(*, tell: bool = True) -> None:
    """From here on a plugin of JAX that does not start is told of in a line of the logger "bbp", or not at all."""
    _PLUGIN.tell = tell
    logging.getLogger(_LOOKS).addFilter(_PLUGIN)  # once: a filter is added only where it is not


def driver() -> bool:
    """Whether a driver of NVIDIA is loaded here, or passed into this container."""
    return any(Path(place).exists() for place in ("/proc/driver/nvidia", "/dev/nvidiactl", "/dev/dxg"))


def missing(error: BaseException) -> str | None:
    """In words that JAX found no device to compute on, if that is what `error` says, whatever its type; else None."""
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_globals.get("__name__") == _LOOKS:
            break
        trace = trace.tb_next
    else:
        return None
    asked = os.environ.get("JAX_PLATFORMS", "")
    where = f" (JAX_PLATFORMS={asked})" if asked else ""
    why = _why("") if _asked() & _NAMES else str(error)
    return "; ".join(filter(None, [f"JAX finds no device to compute on{where}", why or str(error)]))


def exhausted(error: BaseException) -> str | None:
    """In words that a device's memory was too small, if that is what `error` says; else None."""
    if "RESOURCE_EXHAUSTED" not in str(error):
        return None
    return import_module("sims.machine").exhausted(error)  # imported only then: it takes a second


def _asked() -> set[str]:
    """Platforms that the environment asks for."""
    return {name.strip() for name in os.environ.get("JAX_PLATFORMS", "").split(",")} - {""}


def _why(said: str) -> str:
    """Why there is no GPU: what is missing here, or else what JAX said."""
    if not _has_plugin():
        return f"JAX has no plugin for CUDA ({GPU})"
    if not driver():
        return "no driver of NVIDIA is loaded here (JAX_PLATFORMS=cpu asks for none)"
    return said


def _has_plugin() -> bool:
    try:
        places = import_module(_PLUGINS).__path__
    except ImportError:
        return False
    return any("cuda" in module.name for module in pkgutil.iter_modules(places))
