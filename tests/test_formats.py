"""Formats for continuous integration: annotations of GitHub, Markdown and SARIF."""

import json
import re
from contextlib import chdir
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from commands import invoke
from passwright.app.cli.exit_codes import UNVERIFIED, WRONG
from passwright.app.cli.outputs import Outputs
from passwright.app.optimize.document import describe
from passwright.app.report.document import Document, Lines, Preformatted, failure_document, findings_of
from passwright.app.report.finding import Finding, Level, relative_path, workflow_commands
from passwright.app.report.markdown import escape, markdown_text
from passwright.app.report.sarif import DESCRIPTIONS, sarif_text
from passwright.core.errors import UsageError
from passwright.core.run.report import RunHint, TransformRecord
from rewriting import each, load
from sample_reports import report
from typer.testing import Result

pytestmark = pytest.mark.usefixtures("_few_combined_inputs", "_verifies_in_process")

BEFORE = "g (float[N,4] x) => (float[N,4] y) { [dropped] a = Identity(x) m = MatMul(a, w) s = Add(m, c) y = Relu(s) }"
AFTER = "g (float[N,4] x) => (float[N,4] y) { [joined] s = Gemm(x, w, c) y = Relu(s) }"
WRONG_MODEL = "g (float[N,4] x) => (float[N,4] y) { [joined] s = Gemm(x, w, c) [bad] y = Neg(s) }"
RENAMED = "g (float[N,4] x) => (float[N,4] z) { s = Gemm(x, w, c) z = Relu(s) }"
WEIGHTS = {"w": np.eye(4, dtype=np.float32), "c": np.ones(4, np.float32)}
RULE = '''from passwright.core import EXACT, rule


@rule(lambda g, x: g.Relu(x), contract=EXACT)
def drop_relu(g, x):
    """Relu(x) => x"""
    return x
'''


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with models, to be the current one."""
    for name, text in {"before": BEFORE, "after": AFTER, "wrong": WRONG_MODEL, "renamed": RENAMED}.items():
        onnx.save(load(text, weights=WEIGHTS), tmp_path / f"{name}.onnx")
    (tmp_path / "rules.py").write_text(RULE)
    return tmp_path


def passes(folder: Path, *arguments: str, code: int = 0) -> Result:
    with chdir(folder):
        return invoke(*arguments, code=code)


def sarif(text: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The driver and the results of a log, with all that its schema and GitHub require."""
    log = json.loads(text)
    assert (log["version"], log["$schema"]) == ("2.1.0", "https://json.schemastore.org/sarif-2.1.0.json")
    (run,) = log["runs"]
    assert set(run) == {"tool", "invocations", "columnKind", "results"}
    assert run["invocations"] == [{"executionSuccessful": True}]
    driver = run["tool"]["driver"]
    assert re.fullmatch(r"\d+\.\d+\.\d+", driver["version"])
    ids = [descriptor["id"] for descriptor in driver["rules"]]
    assert len(set(ids)) == len(ids)
    for descriptor in driver["rules"]:
        assert set(descriptor) == {"id", "shortDescription", "fullDescription", "properties"}
        assert all(descriptor[key]["text"] for key in ("shortDescription", "fullDescription"))
    for found in run["results"]:
        assert ids[found["ruleIndex"]] == found["ruleId"]
        assert found["level"] in {"error", "warning", "note"}
        assert found["message"]["text"]
        assert re.fullmatch("[0-9a-f]{32}", found["partialFingerprints"]["passwright/v1"])
        for location in found["locations"]:
            place = location["physicalLocation"]
            assert place["region"]["startLine"] >= 1
            artifact = place["artifactLocation"]
            assert re.fullmatch(r"[\w.~%/:-]+", artifact["uri"], re.ASCII)
            assert ("uriBaseId" in artifact) != artifact["uri"].startswith("file:///")
            assert all(where["name"] == where["fullyQualifiedName"] for where in location.get("logicalLocations", ()))
    return driver, run["results"]


def test_verify_annotates_a_wrong_output(folder: Path) -> None:
    arguments = ("verify", "before.onnx", "wrong.onnx", "--format", "github", "--format", "sarif:v.sarif")
    lines = passes(folder, *arguments, code=WRONG).stdout.splitlines()
    assert lines[0].startswith("wrong.onnx is wrong: y: off by")
    assert re.fullmatch(r"::error file=wrong.onnx,title=wrong result::y: off by .*", lines[1])
    assert len(lines) == 2
    driver, (found,) = sarif((folder / "v.sarif").read_text())
    assert [rule["id"] for rule in driver["rules"]] == ["wrong-result"]
    (location,) = found["locations"]
    artifact = location["physicalLocation"]["artifactLocation"]
    assert artifact == {"uri": "wrong.onnx", "uriBaseId": "%SRCROOT%"}
    assert "y" in [where["name"] for where in location["logicalLocations"]]


def test_verify_of_equal_models_has_no_findings(folder: Path) -> None:
    arguments = ("verify", "before.onnx", "after.onnx", "--format", "sarif", "--format", "markdown:v.md")
    result = passes(folder, *arguments, "--json", "v.json")
    assert sarif(result.stdout)[1] == []
    text = (folder / "v.md").read_text()
    assert text.startswith("### passes verify\n\n|  | model | result |\n| --- | --- | --- |\n")
    assert "after.onnx against before.onnx | verified: " in text
    assert json.loads((folder / "v.json").read_text())["agrees"] is True
    assert passes(folder, "verify", "before.onnx", "after.onnx", "--format", "github").stdout.startswith("verified: ")


def test_verify_names_each_difference_of_interfaces(folder: Path) -> None:
    result = passes(folder, "verify", "before.onnx", "renamed.onnx", "--format", "github", code=WRONG)
    assert "::error file=renamed.onnx,title=the interface differs::output y is missing" in result.stdout.splitlines()


@pytest.mark.parametrize("command", ["verify", "diff"])
def test_an_unusable_model_is_an_error_in_all_formats(folder: Path, command: str) -> None:
    arguments = (command, "before.onnx", "none.onnx", "--format", "github", "--format", "sarif:n.sarif")
    result = passes(folder, *arguments, code=1 if command == "verify" else 2)
    assert result.stdout == "::error file=none.onnx,title=unusable::none.onnx does not exist\n"
    assert result.stderr == "error: none.onnx does not exist\n"
    _, (found,) = sarif((folder / "n.sarif").read_text())
    assert (found["ruleId"], found["level"]) == ("unusable-model", "error")


def test_diff_lists_changes(folder: Path) -> None:
    result = passes(
        folder, "diff", "before.onnx", "after.onnx", "--format", "github", "--format", "sarif:d.sarif", code=1
    )
    commands = [line for line in result.stdout.splitlines() if line.startswith("::")]
    assert commands
    assert all(c.startswith("::notice file=after.onnx,title=the structure differs::") for c in commands)
    assert any("Gemm" in c for c in commands)
    _, found = sarif((folder / "d.sarif").read_text())
    assert len(found) == len(commands)
    result = passes(folder, "diff", "before.onnx", "renamed.onnx", "--format", "github", code=1)
    assert "::warning file=renamed.onnx,title=the interface or a weight differs::" in result.stdout


def test_check_annotates_the_line_of_a_rule(folder: Path) -> None:
    arguments = ("check", "rules.py", "--budget", "3", "--format", "markdown", "--format", "sarif:c.sarif")
    result = passes(folder, *arguments, "--format", "github:c.txt", code=WRONG)
    assert result.stdout.startswith("### passes check\n")
    assert r"drop\_relu is wrong" in result.stdout
    command = (folder / "c.txt").read_text()
    assert command.startswith("::error file=rules.py,line=4,title=drop_relu is wrong::changes the results of the model")
    driver, (found,) = sarif((folder / "c.sarif").read_text())
    assert driver["rules"][0]["shortDescription"]["text"] == "Relu(x) => x"
    assert found["locations"][0]["physicalLocation"]["region"] == {"startLine": 4}


def test_findings_of_runs() -> None:
    run = replace(
        report("models/a b.onnx", rejected=True),
        hints=[RunHint("convert-opset", "at opset 20, more ops could be fused (6 Gelu)", "--opset 20")],
        transforms=[TransformRecord("clear-docs", 9)],
    )
    unverified = replace(report("c.onnx"), verification=None)
    documents = [describe(r, is_check=True) for r in (run, unverified)]
    documents.append(failure_document("passes run", "d.onnx", "d.onnx: not an ONNX model", 1))
    findings = findings_of(documents)
    assert [(f.level, f.rule, f.file) for f in findings] == [
        ("error", "unoptimized-model", "models/a b.onnx"),
        ("error", "unoptimized-model", "c.onnx"),
        ("error", "unusable-model", "d.onnx"),
        ("warning", "pad_into_max_pool", "models/a b.onnx"),
        ("warning", "not-verified", "c.onnx"),
        ("note", "quantized", "models/a b.onnx"),
        ("note", "hint", "models/a b.onnx"),
    ]
    change = findings[0].message
    assert change.startswith("models/a b.onnx: 185 -> 122 nodes (-34.1%), ")
    assert change.endswith("; by fold_batch_norm_into_conv (53), clear-docs (9), merge_transposes (7)")
    _, results = sarif(sarif_text(findings))
    assert results[0]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "models/a%20b.onnx"
    text = markdown_text(documents)
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    assert rows[0] == "|  | model | nodes | file | parameters | rewrites | skipped | result |"
    assert re.match(r"\| ❌ \| models/a b.onnx \| 185 → \*\*122\*\* \(-34.1%\) \| .* would change; verified: ", rows[2])
    assert "- ⚠️ c.onnx: " not in text
    assert rows[4] == "| ❌ | d.onnx |  |  |  |  |  | d.onnx: not an ONNX model |"
    assert "- ⚠️ models/a b.onnx: skipped pad-pool/pad\\_into\\_max\\_pool #4" in text.replace("\\#", "#")
    assert "<summary>models/a b.onnx: 60 rewrites by rule</summary>" in text


def test_changes_are_no_findings_unless_they_are_checked() -> None:
    document = describe(report())
    assert list(document.findings) == []
    assert sarif(sarif_text(document.findings))[1] == []
    assert document.tone == "good"


@pytest.mark.parametrize(
    ("code", "rule"), [(1, "unusable-model"), (WRONG, "wrong-result"), (UNVERIFIED, "unverifiable-model")]
)
def test_failures_by_exit_code(code: int, rule: str) -> None:
    assert [f.rule for f in failure_document("passes run", "m.onnx", "it failed", code).findings] == [rule]
    assert rule in DESCRIPTIONS


def test_built_in_rules_are_described_from_the_catalogue() -> None:
    findings = [Finding(Level.WARNING, name, "t", "m") for name in ("merge_transposes", "fold-constants", "my rule")]
    driver, _ = sarif(sarif_text(findings))
    texts = [rule["shortDescription"]["text"] for rule in driver["rules"]]
    assert texts[0].startswith("Transpose(Transpose(x")
    assert len(texts[1]) > 20
    assert texts[2] == "my rule"


def test_messages_for_scanners_have_no_links_and_no_placeholders() -> None:
    _, (result,) = sarif(sarif_text([Finding(Level.WARNING, "r", "a", "[b](https://c) {0} {d}")]))
    assert result["message"]["text"] == "a: [b] (https://c) {{0}} {d}"


@each(
    ("text", "data", "value"),
    [
        ("50%", "50%25", "50%25"),
        ("a\nb\r", "a%0Ab\\r", "a%0Ab\\r"),
        ("x: y, z", "x: y, z", "x%3A y%2C z"),
        ("\x1b[31m::error::", "\\x1b[31m::error::", "\\x1b[31m%3A%3Aerror%3A%3A"),
        ("%0A", "%250A", "%250A"),
        ("::a::##[b]", "\\x3a:a::\\x23#[b]", "\\x3a%3Aa%3A%3A\\x23#[b]"),
    ],
)
def test_workflow_commands_are_escaped(text: str, data: str, value: str) -> None:
    (command,) = workflow_commands([Finding(Level.WARNING, "r", text, text)])
    assert command == f"::warning title={value}::{data}"


def test_the_gravest_commands_come_first() -> None:
    findings = [Finding(level, "r", "t", str(n)) for n, level in enumerate((Level.NOTE, Level.ERROR, Level.WARNING))]
    assert [c[:8] for c in workflow_commands(findings)] == ["::error ", "::warnin", "::notice"]


def test_markdown_is_cut() -> None:
    document = Document("passes run", "m", "v", blocks=[Lines(["n"] * 100), Preformatted("t", ["line"] * 100)])
    text = markdown_text([document] * 3)
    assert text.count("- m: n\n") == 39
    assert "- and 261 more" in text
    assert text.count("    and 61 more") == 3
    assert len(markdown_text([document] * 1000)) < 200_000
    assert markdown_text([]) == ""
    assert escape("a|b_c`d<e>*[f]\\") == r"a\|b\_c\`d\<e\>\*\[f\]\\"


def test_paths_are_relative_to_the_current_folder(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    with chdir(tmp_path / "in"):
        here = Path.cwd()
        assert relative_path("./a/../b.onnx") == "b.onnx"
        assert relative_path(str(here / "c" / "b.onnx")) == "c/b.onnx"
        assert relative_path("../b.onnx") == (here.parent / "b.onnx").as_posix()
        finding = Finding(Level.NOTE, "hint", "t", "m", "../é \udcff.onnx")
        uri = sarif(sarif_text([finding]))[1][0]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
        assert uri == f"{here.parent.as_uri()}/%C3%A9%20%FF.onnx"


@each(
    ("texts", "json_to", "outputs"),
    [
        ([], None, Outputs()),
        (["github"], None, Outputs("github")),
        (["text"], Path("r.json"), Outputs("text", Path("r.json"))),
        (["json"], None, Outputs("json", Path("-"))),
        ([], Path("-"), Outputs("json", Path("-"))),
        (["json:r.json", "sarif:a:b.sarif"], None, Outputs("text", Path("r.json"), (("sarif", Path("a:b.sarif")),))),
        (["markdown:-"], None, Outputs("markdown")),
    ],
)
def test_formats_are_parsed(texts: list[str], json_to: Path | None, outputs: Outputs) -> None:
    assert Outputs.parse(texts, json_to) == outputs
    assert outputs.is_quiet == (outputs.printed in {"json", "markdown", "sarif"})


@each(
    ("texts", "json_to", "message"),
    [
        (["yaml"], None, "--format yaml: choose from text, json, github, markdown, sarif"),
        (["sarif:"], None, "--format sarif:: name a file, such as sarif:FILE"),
        (["text:a"], None, "--format text can only go to standard output"),
        (["github", "sarif"], None, "only one format can go to standard output, not github and sarif: name files"),
        (["sarif"], Path("-"), "only one format can go to standard output, not sarif and json"),
        (["json:a"], Path("b"), "JSON can go to only one place, not a and b"),
        (["json"], Path("b"), "JSON can go to only one place, not b and -"),
    ],
)
def test_formats_that_exclude_each_other(texts: list[str], json_to: Path | None, message: str) -> None:
    with pytest.raises(UsageError, match=re.escape(message)):
        Outputs.parse(texts, json_to)


def test_files_of_formats_replace_no_others(folder: Path) -> None:
    for twice in (["--format", "sarif:before.onnx"], ["--format", "sarif:r", "--json", "./r"]):
        result = passes(folder, "verify", "before.onnx", "after.onnx", *twice, code=2)
        assert "the command already uses this file" in result.stderr
    result = passes(folder, "verify", "before.onnx", "after.onnx", "--format", "sarif:none/r", code=1)
    assert result.stderr.startswith("error: cannot write to none/r: ")
    assert result.stdout == ""


def test_check_of_a_model(folder: Path) -> None:
    arguments = (
        "--check",
        "before.onnx",
        "--format",
        "github",
        "--format",
        "sarif:r.sarif",
        "--format",
        "markdown:r.md",
    )
    lines = passes(folder, "run", *arguments, "--json", "r.json", code=WRONG).stdout.splitlines()
    assert lines[0].startswith("before.onnx: 4 -> 2 nodes (-50.0%), ")
    assert lines[-1].startswith("::error file=before.onnx,title=would change::before.onnx: 4 -> 2 nodes (-50.0%25), ")
    assert "fuse_" in lines[-1] or "matmul_add_to_gemm" in lines[-1]
    _, (found,) = sarif((folder / "r.sarif").read_text())
    assert (found["ruleId"], found["level"]) == ("unoptimized-model", "error")
    assert "| before.onnx | 4 → **2** (" in (folder / "r.md").read_text()
    assert json.loads((folder / "r.json").read_text())["before"]["nodes"] == 4
    quiet = passes(folder, "run", "-q", "--check", "before.onnx", "--format", "github", code=WRONG).stdout
    assert quiet.startswith("::error ")
    assert quiet.count("\n") == 1


def test_a_run_without_findings_prints_its_text_alone(folder: Path) -> None:
    for name in ("github", "text"):
        lines = passes(folder, "run", "before.onnx", "-o", f"{name}.onnx", "--format", name).stdout.splitlines()
        assert lines[-1] == f"written to {name}.onnx"
    assert passes(folder, "run", "before.onnx", "--format", "json").stdout.startswith("{")


def test_wrong_changes_are_warnings(folder: Path) -> None:
    arguments = ("before.onnx", "--plugin", "rules.py", "--format", "github", "--format", "sarif:r.sarif")
    result = passes(folder, "run", *arguments)
    assert "::warning file=before.onnx,title=a wrong change was skipped::rules/drop_relu #" in result.stdout
    _, (found,) = sarif((folder / "r.sarif").read_text())
    assert (found["ruleId"], found["level"]) == ("drop_relu", "warning")
    assert found["locations"][0]["logicalLocations"]
    result = passes(folder, "run", *arguments, "--strict", code=WRONG)
    assert result.stdout.startswith("::error file=before.onnx,title=wrong result::")
    assert sarif((folder / "r.sarif").read_text())[1][0]["ruleId"] == "wrong-result"


def test_many_models_share_one_report(folder: Path) -> None:
    (folder / "bad.onnx").write_text("no model")
    models = ("before.onnx", "after.onnx", "bad.onnx", "--jobs", "1", "--no-verify")
    files = ("--format", "sarif:r.sarif", "--format", "markdown:r.md")
    result = passes(folder, "run", "--check", *models, "--format", "github", *files, code=WRONG)
    commands = [c for c in result.stdout.splitlines() if c.startswith("::")]
    assert [c.partition("::")[2].partition("::")[0] for c in commands] == [
        "error file=before.onnx,title=would change",
        "error file=bad.onnx,title=unusable",
        "warning file=before.onnx,title=not verified",
        "warning file=after.onnx,title=not verified",
    ]
    _, found = sarif((folder / "r.sarif").read_text())
    assert [f["ruleId"] for f in found] == ["unoptimized-model", "unusable-model", "not-verified", "not-verified"]
    rows = [line.split(" | ")[:2] for line in (folder / "r.md").read_text().splitlines() if ".onnx |" in line]
    assert rows == [["| ❌", "before.onnx"], ["| ⚠️", "after.onnx"], ["| ❌", "bad.onnx"]]


def test_standard_output_is_for_one_thing(folder: Path) -> None:
    result = passes(folder, "run", "before.onnx", "-", "--format", "github", code=2)
    assert "the model goes to standard output: name a file, such as --format github:FILE" in result.stderr
