"""Visualization of a run: each change before and after, and the whole model."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import pytest
from hypothesis import given
from passwright.app.cli.entry import app
from passwright.app.report import page, snapshots
from passwright.app.report import visualization as views
from passwright.app.report.picture import BoxKind, Picture
from passwright.app.report.visualization import graph_views
from passwright.core import EXACT, ChangeLog, Graph, Pass, RewriteBuilder, Value, from_onnx, rule
from passwright.core.io.model_source import model_source
from random_models import models
from rewriting import load
from typer.testing import CliRunner

from passwright import optimize

if TYPE_CHECKING:
    from passwright.app.report.visualization import GraphView, Rewrite, Visualization

GOLDEN = Path(__file__).parent.parent / "golden_models"
ONES = np.ones(4, np.float32)


def trace_of(model: onnx.ModelProto | Path, **options: Any) -> Visualization:
    trace = optimize(model, visualize=True, **{"verify": False, **options}).visualization
    assert trace is not None
    return trace


def one(trace: Visualization, by: str) -> Rewrite:
    (found,) = (r for r in trace.rewrites if r.change.by == by)
    return found


def shown(picture: Picture | None) -> tuple[list[str], list[str]]:
    """The ops of a picture, those marked and the others, by type."""
    assert picture is not None
    ops = [box for box in picture.boxes if box.kind is BoxKind.OP]
    return sorted(b.lines[0] for b in ops if b.marked), sorted(b.lines[0] for b in ops if not b.marked)


def texts(picture: Picture | None) -> str:
    assert picture is not None
    return " ".join(" ".join(box.lines) for box in picture.boxes)


CONV = {
    "w": np.ones((3, 2, 1, 1), np.float32), **{n: np.full(3, i, np.float32) for i, n in enumerate("sbmv", 1)},
}  # fmt: skip


@pytest.mark.parametrize(
    ("text", "weights", "by", "before", "after"),
    [
        pytest.param(
            "g (float[N,2,4,4] x) => (float[N,3,4,4] y) { a = Tanh(x) c = Conv(a, w) "
            "n = BatchNormalization(c, s, b, m, v) y = Relu(n) }",
            CONV, "fold_batchnorm_into_conv",
            (["BatchNormalization", "Conv"], ["Relu", "Tanh"]), (["Conv"], ["Relu", "Tanh"]), id="Conv and BatchNorm",
        ),
        pytest.param(
            "g (float[2,3] x) => (float[2,3] y) { a = Relu(x) t = Transpose <perm = [1,0]> (a) "
            "u = Transpose <perm = [1,0]> (t) y = Exp(u) }",
            {}, "merge_transposes",
            (["Transpose", "Transpose"], ["Exp", "Relu"]), ([], ["Exp", "Relu"]), id="Transposes that cancel",
        ),
        pytest.param(
            "g (float[4] x) => (float[4] y) { k = Neg(w) y = Add(x, k) }", {"w": ONES}, "fold-constants",
            (["Neg"], ["Add"]), ([], ["Add"]), id="folded",
        ),
        pytest.param(
            "g (float[4] x) => (float[4] y) { a = Relu(x) d = Exp(a) y = Tanh(a) }", {}, "remove-unused",
            (["Exp"], ["Relu"]), ([], ["Relu"]), id="dead",
        ),
        pytest.param(
            "g (float[4] x) => (float[4] y) { a = Relu(x) b = Relu(x) y = Add(a, b) }", {}, "merge-duplicates",
            (["Relu", "Relu"], ["Add"]), ([], ["Add", "Relu"]), id="merged with a twin that stays",
        ),
        pytest.param(
            "g (float[N,4,5] x) => (float[N,4,5] y) { t = Transpose <perm = [0,2,1]> (x) a = Relu(t) b = Exp(a) "
            "y = Transpose <perm = [0,2,1]> (b) }",
            {}, "move-transposes",
            (["Exp", "Relu", "Transpose", "Transpose"], []), (["Exp", "Relu"], []), id="a region of Transposes",
        ),
        pytest.param(
            "g (bool c, float[4] x) => (float[4] y) { y = If (c) <then_branch = a () => (float[4] t) "
            "{ p = Relu(x) q = Identity(p) t = Exp(q) }, else_branch = b () => (float[4] e) { e = Neg(x) }> }",
            {}, "drop_identity", (["Identity"], ["Exp", "Relu"]), ([], ["Exp", "Relu"]), id="inside a body",
        ),
        pytest.param(
            "g (float[4] x) => (float[4] y) <bool c = {1}> { r = Tanh(x) i = If (c) <then_branch = a () => (float[4] t)"
            " { t = Exp(r) }, else_branch = b () => (float[4] e) { e = Neg(r) }> y = Sin(i) }",
            {}, "inline-if", (["If"], ["Sin", "Tanh"]), (["Exp"], ["Sin", "Tanh"]), id="out of a body",
        ),
    ],
)  # fmt: skip
def test_change_is_shown_before_and_after(text: str, weights: dict[str, Any], by: str, before: Any, after: Any) -> None:
    found = one(trace_of(load(text, weights=weights)), by)
    assert (shown(found.before), shown(found.after)) == (before, after)
    assert found.equation
    assert found.contract


def test_folded_op_is_shown_as_a_constant() -> None:
    model = load("g (float[4] x) => (float[4] y) { k = Neg(w) y = Add(x, k) }", weights={"w": ONES})
    found = one(trace_of(model), "fold-constants")
    assert found.after is not None
    assert [box.lines for box in found.after.boxes if box.kind is BoxKind.CONSTANT and box.marked] == [
        ("k", "[-1, -1, -1, -1]")
    ]


def test_change_shows_the_graph_at_its_time() -> None:
    """The second change sees the result of the first one."""
    text = "g (float[N,4] x) => (float[N,4] y) { a = Identity(x) m = MatMul(a, w) s = Add(m, c) y = Relu(s) }"
    trace = trace_of(load(text, weights={"w": np.eye(4, dtype=np.float32), "c": ONES}))
    assert [r.change.by for r in trace.rewrites] == ["drop_identity", "matmul_add_to_gemm"]
    assert shown(trace.rewrites[0].before) == (["Identity"], ["MatMul"])
    assert shown(trace.rewrites[1].before) == (["Add", "MatMul"], ["Relu"])
    assert shown(trace.rewrites[1].after) == (["Gemm"], ["Relu"])
    assert trace.rewrites[1].contract == "rounding"
    assert "=>" in trace.rewrites[1].equation


def test_large_region_counts_undrawn_ops() -> None:
    body = " ".join(f"v{i + 1} = Relu(v{i})" for i in range(60))
    text = (
        f"g (float[4,5] x) => (float[4,5] y) {{ v0 = Transpose <perm = [1,0]> (x) {body} "
        "y = Transpose <perm = [1,0]> (v60) }"
    )
    found = one(trace_of(load(text), only=["move-transposes"]), "move-transposes")
    assert found.before is not None
    assert sum(box.kind is BoxKind.OP for box in found.before.boxes) == snapshots.MAX_OPS
    assert f"and {62 - snapshots.MAX_OPS} more ops" in texts(found.before)
    assert f"and {60 - snapshots.MAX_OPS} more ops" in texts(found.after)


def test_changes_beyond_the_limit_are_not_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshots, "MAX_PICTURES", 5)
    body = " ".join(f"v{i + 1} = Identity(v{i})" for i in range(20))
    text = f"g (float[4] v0) => (float[4] y) {{ {body} d = Exp(v0) y = Relu(v20) }}"
    trace = trace_of(load(text))
    drawn = [r.change.by for r in trace.rewrites if r.before is not None and r.after is not None]
    assert len(trace.rewrites) == 21
    assert 4 <= drawn.count("drop_identity") <= 5
    assert drawn.count("remove-unused") == 1


@rule(lambda g, x: g.Elu(x), contract=EXACT)
def drop_elu(g: RewriteBuilder, x: Value) -> Value:
    """Elu(x) => x, which is right behind Exp only"""
    return x


def test_rejected_changes_are_not_shown() -> None:
    text = "g (float[N] x) => (float[N] y, float[N] z) { e = Exp(x) y = Elu(e) n = Neg(x) z = Elu(n) }"
    result = optimize(load(text), plugin=[drop_elu], visualize=True)
    assert [q.place for q in result.report.rejected] == ["z"]
    assert result.report.replays
    trace = result.visualization
    assert trace is not None
    assert [(r.change.by, r.change.place, r.change.ordinal) for r in trace.rewrites] == [("drop_elu", "y", 0)]
    assert shown(trace.rewrites[0].before) == (["Elu"], ["Exp"])
    assert sorted(n.title for n in trace.after[0].nodes if n.kind == "op") == ["Elu", "Exp", "Neg"]


class Unasked:
    """Takes every Elu away and asks nobody."""

    name = "unasked"

    def run(self, graph: Graph, _change_log: ChangeLog) -> int:
        found = list(graph.ops("Elu"))
        for op in found:
            (x,) = op.inputs
            assert x is not None
            graph.replace_value(op.outputs[0], x)
        return graph.prune(found)


def test_pass_without_ledger_entries_shows_removed_ops() -> None:
    text = "g (float[N] x) => (float[N] y) { e = Exp(x) f = Elu(e) g = Elu(f) y = Neg(g) }"
    found = one(trace_of(load(text), pipeline=Unasked()), "unasked")
    assert found.change.place == ""
    assert shown(found.before)[0] == ["Elu", "Elu"]
    assert found.equation == "Takes every Elu away and asks nobody."


def test_normal_runs_take_no_snapshots(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise AssertionError("looked at")

    monkeypatch.setattr(snapshots.SnapshotObserver, "before_change", fail)
    model = load("g (float[4] x) => (float[4] y) { a = Identity(x) y = Relu(a) }")
    result = optimize(model, verify=False)
    assert result.visualization is None
    assert "visualizing" not in result.report.seconds
    with pytest.raises(AssertionError, match="looked at"):
        trace_of(model)


def require_whole(graph: Graph, sheets: list[GraphView]) -> None:
    """Every op is drawn once, every value has a path, and nothing overlaps."""
    for g, sheet in zip(graph.with_subgraphs(), sheets, strict=True):
        ops = [n.name for n in sheet.nodes if n.kind in {"op", "constant"}]
        assert sorted(op.label for op in g.ops()) == sorted(n for n in ops if n not in _given_out(g))
        edges = {(sheet.nodes[e.source].name, sheet.nodes[e.target].name, e.name) for e in sheet.links}
        for op in g.ops():
            for v in (*op.inputs, *op.captures):
                if v is not None and (v.tensor is None or g.producer(v) is not None):
                    maker = g.producer(v)
                    assert (v.name if maker is None else maker.label, op.label, v.name) in edges
        assert {n.name for n in sheet.nodes if n.kind == "output"} == {v.name for v in g.outputs}
        require_apart(sheet)


def _given_out(g: Graph) -> set[str]:
    return {v.name for v in g.outputs if v.tensor is not None}


def require_apart(sheet: GraphView) -> None:
    rows: dict[float, list[tuple[float, float]]] = {}
    for n, (x, y) in zip(sheet.nodes, sheet.layout.centres, strict=True):
        assert 0 <= x - n.width / 2 <= x + n.width / 2 <= sheet.layout.width
        assert 0 <= y - n.height / 2 <= y + n.height / 2 <= sheet.layout.height
        rows.setdefault(y, []).append((x - n.width / 2, x + n.width / 2))
    for boxes in map(sorted, rows.values()):
        assert all(a[1] < b[0] for a, b in pairwise(boxes))


@pytest.mark.parametrize("name", ["bert", "gpt2", "unet", "loop_if", "while_loop", "script_scan", "cnn_qdq", "swin"])
def test_golden_models_are_drawn(name: str) -> None:
    graph = model_source(GOLDEN / f"{name}.onnx", inline=True).load().graph
    sheets = graph_views(graph)
    require_whole(graph, sheets)
    assert max(s.layout.width for s in sheets) < 4000


@given(models())
def test_random_models_are_drawn(model: onnx.ModelProto) -> None:
    graph = from_onnx(model).graph
    require_whole(graph, graph_views(graph))


def test_boxes_show_their_content() -> None:
    model = load(
        "g (float[N,3,8,8] x) => (float[N,4,8,8] y) { k = Constant <value = float {2.5}> () "
        "c = Conv <pads = [1,1,1,1]> (x, w) y = Mul(c, k) }",
        weights={"w": np.zeros((4, 3, 3, 3), np.float32)},
    )
    (sheet,) = graph_views(from_onnx(model).graph)
    nodes = {n.kind + " " + n.title.partition("\n")[0]: n for n in sheet.nodes}
    assert list(nodes) == ["input x", "constant 2.5", "op Conv", "op Mul", "output y"]
    assert nodes["op Conv"].title.split("\n") == ["Conv", "W 4x3x3x3", "pads: [1, 1, 1, 1]"]
    assert "reads w float[4,3,3,3]" in nodes["op Conv"].details
    assert "makes c float[N,4,8,8]" in nodes["op Conv"].details


def test_bodies_have_separate_views() -> None:
    text = (
        "g (bool c, float[4] x) => (float[4] y) { r = Tanh(x) y = If (c) <then_branch = a () => (float[4] t) "
        "{ t = Exp(r) }, else_branch = b () => (float[4] e) { e = Neg(x) }> }"
    )
    main, then, other = graph_views(from_onnx(load(text)).graph)
    (holder,) = (n for n in main.nodes if n.bodies)
    assert holder.bodies == (1, 2)
    assert (then.title, other.title) == ("then_branch of If y", "else_branch of If y")
    assert [n.name for n in then.nodes if n.kind == "input"] == ["r"]


def test_large_graph_shows_first_ops_and_a_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(views, "MAX_OPS", 5)
    body = " ".join(f"v{i + 1} = Sin(v{i})" for i in range(8))
    trace = trace_of(
        load(
            f"g (bool c, float[4] v0) => (float[4] y) {{ {body} i = Identity(v8) z = If (c) <then_branch = a () => "
            "(float[4] t) { t = Exp(i) }, else_branch = b () => (float[4] e) { e = Neg(i) }> y = Sin(z) }"
        )
    )
    for drawn, ops in ((trace.before, 11), (trace.after, 10)):
        assert [sum(n.kind == "op" for n in s.nodes) for s in drawn] == [5, 0, 0]
        assert [s.undrawn for s in drawn] == [ops - 5, 1, 1]
        assert len(drawn[0].links) == 5
        assert all(n.mark == "" for n in drawn[0].nodes)
        for sheet in drawn:
            require_apart(sheet)


def test_undrawn_op_is_not_marked_as_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Relu is the first op before, and the second one after."""
    text = "g (float[N,4] x) => (float[N,4] y, float[N,4] z) { [r] y = Relu(x) [m] m = MatMul(x, w) [a] z = Add(m, c) }"
    model = load(text, weights={"w": np.eye(4, dtype=np.float32), "c": ONES})
    whole = {n.name: n.mark for n in trace_of(model).before[0].nodes if n.kind == "op"}
    assert whole == {"Relu r": "", "MatMul m": "gone", "Add a": "gone"}
    for room in (1, 2):
        monkeypatch.setattr(views, "MAX_OPS", room)
        drawn = {n.name: n.mark for n in trace_of(model).before[0].nodes if n.kind == "op"}
        assert drawn
        assert all(whole[name] == mark for name, mark in drawn.items())


def test_nodes_and_changes_are_linked() -> None:
    text = (
        "g (float[N,4] x) => (float[N,4] y) { [one] a = Identity(x) [two] m = MatMul(a, w) [three] s = Add(m, c) "
        "[four] y = Relu(s) }"
    )
    trace = trace_of(load(text, weights={"w": np.eye(4, dtype=np.float32), "c": ONES}))
    before = {n.name: (n.mark, n.rewrites) for n in trace.before[0].nodes if n.kind == "op"}
    assert before == {
        "Identity one": ("gone", (0,)),
        "MatMul two": ("gone", (1,)),
        "Add three": ("gone", (1,)),
        "Relu four": ("", ()),
    }
    after = {n.name: (n.mark, n.rule, n.origin, n.rewrites) for n in trace.after[0].nodes if n.kind == "op"}
    assert after == {
        "Gemm three": ("made", "matmul_add_to_gemm", ("three", "two"), (1,)), "Relu four": ("", "", (), ()),
    }  # fmt: skip


@pytest.mark.parametrize("name", ["bert", "loop_if", "shufflenet"])
def test_trace_agrees_with_the_report(name: str) -> None:
    path = GOLDEN / f"{name}.onnx"
    plain, traced = (optimize(path, verify=False, visualize=trace) for trace in (False, True))
    assert plain.model == traced.model
    trace = traced.visualization
    assert trace is not None
    assert len(trace.rewrites) == sum(p.changes for p in traced.report.passes)
    assert [r.change.ordinal for r in trace.rewrites] == list(range(len(trace.rewrites)))
    assert all(r.before is not None and r.after is not None for r in trace.rewrites)
    ops = [sum(map(op_count, sheets)) for sheets in (trace.before, trace.after)]
    assert ops == [traced.report.before.nodes, traced.report.after.nodes]
    assert sum(r.change.nodes_saved for r in trace.rewrites) == ops[0] - ops[1]


def op_count(sheet: GraphView) -> int:
    return sum(n.kind == "op" for n in sheet.nodes)


def invoke(*args: str | Path) -> Any:
    return CliRunner().invoke(app, ["run", *map(str, args), "--no-verify"])


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "m.onnx"
    onnx.save(load("g (float[4] x) => (float[4] y) { a = Identity(x) y = Relu(a) }"), path)
    return path


def test_page_gets_report_and_trace(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "page_html", lambda d: f"{d.subject}: {', '.join(s.id for s in d.sections)}")
    place = model.parent / "page.html"
    result = invoke(model, "--html", place)
    assert result.exit_code == 0, result.output
    assert place.read_text() == f"{model}: ops, rewrites, graph, left-out\n"


@pytest.mark.parametrize(
    ("place", "more", "message"),
    [
        pytest.param("m.onnx", (), "the page would overwrite", id="the model"),
        pytest.param("out.onnx", ("-o", "out.onnx"), "cannot hold both the model and the page", id="the output"),
        pytest.param("r.json", ("--json", "r.json"), "cannot hold both the report and the page", id="the report"),
        pytest.param("none/p.html", (), "No such file or directory", id="no such folder"),
        pytest.param(".", (), "is a folder", id="a folder"),
    ],
)
def test_page_never_overwrites_other_files(
    model: Path, place: str, more: tuple[str, ...], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(model.parent)
    before = model.read_bytes()
    result = invoke(model, "--html", place, *more)
    assert result.exit_code == 1
    assert message in result.output
    assert "Traceback" not in result.output
    assert model.read_bytes() == before
    assert sorted(p.name for p in model.parent.iterdir()) == ["m.onnx"]


def test_custom_pass_without_changes_is_accepted(model: Path) -> None:
    anything: Pass = Unasked()
    assert trace_of(model, pipeline=anything).rewrites == []
