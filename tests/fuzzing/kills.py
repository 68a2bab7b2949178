"""Kills of commands that write, at random moments: what was there stays whole, and the command goes on."""

import json
import os
import shutil
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import numpy as np
import onnx
from onnx import numpy_helper
from passwright.core.errors import UnverifiableError

from .cases import GOLDEN, Case
from .harness import JOURNAL, _fork, left_processes, passes, snapshot
from .hostile_models import text_model

SIZE = 70_000  # elements of a weight, which has a file of its own
LONGEST = 300.0  # seconds of a command
KILLED_GRACE = 30.0  # seconds for workers to end after a command that was killed, which is 10 on an idle machine
MEASURED = ("--time", "2", "--trials", "3", "--min-time", "0.02", "--journal", "journal.jsonl")


@dataclass(frozen=True)
class Scenario:
    """A command, the files that it may change by name patterns, whether results are repeatable, and its exit codes."""

    name: str
    arguments: tuple[str, ...]
    prepare: Callable[[Path], None]
    outputs: tuple[str, ...]
    is_repeatable: bool = True
    codes: tuple[int, ...] = (0,)


@dataclass
class Killed:
    """The outcome of a kill: when, whether the command had ended before, and what was lost."""

    scenario: str
    after: float
    state: str
    lost: list[str] = field(default_factory=list)


def weighted(number: int) -> onnx.ModelProto:
    """A model with a weight full of a number, and ops to remove."""
    model = text_model(
        "a = Identity(x) b = Add(a, w) c = Identity(b) y = Relu(c)", inputs=[f"float[{SIZE}] x"], outputs="y"
    )
    model.graph.output[0].type.CopyFrom(model.graph.input[0].type)
    model.graph.initializer.append(numpy_helper.from_array(np.full(SIZE, number, np.float32), "w"))
    return model


def network(folder: Path) -> None:
    """A small network, with data."""
    rng = np.random.default_rng(0)
    model = text_model(
        "h = MatMul(x, w) r = Relu(h) y = MatMul(r, w)", inputs=["float[N,32] x"], outputs="float[N,32] y"
    )
    model.graph.initializer.append(numpy_helper.from_array(rng.normal(size=(32, 32)).astype(np.float32), "w"))
    onnx.save(model, folder / "m.onnx")
    np.savez(folder / "data.npz", x=rng.normal(size=(20, 32)).astype(np.float32))


def replaced(folder: Path) -> None:
    """A model, and an older result with a file of weights."""
    onnx.save(weighted(2), folder / "m.onnx")
    onnx.save(weighted(1), folder / "o.onnx", save_as_external_data=True, location="o.onnx.data")


def external(folder: Path) -> None:
    """A model with a file of weights."""
    onnx.save(weighted(2), folder / "m.onnx", save_as_external_data=True, location="m.onnx.data")


def several(folder: Path) -> None:
    """A folder of models."""
    (folder / "many").mkdir()
    for name in ("script_scan", "loop_if", "cnn_half", "sklearn_mlp", "mlp_double"):
        shutil.copy(GOLDEN / f"{name}.onnx", folder / "many")
    onnx.save(weighted(2), folder / "many/weighted.onnx", save_as_external_data=True, location="w.data")


SCENARIOS = (
    Scenario(
        "run",
        ("run", "m.onnx", "-o", "o.onnx", "--external-data", "always", "--json", "r.json", "--html", "r.html"),
        replaced,
        ("o.onnx*", "r.*"),
    ),
    Scenario("in place", ("run", "m.onnx", "--in-place"), external, ("m.onnx*",)),
    Scenario(
        "batch",
        ("batch", "many", "--output-dir", "out", "--resume", "--jobs", "2", "--verify", "quick"),
        several,
        ("out/*",),
    ),
    Scenario(
        "quantize",
        ("quantize", "m.onnx", "-o", "o.onnx", "--data", "data.npz", *MEASURED),
        network,
        ("o.onnx*", "journal.jsonl"),
        is_repeatable=False,
    ),
    Scenario(
        "tune",
        ("tune", "m.onnx", "-o", "o.onnx", *MEASURED),
        network,
        ("o*", "journal.jsonl"),
        is_repeatable=False,
        codes=(0, UnverifiableError.exit_code),  # the time may be too short for the final race
    ),
)
SHARES = {"run": 100, "in place": 70, "batch": 60, "quantize": 40, "tune": 30}  # of 300 kills


def contents(folder: Path) -> dict[str, list[object]]:
    """The weights and ops of all models below a folder; raises for one that cannot be read whole."""
    found = dict[str, list[object]]()
    for path in sorted(folder.rglob("*.onnx")):
        if path.relative_to(folder).parts[0].startswith(".") or ".passwright-" in str(path):
            continue  # staged
        model = onnx.load(path)
        found[str(path.relative_to(folder))] = [
            [n.op_type for n in model.graph.node], [(t.name,
                numpy_helper.to_array(t).tobytes()) for t in model.graph.initializer]
        ]  # fmt: skip
    return found


def command(scenario: Scenario, folder: Path, scratch: Path, kill_after: float | None = None) -> tuple[int, float]:
    """Run a command, killed after so many seconds; returns its exit code and its seconds."""
    started = time.monotonic()
    pid = _fork(Case(0, scenario.arguments, lambda _: None), folder, scratch, passes)
    while True:
        found, status = os.waitpid(pid, os.WNOHANG)
        spent = time.monotonic() - started
        if found:
            return os.waitstatus_to_exitcode(status), spent
        if spent > (LONGEST if kill_after is None else kill_after):
            os.kill(pid, signal.SIGKILL)
            return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), spent
        time.sleep(0.002)


def kill_once(scenario: Scenario, moment: float, undisturbed: Path, root: Path) -> Killed:
    """Kill a command at a moment, check what there is, and run it to its end."""
    place = Path(tempfile.mkdtemp(dir=root))
    folder, scratch = place / "work", place / "scratch"
    folder.mkdir()
    (scratch / "scratch").mkdir(parents=True)
    scenario.prepare(folder)
    before, old = snapshot(folder), contents(folder)
    code, spent = command(scenario, folder, scratch, moment)
    state = "ended before" if code in scenario.codes else "killed" if code == -9 else f"code {code}"
    killed = Killed(scenario.name, spent, state)
    lost = killed.lost
    lost += left_processes(KILLED_GRACE)
    new = contents(undisturbed)
    try:
        for name, content in contents(folder).items():
            states = [known[name] for known in (old, new) if name in known]
            if content not in states and scenario.is_repeatable:
                lost.append(f"{name} is neither old nor new")
            elif states and code == -9:
                killed.state = "killed, new" if content == new.get(name) and content != old.get(name) else killed.state
        lost += [f"{name} is gone" for name in old if not (folder / name).exists()]
    except Exception as e:  # noqa: BLE001 - whatever reading a half file raises
        lost.append(f"unreadable: {type(e).__name__}: {str(e)[:200]}")
    after = snapshot(folder)
    changed = [n for n in before if before[n] != after.get(n)]
    lost += [f"{n} changed" for n in changed if not any(Path(n).match(p) for p in scenario.outputs)]
    for path in folder.rglob("*.json"):
        try:
            json.loads(path.read_text())
        except ValueError:
            lost.append(f"half of {path.name}")
    code, _ = command(scenario, folder, scratch)
    if code not in scenario.codes:
        lost.append(f"the next run ended with {code}: {(scratch / 'stderr').read_text()[:300]}")
    lost += left_processes()
    lost += [f"staging {p.name} is left" for p in folder.rglob(".*") if p.name not in {JOURNAL, ".passwright.lock"}]
    if scenario.is_repeatable and contents(folder) != new:
        lost.append("the next run has other results")
    names = snapshot(folder).keys() ^ snapshot(undisturbed).keys()
    lost += [f"{n} is only in one of the next run and an undisturbed one" for n in sorted(names)]
    if not lost:
        shutil.rmtree(place)
    return killed


def campaign(count: int, seed: int, root: Path) -> Iterator[Killed]:
    """So many kills, in the scenarios by their shares."""
    rng, whole = Random(seed), sum(SHARES.values())
    for scenario in SCENARIOS:
        undisturbed, scratch = root / f"{scenario.name} undisturbed", root / f"{scenario.name} scratch"
        undisturbed.mkdir(parents=True)
        (scratch / "scratch").mkdir(parents=True)
        scenario.prepare(undisturbed)
        code, seconds = command(scenario, undisturbed, scratch)
        if code not in scenario.codes:
            yield Killed(scenario.name, seconds, f"code {code}", [(scratch / "stderr").read_text()])
            continue
        for _ in range(max(1, round(count * SHARES[scenario.name] / whole))):
            yield kill_once(scenario, rng.uniform(0, seconds), undisturbed, root)


def summary(outcomes: list[Killed]) -> str:
    """The counts of outcomes by scenario."""
    counts = Counter((k.scenario, k.state) for k in outcomes)
    lost = sum(bool(k.lost) for k in outcomes)
    return f"{len(outcomes)} kills, {lost} with losses: " + "; ".join(
        f"{s}: {n} {state}" for (s, state), n in sorted(counts.items())
    )
