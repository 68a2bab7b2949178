"""External tools as passes: their changes are merged op by op, and wrong ones are rejected."""

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from passwright.app.registry import tool_pass as serving
from passwright.app.registry.tool_pass import ToolPass, ToolProcess
from passwright.core import Fixpoint, Pipeline, from_onnx, to_onnx
from passwright.core.errors import FailureKind, PassFailed
from passwright.core.io.foreign_models import plan_foreign_merge, proto_without_weights
from passwright.core.io.model_source import model_source
from passwright.core.processes.worker_process import WorkerProcess
from passwright.core.rewriting.change_log import ChangeLog
from rewriting import apply_passes, cases, load, op_types, require_equivalent

from passwright import optimize

HERE = Path(__file__).parent
GOLDEN = HERE.parents[2] / "golden_models"
TEXT = """g (float[N,4] x, float[4] d) => (float[N,4] y) <float[4] d = {1,2,3,4}, float[4] w = {5,6,7,8}> {
    a = Add(x, w)
    i = Identity(a)
    e = Elu(i)
    m = Mul(e, d)
    y = Neg(m)
}"""


@pytest.fixture(autouse=True)
def on_the_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(HERE))


@cache
def tool_process(limit: float) -> ToolProcess:
    """The process shared by all tests; it is replaced when a tool ends it."""
    return ToolProcess("tool:run", limit)


def tool(option: str, *, limit: float = 300.0, domains: tuple[str, ...] = ()) -> ToolPass:
    return ToolPass(f"tool:{option}", tool_process(limit), option, domains)


def documented() -> onnx.ModelProto:
    """The model with names, docs, metadata and value_info."""
    model = load(TEXT)
    for node in model.graph.node:
        node.name, node.doc_string = f"node_{node.output[0]}", f"makes {node.output[0]}"
        node.metadata_props.add(key="of", value=node.output[0])
    model.graph.value_info.extend(onnx.helper.make_tensor_value_info(n, 1, ["N", 4]) for n in "aiem")
    model.metadata_props.add(key="author", value="somebody")
    model.graph.doc_string = "a graph"
    return model


def test_tool_without_changes_keeps_the_graph() -> None:
    model = documented()
    result, change_log = apply_passes(model, tool("nothing"))
    assert not change_log.changes
    assert to_onnx(result) == model


def test_tools_have_the_memory_of_the_machine() -> None:
    _, change_log = apply_passes(documented(), tool("allocate"))
    assert not change_log.changes


def test_unchanged_nodes_keep_their_annotations() -> None:
    model = documented()
    result, change_log = apply_passes(model, tool("drop_identity"))
    made = to_onnx(result)
    assert op_types(made) == ["Add", "Elu", "Mul", "Neg"]
    assert [(c.by, c.place, c.replaced) for c in change_log.changes] == [
        ("tool:drop_identity", "", ("Identity node_i", "Elu node_e"))
    ]
    kept = {n.name: n for n in model.graph.node}
    assert all(n == kept[n.name] for n in made.graph.node if n.op_type != "Elu")
    assert (made.graph.input, made.graph.output) == (model.graph.input, model.graph.output)
    assert [v.name for v in made.graph.value_info] == ["a", "e", "m"]
    (elu,) = (n for n in made.graph.node if n.op_type == "Elu")
    assert elu.doc_string == "makes e"
    assert {p.key: p.value for p in elu.metadata_props} == {
        "of": "e", "passwright.rule": "tool:drop_identity", "passwright.from": '["node_e"]',
    }  # fmt: skip
    require_equivalent(model, made, exact=True)


def test_unchanged_ops_and_values_are_the_same_objects() -> None:
    model = from_onnx(documented())
    ops = {op.name: op for op in model.graph.ops()}
    values = {v.name: v for op in model.graph.ops() for v in op.outputs}
    assert tool("drop_identity").run(model.graph, ChangeLog()) == 1
    model.graph.validate()
    for op in model.graph.ops():
        assert (op is ops[op.name]) == (op.type != "Elu")
        assert all(v is values[v.name] for v in op.outputs)


def test_renamed_inner_values_do_not_change_ops() -> None:
    """Ops do not differ by the names of their inner values; renamed initializers are new ones."""
    model = documented()
    result, _ = apply_passes(model, tool("rename_inner"))
    made = to_onnx(result)
    assert [n.name for n in made.graph.node] == [n.name for n in model.graph.node]
    require_equivalent(model, made, exact=True)


@pytest.mark.parametrize(
    ("option", "why", "message"),
    [
        ("rename_output", FailureKind.INTERFACE, "output y is now called other"),
        ("drop_output", FailureKind.INTERFACE, "output y was removed"),
        ("rename_input", FailureKind.INTERFACE, "input x is now called other"),
        ("retype_input", FailureKind.INTERFACE, "input x was float[N,4] and is double[N,4]"),
        ("resize_input", FailureKind.INTERFACE, "input x was float[N,4] and is float[N,5]"),
        ("drop_default", FailureKind.INTERFACE, "input d was removed"),
        ("change_default", FailureKind.INTERFACE, "overridable initializer d changed"),
        ("raise_opset", FailureKind.INTERFACE, "opset 17 of ai.onnx became 18"),
        ("other_domain", FailureKind.INTERFACE, "it added operators of com.microsoft, which the model does not use"),
        ("own_operator", FailureKind.INTERFACE, "it added QuickElu, which opset 17 of ai.onnx does not have"),
        ("assert_in_c", FailureKind.RAISED, "tool:assert_in_c: RuntimeError: erase: Assertion `unused` failed. again"),
        ("make_cycle", FailureKind.RAISED, "its result is not a model: "),
        ("leave_file", FailureKind.RAISED, "its result is not a model: w has its elements in another file"),
        ("crash", FailureKind.RAISED, "it crashed (SIGABRT)"),
        ("leave", FailureKind.RAISED, "it ended with exit code 7"),
        ("stumble", FailureKind.RAISED, "RuntimeError: the tool says no and more"),
        ("give_nothing", FailureKind.RAISED, "TypeError: it returned None, not a model"),
        ("return_exit", FailureKind.RAISED, "SystemExit: enough"),
        ("relu_for_elu", FailureKind.WRONG, "y: "),
    ],
)
def test_bad_tool_result_is_rejected_and_others_kept(option: str, why: FailureKind, message: str) -> None:
    model = load(TEXT if option != "leave_file" else TEXT.replace("float[4] d = {1,2,3,4}, ", ""))
    result = optimize(model, pipeline=Pipeline("all", (tool(option), tool("drop_identity"))))
    assert "Identity" not in op_types(result.model)
    assert "Elu" in op_types(result.model)
    (found,) = result.report.rejected
    assert (found.pass_name, found.failure_kind) == (f"tool:{option}", why)
    assert message in found.message
    assert "\n" not in found.message
    assert len(found.message) < 400
    assert found.message.startswith(f"tool:{option}: ") or why is FailureKind.WRONG


def test_hanging_tool_is_ended_once(monkeypatch: pytest.MonkeyPatch) -> None:
    requested = list[str]()
    real = WorkerProcess.call_method

    def counting(self: WorkerProcess[Any], name: str, arguments: Any, timeout: Any, **options: Any) -> Any:
        if name == "call":
            requested.append(arguments[0][-1])
        return real(self, name, arguments, timeout, **options)

    monkeypatch.setattr(WorkerProcess, "call_method", counting)
    result = optimize(load(TEXT), pipeline=Pipeline("all", (tool("hang", limit=0.5), tool("drop_identity"))))
    assert requested.count("hang") == 1
    (found,) = result.report.rejected
    assert (found.failure_kind, found.message) == (FailureKind.ENDLESS, "tool:hang: it did not end within 0.5 s")
    assert "Identity" not in op_types(result.model)


def test_crash_of_used_process_is_retried_in_new_one() -> None:
    fresh = ToolProcess("tool:run")
    for option in ("nothing", "crash_if_served", "nothing"):
        assert ToolPass(option, fresh, option).run(from_onnx(load(TEXT)).graph, ChangeLog()) == 0


def test_symbolic_dims_are_kept() -> None:
    model = load(TEXT)
    result, change_log = apply_passes(model, tool("fix_dim"))
    assert not change_log.changes
    assert to_onnx(result) == model


@pytest.mark.parametrize("option", ["copy_node", "nameless"])
def test_node_names_stay_unique(option: str) -> None:
    """onnxruntime rejects a model with two nodes of one name."""
    model = load("g (float[2] x) => (float[2] y, float[2] z) { [one] z = Elu(x) [two] y = Neg(z) }")
    result = optimize(model, pipeline=tool(option))
    assert not result.report.rejected
    names = [n.name for n in result.model.graph.node if n.name]
    assert len(set(names)) == len(names)
    called = {n.output[0]: n.name for n in result.model.graph.node}
    assert (called["z"], called["y"]) == ("one", "two")


def test_changed_weight_is_a_new_value() -> None:
    model = load("g (float[2] x) => (float[2] y) <float[2] w = {1,2}> { y = Add(x, w) }")
    result, _ = apply_passes(model, tool("double_weight"))
    (op,) = result.graph.ops()
    assert op.by == "tool:double_weight"
    assert op.inputs[1] is not None
    assert op.inputs[1].name == "w"
    assert op.inputs[1].const.tolist() == [2, 4]
    (found,) = optimize(model, pipeline=tool("double_weight")).report.rejected
    assert found.failure_kind is FailureKind.WRONG


@pytest.mark.parametrize("end", ["y = Mul(x, s)", "t = Mul(x, s) y = Neg(t)", "t = Neg(x) y = Identity(s)"])
def test_folded_value_keeps_its_consumers(end: str) -> None:
    model = from_onnx(load(f"g (float[2] x) => (float[2] y) <float[2] a = {{1,2}}> {{ s = Add(a, a) {end} }}"))
    readers = list(model.graph.ops())[1:]
    assert tool("fold_sum").run(model.graph, ChangeLog()) == 1
    model.graph.validate()
    assert list(model.graph.ops()) == readers
    assert {v.name: v.const.tolist() for v in model.graph.initializers} == {"s": [2, 4]}


def test_declared_domain_is_imported() -> None:
    result, _ = apply_passes(load(TEXT), tool("other_domain", domains=("com.microsoft",)))
    assert {e.domain: e.version for e in to_onnx(result).opset_import} == {"": 17, "com.microsoft": 1}


def test_exact_only_run_does_not_call_the_tool() -> None:
    result, change_log = apply_passes(load(TEXT), tool("crash"), exact_only=True)
    assert not change_log.changes
    assert len(result.graph) == 5


def test_correct_change_converges_in_a_loop() -> None:
    result = optimize(load(TEXT), pipeline=Fixpoint("loop", (tool("drop_identity"), tool("nothing"))))
    assert op_types(result.model) == ["Add", "Elu", "Mul", "Neg"]
    assert not result.report.rejected


def test_equal_requests_run_the_tool_once(tmp_path: Path) -> None:
    """Replays would otherwise run the tool again, and a nondeterministic tool could change something else."""
    log = tmp_path / "log"
    (tmp_path / "counting.py").write_text(
        f"def run(model, option):\n    open({str(log)!r}, 'a').write(option)\n"
        "    model.graph.node[0].op_type = 'Sub'\n    return model\n"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(tmp_path))
        wrong = ToolPass("counting", ToolProcess("counting:run"), "x")
        result = optimize(load(TEXT), pipeline=Pipeline("all", (wrong, tool("drop_identity"))))
    assert result.report.replays > 1
    assert log.read_text() == "x"


def test_cache_of_answers_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "CACHE_BYTES", 1)
    one = tool("nothing")
    for text in (TEXT, TEXT.replace("Neg", "Abs")):
        assert one.run(from_onnx(load(text)).graph, ChangeLog()) == 0
    assert len(one._process._cached) == 1


def test_model_over_two_gigabytes_is_declined(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "MAX_MESSAGE_BYTES", 100)
    with pytest.raises(PassFailed, match="tool:nothing: it cannot process a model over 2 GB"):
        tool("nothing").run(from_onnx(load(TEXT)).graph, ChangeLog())


def test_unchanged_large_weights_are_not_copied() -> None:
    weight = np.arange(4096, dtype=np.float32)
    text = "g (float[4096] x) => (float[4096] y) { i = Identity(x) y = Add(i, w) }"
    model = from_onnx(load(text, weights={"w": weight}))
    (value,) = model.graph.initializers
    tensor = value.tensor
    process = ToolProcess("tool:run")
    assert ToolPass("tool:drop_identity", process, "drop_identity").run(model.graph, ChangeLog()) == 1
    assert next(iter(model.graph.initializers)).tensor is tensor
    (answer,) = process._cached.values()
    assert len(answer.model) < 1000


BODIES = """g (bool c, float[4] x, int64 n) => (float[4] y, float[4] z) <float[4] w = {1,2,3,4}> {
    i = Identity(x)
    k = Abs(x)
    y = If(c) <then_branch = th () => (float[4] t) { t = Add(k, w) },
               else_branch = el () => (float[4] e) { q = Elu(i) e = Mul(q, w) }>
    z = Loop(n, , k) <body = body (int64 j, bool p, float[4] s) => (bool o, float[4] r) {
        o = Identity(p) r = Add(s, w) }>
}"""


def test_bodies_are_kept() -> None:
    model = load(BODIES)
    same, change_log = apply_passes(model, tool("nothing"))
    assert not change_log.changes
    assert to_onnx(same) == model
    result, _ = apply_passes(model, tool("relu_for_elu"))  # the tool does not look inside
    assert to_onnx(result) == model


def test_captured_values_have_new_producers() -> None:
    model = load(BODIES.replace("i = Identity(x)", "i = Elu(x)"))
    result, _ = apply_passes(model, tool("relu_for_elu"))
    result.graph.validate()
    made = to_onnx(result)
    onnx.checker.check_model(made, full_check=True)
    assert op_types(made) == ["Relu", "Abs", "If", "Loop"]


CALLS = """<ir_version: 10, opset_import: ["" : 17, "mine" : 1]>
g (float[4] x) => (float[4] y) { i = Identity(x) t = mine.twice(i) y = Neg(t) }
<domain: "mine", opset_import: ["" : 17]> twice (a) => (b) { b = Add(a, a) }
"""


def test_local_functions_are_kept() -> None:
    model = onnx.parser.parse_model(CALLS)
    result = optimize(model, pipeline=tool("drop_identity"), keep_functions=True)
    assert op_types(result.model) == ["twice", "Neg"]
    assert result.model.functions == model.functions


@cases(
    "text",
    {
        "no node": "g (float[2] x) => (float[2] x) {}",
        "an initializer as output": "g () => (float[2] w) <float[2] w = {1,2}> {}",
        "no elements": "g (float[0] x) => (float[0] y) { y = Neg(x) }",
        "strings": 'g (string[2] x) => (string[2] y) <string[2] w = {"a", "b"}> { y = Identity(x) }',
        "equal ops": "g (float[2] x) => (float[2] y) { a = Neg(x) b = Neg(x) y = Add(a, b) }",
        "holes": "g (float[2] x) => (float[2] y, float[2] z) { y, _ = Dropout(x) z = Clip(x, , y) }",
        "halves": "g (float16[2] x) => (float16[2] y) <float16[2] w = {1,2}> { y = Add(x, w) }",
    },
)
def test_unusual_models_round_trip(text: str) -> None:
    model = load(text)
    result, change_log = apply_passes(model, tool("nothing"))
    assert not change_log.changes
    assert to_onnx(result) == model


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*.onnx")), ids=lambda path: path.stem)
def test_exported_graph_merges_without_changes(path: Path) -> None:
    graph = model_source(path, inline=False).load().graph
    assert plan_foreign_merge(graph, proto_without_weights(graph)).is_no_op


def test_old_models_keep_initializers_as_inputs() -> None:
    model = load("g (float[2] x, float[2] w) => (float[2] y) <float[2] w = {1,2}> { i = Identity(x) y = Add(i, w) }")
    model.ir_version = 3
    for option in ("drop_identity", "drop_default"):
        result, _ = apply_passes(model, tool(option))
        assert [i.name for i in to_onnx(result).graph.input] == ["x", "w"]


def test_map_and_repro_name_the_tool(tmp_path: Path) -> None:
    pipeline: Any = Pipeline("all", (tool("relu_for_elu"), tool("drop_identity")))
    result = optimize(documented(), pipeline=pipeline, map=tmp_path / "map.json", repro=tmp_path / "repros")
    assert len(result.report.rejected) == 1
    assert '"node_i": "tool:drop_identity"' in (tmp_path / "map.json").read_text()
