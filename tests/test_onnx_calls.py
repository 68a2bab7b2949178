"""Calls of onnx's native code: the same answers in a worker, and what ends the worker."""

import ast
import multiprocessing
import os
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import onnx
import onnxruntime
import pytest
from node_cases import backend_cases
from onnx import defs, onnx_cpp2py_export, version_converter
from passwright.app.measure.model_stats import compute_model_stats
from passwright.core import PassesError, from_onnx
from passwright.core.ort.kernels import highest_opset_of_onnxruntime
from passwright.core.processes import onnx_calls
from passwright.core.processes.onnx_calls import OnnxAborted, OnnxError
from rewriting import load
from test_layout import MODULES

from passwright import diff, explain, info, optimize, verify

GOLDEN = Path(__file__).parent.parent / "golden_models"
CRASH = "y = GatherND<batch_dims=-5>(x, i)"
HANG = 'y = Einsum<equation="i...j...,.->">(x, x)'


def failing(body: str) -> onnx.ModelProto:
    """A model whose node ends the inference of onnx 1.23, and others."""
    return load(f"g (float[3,4] x, int64[2,2] i) => (y) {{ {body} }}", opset=18)


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnx_calls, "CALL_SECONDS", 0.3)


def worker_pid() -> int | None:
    return onnx_calls._process(os.getpid())._worker.pid


def test_answers_are_those_of_onnx() -> None:
    models = [case.model for case in list(backend_cases().values())[::60]]
    assert len(models) > 20
    for model in models:
        assert onnx_calls.infer_shapes(model) == onnx.shape_inference.infer_shapes(model)
    model = load("g (float[3,4] x) => (float[3,4] y) { y = Softmax(x) }", opset=11)
    assert onnx_calls.convert_version(model, 13) == version_converter.convert_version(model, 13)
    spec, node = defs.get_schema("Concat", 13), onnx.parser.parse_node("y = Concat<axis=5>(x)")
    given = onnx.helper.make_tensor_type_proto(1, [3]).SerializeToString()
    with pytest.raises(OnnxError, match="axis must be in"):
        onnx_calls.infer_node_outputs(spec, node, {"x": given}, {}, {"": 13})
    with pytest.raises(OnnxError, match="Unable to parse"):
        onnx_calls.check_file(GOLDEN / "README.md")


def test_types_that_a_schema_fixes_are_not_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    model = load("g (float[N,3] x) => (float[A,B] z) { y = ai.onnx.ml.Scaler(x) z = Neg(y) }", opset=18)
    model.opset_import.add(domain="ai.onnx.ml", version=1)
    monkeypatch.setattr(onnx_calls, "_call", None)
    scaled = from_onnx(model).graph.outputs[0].producer.inputs[0]
    assert (scaled.known_dtype, scaled.known_shape) == (onnx.TensorProto.FLOAT, None)


@pytest.mark.parametrize(("body", "reason"), [(CRASH, "crashed"), (HANG, "did not end within 0.3 s")])
@pytest.mark.usefixtures("hasty")
def test_a_call_that_ends_the_worker_is_made_once(body: str, reason: str) -> None:
    model = failing(body)
    model.producer_name = "other"  # no other test has asked
    with pytest.raises(OnnxAborted, match=f"onnx's converter {reason}"):
        onnx_calls.convert_version(model, 21)
    assert onnx_calls.infer_shapes(model) is model
    onnx_calls._process(os.getpid())._worker.start()
    pid = worker_pid()
    assert pid is not None
    with pytest.raises(OnnxAborted, match=reason):
        onnx_calls.convert_version(model, 21)
    assert worker_pid() == pid


def test_a_model_aborts_so_many_calls() -> None:
    """Later inferences of the model do not ask."""
    nodes = " ".join(f"y{n} = GatherND<batch_dims={-3 - n}>(s, i)" for n in range(9))
    model = load(f"g (float[3,4] x, int64[?,2] i) => (y0) {{ s = Det(x) {nodes} }}", opset=18)
    graph = from_onnx(model).graph
    for op in graph.ops("GatherND"):
        assert op.outputs[0].known_shape is None
    assert graph.context.aborted_calls <= 4


def forked(queue: Any) -> None:
    queue.put((onnx_calls.infer_shapes(failing("y = Tan(x)")).graph.output[0].type.tensor_type.elem_type, worker_pid()))


def test_a_fork_has_a_worker_of_its_own() -> None:
    onnx_calls.infer_shapes(failing("y = Tan(x)"))
    pid, context = worker_pid(), multiprocessing.get_context("fork")
    onnx_calls._process(os.getpid())._answers.clear()
    queue: Any = context.Queue()
    child = context.Process(target=forked, args=(queue,))
    child.start()
    dtype, other = queue.get(timeout=60)
    child.join()
    assert (dtype, child.exitcode) == (1, 0)
    assert other not in {pid, None}
    onnx_calls._process(os.getpid())._answers.clear()
    assert onnx_calls.infer_shapes(failing("y = Tan(x)")).graph.output[0].type.tensor_type.elem_type == 1
    assert worker_pid() == pid


def test_threads_share_the_worker() -> None:
    models = [failing(f"t = Transpose<perm=[{n % 2},{1 - n % 2}]>(x) y = Slice(t, i, i)") for n in range(8)]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(onnx_calls.infer_shapes, models))
    assert [m.graph.value_info[0].type.tensor_type.shape.dim[0].dim_value for m in found] == [3, 4] * 4


NATIVE = {"shape_inference", "version_converter", "inliner", "checker", "reference", "parser", "printer"}


CONTEXT_DEPENDENT = {"get_context_dependent_function", "get_context_dependent_function_with_opset_version"}
METHODS = {"_infer_node_outputs", *CONTEXT_DEPENDENT}


def is_native(node: ast.AST) -> bool:
    """Whether a node imports a module of native code, or takes one of its attributes."""
    match node:
        case ast.Import():
            names = [a.name for a in node.names]
        case ast.ImportFrom(level=0, module=str(module)):
            names = [f"{module}.{a.name}" for a in node.names]
        case ast.Attribute(value=ast.Name(id="onnx")):
            names = [f"onnx.{node.attr}"]
        case _:
            return isinstance(node, ast.Attribute) and node.attr in METHODS
    return any(name.startswith("onnx") and not NATIVE.isdisjoint(name.split(".")) for name in names)


def test_only_one_module_calls_native_code() -> None:
    """The testing kit reads text of rules, and the evaluation of constants has the reference in its worker."""
    texts = {m: path.read_text(encoding="utf-8") for m, path in MODULES.items() if not m.startswith("testing")}
    named = re.compile("|".join({*NATIVE, *METHODS}))
    found = {m for m, t in texts.items() if named.search(t) and any(map(is_native, ast.walk(ast.parse(t))))}
    evaluators = {"core.operators.reference", "core.ort.python_kernels", "core.ort.reference_evaluator"}
    assert found == {"core.processes.onnx_worker", *evaluators}


@pytest.fixture
def no_native_code(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The names of the native functions that this process called, which raise."""
    called: list[str] = []

    def forbid(owner: Any, name: str) -> None:
        def refuse(*_: Any, **__: Any) -> Any:
            called.append(name)
            raise AssertionError(name)

        monkeypatch.setattr(owner, name, refuse)

    library: Any = onnx_cpp2py_export
    forbid(library.shape_inference, "infer_shapes")
    forbid(library.version_converter, "convert_version")
    for name in ("inline_local_functions", "inline_selected_functions"):
        forbid(library.inliner, name)
    for name in ("check_model", "check_model_path"):
        forbid(library.checker, name)
    for name in ("_infer_node_outputs", *CONTEXT_DEPENDENT):
        forbid(library.defs.OpSchema, name)
    highest_opset_of_onnxruntime()  # found with a model of its own
    forbid(onnxruntime, "InferenceSession")
    yield called
    assert called == []


@pytest.mark.parametrize("name", ["keras_cnn", "gru_tagger", "functions", "cnn_qdq", "sklearn_mlp", "script_scan"])
def test_the_caller_runs_no_native_code(name: str, no_native_code: list[str], tmp_path: Path) -> None:
    path, result = GOLDEN / f"{name}.onnx", tmp_path / "out.onnx"
    optimize(path, output=result)
    if name == "functions":
        optimize(path, opset=21, value_info="write", verify=False)
        verify(path, result)
        compute_model_stats(path)
    assert no_native_code == []


ACTIONS: dict[str, Callable[[Path], Any]] = {
    "optimize": optimize,
    "opset": lambda path: optimize(path, opset=21),
    "outputs": lambda path: optimize(path, outputs=["y"], verify=False),
    "verify": lambda path: verify(path, path),
    "info": info,
    "diff": lambda path: diff(path, path),
    "explain": lambda path: explain(path, "merge-transposes"),
}


@pytest.mark.parametrize("body", [CRASH, HANG], ids=["crash", "hang"])
@pytest.mark.usefixtures("no_native_code", "hasty")
def test_models_that_end_native_code(body: str, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    onnx.save(failing(body), path)
    for name, action in ACTIONS.items():
        try:
            action(path)
        except PassesError as e:
            assert "\n" not in str(e), name  # noqa: PT017 - or it succeeds
