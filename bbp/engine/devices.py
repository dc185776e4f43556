"""The GPUs of this machine, as the environment and the driver list them: JAX would claim one by looking."""

from __future__ import annotations

import os
import re
from itertools import takewhile
from pathlib import Path

_NAME = re.compile(r"[0-9]+|(GPU|MIG)-[0-9a-fA-F/-]+")


def gpus() -> list[str]:
    """Names (for CUDA_VISIBLE_DEVICES) of the GPUs this process may use, found without touching them.

    CUDA counts the names of that variable up to the first that is none ("NoDevFiles", "-1", nothing), and where there is
    no driver there is no GPU, whatever it says.
    """
    if os.environ.get("JAX_PLATFORMS", "").startswith("cpu") or not driver():
        return []
    if "CUDA_VISIBLE_DEVICES" in os.environ:
        names = [name.strip() for name in os.environ["CUDA_VISIBLE_DEVICES"].split(",")]
        return list(takewhile(_NAME.fullmatch, names))
    return [str(index) for index, _ in enumerate(Path("/proc/driver/nvidia/gpus").glob("*"))]


def driver() -> bool:
    """Whether a driver of NVIDIA is loaded here, or passed into this container."""
    return any(Path(place).exists() for place in ("/proc/driver/nvidia", "/dev/nvidiactl", "/dev/dxg"))
