"""The fuzzer: commands on mutated models and inputs keep their promises, and broken ones are noticed."""

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from random import Random

import onnx
import pytest
from fuzzing import native_calls
from fuzzing.cases import GOLDEN, make_case, seeds
from fuzzing.harness import snapshot
from fuzzing.hostile_models import KINDS, hostile_files, text_model
from fuzzing.mutations import MUTATIONS, Mutation
from google.protobuf.message import DecodeError

TESTS = Path(__file__).parent


def run_python(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python where the package `fuzzing` is; as a process, since it adopts and ends all processes below it.

    It limits the time of each case itself.
    """
    return subprocess.run([sys.executable, *arguments], cwd=TESTS, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("first", "count"), [pytest.param(0, 3), pytest.param(1000, 400, marks=pytest.mark.slow)], ids=["short", "long"]
)
def test_mutated_files_break_no_promise(first: int, count: int) -> None:
    done = run_python("-m", "fuzzing", "--seed", str(first), "--cases", str(count))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("first", "count"), [pytest.param(0, 50), pytest.param(1000, 4000, marks=pytest.mark.slow)], ids=["short", "long"]
)
def test_optimize_raises_nothing_unexpected(first: int, count: int) -> None:
    done = run_python("-m", "fuzzing", "--calls", "--seed", str(first), "--cases", str(count))
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"# {count} models, 0 broken" in done.stdout


@pytest.mark.parametrize(
    ("first", "count"), [pytest.param(0, 3), pytest.param(1000, 1000, marks=pytest.mark.slow)], ids=["short", "long"]
)
def test_hostile_models_break_no_promise(first: int, count: int) -> None:
    done = run_python("-m", "fuzzing", "--hostile", "--slack", "4", "--seed", str(first), "--cases", str(count))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("first", "count"), [pytest.param(0, 25), pytest.param(1000, 1000, marks=pytest.mark.slow)], ids=["short", "long"]
)
def test_hostile_models_end_no_process_that_optimizes(first: int, count: int) -> None:
    options = ("--hostile", "--calls", "--slack", "4")
    done = run_python("-m", "fuzzing", *options, "--seed", str(first), "--cases", str(count))
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"# {count} models, 0 broken" in done.stdout


@pytest.mark.slow
def test_models_that_crashed_native_code_break_no_promise() -> None:
    done = run_python("-m", "fuzzing", "--crashers", "--slack", "4")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "# 0 cases" not in done.stdout


@pytest.mark.slow
def test_kills_lose_nothing() -> None:
    done = run_python("-m", "fuzzing", "--kills", "10")
    assert done.returncode == 0, done.stdout + done.stderr
    assert " kills, 0 with losses" in done.stdout


def test_native_calls_that_fail_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A function in place of native code crashes, hangs or raises on some models; those that crash are made smaller."""

    def fail(model: onnx.ModelProto, _: bytes, __: Random) -> None:
        names = {n.op_type for n in model.graph.node}
        while "Neg" in names:
            pass
        if "Abs" in names:
            os.abort()
        raise ValueError

    def model_of(number: int) -> onnx.ModelProto:
        texts = {3: "a = Relu(f) y = Abs(a)", 5: "a = Neg(f) y = Relu(a)"}
        return text_model(texts.get(number, "y = Relu(f)"), inputs=["float[2] f"])

    monkeypatch.setattr(native_calls, "model_of", model_of)
    monkeypatch.setattr(native_calls, "HANG", 0.1)
    native = native_calls.NativeCalls({"good": lambda *_: None, "bad": fail})
    smaller = [(f.how, native.minimized(f, model_of(f.number))) for f in native.failures(0, 9, 60.0)]
    assert [(how, [n.op_type for n in m.graph.node]) for how, m in smaller if m] == [
        ("SIGABRT", ["Abs"]),
        ("hang", ["Neg", "Relu"]),
    ]
    assert native.made == {"good": 9, "bad": 9}


PLANTED = """
import os, subprocess, sys, tempfile
from pathlib import Path
from fuzzing import harness
from fuzzing import native_calls
from fuzzing.cases import Case

def error(*lines, code=1):
    sys.stderr.write("".join(f"{line}\\n" for line in lines))
    sys.exit(code)

def leaves_process():
    if os.fork() == 0:
        os.execvp("sleep", ["sleep", "100"])

def uses_memory():
    bytearray(b"x") * (300 << 20)

commands = {
    "fine": lambda: error("error: no"),
    "two lines": lambda: error("error: no", "and more"),
    "no line": lambda: error(),
    "exit code": lambda: error("error: no", code=7),
    "crash": lambda: os.abort(),
    "traceback": lambda: 1 / 0,
    "escape": lambda: error("error: \\x1b[31m"),
    "changed": lambda: Path("m.onnx").write_text("y"),
    "mode": lambda: Path("m.onnx").chmod(0o600),
    "beside": lambda: Path("new").write_text("y"),
    "half": lambda: (Path("out/o.onnx").write_text("y"), error("error: no")),
    "stage": lambda: Path("out/.o.onnx.x").mkdir(),
    "temporary": lambda: tempfile.mkdtemp(),
    "process": leaves_process,
    "memory": uses_memory,
    "hang": lambda: subprocess.run(["sleep", "100"]),
}

def write(folder):
    (folder / "out").mkdir()
    (folder / "m.onnx").write_text("x")

harness.MEMORY_CAP, harness.GRACE_PERIOD = 200 << 20, 0.2
harness.warm_up = lambda: harness.adopt_processes()
with tempfile.TemporaryDirectory() as root:
    for name, main in commands.items():
        outcome = harness.run_case(Case(0, (), write), Path(root), main=main, limit=0.5 if name == "hang" else 30.0)
        print(name, "|", "; ".join(outcome.broken))
"""


def test_broken_promises_are_noticed() -> None:
    done = run_python("-c", PLANTED)
    found = dict(line.split(" | ", 1) for line in done.stdout.splitlines())
    assert found.pop("fine") == ""
    wanted = {
        "two lines": "2 lines on standard error",
        "no line": "0 lines of error",
        "exit code": "exit code 7",
        "crash": "exit code -6",
        "traceback": "traceback: ZeroDivisionError",
        "escape": "control characters",
        "changed": "changed m.onnx",
        "mode": "changed m.onnx",
        "beside": "changed new",
        "half": "wrote out/o.onnx and ended with 1",
        "stage": "left out/.o.onnx.x",
        "temporary": "in the folder for temporary files",
        "process": "left the process sleep 100",
        "memory": "MiB of memory",
        "hang": "did not end",
    }
    assert found.keys() == wanted.keys(), done.stderr
    assert {name: text for name, text in found.items() if wanted[name] not in text} == {}


@pytest.mark.parametrize("mutation", dict.fromkeys(MUTATIONS), ids=lambda m: m.__name__)
def test_mutation_changes_models(mutation: Mutation) -> None:
    changed = 0
    for number in range(24):
        rng = Random(number)
        model = onnx.ModelProto.FromString((GOLDEN / "loop_if.onnx").read_bytes())
        with suppress(DecodeError):  # too deep for protobuf
            mutation(model, rng, seeds()[:9])
            changed += model.SerializeToString() != (GOLDEN / "loop_if.onnx").read_bytes()
    assert changed >= 2


def test_number_repeats_hostile_model() -> None:
    numbers = range(2 * len(KINDS))
    assert [hostile_files(n) for n in numbers] == [hostile_files(n) for n in numbers]
    assert len({str(hostile_files(n)) for n in numbers}) > 0.9 * len(numbers)


def test_number_repeats_case(tmp_path: Path) -> None:
    kinds = set[str]()
    for number in range(12):
        for name in ("a", "b"):
            (tmp_path / f"{name}{number}").mkdir()
            case = make_case(number)
            case.write(tmp_path / f"{name}{number}")
        kinds.add(case.arguments[0])
        assert snapshot(tmp_path / f"a{number}") == snapshot(tmp_path / f"b{number}")
    assert "run" in kinds
