"""`passes check`, end to end."""

import json
import re
from functools import partial
from pathlib import Path
from typing import Any, cast

import commands
import pytest
from msgspec.structs import replace
from passwright.core.errors import UnverifiableError
from passwright.core.processes.worker_process import RequestFailed, WorkerExit
from passwright.testing.model_comparison import ComparisonProcess, RewriteComparison
from rewriting import load, op_types

from passwright import optimize

pytestmark = pytest.mark.usefixtures("_checks_share_process")
OK, BAD, USAGE, WRONG, INCONCLUSIVE = range(5)
RULES = '''
from dataclasses import dataclass
from passwright.core import EXACT, require, rule

@rule(lambda g, x: g.Abs(g.Neg(x)), contract=EXACT)
def drop_negation(g, x):
    """Abs(-x) => Abs(x)"""
    return g.Abs(x)

@rule(lambda g, x: g.Relu(g.Neg(x)), contract=EXACT)
def relu_of_negated(g, x):
    """Relu(-x) => Relu(x)"""
    return g.Relu(x)

@rule(lambda g, x: g.Relu(x), contract=EXACT)
def never(g, x):
    """Relu(x) => x"""
    require(False, "it never will")

@dataclass(frozen=True)
class Idle:
    name: str = "idle"
    def run(self, graph, change_log):
        return 0

IDLE = Idle()
'''


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    path = tmp_path / "my_rules.py"
    path.write_text(RULES)
    return path


invoke = partial(commands.invoke, "check")


def test_all_rules_of_file(rules: Path, tmp_path: Path) -> None:
    report, repros = tmp_path / "report.json", tmp_path / "repros"
    output = invoke(rules, "--budget", "60", "--json", report, "--repro", repros, code=WRONG).output
    assert "3 rules and 1 pass: 1 sound, 1 wrong, 2 inconclusive" in output
    assert f"    from {rules.stem} import " in output
    assert "idle never fired" in output
    assert "relu_of_negated changes the results of the model" in output
    assert re.search(r"\(it never will \(my_rules.py:\d+\)\): give examples", output)
    data = json.loads(report.read_text(encoding="utf-8"))
    assert {r["name"]: r["result"] for r in data["rules"]} == {
        "drop_negation": "sound",
        "relu_of_negated": "wrong",
        "never": "inconclusive",
        "idle": "inconclusive",
    }
    assert data["not_checked"] == []
    fault = data["rules"][1]["fault"]
    assert fault["kind"] == "wrong"
    assert fault["repro"] == str(repros / "relu_of_negated")
    assert (repros / "relu_of_negated" / "before.onnx").is_file()


@pytest.mark.parametrize(
    ("names", "code"),
    [
        (["drop_negation"], OK),
        (["never"], INCONCLUSIVE),
        (["relu_of_negated", "never"], WRONG),
        (["idle"], INCONCLUSIVE),
    ],
    ids=str,
)
def test_rules_by_name(rules: Path, names: list[str], code: int) -> None:
    invoke(rules, *names, "--budget", "60", code=code)


GAINS = """
from math import inf
from passwright.core import conditional, require, rule

def shrunk(g, x):  # 0 for NaN
    require(x.dtype == "float32", "it is not of single precision")
    return g.Shrink(x, lambd=0.5, bias=0.5)

@rule(lambda g, x: g.Sub(x, g.Clip(x, -0.5, 0.5)))
def as_rounding(g, x):
    return shrunk(g, x)

NUMBERS = conditional("all are numbers", each=lambda g, v: g.LessOrEqual(g.Abs(v), inf))

@rule(lambda g, x: g.Sub(x, g.Clip(x, -0.5, 0.5)), contract=NUMBERS)
def as_conditional(g, x):
    return shrunk(g, x)

@rule(lambda g, x: g.Add(x, x))
def alike(g, x):
    return x * 2.0
"""


def test_rule_that_a_run_leaves_out_is_named(tmp_path: Path) -> None:
    file = tmp_path / "gains.py"
    file.write_text(GAINS, encoding="utf-8")
    output = invoke(file, "--budget", "30", "--json", tmp_path / "report.json").output
    (line,) = (line for line in output.splitlines() if "passes run" in line)
    assert line.startswith("as_rounding: sound, but ")
    assert "are finite instead of NaN, on " in line
    noted = {r["name"]: bool(r["left_out"]) for r in json.loads((tmp_path / "report.json").read_text())["rules"]}
    assert noted == {"as_rounding": True, "as_conditional": False, "alike": False}
    model = load(
        "g (float[N,4] x) => (float[N,4] y) <float a = {-0.5}, float b = {0.5}> { c = Clip(x, a, b) y = Sub(x, c) }"
    )
    for name, kept in (("as_rounding", ["Clip", "Sub"]), ("as_conditional", ["Shrink"])):
        assert op_types(optimize(model, only=[name], plugin=[file]).model) == kept


def test_built_in_rule_by_name() -> None:
    assert "cancel_negations" in invoke("cancel_negations", "--budget", "20").output


def test_external_optimizer_is_not_checked() -> None:
    assert "onnxoptimizer:fuse_qkv was not checked" in invoke("onnxoptimizer:fuse_qkv", code=INCONCLUSIVE).output


def test_json_to_stdout(rules: Path) -> None:
    data = json.loads(invoke(rules, "drop_negation", "--budget", "20", "--json", "-").stdout)
    assert data["rules"][0]["result"] == "sound"


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ([], USAGE, "nothing to check"),
        (["quite_another"], USAGE, "no pass or rule is named quite_another (see `passes list --search quite_another`)"),
        (["cancel_negatoins"], USAGE, "did you mean cancel_negations"),
        (["onnxoptimizer:nothing"], USAGE, "onnxoptimizer has no pass named 'nothing'"),
        (["missing.py"], BAD, "does not exist"),
        (["cancel_negations", "--budget", "0"], USAGE, "budget"),
        (["cancel_negations", "--repro", "/dev/null/x"], BAD, "cannot write"),
    ],
    ids=str,
)
def test_usage_errors_are_one_line(arguments: list[str], code: int, message: str) -> None:
    assert message in invoke(*arguments, code=code).output


TARGET = '''
from passwright.core import NEVER, Pipeline, Plugin, RulePass, Support, Target, rule

@rule(lambda g, x: g.Abs(g.Abs(x)))
def of_pipeline(g, x):
    """Abs(Abs(x)) => Abs(x)"""
    return g.Abs(x)

@rule(lambda g, x: g.HardSwish(x))
def wrong_decomposition(g, x):
    """HardSwish(x) => x"""
    return g.Mul(x, 1.0)

TARGET = Target("small", operators={"HardSwish": NEVER}, others="standard", decompositions=(wrong_decomposition,))
EMPTY = Target("empty", operators={"Add": Support()})
'''


def test_decompositions_of_targets_are_checked(tmp_path: Path) -> None:
    path = tmp_path / "target.py"
    path.write_text(TARGET + "EMPTY = None")
    output = invoke(path, "wrong_decomposition", "--budget", "20", code=WRONG).output
    assert "wrong_decomposition changes the results" in output
    assert "1 rule: 0 sound, 1 wrong" in invoke(path, "small", "--budget", "20", code=WRONG).output


def test_passes_of_pipelines_are_checked(tmp_path: Path) -> None:
    path = tmp_path / "pipeline.py"
    plugin = 'Plugin(pipelines={"mine": Pipeline("mine", (RulePass("of-pipeline", (of_pipeline,)),))})'
    path.write_text(f"{TARGET}PLUGIN = {plugin}")
    assert "1 rule: 1 sound" in invoke(path, "--budget", "20").output


def test_a_file_with_nothing_to_check_says_what_it_has(tmp_path: Path) -> None:
    path, report = tmp_path / "empty.py", tmp_path / "report.json"
    path.write_text(
        TARGET + "TARGET = None\nPLUGIN = Plugin(targets=(EMPTY,), pipelines={'mine': 'basic'}, analyses={'size': len})"
    )
    contents = "target empty without decompositions of its own, pipeline mine of other passes, analysis size"
    output = invoke(path, "--json", report, code=INCONCLUSIVE).output
    assert f"{path} has nothing to check, only {contents}" in output
    assert json.loads(report.read_text())["nothing_to_check"] == {str(path): contents}


def test_results_come_one_by_one(rules: Path) -> None:
    lines = invoke(rules, "--budget", "20", code=WRONG).stdout.splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith("┏"))
    assert [line.partition(" (")[0] for line in lines[:first]] == [
        "drop_negation: sound",
        "relu_of_negated: wrong",
        "never: inconclusive",
        "idle: inconclusive",
    ]
    assert not invoke(rules, "drop_negation", "--budget", "5").stdout.startswith("drop_negation: sound")


def test_an_interrupted_check_reports_what_is_finished(rules: Path, tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    rules.write_text(RULES.replace("return 0", "raise KeyboardInterrupt"))
    output = invoke(rules, "--budget", "20", "--json", report, code=130).output
    assert "interrupted while idle (4 of 4); 3 of 4 were checked" in output
    assert "idle: not checked (interrupted)" in output
    assert "3 rules: 1 sound, 1 wrong, 1 inconclusive" in output
    data = json.loads(report.read_text())
    assert (len(data["rules"]), data["unfinished"]) == (3, ["idle"])


MODEL = load("g (int32[2] x) => (int32[2] y) { y = Add(x, x) }").SerializeToString()
REQUEST = RewriteComparison(MODEL, MODEL, (), "exact")


def test_crash_is_reported_and_survived() -> None:
    with ComparisonProcess() as compare:
        assert compare(REQUEST) is None
        process: Any = compare._process._process
        process.kill()
        found: Any = compare(REQUEST)
        assert found.message.startswith("on the rewritten model, onnxruntime crashed (SIGKILL)")
        assert compare(REQUEST) is None


@pytest.mark.parametrize(("late", "is_wrong"), [({0}, False), ({0, 2}, True)])
def test_only_a_second_timeout_is_reported(late: set[int], is_wrong: bool) -> None:
    """On a busy machine, a comparison may be late although the model is not."""

    class LateWorker:
        def __init__(self) -> None:
            self.calls = 0

        def call(self) -> Any:
            return self

        def compare(self, _: RewriteComparison) -> None:
            self.calls += 1
            if self.calls - 1 in late:
                raise WorkerExit(None, 60.0, "")

    with ComparisonProcess() as compare:
        real, compare._process = compare._process, cast("Any", LateWorker())
        found = compare(REQUEST)
        compare._process = real
    message = "on the rewritten model, onnxruntime did not end within 60 s"
    assert (found.message if found else "") == (message if is_wrong else "")


def test_internal_error_keeps_its_traceback() -> None:
    broken: Any = None
    with ComparisonProcess() as compare, pytest.raises(RequestFailed, match=r"Traceback (.|\n)*in compare_models"):
        compare(replace(REQUEST, after=broken))


def test_hanging_comparison_is_ended() -> None:
    with (
        ComparisonProcess(timeout=0.0) as compare,
        pytest.raises(UnverifiableError, match="on the generated model, onnxruntime did not end within 0 s"),
    ):
        compare(REQUEST)
