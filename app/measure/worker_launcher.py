"""Launcher of benchmark_worker in a process with few imports: `python -P worker_launcher.py`.

`__init__` of the package imports onnx and much else, which would count as memory of the models measured.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

if __name__ == "__main__":
    root = Path(__file__).resolve().parents[2]
    for name, folders in {"passwright": [], **{f"passwright.{p}": [str(root / p)] for p in ("app", "core")}}.items():
        package = ModuleType(name)
        package.__path__ = folders
        sys.modules[name] = package
    import_module("passwright.app.measure.benchmark_worker").main()
