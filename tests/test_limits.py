"""Limits of time and memory: what would take too much of either is one line."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from time import perf_counter

import onnx
import pytest
from onnx import helper
from passwright.app.measure.model_stats import live_op_counts
from passwright.core.errors import ModelError
from passwright.core.io import function_inlining
from passwright.core.io.function_inlining import require_moderate_growth, with_inlined_functions
from passwright.core.ir.wire_format import encode_field
from passwright.core.serialization.proto_queries import all_nodes

from passwright import optimize

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
    node.attribute.add(name="then_branch", type=onnx.AttributeProto.GRAPH).g.CopyFrom(branch)
    model.functions[-1].node.add(op_type="Constant", output=["c"]).attribute.add(name="value_int", i=1, type=2)
    return model


def long_name(uses: int, size: int) -> onnx.ModelProto:
    """A function that reads an input with a long name many times."""
    reads = " ".join(f"t{i} = Neg(x)" for i in range(uses))
    name = "a" * size
    return with_functions([f"F0 (x) => (y) {{ {reads} y = Neg(x) }}"], f"{name} = Neg(x) y = f.F0({name})")


@pytest.mark.parametrize(
    ("model", "message"),
    [
        pytest.param(lambda: doubling(19), "524,288 nodes of 40", id="doubling"),
        pytest.param(lambda: doubling(59), "nodes of 120", id="doubling further"),
        pytest.param(lambda: doubling(500), "countless nodes of 1,002", id="beyond numbers"),
        pytest.param(lambda: doubling_in_branches(19), "nodes of 97", id="in branches"),
        pytest.param(lambda: squared(500), "250,000 nodes of 1,000", id="product"),
        pytest.param(lambda: large_attribute(4000, 50_000, as_default=False), "bytes", id="attribute"),
        pytest.param(lambda: large_attribute(4000, 50_000, as_default=True), "bytes", id="default attribute"),
        pytest.param(lambda: long_name(4000, 50_000), "bytes", id="name"),
        pytest.param(lambda: weight_in_branch(12, 100_000), "bytes", id="weight in a branch"),
    ],
)
def test_functions_that_inlining_multiplies(model: Callable[[], onnx.ModelProto], message: str) -> None:
    built = model()
    start = perf_counter()
    with pytest.raises(ModelError, match=f"local functions would make .*{message}.*--keep-functions"):
        optimize(built, verify=False)
    assert live_op_counts(built)["f.F0"] >= 1
    assert perf_counter() - start < 5


def test_functions_that_call_themselves() -> None:
    pair = ["F0 (x) => (y) { y = f.F1(x) }", "F1 (x) => (y) { y = f.F0(x) }"]
    for functions in (["F0 (x) => (y) { y = f.F0(x) }"], pair, [*pair, "F2 (x) => (y) { y = f.F0(x) }"]):
        with pytest.raises(ModelError, match="must not be recursive"):
            optimize(with_functions(functions), verify=False)


def test_long_chain_of_functions() -> None:
    calls = [f"F{i} (x) => (y) {{ y = f.F{i + 1}(x) }}" for i in range(2000)]
    with pytest.raises(ModelError, match="depth exceeds limit"):
        optimize(with_functions([*calls, "F2000 (x) => (y) { y = Neg(x) }"]), verify=False)


@pytest.mark.parametrize(
    "model",
    [
        pytest.param(doubling(6), id="doubling"),
        pytest.param(doubling_in_branches(4), id="in branches"),
        pytest.param(squared(40), id="product"),
        pytest.param(large_attribute(300, 2000, as_default=True), id="default attribute"),
        pytest.param(large_attribute(300, 2000, as_default=False), id="attribute"),
        pytest.param(long_name(300, 2000), id="name"),
        pytest.param(weight_in_branch(4, 1000), id="weight in a branch"),
    ],
)
def test_counted_growth(monkeypatch: pytest.MonkeyPatch, model: onnx.ModelProto) -> None:
    """The limit counts the nodes that inlining makes, and at least three quarters of their bytes but for names."""
    flat = onnx.ModelProto()
    flat.CopyFrom(model)
    flat = with_inlined_functions(flat)
    nodes = sum(1 for _ in all_nodes(flat.graph.node))
    size = sum(n.ByteSize() - sum(map(len, (*n.input, *n.output))) for n in flat.graph.node)
    monkeypatch.setattr(function_inlining, "MAX_INLINING_GROWTH", 0)
    monkeypatch.setattr(function_inlining, "MAX_INLINED_BYTES", 10**12)
    monkeypatch.setattr(function_inlining, "MAX_INLINED_NODES", nodes)
    require_moderate_growth(model)
    monkeypatch.setattr(function_inlining, "MAX_INLINED_NODES", nodes - 1)
    with pytest.raises(ModelError, match=f"{nodes:,} nodes"):
        require_moderate_growth(model)
    monkeypatch.setattr(function_inlining, "MAX_INLINED_NODES", nodes)
    monkeypatch.setattr(function_inlining, "MAX_INLINED_BYTES", size * 3 // 4)
    with pytest.raises(ModelError, match="bytes"):
        require_moderate_growth(model)


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
