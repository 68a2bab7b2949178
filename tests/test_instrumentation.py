"""Hooks of runs, counts of rules, and runs that stop after some changes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from commands import invoke
from onnxruntime import InferenceSession
from passwright.core import (
    EXACT,
    ChangeLog,
    Fixpoint,
    Graph,
    Instrumentation,
    Model,
    Op,
    Pass,
    RewriteBuilder,
    Rule,
    RulePass,
    Value,
    from_onnx,
    require,
    rule,
    run_pass,
    to_onnx,
)
from passwright.core.errors import InstrumentationError, PassesError, PassFailed, UsageError, VerificationError
from passwright.core.run.instrumentation import Hooks
from rewriting import cases, load

from passwright import optimize

pytestmark = pytest.mark.usefixtures("_few_combined_inputs", "_verifies_in_process")
TEXT = "g (float[N,4] x) => (float[N,4] y) { a = Neg(x) b = Neg(a) c = Relu(b) d = Relu(c) e = Abs(d) y = Abs(e) }"


@rule(lambda g, x: g.Neg(g.Neg(x)), contract=EXACT)
def cancel_negations(g: RewriteBuilder, x: Value) -> Value:
    """Neg(Neg(x)) => x"""
    return x


@rule(lambda g, x: g.Relu(g.Relu(x)), contract=EXACT)
def merge_relus(g: RewriteBuilder, x: Value) -> Value:
    """Relu(Relu(x)) => Relu(x)"""
    return g.Relu(x)


@rule(lambda g, x: g.Abs(x), contract=EXACT)
def drop_abs(g: RewriteBuilder, x: Value) -> Value:
    """Abs(x) => x, for a Sigmoid"""
    maker = x.producer
    require(maker is not None and maker.type == "Sigmoid", f"{x.name} may be negative")
    return x


@rule(lambda g, x: g.Abs(x), contract=EXACT)
def wrong_abs(g: RewriteBuilder, x: Value) -> Value:
    """Abs(x) => Neg(x), which is wrong"""
    return g.Neg(x)


SIGNS, RELUS = RulePass("signs", (cancel_negations, drop_abs)), RulePass("relus", (merge_relus,))
PIPELINE = Fixpoint("both", (SIGNS, RELUS))


class Recorder(Instrumentation):
    """Records the calls of all hooks."""

    def __init__(self) -> None:
        self.calls = list[tuple[Any, ...]]()

    def start(self, model: Model) -> None:
        self.calls.append(("start", len(model.graph)))

    def before(self, p: Pass, graph: Graph) -> None:
        self.calls.append(("before", p.name, len(graph)))

    def after(self, p: Pass, graph: Graph, changes: int) -> None:
        self.calls.append(("after", p.name, len(graph), changes))

    def failed(self, p: Pass, graph: Graph, error: PassFailed) -> None:
        self.calls.append(("failed", p.name, len(graph), str(error)))

    def before_rule(self, r: Rule, op: Op) -> None:
        self.calls.append(("try", r.name, op.type))

    def after_rule(self, r: Rule, op: Op, *, is_changed: bool) -> None:
        self.calls.append(("tried", r.name, is_changed, op.type))

    def declined(self, r: Rule, op: Op, reason: str) -> None:
        self.calls.append(("declined", r.name, op.label, reason))

    def of(self, *names: str) -> list[tuple[Any, ...]]:
        return [call for call in self.calls if call[0] in names]


def test_hooks_see_the_run() -> None:
    seen = Recorder()
    result = optimize(load(TEXT), PIPELINE, instrumentation=[seen])
    assert seen.of("start", "before", "after") == [
        ("start", 6), ("before", "both", 6), ("before", "signs", 6), ("after", "signs", 4, 1),
        ("before", "relus", 4), ("after", "relus", 3, 1), ("before", "signs", 3), ("after", "signs", 3, 0),
        ("before", "relus", 3), ("after", "relus", 3, 0), ("after", "both", 3, 2),
    ]  # fmt: skip
    assert ("declined", "drop_abs", "Abs y", "e may be negative") in seen.calls
    at = seen.calls.index(("try", "cancel_negations", "Neg"))
    assert ("tried", "cancel_negations", True, "Neg") in seen.calls[at:]
    assert [call[2] for call in seen.of("tried")].count(True) == 2
    assert "instrumentation" in result.report.seconds
    assert to_onnx(from_onnx(result.model)) == optimize(load(TEXT), PIPELINE).model


def test_repetitions_call_hooks_and_replays_do_not() -> None:
    seen = Recorder()
    wrong = RulePass("wrong", (cancel_negations, wrong_abs))
    report = optimize(load(TEXT), wrong, instrumentation=seen).report
    assert [found.by for found in report.rejected] == ["wrong_abs"] * 2
    assert report.replays > 3
    assert len(seen.of("start")) == len(seen.of("after")) == 3
    assert seen.of("after")[-1] == ("after", "wrong", 4, 1)


def test_failed_passes_are_told() -> None:
    class Raises:
        name = "raises"

        def run(self, graph: Graph, change_log: ChangeLog) -> int:  # noqa: ARG002 - of a pass
            raise KeyError("y")

    seen = Recorder()
    graph = from_onnx(load(TEXT)).graph
    with pytest.raises(PassFailed):
        run_pass(Fixpoint("both", (SIGNS, Raises())), graph, ChangeLog(hooks=Hooks([seen])))
    assert [call[:3] for call in seen.of("failed")] == [("failed", "raises", 4), ("failed", "both", 4)]
    assert all(call[3].startswith("KeyError: 'y'") for call in seen.of("failed"))


class RaisesAfter(Instrumentation):
    def after(self, p: Pass, graph: Graph, changes: int) -> None:  # noqa: ARG002 - of the base class
        raise KeyError(changes)


class ChangesAtRules(Instrumentation):
    def before_rule(self, r: Rule, op: Op) -> None:  # noqa: ARG002 - of the base class
        op.graph.replace_value(op.outputs[0], op.inputs[0])  # pyright: ignore[reportArgumentType]


class RaisesAtDeclines(Instrumentation):
    def declined(self, r: Rule, op: Op, reason: str) -> None:  # noqa: ARG002 - of the base class
        require(not reason, "no reason")


@cases(
    ("instrument", "message"),
    {
        "raises": (RaisesAfter(), r"hook after of RaisesAfter \(signs\) raised KeyError: 1 \(test_instr.*\.py:\d+\)"),
        "changes": (
            ChangesAtRules(),
            r"hook before_rule of ChangesAtRules \(cancel_negations at Neg b\) changed the graph; hooks may only read",
        ),
        "declines": (
            RaisesAtDeclines(),
            r"hook declined of RaisesAtDeclines \(drop_abs at Abs e\) raised MatchFailure",
        ),
    },
)
def test_hooks_that_fail_are_named(instrument: Instrumentation, message: str, tmp_path: Path) -> None:
    with pytest.raises(InstrumentationError, match=f"^{message}"):
        optimize(load(TEXT), PIPELINE, instrumentation=[instrument], output=tmp_path / "o.onnx")
    assert not (tmp_path / "o.onnx").exists()


@pytest.mark.parametrize("given", [3, "x", [Recorder], [Recorder(), None]], ids=["number", "text", "class", "None"])
def test_only_instrumentation_is_taken(given: Any) -> None:
    with pytest.raises(UsageError, match=r"it must be an Instrumentation of passwright\.core, or a list of them$"):
        optimize(load(TEXT), PIPELINE, instrumentation=given)


def test_statistics_count_passes_that_a_pass_runs() -> None:
    class Around:
        """A pass that runs another."""

        name = "around"

        def run(self, graph: Graph, change_log: ChangeLog) -> int:
            return run_pass(Fixpoint("inside", (RulePass("signs", (cancel_negations, drop_abs)),)), graph, change_log)

    around, signs = optimize(load(TEXT), Fixpoint("all", (Around(),)), statistics=True).report.statistics
    assert (around.name, around.changes, around.rules, signs.name, signs.changes) == ("around", 0, [], "signs", 1)
    counts = {r.name: (r.changes, [d.reason for d in r.declines]) for r in signs.rules}
    assert counts == {"cancel_negations": (1, []), "drop_abs": (0, ["d may be negative"])}


def test_statistics_count_tries_matches_changes_and_declines() -> None:
    report = optimize(load(TEXT), PIPELINE, statistics=True, exact=True).report
    signs, relus = report.statistics
    assert (signs.name, signs.runs, signs.changes, relus.runs, relus.changes) == ("signs", 2, 1, 2, 1)
    counts = {r.name: (r.tries, r.matches, r.changes) for p in report.statistics for r in p.rules}
    assert counts["cancel_negations"] == (1, 1, 1)
    assert counts["merge_relus"] == (1, 1, 1)
    tries, matches, changes = counts["drop_abs"]
    assert (tries, changes) == (matches, 0)
    (found,) = next(r.declines for r in signs.rules if r.name == "drop_abs")
    assert (found.places, found.reason, found.example) == (2, "d may be negative", "Abs e")
    assert all(0 <= r.seconds <= signs.seconds + relus.seconds for p in report.statistics for r in p.rules)
    assert optimize(load(TEXT), PIPELINE).report.statistics == []


@cases(
    ("limit", "text"),
    {
        "at once": (0, "stopped after 0 changes"),
        "one": (1, "stopped after 1 change; the last is signs/cancel_negations at b"),
        "two": (2, "stopped after 2 changes; the last is relus/merge_relus at d"),
        "never": (3, "did not stop: there are 2 changes, fewer than 3; the last is relus/merge_relus at d"),
    },
)
def test_runs_stop_after_changes(limit: int, text: str) -> None:
    report = optimize(load(TEXT), PIPELINE, stop_after=limit).report
    assert sum(p.changes for p in report.passes) == min(limit, 2)
    assert report.verification is not None
    assert report.verification.failure is None
    assert str(report.stop) == text


def test_a_stopped_run_is_without_wrong_changes() -> None:
    wrong = RulePass("wrong", (cancel_negations, wrong_abs))
    report = optimize(load(TEXT), wrong, stop_after=2).report
    assert [found.by for found in report.rejected] == ["wrong_abs"] * 2
    assert report.stop is not None
    assert (report.stop.changes, report.stop.by) == (1, "cancel_negations")
    assert not optimize(load(TEXT), wrong, stop_after=1).report.rejected
    with pytest.raises(VerificationError, match="first broken by wrong/wrong_abs #1"):
        optimize(load(TEXT), wrong, stop_after=2, strict=True)


def dumped(folder: Path) -> dict[str, list[str]]:
    """The operators of the models in a folder, by the names of their files."""
    models = {p.stem: onnx.load(p) for p in sorted(folder.glob("*.onnx"))}
    for name, model in models.items():
        onnx.checker.check_model(model)
        read = onnx.parser.parse_model((folder / f"{name}.onnxtxt").read_text())
        assert [n.op_type for n in read.graph.node] == [n.op_type for n in model.graph.node]
    return {name: [n.op_type for n in model.graph.node] for name, model in models.items()}


AFTER_SIGNS, AFTER_RELUS = ["Relu", "Relu", "Abs", "Abs"], ["Relu", "Abs", "Abs"]


@cases(
    ("names", "files"),
    {
        "a pass": (["relus"], {"0002-relus": AFTER_RELUS, "0004-relus": AFTER_RELUS}),
        "changed": (["changed"], {"0001-signs": AFTER_SIGNS, "0002-relus": AFTER_RELUS}),
        "a group": ("both", {"0005-both": AFTER_RELUS}),
        "all": (
            ["all"],
            {
                "0001-signs": AFTER_SIGNS,
                "0002-relus": AFTER_RELUS,
                "0003-signs": AFTER_RELUS,
                "0004-relus": AFTER_RELUS,
            },
        ),
    },
)
def test_models_after_passes_are_files(names: Any, files: dict[str, list[str]], tmp_path: Path) -> None:
    folder = tmp_path / "dumps"
    result = optimize(load(TEXT), PIPELINE, dump_after=names, dump_to=folder)
    assert dumped(folder) == files
    assert result.model == optimize(load(TEXT), PIPELINE).model
    InferenceSession((folder / f"{next(iter(files))}.onnx").read_bytes())


def test_dumps_are_those_of_the_run_that_made_the_result(tmp_path: Path) -> None:
    wrong = RulePass("../wrong", (cancel_negations, wrong_abs))
    optimize(load(TEXT), wrong, dump_after="all", dump_to=tmp_path / "dumps")
    assert dumped(tmp_path / "dumps") == {"0001-.._wrong": AFTER_SIGNS}
    assert [p.name for p in tmp_path.iterdir()] == ["dumps"]


def test_large_weights_are_not_in_the_text(tmp_path: Path) -> None:
    model = load("g (float[N,8] x) => (float[N,8] y) { a = Neg(x) b = Neg(a) y = MatMul(b, w) }",
                 weights={"w": np.eye(8, dtype=np.float32)})  # fmt: skip
    optimize(model, PIPELINE, dump_after="signs", dump_to=tmp_path)
    assert 'w = ["omitted": "64 elements"]' in (tmp_path / "0001-signs.onnxtxt").read_text()
    weights = onnx.load(tmp_path / "0001-signs.onnx").graph.initializer[0]
    assert np.array_equal(onnx.numpy_helper.to_array(weights), np.eye(8))


@cases(
    ("options", "message"),
    {
        "unknown": (
            {"dump_after": "sings", "dump_to": "d"},
            "no pass of the pipeline is named sings; did you mean signs?",
        ),
        "a rule": ({"dump_after": "drop_abs", "dump_to": "d"}, "drop_abs is a rule: give its pass, signs"),
        "no folder": ({"dump_after": "signs"}, "dump_after needs a folder to write to: give dump_to"),
        "no pass": ({"dump_to": "d"}, "dump_to needs dump_after: name a pass, or give all or changed"),
        "full": (
            {"dump_after": "all", "dump_to": "full"},
            "cannot write models to full: it is not empty; name a new folder",
        ),
        "a file": ({"dump_after": "all", "dump_to": "full/f"}, "cannot write to full/f: full/f is not a folder"),
    },
)
def test_dumps_that_cannot_be(
    options: dict[str, Any], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("full").mkdir()
    Path("full/f").touch()
    with pytest.raises(PassesError) as e:
        optimize(load(TEXT), PIPELINE, **options)
    assert str(e.value) == message


def test_the_command_shows_both(tmp_path: Path) -> None:
    onnx.save(load(TEXT.replace("Neg", "Identity")), tmp_path / "m.onnx")
    options = ["--statistics", "--stop-after=1", "--html", str(tmp_path / "r.html"), "--json", str(tmp_path / "r.json")]
    shown = invoke("run", str(tmp_path / "m.onnx"), "--no-verify", *options)
    assert "stopped after 1 change; the last is drop-identity/drop_identity at " in shown.stdout
    assert "│   drop_identity" in shown.stdout
    report = json.loads((tmp_path / "r.json").read_text())
    assert report["stop"]["changes"] == 1
    (counts,) = [r for p in report["statistics"] for r in p["rules"] if r["name"] == "drop_identity"]
    assert (counts["changes"], counts["declines"]) == (1, [])
    assert "Passes and rules" in (tmp_path / "r.html").read_text()
