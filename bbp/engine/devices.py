"""The GPUs of this machine, as the environment and the driver list them: JAX would claim one by looking."""

from __future__ import annotations

import os
from pathlib import Path


def gpus() -> list[str]:
    """Names (for CUDA_VISIBLE_DEVICES) of the GPUs this process may use, found without touching them."""
    if os.environ.get("JAX_PLATFORMS", "").startswith("cpu"):
        return []
    if "CUDA_VISIBLE_DEVICES" in os.environ:
        return [name for name in os.environ["CUDA_VISIBLE_DEVICES"].split(",") if name and name != "-1"]
    return [str(index) for index, _ in enumerate(Path("/proc/driver/nvidia/gpus").glob("*"))]
