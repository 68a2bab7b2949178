"""Evaluation of constant ops in a worker process: crashes, hangs and lack of memory leave single ops undone."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from passwright.core import Graph, evaluate, from_onnx
from passwright.core.io.model_source import model_source
from passwright.core.ort import evaluation
from passwright.core.ort.evaluation_start import EVALUATION_WORKER
from passwright.core.ort.evaluation_worker import EvaluationLimits
from passwright.core.processes.worker_process import WorkerPool, worker_pool
from rewriting import cases, load

WEIGHTS: dict[str, Any] = {
    "w": np.array([1, -2], np.float32),
    "least": np.array([-(2**63)], np.int64),
    "less": np.array([-1], np.int64),
    "most": np.int64(2**62),
    "yes": np.bool_(True),
    "lots": np.array([1 << 31], np.int64),
    "words": np.array(["a" * 40 + "b"], object),
    "large": np.arange(5000, dtype=np.float32),
}


@pytest.fixture(autouse=True)
def _failures_are_forgotten() -> None:
    evaluation._known_failures(os.getpid()).clear()


def graph_of(text: str, opset: int = 20) -> Graph:
    return from_onnx(load(f"g (float[2] x) => (float[2] y) {{ {text} y = Neg(x) }}", opset, WEIGHTS)).graph


def evaluated(text: str, limits: EvaluationLimits) -> tuple[dict[str, Any], list[str]]:
    """The arrays of all values that `text` computes, and the failures."""
    graph = graph_of(text)
    ops = [op for op in graph.sorted_ops() if op.outputs[0].name != "y"]
    failures: list[str] = []
    found = evaluate(
        ops,
        [v for op in ops for v in op.outputs],
        limits=limits,
        on_failure=lambda op, why: failures.append(f"{op}: {why}"),
    )
    return {v.name: t.array for v, t in found.items()}, failures


CRASH = ("n = Div(least, less)", EvaluationLimits(), "Div n: onnxruntime crashed (SIGFPE)")
LOOP = (
    "n = Loop (most, yes, w) <body = l (int64 j, bool c, float[2] b) => (bool d, float[2] e)"
    " { d = Identity(c) e = Abs(b) }>"
)


@cases(
    ("text", "limits", "failure"),
    {
        "crash": CRASH,
        "endless loop": (LOOP, EvaluationLimits(seconds=1.0), "Loop n: onnxruntime did not end within 1 s"),
        "memory": (
            "s = Abs(lots) n = ConstantOfShape(s)",
            EvaluationLimits(memory=1 << 30),
            "ConstantOfShape n: onnxruntime ran out of memory",
        ),
    },
)
def test_an_op_that_aborts_is_left_and_others_are_computed(text: str, limits: EvaluationLimits, failure: str) -> None:
    begun = f"a = Exp(w) b = Abs(large) {text}"
    found, failures = evaluated(f"{begun} c = Cast<to=1>(n) d = Add(a, w)", limits)
    np.testing.assert_array_equal(found["b"], WEIGHTS["large"])
    np.testing.assert_array_equal(found["d"], found["a"] + WEIGHTS["w"])
    assert not {"n", "c"} & set(found)
    assert [f.replace("it did", "onnxruntime did") for f in failures] == [failure]


def test_an_op_that_aborted_is_not_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    text, limits, failure = CRASH
    first = evaluated(text, limits)
    monkeypatch.setattr(evaluation, "_run_session", pytest.fail)
    assert first == evaluated(text, limits) == ({}, [failure])


def test_only_so_many_ops_may_abort(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluation, "MAX_ABORTED_RUNS", 2)
    text = " ".join(f"n{i} = Div(least, less)" for i in range(4))
    found, failures = evaluated(f"{text} a = Neg(w)", EvaluationLimits())
    assert (len(failures), found) == (2, {})


def test_regular_expressions_are_not_left_to_the_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    """onnxruntime rejects the pattern, for which Python would take exponential time."""
    by_reference = list[bool]()
    run = evaluation.EvaluationProcess.run

    def count(process: Any, *arguments: Any, **options: Any) -> Any:
        by_reference.append(options["by_reference"])
        return run(process, *arguments, **options)

    monkeypatch.setattr(evaluation.EvaluationProcess, "run", count)
    pattern = "(((a{1,100}){1,100}){1,100}){1,100}"
    found, failures = evaluated(f'n = RegexFullMatch<pattern="{pattern}">(words) a = Exp(w)', EvaluationLimits())
    assert (list(found), failures) == (["a"], [])
    assert set(by_reference) == {False}


def test_the_worker_is_kept_for_the_next_evaluation() -> None:
    evaluated("a = Exp(w)", EvaluationLimits())
    worker = worker_pool().take(EVALUATION_WORKER)
    first = worker.pid
    worker_pool().give_back(worker)
    evaluated("a = Sin(w)", EvaluationLimits())
    again = worker_pool().take(EVALUATION_WORKER)
    worker_pool().give_back(again)
    assert first == again.pid


def test_a_worker_that_serves_more_is_taken_too() -> None:
    pool = WorkerPool()
    pool.start(EVALUATION_WORKER, also=("other",))
    worker = pool.take(("other",))
    assert worker.command == EVALUATION_WORKER
    worker.terminate()


def test_large_weights_are_read_from_their_file(tmp_path: Path) -> None:
    model = load("g (float[5000] x) => (float[5000] y) { a = Abs(large) y = Add(x, a) }", weights=WEIGHTS)
    path = tmp_path / "model.onnx"
    onnx.save(model, path, save_as_external_data=True, location="weights", size_threshold=0)
    graph = model_source(path, inline=True).load().graph
    (op,) = graph.ops("Abs")
    (tensor,) = evaluate([op], op.outputs).values()
    np.testing.assert_array_equal(tensor.array, WEIGHTS["large"])
