"""Measured runs, and the fresh processes that measure them.

Nothing here imports onnx: a process inherits its parent's peak memory, so the parent stays small.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

HERE = Path(__file__).parent
MAX_COMPARED_NODES = 5000  # models up to this size are run before and after


@dataclass(frozen=True)
class Run:
    """One run: peak and seconds of a process of its own."""

    seconds: float
    import_seconds: float
    peak_bytes: int
    nodes: int
    original_nodes: int


@dataclass
class ToolRuns:
    """All runs of one tool on one model; `failure` says why there are no more."""

    completed: list[Run] = field(default_factory=list[Run])
    failure: str | None = None

    @property
    def seconds(self) -> float | None:
        """The median; None if any run failed."""
        return None if self.failure or not self.completed else median(r.seconds for r in self.completed)

    @property
    def import_seconds(self) -> float | None:
        return median(r.import_seconds for r in self.completed) if self.completed else None

    @property
    def peak_bytes(self) -> float:
        return median(r.peak_bytes for r in self.completed)

    @property
    def nodes(self) -> int:
        return self.completed[-1].nodes


@dataclass
class ModelRow:
    """A model, and how each tool did on it. `difference`: None if not tried, "" or the fault of passwright's."""

    model: str
    bytes: int
    tools: dict[str, ToolRuns]
    difference: str | None = None

    @property
    def nodes(self) -> int:
        return next((r.original_nodes for runs in self.tools.values() for r in runs.completed), 0)


def run_script(name: str, *arguments: str | Path, timeout: float | None = None) -> str | None:
    """Run a script of this folder. None if all went well, else why it failed, in a line."""
    command = [sys.executable, HERE / name, *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)
    except subprocess.TimeoutExpired:
        return f"> {timeout:g} s"
    if done.returncode < 0:
        return f"fails: signal {-done.returncode}"
    lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
    return f"fails: {lines[-1] if lines else done.returncode}" if done.returncode else None


def measure_tools(model: Path, tools: Iterable[str], repeats: int, timeout: float, folder: Path) -> ModelRow:
    """Run the tools in turn, `repeats` times round; one that fails on this model is not tried again."""
    row = ModelRow(model.stem, model.stat().st_size, {tool: ToolRuns() for tool in tools})
    result, optimized = folder / "result.json", folder / "optimized.onnx"
    for _ in range(repeats):
        for tool, runs in row.tools.items():
            if runs.failure:
                continue
            save = ["--save", optimized] if tool == "passwright" and row.difference is None else []
            runs.failure = run_script("measure.py", tool, model, result, *save, timeout=timeout)
            if runs.failure is None:
                runs.completed.append(Run(**json.loads(result.read_text())))
                if save and runs.completed[-1].original_nodes <= MAX_COMPARED_NODES:
                    row.difference = run_script("output_agreement.py", model, optimized) or ""
    return row


def make_mixed_models(sizes: Iterable[int], folder: Path) -> Iterator[Path]:
    """Generate them, unless they are there."""
    for nodes in sizes:
        path = folder / f"mixed_{nodes}.onnx"
        if not path.exists() and (failure := run_script("mixed_model.py", str(nodes), path)):
            sys.exit(f"mixed_model.py {nodes} {failure}")
        yield path
