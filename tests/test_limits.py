"""Limits of time and memory: what would take too much of either is one line."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from time import sleep
from typing import Any

import numpy as np
import onnx
import pytest
from commands import invoke
from onnx import defs, helper, numpy_helper
from passwright.app.cli.entry import app
from passwright.app.cli.exit_codes import UNVERIFIED
from passwright.app.measure.benchmark import BenchmarkConfig, BenchmarkTarget, run_benchmark
from passwright.app.measure.feeds import make_feeds
from passwright.app.measure.model_stats import inlined
from passwright.app.profile.profile_recording import record_profile
from passwright.core import ChangeLog, Graph, from_onnx
from passwright.core.calibration.collection import collect_statistics
from passwright.core.errors import ModelError, PassesError, TimeLimitError, UnverifiableError
from passwright.core.io import function_inlining
from passwright.core.io.files import model_bytes, split_model
from passwright.core.io.function_inlining import with_inlined_functions
from passwright.core.ir import op_schemas
from passwright.core.ir.wire_format import encode_field
from passwright.core.operators.ml import has_cyclic_tree
from passwright.core.ort.engines import _find_engine
from passwright.core.ort.sessions import ENABLE_ALL, SessionConfig
from passwright.core.processes.process_limits import (
    MEMORY_PER_BYTE,
    MODEL_MEMORY,
    SMALL_MODEL,
    default_memory,
    given_memory,
    memory_for_model,
    stack_bytes,
)
from passwright.core.processes.watchdog import time_limit
from passwright.core.serialization.proto_queries import all_nodes
from passwright.core.verify import oracle as oracle_module
from passwright.core.verify.effort import Effort
from passwright.core.verify.input_specs import input_specs
from passwright.core.verify.oracle import Oracle
from passwright.core.verify.run_budgets import TimeBudget
from passwright.core.verify.seeded_session import SeededSession
from passwright.core.verify.verification_spec import VerificationSpec
from rewriting import cases, each, load
from test_signals import PATIENCE, RUN
from typer.testing import CliRunner

from passwright import bench, optimize

RELU = "g (float[N,4] x) => (float[N,4] y) { a = Identity(x) y = Relu(a) }"
HEADER = '<ir_version: 8, opset_import: ["": 17, "f": 1]>'
FUNCTION = '<domain: "f", opset_import: ["": 17, "f": 1]>'


def with_functions(functions: Sequence[str], call: str = "y = f.F0(x)", weights: str = "") -> onnx.ModelProto:
    """A model of calls; `functions` are the definitions without domain and opsets."""
    text = f"{HEADER} g (float[4] x) => (float[4] y) {weights} {{ {call} }}\n"
    return onnx.parser.parse_model(text + "\n".join(f"{FUNCTION} {f}" for f in functions))


def doubling(depth: int) -> onnx.ModelProto:
    """Functions of which each calls the next one twice."""
    calls = [f"F{i} (x) => (y) {{ t = f.F{i + 1}(x) y = f.F{i + 1}(t) }}" for i in range(depth)]
    return with_functions([*calls, f"F{depth} (x) => (y) {{ y = Neg(x) }}"])


def doubling_in_branches(depth: int) -> onnx.ModelProto:
    """Functions of which each calls the next one in both branches of an If."""
    branches = "then_branch = b () => (r) {{ r = f.F{0}(x) }}, else_branch = c () => (r) {{ r = f.F{0}(x) }}"
    calls = [
        f"F{i} (x) => (y) {{ s = ReduceSum<keepdims = 0>(x) c = Cast<to = 9>(s) y = If(c) <{branches.format(i + 1)}> }}"
        for i in range(depth)
    ]
    return with_functions([*calls, f"F{depth} (x) => (y) {{ y = Neg(x) }}"])


def squared(length: int) -> onnx.ModelProto:
    """A chain of calls of a function that is as long."""

    def chain(operator: str) -> str:
        names = ["x", *(f"t{i}" for i in range(length - 1)), "y"]
        return " ".join(f"{b} = {operator}({a})" for a, b in pairwise(names))

    return with_functions([f"F0 (x) => (y) {{ {chain('Neg')} }}"], chain("f.F0"))


def large_attribute(uses: int, size: int, *, as_default: bool) -> onnx.ModelProto:
    """A function that reads an attribute of `size` bytes many times."""
    reads = " ".join(f"t{i} = Constant<value_string: string = @text>()" for i in range(uses))
    default = f'<text: string = "{"a" * size}">' if as_default else "<text>"
    given = "" if as_default else f' <text = "{"a" * size}">'
    return with_functions([f"F0 {default} (x) => (y) {{ {reads} y = Neg(x) }}"], f"y = f.F0{given}(x)")


def weight_in_branch(depth: int, size: int) -> onnx.ModelProto:
    """Functions of which each calls the next one twice; the last has a weight in a branch."""
    model = doubling(depth)
    constant = onnx.NodeProto(op_type="Constant", output=["w"])
    branch = onnx.GraphProto(node=[constant], output=[onnx.ValueInfoProto(name="w")])
    constant.attribute.add(name="value", type=onnx.AttributeProto.TENSOR).t.CopyFrom(
        onnx.TensorProto(data_type=onnx.TensorProto.UINT8, dims=[size], raw_data=bytes(size))
    )
    kept = branch.initializer.add()
    kept.CopyFrom(constant.attribute[0].t)
    kept.name = "v"
    node = model.functions[-1].node.add(op_type="If", input=["c"], output=["z"])
    for name in ("then_branch", "else_branch"):
        node.attribute.add(name=name, type=onnx.AttributeProto.GRAPH).g.CopyFrom(branch)
    model.functions[-1].node.add(op_type="Constant", output=["c"]).attribute.add(name="value_int", i=1, type=2)
    return model


def doubling_of_nothing(depth: int) -> onnx.ModelProto:
    """Functions of which each calls the next one twice; the last has no nodes."""
    model = doubling(depth)
    del model.functions[-1].node[:]
    return model


def long_name(uses: int, size: int) -> onnx.ModelProto:
    """A function that reads an input with a long name many times."""
    reads = " ".join(f"t{i} = Neg(x)" for i in range(uses))
    name = "a" * size
    return with_functions([f"F0 (x) => (y) {{ {reads} y = Neg(x) }}"], f"{name} = Neg(x) y = f.F0({name})")


@cases(
    ("model", "message"),
    {
        "doubling": (lambda: doubling(19), "4,000 calls of 40"),
        "doubling further": (lambda: doubling(59), "calls of 120"),
        "nothing": (lambda: doubling_of_nothing(59), "calls of 119"),
        "in branches": (lambda: doubling_in_branches(19), "nodes of 97"),
        "product": (lambda: squared(300), "60,000 nodes of 600"),
        "attribute": (lambda: large_attribute(4000, 50_000, as_default=False), "bytes"),
        "default attribute": (lambda: large_attribute(4000, 50_000, as_default=True), "bytes"),
        "name": (lambda: long_name(4000, 50_000), "bytes"),
        "weight in a branch": (lambda: weight_in_branch(8, 200_000), "bytes"),
    },
)
def test_functions_that_inlining_multiplies(
    monkeypatch: pytest.MonkeyPatch, model: Callable[[], onnx.ModelProto], message: str
) -> None:
    for limit in ("MAX_INLINED_CALLS", "MAX_INLINED_NODES"):
        monkeypatch.setattr(function_inlining, limit, 1000)
    built = model()
    with pytest.raises(ModelError, match=f"local functions would make more than .*{message}.*keep_functions"):
        optimize(built, verify=False)
    assert inlined(built) is built


def test_functions_that_call_themselves() -> None:
    pair = ["F0 (x) => (y) { y = f.F1(x) }", "F1 (x) => (y) { y = f.F0(x) }"]
    for functions in (["F0 (x) => (y) { y = f.F0(x) }"], pair, [*pair, "F2 (x) => (y) { y = f.F0(x) }"]):
        with pytest.raises(ModelError, match="calls itself"):
            optimize(with_functions(functions), verify=False)


def test_long_chain_of_functions() -> None:
    calls = [f"F{i} (x) => (y) {{ y = f.F{i + 1}(x) }}" for i in range(2000)]
    result = optimize(with_functions([*calls, "F2000 (x) => (y) { y = Neg(x) }"]), verify=False)
    assert [n.op_type for n in result.model.graph.node] == ["Neg"]


@cases(
    "model",
    {
        "doubling": doubling(6),
        "in branches": doubling_in_branches(4),
        "product": squared(40),
        "default attribute": large_attribute(300, 2000, as_default=True),
        "attribute": large_attribute(300, 2000, as_default=False),
        "name": long_name(300, 2000),
        "weight in a branch": weight_in_branch(4, 1000),
    },
)
def test_counted_growth(monkeypatch: pytest.MonkeyPatch, model: onnx.ModelProto) -> None:
    """The limit counts the nodes that inlining makes, and at least three quarters of their bytes but for names."""
    flat = with_inlined_functions(model)
    nodes = sum(1 for _ in all_nodes(flat.graph.node))
    size = sum(n.ByteSize() - sum(map(len, (*n.input, *n.output))) for n in flat.graph.node)
    monkeypatch.setattr(function_inlining, "MAX_INLINING_GROWTH", 0)
    for max_nodes, max_bytes, message in (
        (nodes, 10**12, None),
        (nodes - 1, 10**12, f"{nodes - 1:,} nodes"),
        (nodes, size * 3 // 4, "bytes"),
    ):
        monkeypatch.setattr(function_inlining, "MAX_INLINED_NODES", max_nodes)
        monkeypatch.setattr(function_inlining, "MAX_INLINED_BYTES", max_bytes)
        with pytest.raises(ModelError, match=message) if message else nullcontext():
            with_inlined_functions(model)


def test_deep_subgraphs(tmp_path: Path) -> None:
    """Protobuf reads messages up to a depth of 100, three for each subgraph."""
    node = helper.make_node("Neg", ["x"], ["y"]).SerializeToString()
    tail = encode_field(2, b"b") + encode_field(12, onnx.ValueInfoProto(name="y").SerializeToString())
    for depth in range(1000):
        if depth in {34, 999}:
            graph = encode_field(1, node) + helper.make_graph([], "g", [], []).SerializeToString()
            header = onnx.ModelProto(ir_version=8, opset_import=[helper.make_opsetid("", 17)])
            (tmp_path / "m.onnx").write_bytes(header.SerializeToString() + encode_field(7, graph))
            with pytest.raises(ModelError, match=r"m\.onnx: its subgraphs are nested too deeply"):
                optimize(tmp_path / "m.onnx", verify=False)
        branch = onnx.AttributeProto(name="then_branch", type=onnx.AttributeProto.GRAPH).SerializeToString()
        inner = encode_field(5, branch + encode_field(6, encode_field(1, node) + tail))
        node = encode_field(1, b"c") + encode_field(2, b"y") + encode_field(4, b"If") + inner


ENDLESS = """g ({0}[4] x) => ({0}[4] y) <int64 n = {{9223372036854775807}}, bool c = {{1}}> {{
    a = Identity(x) y = Loop(n, c, a) <body = b (int64 i, bool k, {0}[4] v) => (bool l, {0}[4] w) {{
        l = Identity(k) w = Abs(v)
    }}>
}}"""  # of bfloat16, only onnx.reference has a kernel
CROWDED = """g (bfloat16[1] x) => (bfloat16[1] y, bfloat16[N] z) {
    y = Abs(x) a = Constant<value_float=0.0>() b = Constant<value_float=60000.0>() c = Constant<value_float=0.0001>()
    d = Cast<to=16>(a) e = Cast<to=16>(b) f = Cast<to=16>(c) z = Range(d, e, f)
}"""  # 600 million elements


def original_of(text: str, *, effort: Effort = "default", **ends: float) -> Oracle:
    model = load(text)
    spec = VerificationSpec.of(from_onnx(model), effort=effort)
    return Oracle(model.SerializeToString(), spec, **ends)


def test_first_runs_share_their_time(monkeypatch: pytest.MonkeyPatch) -> None:
    timeouts, run = list[float](), SeededSession.run

    def recording(session: SeededSession, outputs: Any, feeds: Any, timeout: float) -> list[Any]:
        timeouts.append(timeout)
        return run(session, outputs, feeds, timeout)

    monkeypatch.setattr(SeededSession, "run", recording)
    monkeypatch.setattr(oracle_module, "FIRST_RUN_TIMEOUTS", {"default": 0.5})
    with pytest.raises(UnverifiableError, match=r"did not end within 0\.5 s on any of the inputs tried"):
        original_of(ENDLESS.format("float"))
    assert 0 < sum(timeouts) <= 0.5


@dataclass
class Clock:
    """Seconds that pass with runs of models only, so that no test depends on the load of the machine."""

    now: float = 0.0


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock of oracles, by which each run takes 10 s."""
    clock, run = Clock(), SeededSession.run

    def slow(session: SeededSession, *arguments: Any) -> list[Any]:
        clock.now += 10
        return run(session, *arguments)

    monkeypatch.setattr(SeededSession, "run", slow)
    monkeypatch.setattr(oracle_module, "TimeBudget", partial(TimeBudget, clock=lambda: clock.now))
    monkeypatch.setattr(oracle_module, "monotonic", lambda: clock.now)
    return clock


def test_search_and_comparison_end_in_time(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> None:
    monkeypatch.setattr(oracle_module, "COMPARISON_SECONDS", {"quick": 55.0})
    oracle = original_of(RELU, effort="quick")
    assert len(oracle.runs) == 6
    assert "further inputs were skipped: runs of the original took 55 s" in oracle.notes
    monkeypatch.setattr(oracle_module, "COMPARISON_SECONDS", {"quick": 15.0})
    verdict = oracle.compare(load(RELU).SerializeToString())
    assert verdict.failure is None
    assert "4 of 6 input sets were skipped after 15 s" in verdict.notes
    assert clock.now == 80


def test_deadline_of_a_command_leaves_out_inputs(clock: Clock) -> None:
    oracle = original_of(RELU, deadline=150)
    assert len(oracle.runs) == 6  # in the share of the search
    assert "further inputs were skipped: runs of the original took 60 s" in oracle.notes
    with pytest.raises(UnverifiableError, match="did not end within 0 s"):
        original_of(RELU, deadline=clock.now)


def test_a_wanted_end_leaves_out_all_but_one_input(clock: Clock) -> None:
    """A search that is late verifies its result in any case."""
    assert len(original_of(RELU, wanted_end=150).runs) == 6
    began = clock.now
    oracle = original_of(RELU, wanted_end=began)
    assert (len(oracle.runs), clock.now - began) == (1, 10)
    verdict = oracle.compare(load(RELU).SerializeToString())
    assert (verdict.failure, len(verdict.input_sets), clock.now - began) == (None, 1, 20)
    wrong = oracle.compare(load(RELU.replace("Relu", "Abs")).SerializeToString())
    assert wrong.failure is not None


@pytest.mark.parametrize("dtype", ["float", "bfloat16"])
def test_endless_model_within_a_time_limit(tmp_path: Path, dtype: str) -> None:
    """A run of onnxruntime is told to end; a process that runs the reference is killed."""
    onnx.save(load(ENDLESS.format(dtype)), tmp_path / "m.onnx")
    with pytest.raises(UnverifiableError, match=r"did not end within|did not finish within 1 s; nothing was written"):
        optimize(tmp_path / "m.onnx", output=tmp_path / "out.onnx", time_limit=1)
    assert [p.name for p in tmp_path.iterdir()] == ["m.onnx"]


@dataclass
class Custom:
    """A pass that calls a function."""

    act: Callable[[Graph], int]
    name: str = "custom"

    def run(self, graph: Graph, change_log: ChangeLog) -> int:  # noqa: ARG002 - as all passes
        return self.act(graph)


def test_pass_that_asks_for_ever_within_a_time_limit(tmp_path: Path) -> None:
    """Code that checks the time limit ends also where it catches exceptions."""

    @dataclass
    class Asks:
        name: str = "asks"

        def run(self, graph: Graph, change_log: ChangeLog) -> int:  # noqa: ARG002 - as all passes
            while True:
                sleep(0.01)
                with suppress(Exception):
                    change_log.may_change("asks", "")

    with pytest.raises(TimeLimitError, match="the model: rewriting did not finish within 1 s; nothing was written"):
        optimize(load(RELU), Asks(), verify=False, output=tmp_path / "out.onnx", time_limit=1)
    assert list(tmp_path.iterdir()) == []
    assert optimize(load(RELU), "none", verify=False, time_limit=60).model is not None


def test_models_are_read_within_a_time_limit(tmp_path: Path) -> None:
    """Loops over the nodes, the initializers, the types and the functions of a model, and over a file, check it."""
    messages = {
        "nodes": load(RELU),
        "initializers": helper.make_model(helper.make_graph([], "g", [], [], [helper.make_tensor("w", 1, [1], [0.0])])),
        "types": helper.make_model(helper.make_graph([], "g", [], [], value_info=[onnx.ValueInfoProto(name="v")])),
    }
    calls = with_functions(["F0 (x) => (y) { y = Abs(x) }"])
    onnx.save(messages["nodes"], tmp_path / "m.onnx")
    readings: dict[str, Callable[[], object]] = {name: partial(from_onnx, m) for name, m in messages.items()}
    readings |= {"functions": partial(with_inlined_functions, calls), "file": partial(split_model, tmp_path / "m.onnx")}
    for name, read in readings.items():
        with pytest.raises(TimeLimitError, match=name), time_limit(1e-9, lambda name=name: name):
            read()


HOLD = """
import ctypes
class Hold:
    name = "hold"
    def run(self, graph, change_log):
        return ctypes.PyDLL(None).sleep(1000)  # with the global lock
HOLD = Hold()
"""


def test_native_code_of_a_plugin_within_a_time_limit(tmp_path: Path) -> None:
    onnx.save(load(RELU), tmp_path / "m.onnx")
    (tmp_path / "hold.py").write_text(HOLD)
    command = [sys.executable, "-m", "passwright", "run", "m.onnx", "--plugin", "hold.py", "--no-verify"]
    ended = subprocess.run(
        [*command, "-o", "o.onnx", "--time-limit", "2"],
        cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE, check=False,
    )  # fmt: skip
    assert (ended.returncode, ended.stdout) == (UNVERIFIED, "")
    assert ended.stderr == "error: m.onnx: rewriting did not finish within 2 s; nothing was written\n"
    assert {p.name for p in tmp_path.iterdir()} <= {"m.onnx", "hold.py", "__pycache__"}


def test_time_limit_of_a_command(tmp_path: Path) -> None:
    """Everything that is written is complete: the limit is lifted before that."""
    onnx.save(load(RELU), tmp_path / "m.onnx")
    arguments = ["run", str(tmp_path / "m.onnx"), "--no-verify", "-o", str(tmp_path / "o.onnx"), "--time-limit"]
    result = CliRunner().invoke(app, [*arguments, "0.001"])
    assert (result.exit_code, result.stderr.count("\n")) == (UNVERIFIED, 1)
    assert "nothing was written" in result.stderr
    assert not (tmp_path / "o.onnx").exists()
    invoke(*arguments, "100")
    assert (tmp_path / "o.onnx").exists()


def test_memory_of_the_reference() -> None:
    with pytest.raises(UnverifiableError, match="ran out of memory"):
        optimize(load(CROWDED), pipeline="none", memory=700_000_000)


def test_memory_by_the_size_of_a_model() -> None:
    """A small model may need much; one line names the option that allows it."""
    assert memory_for_model(1000) == memory_for_model(SMALL_MODEL) == MODEL_MEMORY
    assert memory_for_model(2 * SMALL_MODEL) == MODEL_MEMORY + MEMORY_PER_BYTE * 2 * SMALL_MODEL
    assert memory_for_model(1 << 50) <= default_memory()
    text = "g (float[2] x) => (float[1] y, z) <int64[1] big = {%d}> { y = Neg(x) z = ConstantOfShape(big) }"
    with pytest.raises(UnverifiableError, match=r"z has 2 GB, more than the 1\.07 GB .*; memory raises"):
        optimize(load(text % 500_000_000))


def test_memory_by_the_values_of_a_model() -> None:
    """A small file may compute large values, as networks of sound do, which two sessions hold several times."""
    big = 100 << 20
    text = f"""g (float[N,1] x) => (float[N,1] y) <int64[2] big = {{1,{big // 4}}}>
        {{ a = Expand(x, big) b = Neg(a) c = Neg(b) y = ReduceMax<axes=[1]>(c) }}"""
    spec = VerificationSpec.of(from_onnx(load(text)))
    assert spec.memory == min(MODEL_MEMORY + 8 * 2 * big, default_memory())


def test_memory_of_threads_and_of_users() -> None:
    """The stacks of threads count as allocated: a limit for the model alone would forbid sessions of many threads."""
    assert memory_for_model(1000, 64) == MODEL_MEMORY + stack_bytes(64)
    with given_memory(500_000_000), given_memory(None):
        assert memory_for_model(1000) == memory_for_model(100 * SMALL_MODEL) == 500_000_000
    assert memory_for_model(1000) == MODEL_MEMORY


WEIGHTS = '<ir_version: 8, opset_import: ["": 17]> g (float[1000] x) => (float[1000] y) { y = Add(x, w) }'
TAKES_MUCH = """g (float[N,2] x) => (float[N,2] y) <int64[1] size = {%d}> {
    big = ConstantOfShape(size) a = ReduceMax<keepdims=0>(big) y = Add(x, a)
}"""
FEEDS = {"x": np.zeros((1, 2), np.float32)}
SESSION = SessionConfig(ENABLE_ALL)


@pytest.mark.usefixtures("_worker_processes_are_new")
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux applies these limits")
@cases(
    "run",
    {
        "bench": lambda path: run_benchmark([BenchmarkTarget(path, SESSION)], {1: FEEDS}, BenchmarkConfig())[0].failure,
        "profile": lambda path: record_profile(path, SESSION, FEEDS, 0.01),
        "quantize": lambda path: collect_statistics(path, ["y"], [FEEDS]),
        "inputs": make_feeds,
    },
)
def test_memory_of_processes_that_measure(run: Callable[[Path], object], tmp_path: Path) -> None:
    onnx.save(load(TAKES_MUCH % (MODEL_MEMORY // 4)), tmp_path / "m.onnx")
    try:
        found = run(tmp_path / "m.onnx")
    except PassesError as e:
        found = e
    assert str(found).endswith("onnxruntime ran out of memory; --memory SIZE raises the limit")


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux applies these limits")
def test_memory_that_is_given_for_measurements(tmp_path: Path) -> None:
    onnx.save(load(TAKES_MUCH % 100_000_000), tmp_path / "m.onnx")
    with pytest.raises(UnverifiableError, match="onnxruntime ran out of memory"):
        bench([tmp_path / "m.onnx"], memory=300_000_000)


def test_inputs_that_are_too_large_to_measure_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are made in the process of the command, which has no limit for a model."""
    onnx.save(load("g (double[60000000] x) => (double y) { y = ReduceSum<keepdims=0>(x) }"), tmp_path / "m.onnx")
    with pytest.raises(UnverifiableError, match=r"inputs would take 480 MB, more than the \d+ MB .*; --memory SIZE"):
        make_feeds(tmp_path / "m.onnx")
    monkeypatch.setattr("passwright.app.measure.feeds.INPUTS_SHARE", 1 << 20)
    onnx.save(load("g (float[N,200] x) => (float[N,200] y) { y = Relu(x) }"), tmp_path / "m.onnx")
    found = make_feeds(tmp_path / "m.onnx", batches=(1, 32))
    assert list(found.by_batch) == [1]
    assert found.note.startswith("it does not run with a batch of 32: its inputs would take 0.0256 MB")


def test_bytes_of_models(tmp_path: Path) -> None:
    """Those of a file include its weights in others."""
    model, path = onnx.parser.parse_model(WEIGHTS), tmp_path / "m.onnx"
    model.graph.initializer.append(numpy_helper.from_array(np.zeros(1000, np.float32), "w"))
    onnx.save(model, path)
    size = path.stat().st_size
    assert model_bytes(path) == model_bytes(path.read_bytes()) == size > 4000
    assert 4000 < model_bytes(split_model(path)) <= size
    onnx.save(model, path, save_as_external_data=True, location="m.data")
    assert path.stat().st_size < 1000
    assert model_bytes(path) == path.stat().st_size + 4000
    path.write_bytes(b"no model")
    assert model_bytes(path) == 8


def test_values_larger_than_memory_are_not_computed() -> None:
    text = """g (float[2] x) => (float[2] y, z) <int64[1] big = {200000000}, int64[2] none = {200000000000, 0}> {
        y = Neg(x) e = ConstantOfShape(none) z = ConstantOfShape(big)
    }"""
    with pytest.raises(UnverifiableError, match=r"z has 0\.8 GB, more than the 0\.7 GB for verification"):
        optimize(load(text), memory=700_000_000)


@each(
    "text",
    {
        "Col2Im": "g (float[1,4,4] x, int64[1000000000] s, int64[2] b) => (float y) { y = Col2Im(x, b, s) }",
        "ConstantOfShape": "g (int64[1000000000] s) => (float y) { y = ConstantOfShape(s) }",
        "Expand": "g (float[2] x, int64[1000000000] s) => (float y) { y = Expand(x, s) }",
        "Reshape": "g (float[2] x, int64[1000000000] s) => (float y) { y = Reshape(x, s) }",
        "Resize": "g (float[2,2] x, int64[1000000000] s) => (float y) { y = Resize(x, , , s) }",
        "AffineGrid": "g (float[1,2,3] x, int64[1000000000] s) => (float y) { y = AffineGrid(x, s) }",
        "Slice": "g (float[2] x, int64[1000000000] s) => (float y) { y = Slice(x, s, s) }",
        "computed": "g (float[2] x, int64[1000000000] q) => (float y) { s = Abs(q) y = Expand(x, s) }",
    },
)
def test_ranks_of_no_tensor_are_refused(text: str) -> None:
    with pytest.raises(ModelError, match="s has 1,000,000,000 elements, more than a tensor has axes"):
        input_specs(from_onnx(load(text, opset=20)))


def test_cyclic_trees_are_refused() -> None:
    """The right tree has a root with two leaves; in the wrong one, a leaf is a branch to the root."""
    leaf = {"nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"], "nodes_truenodeids": [1, 0, 0]}
    branch = leaf | {"nodes_modes": ["BRANCH_LEQ", "BRANCH_LEQ", "LEAF"]}
    shared = {
        "nodes_treeids": [0, 0, 0], "nodes_nodeids": [0, 1, 2], "nodes_featureids": [0, 0, 0],
        "nodes_values": [0.5, 0.5, 0.5], "nodes_falsenodeids": [2, 2, 0], "n_targets": 1,
        "target_treeids": [0], "target_nodeids": [2], "target_ids": [0], "target_weights": [1.0],
    }  # fmt: skip
    for trees, refusal in ((leaf, nullcontext()), (branch, pytest.raises(ModelError, match="is below itself"))):
        model = load("g (float[N,1] x) => (float[N,1] y) { y = Relu(x) }")
        node = helper.make_node("TreeEnsembleRegressor", ["x"], ["y"], domain="ai.onnx.ml", **shared, **trees)
        model.graph.node[0].CopyFrom(node)
        model.opset_import.append(helper.make_opsetid("ai.onnx.ml", 3))
        with refusal:
            input_specs(from_onnx(model))


def test_trees_of_leaves_by_index() -> None:
    tree = {
        "nodes_featureids": [0, 0], "nodes_splits": onnx.numpy_helper.from_array(np.array([0.5, 0.5], np.float32)),
        "nodes_modes": onnx.numpy_helper.from_array(np.array([0, 0], np.uint8)), "nodes_trueleafs": [0, 1],
        "nodes_falsenodeids": [0, 1], "nodes_falseleafs": [1, 1], "leaf_targetids": [0, 0], "tree_roots": [0],
        "leaf_weights": onnx.numpy_helper.from_array(np.array([1.0, 2.0], np.float32)),
    }  # fmt: skip
    for child, is_cyclic in ((1, False), (0, True)):
        model = load("g (float[N,1] x) => (float[N,1] y) { y = Relu(x) }")
        node = helper.make_node("TreeEnsemble", ["x"], ["y"], domain="ai.onnx.ml", **tree, nodes_truenodeids=[child, 0])
        model.graph.node[0].CopyFrom(node)
        model.opset_import.append(helper.make_opsetid("ai.onnx.ml", 5))
        (op,) = from_onnx(model).graph.ops()
        assert has_cyclic_tree(op) == is_cyclic


def large_model(path: Path, *, external: bool) -> Path:
    """A model above the size up to which files are read instead of mapped."""
    text = "g (float[1] x) => (float[1500000] y) { a = Identity(x) y = Add(a, w) }"
    model = load(text, weights={"w": np.ones(1_500_000, np.float32)})
    onnx.save(model, path, save_as_external_data=external, location="w.bin")
    return path.parent / "w.bin" if external else path


def append(path: Path) -> None:
    with path.open("ab") as f:
        f.write(b"\x00")


@cases(
    "change",
    {
        "cut": lambda p: os.truncate(p, 100),
        "longer": append,
        "replaced": lambda p: Path(shutil.copyfile(p, f"{p}.new")).replace(p),
        "removed": Path.unlink,
    },
)
@pytest.mark.parametrize("kind", ["small", "message", "external"])
def test_model_that_is_changed_during_a_run(tmp_path: Path, change: Callable[[Path], object], kind: str) -> None:
    path = file = tmp_path / "m.onnx"
    if kind == "small":
        onnx.save(load(RELU), path)
    else:
        file = large_model(path, external=kind == "external")

    def act(graph: Graph) -> int:
        change(file)
        return sum(v.const.size for v in graph.initializers) * 0

    with pytest.raises(ModelError, match=f"{file.name} was (changed|cut) while it was in use"):
        optimize(path, Custom(act), verify=False, output=tmp_path / "out.onnx")
    assert not (tmp_path / "out.onnx").exists()


CUT = """
import os
class Cut:
    name = "cut"
    def run(self, graph, change_log):
        mapped = [v.tensor.array for v in graph.initializers]
        os.truncate("m.onnx", 100)
        return int(mapped[0].sum() == 0)
CUT = Cut()
"""


def test_cut_of_a_mapped_file_in_use(tmp_path: Path) -> None:
    large_model(tmp_path / "m.onnx", external=False)
    (tmp_path / "cut.py").write_text(CUT)
    command = [sys.executable, "-c", RUN, "run", "m.onnx", "--plugin", "cut.py", "--no-verify", "-o", "o.onnx"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr == "error: a file of the model was truncated while it was in use\n"
    assert not (tmp_path / "o.onnx").exists()


LIMITS = """
import resource
from passwright.core.processes.process_limits import (
    MACHINE_SHARE, limit_memory, machine_memory, stack_bytes, usable_cores,
)
def limit():
    return resource.getrlimit(resource.RLIMIT_DATA)[0]
limit_memory(None)
share = int(MACHINE_SHARE * machine_memory())
assert 0 < limit() <= share < machine_memory()
limit_memory(300_000_000)
assert limit() == 300_000_000 + stack_bytes(2 * usable_cores())
limit_memory(None)
print(limit() == share)
"""
EAT = """
class Eat:
    name = "eat"
    def run(self, graph, change_log):
        kept = []
        while True:
            kept.append(bytearray(100_000_000))
EAT = Eat()
"""


def with_soft_limit(size: int) -> Callable[[], None]:
    """A function that limits the memory of a child process, which may raise the limit."""
    import resource

    return lambda: resource.setrlimit(resource.RLIMIT_DATA, (size, resource.getrlimit(resource.RLIMIT_DATA)[1]))


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux applies these limits")
def test_memory_of_processes() -> None:
    """Without a limit of its own, a process has most of the machine's memory, or the limit with which it started."""
    for set_limit, has_share in ((None, "True"), (with_soft_limit(700_000_000), "False")):
        command = [sys.executable, "-c", LIMITS]
        ended = subprocess.run(command, preexec_fn=set_limit, capture_output=True, text=True, check=False)
        assert (ended.stderr, ended.stdout.strip()) == ("", has_share)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux applies these limits")
def test_pass_that_takes_all_memory(tmp_path: Path) -> None:
    onnx.save(load(RELU), tmp_path / "m.onnx")
    (tmp_path / "eat.py").write_text(EAT)
    command = [sys.executable, "-c", RUN, "run", "m.onnx", "--plugin", "eat.py", "--no-verify", "-o", "o.onnx"]
    ended = subprocess.run(
        command, cwd=tmp_path, preexec_fn=with_soft_limit(800_000_000), capture_output=True, text=True,
        timeout=PATIENCE, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    assert "skipped eat, as a whole: MemoryError" in ended.stderr
    assert [n.op_type for n in onnx.load(tmp_path / "o.onnx").graph.node] == ["Relu"]


def test_unknown_domains_are_looked_up_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model that imports 30,000 of them took 107 seconds."""
    calls: list[int] = []
    read_history = defs.get_all_schemas_with_history
    monkeypatch.setattr(defs, "get_all_schemas_with_history", lambda: calls.append(1) or read_history())
    op_schemas._history.cache_clear()
    model = load("g (float[2] x) => (float[2] y) { y = Abs(x) }")
    model.opset_import.extend(helper.make_opsetid(f"d{n}", 1) for n in range(50))
    optimize(model, verify=False)
    assert sum(calls) == 1


@pytest.mark.usefixtures("_worker_processes_are_new")
def test_engines_that_end_their_process(tmp_path: Path) -> None:
    """An engine that exits in a run, whatever the code, is said to have done so in one line, in each command."""
    model = tmp_path / "m.onnx"
    onnx.save(load("g (float[N,4] x) => (float[N,4] y) { y = Relu(x) }", 20), model)
    texts = {
        "os._exit(0)": "engine.py ended with exit code 0",
        "raise SystemExit(3)": "SystemExit: 3 (engine.py:8)",
        "raise KeyboardInterrupt": "KeyboardInterrupt (engine.py:8)",
    }
    for number, (text, reason) in enumerate(texts.items()):
        (folder := tmp_path / str(number)).mkdir()  # a process that has imported a file does not do so again
        engine = folder / "engine.py"
        engine.write_text(f"""import os
from passwright.core import Engine, EngineSession, find_engine
class Session(EngineSession):
    def __init__(self, session):
        self.session = session
        self.inputs, self.outputs = session.inputs, session.outputs
    def run(self, outputs, feeds):
        {text}
ENGINE = Engine("ending", lambda model, settings: Session(find_engine("onnxruntime").load(model, settings)))
""")
        result = CliRunner().invoke(app, ["verify", str(model), "--engine", str(engine), "--effort", "quick"])
        assert (result.exit_code, reason in " ".join(result.stdout.split()), result.stderr) == (3, True, "")
        options = ["--engine", "onnxruntime", "--engine", str(engine), "--batch", "1", "--min-time", "0.01"]
        result = CliRunner().invoke(app, ["bench", str(model), *options])
        (line,) = result.stderr.splitlines()
        assert (result.exit_code, reason.removeprefix("engine.py ") in line) == (1, True)
        _find_engine.cache_clear()
