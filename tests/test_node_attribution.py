"""Attribution of nodes run by onnxruntime to nodes of the file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from passwright.app.profile.node_attribution import INSERTED_OPS, MAYBE_INSERTED_OPS, attribute_nodes, eliminated_nodes
from passwright.app.profile.profile_recording import make_node_names_unique, record_profile
from passwright.core import from_onnx, to_onnx
from passwright.core.errors import ModelError
from passwright.core.io.files import ModelFile, load, load_without_weights
from passwright.core.ort.sessions import SessionConfig, create_session
from passwright.core.serialization.proto_queries import all_nodes
from rewriting import each
from tiers import slow_unless

if TYPE_CHECKING:
    from collections.abc import Iterable

GOLDEN = Path(__file__).parent.parent / "golden_models"
MODELS = sorted(GOLDEN.glob("*.onnx"))
HEAD = '<ir_version: 10, opset_import: ["": 17, "com.microsoft": 1]>'


def graph(text: str) -> onnx.GraphProto:
    return onnx.parser.parse_model(f"{HEAD} g {text}").graph


def attribution(file: onnx.GraphProto, ran: onnx.GraphProto) -> dict[str, str]:
    return {s.name: " ".join(s.file_nodes) for s in attribute_nodes(file, ran)}


FILE = """(float[N,4] x) => (float[N,4] y) <float[4,4] w, float[4] b> {
    [m] p = MatMul(x, w) [a] q = Add(p, b) [r] s = Relu(q) [d] t = Dropout(s) [e] y = Exp(t) }"""
CHAIN = "(float[N,4] x) => (float[N,4] y) { [a] p = Neg(x) [b] q = Relu(p) [c] r = Abs(q) [d] y = Exp(r) }"
SUM = """(float[N,4] x) => (float[N,4] y) <float[4,4] w> {
    [m] p = MatMul(x, w) [n] q = MatMul(p, w) [s] t = Add(p, q) [e] y = Exp(t) }"""


XY, IF = (
    "(float[N,4] x) => (float[N,4] y)",
    "(float[N] x, bool c) => (float[N] y) { [i] y = If(c) <then_branch = t () =>",
)
ELSE = "else_branch = e () => (float[N] q) { [s] q = Exp(x) }> }"
ATTRIBUTED: dict[str, tuple[str, str, dict[str, str], str]] = {
    "unchanged": (FILE, FILE, {"m": "m", "a": "a", "r": "r", "d": "d", "e": "e"}, ""),
    "fused under other names": (
        FILE,
        f"{XY} <float[4,4] w, float[4] b> {{ [f] s = com.microsoft.FusedGemm(x, w, b) [e] y = Exp(s) }}",
        {"f": "m a r", "e": "d e"},
        "",
    ),
    "the name of the first, the result of the second": (
        CHAIN,
        f"{XY} {{ [a] q = My(x) [d] y = Exp(q) }}",
        {"a": "a b", "d": "c d"},
        "",
    ),
    "another layout": (
        CHAIN,
        f"""{XY} {{ [ReorderInput] u = ReorderInput(x) [q_nchwc] v = Neg(u)
            [ReorderOutput] q = ReorderOutput(v) [r_token_3] w = Abs(q) [d] y = Exp(w) }}""",
        {"ReorderInput": "", "q_nchwc": "a b", "ReorderOutput": "", "r_token_3": "c", "d": "d"},
        "",
    ),
    "casts put in": (
        CHAIN,
        f"""{XY} {{ [InsertedPrecisionFreeCast_x] u = Cast<to=1>(x) [a] v = Neg(u)
            [b] w = Relu(v) [back] r = Cast<to=10>(w) [d] y = Exp(r) }}""",
        {"InsertedPrecisionFreeCast_x": "", "a": "a", "b": "b c", "back": "", "d": "d"},
        "",
    ),
    "a sum merged into the last operand": (
        SUM,
        f"{XY} <float[4,4] w> {{ [p_nchwc] u = MatMul(x, w) [q_nchwc] v = My(u, w, u) [e] y = Exp(v) }}",
        {"p_nchwc": "m", "q_nchwc": "n s", "e": "e"},
        "",
    ),
    "folded": (
        f"{XY} <int64[1] n = {{4}}> {{ [c] k = ConstantOfShape(n) [a] y = Add(x, k) }}",
        f"{XY} <float[4] shared = {{0,0,0,0}}> {{ [a] y = Add(x, shared) }}",
        {"a": "a"},
        "c",
    ),
    "an equal one merged stands behind its reader": (
        f"{XY} {{ [a] p = Relu(x) [b] q = Relu(x) [c] y = Add(p, q) }}",
        f"{XY} {{ [a] p = Relu(x) [c] y = Add(p, p) }}",
        {"a": "a", "c": "b c"},
        "",
    ),
    "a function inlined": (
        f"{XY} {{ [call] h = Block(x) [d] y = Exp(h) }}",
        f"{XY} {{ [_inlfunc_Block_n] u = Neg(x) [_inlfunc_Block_m] h = Relu(u) [d] y = Exp(h) }}",
        {"_inlfunc_Block_n": "call", "_inlfunc_Block_m": "call", "d": "d"},
        "",
    ),
    "in bodies": (
        f"{IF} (float[N] p) {{ [n] o = Neg(x) [r] p = Relu(o) }}, {ELSE}",
        f"{IF} (float[N] p) {{ [fused] p = My(x) }}, {ELSE}",
        {"i": "i", "fused": "n r", "s": "s"},
        "",
    ),
}


@each(("file", "ran", "expected", "left"), ATTRIBUTED)
def test_attributed_file_nodes(file: str, ran: str, expected: dict[str, str], left: str) -> None:
    whole = graph(file)
    assert attribution(whole, graph(ran)) == expected
    assert " ".join(eliminated_nodes(whole, attribute_nodes(whole, graph(ran)))) == left


def optimized(path: Path, file: onnx.ModelProto, folder: Path) -> onnx.GraphProto:
    """The nodes after onnxruntime's optimization of a model with named nodes."""
    copy, ran = folder / "copy.onnx", folder / "ran.onnx"
    onnx.save(file, copy)
    create_session(
        copy.read_bytes(), SessionConfig("ENABLE_ALL", prepack_weights=True, optimized_model_path=str(ran)), path.parent
    )
    return load_without_weights(ran).graph


def with_unique_names(path: Path) -> onnx.ModelProto:
    model = load(ModelFile(path), inline=False)
    make_node_names_unique(model.graph)
    return to_onnx(model)


@pytest.mark.parametrize("path", slow_unless(MODELS[::2], MODELS), ids=[p.stem for p in MODELS])
def test_golden_models(path: Path, tmp_path: Path) -> None:
    """Every node of the file is attributed or eliminated, and nodes without origin were inserted by onnxruntime."""
    file = with_unique_names(path)
    found = attribute_nodes(file.graph, optimized(path, file, tmp_path))
    there = {n.name for n in all_nodes(file.graph.node)}
    busy = {name for s in found for name in s.file_nodes}
    assert busy <= there
    left = eliminated_nodes(file.graph, found)
    assert len(set(left)) == len(left)
    assert busy.isdisjoint(left)
    assert {s.op for s in found if not s.file_nodes} <= INSERTED_OPS | MAYBE_INSERTED_OPS
    kinds = {n.name: n.op_type for n in all_nodes(file.graph.node)}
    assert not {kinds[n] for n in left} & {"MatMul", "Gemm", "Conv", "Softmax", "LayerNormalization", "If", "Loop"}


def test_unchanged_node_is_attributed_to_itself(tmp_path: Path) -> None:
    for stem in ("bert", "mobilenet", "loop_if", "cnn_qdq"):
        path = GOLDEN / f"{stem}.onnx"
        file = with_unique_names(path)
        kinds = {n.name: n.op_type for n in all_nodes(file.graph.node)}
        for s in attribute_nodes(file.graph, optimized(path, file, tmp_path)):
            if kinds.get(s.name) == s.op:
                assert s.name in s.file_nodes, (stem, s)


def names(nodes: Iterable[onnx.NodeProto]) -> list[str]:
    return [n.name for n in nodes]


def test_make_node_names_unique() -> None:
    g = graph(
        """(float[N] x, bool c) => (float[N] y) { [a] p = Neg(x) [a] q = Neg(p) r = Neg(q) [number] s = Neg(r)
        y = If(c) <then_branch = t () => (float[N] u) { [a] u = Neg(s) },
        else_branch = e () => (float[N] r) { r = Exp(s) }> }"""
    )
    g.node[3].name = "a #2"
    model = from_onnx(helper.make_model(g, opset_imports=[helper.make_opsetid("", 17)], ir_version=8))
    make_node_names_unique(model.graph)
    assert names(all_nodes(to_onnx(model).graph.node)) == ["a", "a #3", "r", "a #2", "y", "a #4", "r #2"]


def test_recorded_graphs_have_names_and_no_weights() -> None:
    path = GOLDEN / "mlp_dropout.onnx"
    whole, file = onnx.load(path), record_profile(path, SessionConfig(), {"x": np.ones((1, 10), np.float32)}, 0.01)
    assert [t.name for t in file.file_graph.initializer] == [t.name for t in whole.graph.initializer]
    assert list(file.file_graph.node) == list(whole.graph.node)
    assert file.optimized_graph is not None
    assert file.file_graph.ByteSize() + file.optimized_graph.ByteSize() < whole.ByteSize()


def test_large_weights_are_not_read(tmp_path: Path) -> None:
    model = onnx.parser.parse_model(f"{HEAD} g (float[N,999] x) => (float[N,999] y) {{ y = MatMul(x, w) }}")
    model.graph.initializer.append(numpy_helper.from_array(np.zeros((999, 999), np.float32), "w"))
    onnx.save(model, tmp_path / "m.onnx")
    read = load_without_weights(tmp_path / "m.onnx")
    assert read.ByteSize() < 300
    model.graph.initializer[0].ClearField("raw_data")
    assert read == model


@pytest.mark.parametrize("data", [b"{}", b"\x3a\x7f", np.arange(9).tobytes()])
def test_invalid_files_are_rejected(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(data)
    with pytest.raises(ModelError, match=r"m\.onnx: "):
        load_without_weights(path)
