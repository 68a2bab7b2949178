"""The machine that figures were measured on, in a line.

The versions that a report is to be read with.
"""

from __future__ import annotations

import platform
from importlib.metadata import version
from pathlib import Path

import onnx
import psutil

CPUINFO = Path("/proc/cpuinfo")


def machine_summary() -> str:
    """Its processor, cores, memory and system."""
    memory = psutil.virtual_memory().total / (1 << 30)
    cores = physical_cores()
    return f"{_processor_name()}, {cores} core{'s' * (cores != 1)}, {memory:.0f} GB, {platform.system()}"


def physical_cores() -> int:
    """How many there are, not counting those that share one."""
    return psutil.cpu_count(logical=False) or psutil.cpu_count() or 1


def _processor_name() -> str:
    try:
        lines = CPUINFO.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.processor() or platform.machine())


def versions() -> dict[str, str]:
    """Of this package and of those that decide on results."""
    return {"passwright": version("passwright"), "onnx": onnx.__version__, "onnxruntime": version("onnxruntime")}
