"""Modules that commands import, which is most of the time that they take on small models."""

import json
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import onnx
import pytest
from passwright.app.cli.entry import COMMANDS
from passwright.core.processes.process_limits import IDLE_THREADS
from passwright.core.processes.worker_process import WorkerProcess
from rewriting import load

FRAMEWORK = {"typer", "click", "shellingham", "annotated_doc", "typing_extensions"}  # of commands
FOR_HELP = {"passwright"} | {
    f"passwright.{name}"
    for name in (
        "app", "core", "core.processes", "core.support", "core.errors",
        "core.processes.process_limits", "core.processes.supervisor", "core.support.context_values",
        "core.support.gc_pause", "core.support.printable_text", "core.support.supervision",
        "app.cli", "app.cli.entry", "app.cli.exit_codes", "app.cli.help_pages", "app.cli.signals",
        "app.cli.standard_streams",
    )
}  # fmt: skip
SLOW = {
    "typer.rich_utils", "rich.markdown", "rich.progress", "pydantic", "tomllib", "multiprocessing", "asyncio", "ssl",
    "urllib.request", "numpy.polynomial",
}  # fmt: skip


SELDOM_NEEDED = {
    f"passwright.{name}"
    for name in (
        "app.registry.adapter_names", "app.report.page", "app.report.notebook", "app.report.rich_tables",
        "core.transform.opset_conversion", "core.verify.input_generation", "core.verify.input_search",
        "core.verify.oracle",
    )
} | {"networkx", "psutil", "rich.live", "statistics"}  # fmt: skip
"""Modules that the process of a small run does not need; some are for the worker."""


NOT_FOR_RUNS = tuple(
    f"passwright.{name}"
    for name in (
        "app.quantize",
        "app.tune",
        "app.report.graph_layout",
        "app.report.visualization",
        "core.proof",
        "passes.quantization",
    )
)
"""Packages that no process of a plain run imports: proofs, tuning, quantization and drawing."""
IMPORT_LOG = """
import os, sys
log = os.open(os.path.join(os.path.dirname(__file__), f"{os.getpid()}.log"), os.O_WRONLY | os.O_CREAT)
class Log:
    def find_spec(name, path=None, target=None):
        os.write(log, f"{name}\\n".encode())
sys.meta_path.insert(0, Log)
"""
"""A module that each process imports as it starts, and that logs its imports."""


def start_of(folder: Path, *arguments: str) -> dict[str, Any]:
    """The start of a command: its modules but those of the standard library, and what else takes time."""
    code = f"""
import gc, json, os, sys
before = {{*sys.modules}}  # hooks of the environment have imported some
sys.argv = ["passes", *{arguments!r}]
import passwright.core.processes.worker_process as workers
start, imported_before = workers.WorkerProcess._start, []
def begin(worker):
    imported_before.append("onnx" in sys.modules)
    return start(worker)
workers.WorkerProcess._start = begin
def collections():
    return sum(s["collections"] for s in gc.get_stats())
gc.collect()  # of objects of the imports above, which a command makes later
from passwright.__main__ import main
collections_before = collections()
try:
    main()
finally:
    found = {{
        "modules": [*(sys.modules.keys() - before)],
        "onnx_before_worker": imported_before, "frozen": gc.get_freeze_count(), "threshold": gc.get_threshold()[0],
        "collections": collections() - collections_before, "idle": os.environ["OPENBLAS_THREAD_TIMEOUT"],
    }}
    print(json.dumps(found), file=sys.stderr)
"""
    (folder / "sitecustomize.py").write_text(IMPORT_LOG, encoding="utf-8")
    environment = {name: value for name, value in os.environ.items() if name not in IDLE_THREADS}
    environment["PYTHONPATH"] = str(folder)
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder, capture_output=True, text=True, check=True, timeout=300, env=environment,
    )  # fmt: skip
    assert done.stdout
    return json.loads(done.stderr)


def without_standard_library(modules: Iterable[str]) -> set[str]:
    found = set(modules) - (sys.stdlib_module_names - SLOW)
    return {m for m in found if m.partition(".")[0] not in sys.stdlib_module_names - SLOW}


def packages(modules: set[str]) -> set[str]:
    return {m.partition(".")[0] for m in modules}


def test_modules_of_help(tmp_path: Path) -> None:
    code = (
        "import sys; before = {*sys.modules}; sys.argv = ['passes', '--help']\n"
        "from passwright.__main__ import main\n"
        "try: main()\nfinally: print(*(sys.modules.keys() - before), file=sys.stderr)"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=300)
    assert done.stdout
    found = without_standard_library(done.stderr.split())
    assert {m for m in found if m.startswith("passwright")} == FOR_HELP | {"passwright.__main__"}
    assert packages(found) <= FRAMEWORK | {"passwright"}
    assert found.isdisjoint(SLOW)


def test_start_of_a_small_run(tmp_path: Path) -> None:
    onnx.save(load("g (float[2] x) => (float[2] y) { a = Identity(x) y = Relu(a) }"), tmp_path / "m.onnx")
    start = start_of(tmp_path, "run", "m.onnx", "--seed", "3")
    found = without_standard_library(start["modules"])
    assert {"onnx", "numpy", "rich"} <= packages(found) <= FRAMEWORK | {
        "passwright", "onnx", "numpy", "google", "ml_dtypes", "msgspec", "rich",
    }  # fmt: skip
    assert set(start["modules"]) & (SLOW | SELDOM_NEEDED) == set()
    others = {name for name in COMMANDS if f"passwright.app.commands.{name}" in found}
    assert others == {"run"}
    assert start["onnx_before_worker"] == [False]  # its imports take place beside those of the command
    assert start["collections"] == 0
    assert start["frozen"] > 50_000  # objects among which Python looks for no garbage as it ends
    assert start["idle"] == "4"
    logs = [set(log.read_text(encoding="utf-8").split()) for log in tmp_path.glob("*.log")]
    of_command, of_worker = sorted(logs, key=lambda names: "onnxruntime" in names)
    assert "passwright.app.commands.run" in of_command
    assert "passwright.core.verify.oracle" in of_worker
    assert {name for name in of_command | of_worker if name.startswith(NOT_FOR_RUNS)} == set()


def test_modules_of_the_worker() -> None:
    code = "import sys, passwright.core.verify.oracle_worker; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=300)
    found = set(done.stdout.split())
    assert packages(found) & {"numpy", "onnx", "onnxruntime", "networkx", "rich", "typer"} == {"numpy", "onnx"}
    assert found.isdisjoint(SLOW | {"psutil", "statistics"})
    floors = {".".join(m.split(".")[:3]) for m in found if m.startswith("passwright.")}
    assert floors & {"passwright.app", "passwright.passes", "passwright.core.rewriting"} == set()


def test_modules_of_a_process_that_measures() -> None:
    """Their memory would be that of the model, and a race starts dozens of such processes."""
    code = "import sys, passwright.app.measure.benchmark_worker; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=300)
    found = set(done.stdout.split())
    assert packages(found) & {"numpy", "onnx", "onnxruntime", "networkx", "rich", "typer"} == {"numpy"}
    assert not any(name.startswith(("passwright.core.ir", "passwright.core.operators")) for name in found)


def test_idle_threads_sleep_unless_the_user_says_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "import os; from passwright.core.processes.worker_process import serve; serve(os.environ)"
    command = (sys.executable, "-c", text)
    for given, wanted in (None, "4"), ("26", "26"):
        if given is None:
            monkeypatch.delenv("OPENBLAS_THREAD_TIMEOUT", raising=False)
        else:
            monkeypatch.setenv("OPENBLAS_THREAD_TIMEOUT", given)
        with WorkerProcess[dict[str, str]](command, 60.0) as process:
            assert process.call().get("OPENBLAS_THREAD_TIMEOUT") == wanted


TRACED_RUN = """
import json, sys
from passwright.app.cli import entry as cli
depths, entered, imported = [], set(), {*sys.modules}

def callers(frame):
    while frame is not None and frame.f_code is not cli.main.__code__:
        yield frame
        frame = frame.f_back

def look(frame, event, _):
    module = frame.f_globals.get("__name__", "")
    if event != "call" or not module.startswith("passwright."):
        return
    if frame.f_code.co_name == "drop_identity":
        depths.append(1 + sum(f.f_globals.get("__name__", "").startswith("passwright.") for f in callers(frame)))
    if module not in entered and not any(f.f_code.co_name == "<module>" for f in callers(frame)):
        entered.add(module)

sys.argv = ["passes", "run", "m.onnx"]
sys.setprofile(look)
try:
    cli.main()
finally:
    sys.setprofile(None)
    print(json.dumps({"depths": depths, "entered": sorted(entered)}), file=sys.stderr)
"""


def test_a_run_is_few_calls_deep_in_few_modules(tmp_path: Path) -> None:
    """Between the command and the function of a rule; modules count if a function of theirs runs after imports."""
    onnx.save(load("g (float[2] x) => (float[2] y) { a = Identity(x) y = Relu(a) }"), tmp_path / "m.onnx")
    done = subprocess.run(
        [sys.executable, "-c", TRACED_RUN], cwd=tmp_path, capture_output=True, text=True, check=True, timeout=300
    )
    found = json.loads(done.stderr)
    assert min(found["depths"]) <= 18
    assert len(found["entered"]) <= 150, found["entered"]
