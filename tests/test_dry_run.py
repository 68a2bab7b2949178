"""Dry runs: planned changes and their savings, without written files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import pytest
from hypothesis import given
from passwright.app.cli.entry import app
from passwright.core import ChangeLog, Graph, Pass, Value, from_onnx, rule
from passwright.core.io.model_source import model_source
from passwright.core.rewriting.change_log import BisectLimit
from passwright.core.run.pipeline_run import PipelineRun
from passwright.core.run.report import ChangePlan, Savings, graph_size
from passwright.passes.pipelines import PIPELINES
from random_models import models
from rewriting import cases, each, load
from tiers import GOLDEN_SAMPLE, slow_unless
from typer.testing import CliRunner

from passwright import optimize

if TYPE_CHECKING:
    from passwright.core import RewriteBuilder

pytestmark = pytest.mark.usefixtures("_few_combined_inputs", "_verifies_in_process")

GOLDEN = Path(__file__).parent.parent / "golden_models"
TEXT = "agraph (float[N,4] x) => (float[N,4] y) { a = Identity(x) m = MatMul(a, w) s = Add(m, c) y = Relu(s) }"
WEIGHTS = {"w": np.eye(4, dtype=np.float32), "c": np.ones(4, np.float32)}


def plan_of(model: onnx.ModelProto | Path, **options: Any) -> ChangePlan:
    plan = optimize(model, dry_run=True, verify=False, **options).report.plan
    assert plan is not None
    return plan


def plan_rows(plan: ChangePlan) -> list[tuple[str, str, tuple[str, ...], tuple[str, ...], int, int]]:
    return [(c.by, c.place, c.replaced, c.made, c.nodes_saved, c.weight_bytes_saved) for c in plan.changes]


def test_each_change_is_listed() -> None:
    plan = plan_of(load(TEXT, weights=WEIGHTS))
    assert plan_rows(plan) == [
        ("drop_identity", "a", ("Identity a",), (), 1, 0),
        ("matmul_add_to_gemm", "s", ("Add s", "MatMul m"), ("Gemm s",), 1, 0),
    ]
    assert [c.ordinal for c in plan.changes] == [0, 1]


FOLDED = [("fold-constants", "b", ("Neg b",), (), 1, 0)]


@each(
    ("body", "changes"),
    {
        "folded, same size": ("b = Neg(a) y = Add(x, b)", FOLDED),
        "folded, shared input counted once": (
            "b = Neg(a) d = Abs(a) e = Add(x, b) y = Mul(e, d)",
            [*FOLDED, ("fold-constants", "d", ("Abs d",), (), 1, -16)],
        ),
        "lifted, no savings": (
            "b = Constant<value_floats=[1.0, 2.0, 3.0, 4.0]>() c = Add(x, a) y = Mul(c, b)",
            [("lift-constants", "b", ("Constant b",), (), 0, 0)],
        ),
        "unread weight": ("y = Neg(x)", [("remove-unused", "a", ("a",), (), 0, 16)]),
        "no change": ("y = Add(x, a)", []),
    },
)
def test_savings_of_change(body: str, changes: list[Any]) -> None:
    model = load(f"g (float[4] x) => (float[4] y) {{ {body} }}", weights={"a": np.full(4, 2, np.float32)})
    assert plan_rows(plan_of(model)) == changes


def test_bodies_are_counted() -> None:
    text = """agraph (float[2] x) => (float[2] y) <bool c = {1}> {
        y = If(c) <
            then_branch = t () => (float[2] a) { a = Relu(x) },
            else_branch = e () => (float[2] b) <float[2] w = {1.0, 2.0}> { n = Neg(x) b = Mul(n, w) }
        >
    }"""
    plan = plan_of(load(text))
    assert next((c.by, c.nodes_saved) for c in plan.changes) == ("inline-if", 3)
    assert (plan.saved, plan.unattributed) == (Savings(3, 9), Savings())


@pytest.mark.parametrize("name", slow_unless(GOLDEN_SAMPLE, [p.stem for p in sorted(GOLDEN.glob("*.onnx"))]))
def test_savings_of_golden_models_are_exact(name: str) -> None:
    report = optimize(GOLDEN / f"{name}.onnx", dry_run=True, verify=False).report
    assert report.plan is not None
    assert report.plan.unattributed == Savings()
    assert report.plan.saved.nodes == report.before.nodes - report.after.nodes
    assert sum(s.changes for s in report.plan.shares) == len(report.plan.changes)
    assert sum((s.saved for s in report.plan.shares), Savings()) == report.plan.saved
    assert [c.ordinal for c in report.plan.changes] == list(range(sum(p.changes for p in report.passes)))


@given(models())
def test_savings_of_random_models_are_exact(model: onnx.ModelProto) -> None:
    assert plan_of(model).unattributed == Savings()


@pytest.mark.parametrize("name", ["mlp_dropout", "loop_if", "script_layers", "cnn_half", "while_loop"])
def test_savings_match_replays(name: str) -> None:
    """After a replay up to a change, the size is that of the original minus all savings so far."""
    source = model_source(GOLDEN / f"{name}.onnx", inline=True)
    run = PipelineRun(source.load, PIPELINES["basic"], record_changes=True)
    left = graph_size(source.load().graph)
    for change in run.rewrite().change_log.changes:
        left = left - Savings.of_change(change)
        assert graph_size(run.replay(BisectLimit(after_changes=change.ordinal + 1)).model.graph) == left, change


def test_other_runs_do_not_account_sizes() -> None:
    source = model_source(load(TEXT, weights=WEIGHTS), inline=True)
    result = PipelineRun(source.load, PIPELINES["basic"]).replay()
    assert (result.change_log.accounting, result.model.graph.context.mutation_log) == (None, None)
    assert {c.nodes_saved for c in result.change_log.changes} == {0}
    assert optimize(load(TEXT, weights=WEIGHTS)).report.plan is None


def test_planned_run_gives_same_model() -> None:
    model = load(TEXT, weights=WEIGHTS)
    assert optimize(model, dry_run=True).model == optimize(model).model


class DropIdentities:
    """A pass that does not request its changes."""

    name = "drop-identities"

    def run(self, graph: Graph, change_log: ChangeLog) -> int:  # noqa: ARG002 - it requests no change
        for op in graph.ops("Identity"):
            if op.inputs[0] is not None and not graph.is_output(op.outputs[0]):
                graph.replace_uses(op.outputs[0], op.inputs[0])
                graph.prune([op])
        return 0


@pytest.mark.parametrize("others", [(), ("fuse-gemm",)], ids=["alone", "with others"])
def test_unrequested_changes_are_planned(others: tuple[str, ...]) -> None:
    extra: Pass = DropIdentities()
    plan = plan_of(load(TEXT, weights=WEIGHTS), plugin=[extra], only=["drop-identities", *others])
    found = {c.by: c.nodes_saved for c in plan.changes}
    assert found == {"drop-identities": 1, **dict.fromkeys(["matmul_add_to_gemm"] * len(others), 1)}
    assert plan.unattributed == Savings()


@rule(lambda g, x: g.Relu(x))
def relu_to_abs(g: RewriteBuilder, x: Value) -> Value:
    """Relu(x) => Abs(x), which is wrong"""
    return g.Abs(x)


def test_wrong_changes_are_not_planned() -> None:
    report = optimize(load(TEXT, weights=WEIGHTS), plugin=[relu_to_abs], dry_run=True).report
    assert report.plan is not None
    assert [c.by for c in report.plan.changes] == ["drop_identity", "matmul_add_to_gemm"]
    assert [q.by for q in report.rejected] == ["relu_to_abs"]
    assert report.plan.unattributed == Savings()


def test_debloat_adds_nodes() -> None:
    text = "g (float[1000,1000] x) => (float[1000,1000] y) { y = Sub(x, w) }"
    plan = plan_of(load(text, weights={"w": np.full((1000, 1000), 2, np.float32)}), enable=["debloat"])
    assert plan_rows(plan) == [("debloat", "w", ("w",), ("ConstantOfShape w_pw2",), -1, 4_000_000 - 16)]


def test_json_contains_plan() -> None:
    report = optimize(load(TEXT, weights=WEIGHTS), dry_run=True).report
    plan = json.loads(report.to_json())["plan"]
    assert plan.keys() == {"changes", "shares", "saved", "unattributed"}
    assert plan["changes"][1] == {
        "ordinal": 1, "pass_name": "fuse-gemm", "by": "matmul_add_to_gemm", "place": "s",
        "replaced": ["Add s", "MatMul m"], "exact": False, "made": ["Gemm s"],
        "nodes_saved": 1, "weight_bytes_saved": 0,
    }  # fmt: skip
    assert plan["shares"][0]["saved"] == {"nodes": 1, "weight_bytes": 0}
    assert json.loads(optimize(load(TEXT, weights=WEIGHTS)).report.to_json())["plan"] is None


@pytest.fixture
def path(tmp_path: Path) -> Path:
    onnx.save(load(TEXT, weights=WEIGHTS), tmp_path / "m.onnx")
    return tmp_path / "m.onnx"


def call(path: Path, *arguments: str) -> tuple[int, list[str]]:
    result = CliRunner().invoke(app, ["run", str(path), *arguments])
    return result.exit_code, [line.strip() for line in result.output.splitlines()]


@cases(
    ("arguments", "line"),
    {
        "both": ("", "#1 matmul_add_to_gemm at s: Add s, MatMul m -> Gemm s (saves 1 node)"),
        "one": ("--limit 1", "... and 1 more (--limit, or all with --json)"),
        "none": ("--limit 0", "... and 2 more (--limit, or all with --json)"),
        "unverified": ("--no-verify", "NOT VERIFIED, as requested"),
        "exact": ("--exact", "#0 drop_identity at a: Identity a (saves 1 node)"),
    },
)
def test_command(path: Path, arguments: str, line: str) -> None:
    before = {p: p.read_bytes() for p in path.parent.iterdir()}
    code, printed = call(path, "--dry-run", *arguments.split())
    assert code == 0
    assert {line, "nothing written: this was a dry run"} <= set(printed)
    assert {p: p.read_bytes() for p in path.parent.iterdir()} == before


@cases(
    ("arguments", "message"),
    {
        "a map": (["--dry-run", "--map", "o.json"], "--dry-run writes nothing"),
        "repros": (["--dry-run", "--repro", "o"], "--dry-run writes nothing"),
        "limit without dry run": (["--limit", "3"], "--limit needs --dry-run"),
        "negative limit": (["--dry-run", "--limit", "-3"], ""),
    },
)
def test_command_refuses_conflicting_options(path: Path, arguments: list[str], message: str) -> None:
    code, printed = call(path, *arguments)
    assert code == 2
    assert message in " ".join(printed)
    assert [p.name for p in path.parent.iterdir()] == ["m.onnx"]


def test_command_writes_json(path: Path, tmp_path: Path) -> None:
    _, printed = call(path, "--dry-run", "--json", "-")
    assert len(json.loads("\n".join(printed))["plan"]["changes"]) == 2
    code, _ = call(path, "--dry-run", "--json", str(tmp_path / "p.json"))
    assert code == 0
    assert json.loads((tmp_path / "p.json").read_text())["plan"]["saved"] == {"nodes": 2, "weight_bytes": 0}


def test_graph_size() -> None:
    assert graph_size(from_onnx(load(TEXT, weights=WEIGHTS)).graph) == Savings(4, 80)
