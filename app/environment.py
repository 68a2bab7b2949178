"""Machine and versions of packages."""

from __future__ import annotations

import platform
from importlib.metadata import version
from pathlib import Path

import onnx

from ..core.errors import UsageError
from ..core.support.suggestions import did_you_mean
from ..passes.targets import QUANTIZATION_TARGETS, QuantizationTarget

CPUINFO = Path("/proc/cpuinfo")
VNNI_FLAGS = frozenset({"avx512_vnni", "avx_vnni"})  # of Linux


def quantization_target(name: str = "") -> QuantizationTarget:
    """The quantization target of that name; by default, that of this machine.

    Where the flags of an x86 processor are unknown, VNNI counts as missing. Raises UsageError for an unknown name.
    """
    if name and name not in QUANTIZATION_TARGETS:
        near = did_you_mean(name, QUANTIZATION_TARGETS) or f" (there are {', '.join(QUANTIZATION_TARGETS)})"
        raise UsageError(f"--for {name}: no target has that name{near}")
    machine = platform.machine().lower()
    if not name and machine in {"x86_64", "amd64", "i386", "i686", "x86"}:
        name = "x86-vnni" if VNNI_FLAGS & set(_cpu_field("flags").split()) else "x86"
    elif not name:
        name = "arm" if machine.startswith(("arm", "aarch64")) else "portable"
    return QUANTIZATION_TARGETS[name]


def _cpu_field(name: str) -> str:
    """A field of the first processor in Linux's list; "" where there is none."""
    try:
        lines = CPUINFO.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(name)), "")


def machine_summary() -> str:
    """Processor, physical cores, memory and operating system."""
    import psutil  # noqa: PLC0415 - takes a while

    processor = _cpu_field("model name") or platform.processor() or platform.machine()
    memory = psutil.virtual_memory().total / (1 << 30)
    cores = psutil.cpu_count(logical=False) or psutil.cpu_count() or 1
    return f"{processor}, {cores} core{'s' * (cores != 1)}, {memory:.0f} GB, {platform.system()}"


def versions() -> dict[str, str]:
    """The versions of this package and of those that influence results."""
    return {"passwright": version("passwright"), "onnx": onnx.__version__, "onnxruntime": version("onnxruntime")}
