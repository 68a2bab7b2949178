"""The machine, and versions of packages."""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterator
from functools import cache
from importlib.metadata import PackageNotFoundError, entry_points, version
from pathlib import Path
from typing import TYPE_CHECKING

from ...core.errors import UsageError

if TYPE_CHECKING:
    from ...passes.targets import QuantizationTarget

SOURCE_FOLDERS = tuple(Path(__file__).parents[2] / name for name in ("app", "core", "passes"))
"""The folders of this package whose code affects results."""
CPUINFO = Path("/proc/cpuinfo")
VNNI_FLAGS = frozenset({"avx512_vnni", "avx_vnni"})  # on Linux
VECTOR_FLAGS = ("amx", "asimd", "avx", "bf16", "f16c", "fma", "i8mm", "sse4", "sve")
"""First letters of the flags of instructions for which onnxruntime has special kernels."""


def quantization_target(name: str = "") -> QuantizationTarget:
    """The named quantization target; by default, this machine.

    If the flags of an x86 processor are unknown, VNNI is assumed to be missing. Raises UsageError for an unknown name.
    """
    from ...core.support.suggestions import did_you_mean  # noqa: PLC0415 - used seldom
    from ...passes.targets import QUANTIZATION_TARGETS  # noqa: PLC0415 - imports onnx

    if name and name not in QUANTIZATION_TARGETS:
        near = did_you_mean(name, QUANTIZATION_TARGETS) or f" (there are {', '.join(QUANTIZATION_TARGETS)})"
        raise UsageError(f"--target {name}: no target has that name{near}")
    machine = platform.machine().lower()
    if not name and machine in {"x86_64", "amd64", "i386", "i686", "x86"}:
        name = "x86-vnni" if VNNI_FLAGS & set(_cpu_field("flags").split()) else "x86"
    elif not name:
        name = "arm" if machine.startswith(("arm", "aarch64")) else "portable"
    return QUANTIZATION_TARGETS[name]


def _cpu_field(name: str) -> str:
    """A field of the first processor in Linux's list, or ""."""
    try:
        lines = CPUINFO.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(name)), "")


def machine_summary() -> str:
    """The processor, physical cores, memory and operating system."""
    import psutil  # noqa: PLC0415 - used seldom

    processor = _cpu_field("model name") or platform.processor() or platform.machine()
    memory = psutil.virtual_memory().total / (1 << 30)
    cores = psutil.cpu_count(logical=False) or psutil.cpu_count() or 1
    return f"{processor}, {cores} core{'s' * (cores != 1)}, {memory:.0f} GB, {platform.system()}"


def vector_instructions() -> list[str]:
    """The known flags of this processor that decide which kernels onnxruntime runs."""
    flags = f"{_cpu_field('flags')} {_cpu_field('Features')}".split()  # on x86 and on ARM
    return sorted(flag for flag in flags if flag.startswith(VECTOR_FLAGS))


def own_files() -> Iterator[Path]:
    """Yield the source files of this package that affect results, in order."""
    for folder in SOURCE_FOLDERS:
        yield from sorted(folder.rglob("*.py"))


_version = cache(version)  # reading metadata takes milliseconds


def plugin_versions() -> dict[str, str]:
    """The versions of imported plugin packages; plugins are imported when they are named."""
    from ...core.ort.engines import ENGINE_GROUP  # noqa: PLC0415 - seldom needed
    from ...core.plugins.pass_registry import ENTRY_POINT_GROUP  # noqa: PLC0415 - imports onnx

    points = (p for group in (ENTRY_POINT_GROUP, ENGINE_GROUP) for p in entry_points(group=group))
    found = {p.dist.name: p.dist.version for p in points if p.dist is not None and p.module in sys.modules}
    return dict(sorted(found.items()))


def installed_version(package: str) -> str:
    """The version of a package; "" if it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def versions() -> dict[str, str]:
    """The versions of this package and of packages that influence results."""
    return {name: _version(name) for name in ("passwright", "onnx", "onnxruntime")}
