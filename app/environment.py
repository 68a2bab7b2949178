"""Machine and versions of packages for reports."""

from __future__ import annotations

import platform
from importlib.metadata import version
from pathlib import Path

import onnx
import psutil

CPUINFO = Path("/proc/cpuinfo")


def machine_summary() -> str:
    """Processor, physical cores, memory and operating system."""
    try:
        lines = CPUINFO.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    processor = next(names, platform.processor() or platform.machine())
    memory = psutil.virtual_memory().total / (1 << 30)
    cores = psutil.cpu_count(logical=False) or psutil.cpu_count() or 1
    return f"{processor}, {cores} core{'s' * (cores != 1)}, {memory:.0f} GB, {platform.system()}"


def versions() -> dict[str, str]:
    """The versions of this package and of those that influence results."""
    return {"passwright": version("passwright"), "onnx": onnx.__version__, "onnxruntime": version("onnxruntime")}
