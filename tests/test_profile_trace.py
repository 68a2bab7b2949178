"""Traces of onnxruntime's profiler, and the repetition of runs for them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from passwright.app.measure.profile_trace import ProfiledRun, loading_seconds, parse_runs, read_trace
from passwright.app.profile.profile_recording import MAX_EVENTS, MAX_RUNS, MIN_RUNS, WARMUP_RUNS, max_runs, repeat
from passwright.core.errors import EvaluationError
from rewriting import cases

if TYPE_CHECKING:
    from pathlib import Path

CPU = "CPUExecutionProvider"


def run(ts: int, dur: int) -> dict[str, Any]:
    return {"cat": "Session", "ph": "X", "name": "model_run", "pid": 1, "tid": 1, "ts": ts, "dur": dur, "args": {}}


def node(name: str, ts: int, dur: int, op: str = "Add", tid: int = 1, **args: Any) -> dict[str, Any]:
    told = {"op_name": op, "provider": CPU, "node_index": "0", **args}
    return {"cat": "Node", "ph": "X", "name": f"{name}_kernel_time", "tid": tid, "ts": ts, "dur": dur, "args": told}


def owns(run: ProfiledRun) -> dict[str, int]:
    """Microseconds per kernel without nested ones, summed by name."""
    found: dict[str, int] = {}
    for k in run.kernels:
        found[k.name] = found.get(k.name, 0) + round(k.self_seconds * 1e6)
    return found


OTHER_EVENTS: list[Any] = [
    {"cat": "Session", "name": "session_initialization", "ts": 0, "dur": 4, "args": {}},
    {"cat": "Session", "name": "SequentialExecutor::Execute", "ts": 5, "dur": 3, "args": {}},
    {"cat": "Node", "name": "a_fence_before", "ts": 5, "dur": 1, "args": {"op_name": "Add"}},
    {"cat": "Kernel", "name": "volta_sgemm", "ts": 6, "dur": 7, "args": {"stream": "7"}},
    {"cat": "Api", "name": "cudaLaunchKernel", "ts": 6, "dur": 1},
    {"name": "process_name", "ph": "M", "args": {"name": "x"}},
    {"cat": "Node", "name": "b_kernel_time", "ts": None, "dur": 1},
    "text",
    None,
]
LOOP = node("loop", 2, 9, "Loop")
RUNS: dict[str, tuple[list[Any], list[dict[str, int]]]] = {
    "one after the other": ([node("a", 1, 4), node("b", 5, 3), run(0, 10)], [{"a": 4, "b": 3}]),
    "a body": ([node("in", 3, 4), node("in", 8, 1), LOOP, run(0, 12)], [{"loop": 4, "in": 5}]),
    "a body in a body": (
        [node("deep", 4, 2), node("if", 3, 5, "If"), LOOP, run(0, 12)],
        [{"loop": 4, "if": 3, "deep": 2}],
    ),
    "all in the body": ([node("in", 2, 3), node("if", 2, 3, "If"), run(0, 9)], [{"if": 0, "in": 3}]),
    "two threads": ([node("a", 2, 3), node("b", 3, 5, tid=2), run(0, 9)], [{"a": 3, "b": 5}]),
    "two runs": ([node("a", 1, 4), run(0, 5), node("b", 11, 2), run(10, 5)], [{"a": 4}, {"b": 2}]),
    "a run that was cut off": ([run(0, 5), node("a", 1, 4), node("b", 11, 2)], [{"a": 4}]),
    "too short to tell": ([node("a", 2, 0), run(2, 3)], [{"a": 0}]),
    "no nodes": ([run(0, 3)], [{}]),
    "nothing": ([], []),
    "others": ([*OTHER_EVENTS, node("a", 6, 2, provider="CUDAExecutionProvider"), run(4, 9)], [{"a": 2}]),
}


@cases(("events", "expected"), RUNS)
def test_parse_runs(events: list[Any], expected: list[dict[str, int]]) -> None:
    found = parse_runs(events)
    assert [owns(r) for r in found] == expected
    assert [round(r.node_seconds * 1e6) for r in found] == [sum(e.values()) for e in expected]


@pytest.mark.parametrize("args", [None, {}, "text", {"op_name": "Add", "node_index": "x"}])
def test_arguments_may_be_missing(args: Any) -> None:
    bare = {"cat": "Node", "name": "a_kernel_time", "ts": 1, "dur": 2, "tid": 1, "args": args}
    (kernel,) = parse_runs([bare, run(0, 4)])[0].kernels
    assert (kernel.name, kernel.provider, kernel.index) == ("a", "", -1)
    assert kernel.op in {"", "Add"}


def test_kernel_fields_are_read() -> None:
    (found,) = parse_runs([node("a", 120, 30, "Conv", node_index="7"), run(100, 60)])
    (kernel,) = found.kernels
    assert (kernel.name, kernel.op, kernel.provider, kernel.index) == ("a", "Conv", CPU, 7)
    assert (kernel.start, kernel.seconds, found.start, found.seconds) == pytest.approx((20e-6, 30e-6, 100e-6, 60e-6))


def test_bytes_are_read() -> None:
    told = {"output_size": "64", "mem_in_use_delta": "256", "mem_bytes_in_use": "1024"}
    freed = {**told, "mem_in_use_delta": "-256", "output_size": ""}
    kernels = parse_runs([node("a", 1, 2, **told), node("b", 4, 2, **freed), node("c", 7, 1), run(0, 9)])[0].kernels
    assert [(k.written, k.allocated, k.held) for k in kernels] == [(64, 256, 1024), (0, 0, 1024), (0, 0, 0)]


def test_seconds_to_load_are_those_of_all_parts() -> None:
    read, other = ({"cat": "Session", "name": f"model_loading_{n}", "ts": 0, "dur": 3} for n in ("uri", "array"))
    assert loading_seconds([*OTHER_EVENTS, read, other, run(9, 5)]) == pytest.approx((6e-6, 4e-6))
    assert loading_seconds([run(9, 5), read]) is None


@pytest.mark.parametrize("text", ["", "{", '{"a": 1}', "3"])
def test_other_files_are_rejected(tmp_path: Path, text: str) -> None:
    path = tmp_path / "p.json"
    path.write_text(text)
    with pytest.raises(EvaluationError, match="onnxruntime's profile"):
        read_trace(path)


def test_file_with_invalid_utf8(tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    path.write_bytes(json.dumps([node("@", 1, 2), run(0, 4)]).encode().replace(b"@", b"\xff\x01"))
    assert len(read_trace(path)[0].kernels) == 1


def test_unescaped_names_are_read(tmp_path: Path) -> None:
    """As written by onnxruntime 1.23.2."""
    head, path = '{"cat" : "%s","pid" :1,"tid" :1,"dur" :%d,"ts" :%d,"ph" : "X","name" :"', tmp_path / "p.json"
    names = ['a"b\\c', "two\nlines", "plain"]
    nodes = [
        head % ("Node", 2, 10 * i) + name + '_kernel_time","args" : {"op_name" : "Add"}}'
        for i, name in enumerate(names)
    ]
    path.write_text("[\n" + ",\n".join([*nodes, head % ("Session", 90, 0) + 'model_run","args" : {}}']) + "\n]\n")
    assert [k.name for k in read_trace(path)[0].kernels] == names


def test_long_profiles_take_linear_time() -> None:
    """Each node is visited once, not once per run."""
    events = [e for i in range(500) for e in (*(node(f"n{j}", i * 100 + j, 1) for j in range(40)), run(i * 100, 90))]
    found = parse_runs(events)
    assert [len(r.kernels) for r in found] == [40] * 500


@pytest.mark.parametrize(
    ("kernels", "most"),
    [(0, MAX_RUNS), (1, MAX_RUNS), (1000, MAX_EVENTS // 1000 - WARMUP_RUNS), (MAX_EVENTS, MIN_RUNS), (10**9, MIN_RUNS)],
)
def test_max_runs_of_a_profile(kernels: int, most: int) -> None:
    assert max_runs(kernels) == most


@cases(
    ("each", "seconds", "most", "count"),
    {
        "for a time": (1.0, 5.0, 100, 5),
        "at least": (1.0, 0.0, 100, MIN_RUNS),
        "slow": (60.0, 5.0, 100, MIN_RUNS),
        "at most": (1.0, 50.0, 10, 10),
    },
)
def test_repeat(each: float, seconds: float, most: int, count: int) -> None:
    now = [0.0]

    def tick() -> None:
        now[0] += each

    repeat(tick, seconds, most, lambda: now[0])
    assert now[0] == each * count
