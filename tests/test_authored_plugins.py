"""Plugins as authors write them, one of each kind, by the documents alone: they run, are checked, and have types."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import onnx
import pytest
from executable_documents import PAGES, blocks, write_file
from passwright.app.cli.entry import app
from passwright.app.cli.exit_codes import UNVERIFIED
from rewriting import op_types
from typer.testing import CliRunner

from passwright import optimize

ROOT = Path(__file__).parent.parent
FOLDER = Path(__file__).parent / "authored"
PLUGINS = sorted(FOLDER.glob("*.py"))
pytestmark = pytest.mark.usefixtures("_few_combined_inputs", "_verifies_in_process")
HEADER = '<ir_version: 8, opset_import: ["": 20, "com.acme": 1]> '
RUNS: dict[str, tuple[str, dict[str, Any], Counter[str]]] = {
    "plain_rule": ("g (bool[N] x) => (bool[N] y) { a = Not(x) b = Not(a) y = Not(b) }", {}, Counter(Not=1)),
    "condition": (
        "g (float[N] x) => (float[N] y) <float c = {4}> { y = Div(x, c) }", {}, Counter(Mul=1)),
    "optional_input": (
        "g (float[N,2] x) => (float[N,2] y) <float[2,2] w = {1, 2, 3, 4}> { y = Gemm<transB=1>(x, w) }",
        {}, Counter(Gemm=1)),
    "variadic": (
        "g (float[N] x, float[N] z) => (float[M] y) { a = Concat<axis=0>(x, z) y = Concat<axis=0>(z, a) }",
        {}, Counter(Concat=1)),
    "lossy_rule": ("g (float[N] x) => (float[N] y) { y = Sigmoid(x) }", {}, Counter(Sigmoid=1)),
    "whole_graph_pass": (
        "g (float[N] a, float[N] b, float[N] c) => (float[N] y) { y = Sum(a, b, c) }",
        {"enable": ["limit-sum{most=2}"]}, Counter(Sum=2)),
    "wrapped_pass": (
        "g (float[N] x) => (float[N] y) { a = Abs(x) y = Relu(a) }", {"enable": ["on-small-graphs"]}, Counter(Abs=1)),
    "fixpoint": (
        "g (float[N,2] x) => (float[2,N] y) { a = Neg(x) b = Transpose(a) y = Neg(b) }",
        {"pipeline": "no-negations"}, Counter(Transpose=1)),
    "body_pass": (
        """g (bool c, float[N] x) => (float[N] y) { y = If (c) <
        then_branch = t () => (float[N] a) { d = Dropout(x) a = Abs(d) },
        else_branch = e () => (float[N] b) { b = Neg(x) }> }""",
        {"only": ["drop-dropout-in-bodies"]}, Counter(If=1)),
    "onnxscript_rule": (
        "g (float x) => (float y) { a = Reciprocal(x) y = Reciprocal(a) }", {}, Counter(Identity=1)),
    "transform": (
        "g (float[N] pixels) => (float[N] y) { y = Relu(pixels) }",
        {"enable": ["scale-input"]}, Counter(Div=1, Relu=1)),
    "outputs": (
        "g (float[N,4] x) => (float[N,2] y, float[N,2] z) { y, z = Split<axis=1, num_outputs=2>(x) }",
        {"only": ["split_by_slices"]}, Counter(Slice=2)),
    "contracts": (
        "g (float[N] x, float[N] z) => (float[N] y) { a = Sub(x, z) y = Neg(a) }", {}, Counter(Sub=1)),
    "level_order": (
        """g (float[N] x) => (float[N] y) { a = Abs(x) b = Neg(a) c = Exp(x) d = Tanh(c) e = Add(b, d) y = Sin(e) }""",
        {"only": ["write-by-level"]}, Counter(Abs=1, Exp=1, Neg=1, Tanh=1, Add=1, Sin=1)),
    "merged_branches": (
        "g (float[N] x) => (float[N] y) { a = Tanh(x) b = Tanh(x) y = Sub(a, b) }",
        {"only": ["merge-tanhs"]}, Counter(Tanh=1, Sub=1)),
    "pattern_language": (
        """g (float[N,4] x, float[N,4] z) => (float[N,8] y) {
        a = Tanh(x) b = Tanh(z) c = Concat<axis=1>(a, b) d = Neg(c) y = Neg(d) }""",
        {}, Counter(Concat=1, Tanh=1)),
    "custom_operator": (
        """g (float[N] x) => (float[N] y) <float[N] a, float[N] b> { a = com.acme.Scale<factor=1.0>(x)
        b = com.acme.Scale<factor=1.0>(a) y = Neg(b) }""",
        {"kernels": [FOLDER / "custom_operator.py"]}, Counter(Scale=1, Neg=1)),
    "engine_target": (
        "g (float[N] x) => (float[N] y) { y = Gelu(x) }", {"target": "engine"}, Counter(Mul=3, Erf=1, Add=1)),
}  # fmt: skip
"""Of each plugin a model, options of the run, and the operators of the result."""


def test_every_plugin_is_run() -> None:
    assert {p.stem for p in PLUGINS} == set(RUNS)


@pytest.mark.parametrize("name", RUNS)
def test_it_runs(name: str) -> None:
    text, options, wanted = RUNS[name]
    result = optimize(onnx.parser.parse_model(HEADER + text), plugin=[FOLDER / f"{name}.py"], strict=True, **options)
    assert Counter(op_types(result.model)) == wanted


@pytest.mark.slow  # takes 3 CPU seconds for a rule
@pytest.mark.parametrize("plugin", PLUGINS, ids=lambda p: p.stem)
def test_its_rules_and_passes_are_sound(plugin: Path) -> None:
    kernels = ["--kernels", str(plugin)] if "@kernel" in plugin.read_text() else []
    result = CliRunner().invoke(app, ["check", str(plugin), "--budget", "60", *kernels])
    has_rules = plugin.stem != "transform"  # models say nothing of a transform
    assert result.exit_code == (0 if has_rules else UNVERIFIED), result.output
    assert re.search(r" 0 wrong, 0 inconclusive", result.output)


@pytest.mark.slow  # takes 10 CPU seconds
def test_types_are_complete_and_find_mistakes(tmp_path: Path) -> None:
    shown = write_what_documents_show(tmp_path / "shown")
    folders = sorted({f.relative_to(tmp_path).parts[1] for f in shown})
    environments = [{"root": f"shown/{f}", "extraPaths": [".", f"shown/{f}/src"], **PARTLY_TYPED} for f in folders]
    package = tmp_path / "passwright"
    shutil.copytree(ROOT / "passwright", package, ignore=shutil.ignore_patterns("__pycache__"))
    for folder in ("app", "core", "passes", "testing"):
        (package / folder).symlink_to(ROOT / folder)
    shutil.copytree(FOLDER, tmp_path / "authored")
    (tmp_path / "mistakes.py").write_text(MISTAKES, encoding="utf-8")
    settings = {
        "include": ["authored", "mistakes.py", *map(str, shown)],
        "typeCheckingMode": "strict",
        "pythonVersion": "3.11",
        "executionEnvironments": [*environments, {"root": "."}],
    }
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings), encoding="utf-8")
    command = [Path(sys.executable).with_name("basedpyright"), "--outputjson", "--pythonpath", sys.executable]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300)
    report = json.loads(done.stdout)
    assert report["summary"]["filesAnalyzed"] > len(PLUGINS) + len(shown)
    found = report["generalDiagnostics"]
    lines = [f["range"]["start"]["line"] + 1 for f in found]
    places = [f"{f['file']}:{line}: {f['message']}" for f, line in zip(found, lines, strict=True)]
    assert [place for place in places if "mistakes.py:" not in place] == []
    errors = [line for f, line in zip(found, lines, strict=True) if not f["rule"].startswith("reportUnknown")]
    wanted = [n for n, line in enumerate(MISTAKES.splitlines(), 1) if "# wrong" in line]
    assert sorted(set(errors)) == wanted


PARTLY_TYPED = {"reportUnknownMemberType": False}
"""Documents save and load models by functions of onnx that have no full types."""


def write_what_documents_show(folder: Path) -> list[Path]:
    """Write the code of documents and examples to folders of their own; return the files that import passwright."""
    for document in (ROOT / "README.md", *PAGES):
        for i, block in enumerate(blocks(document)):
            if block.language == "python":
                write_file(replace(block, file=block.file or f"program_{i}.py"), folder / document.stem)
    for example in (ROOT / "examples").glob("*/"):
        shutil.copytree(example, folder / example.name, ignore=shutil.ignore_patterns("__pycache__"))
    authors = re.compile("^(from|import) passwright", re.MULTILINE)
    return [f for f in folder.glob("**/*.py") if authors.search(f.read_text(encoding="utf-8"))]


MISTAKES = """
from passwright.core import RewriteBuilder, Value, rule


@rule(lambda g, x: g.ReLU(x))  # wrong: no operator
def misspelt_pattern(g: RewriteBuilder, x: Value) -> Value:
    return x


@rule(lambda g, x: g.Transpose(x, perms=[1, 0]))  # wrong: no attribute
def misspelt_attribute(g: RewriteBuilder, x: Value) -> Value:
    return x


@rule(lambda g, x: g.Relu(x))  # wrong: the function returns nothing
def returns_nothing(g: RewriteBuilder, x: Value) -> None:
    g.Relu(x)


@rule(lambda g, x, b=None: g.Conv(x, x, b))
def misused_builder(g: RewriteBuilder, x: Value, b: Value | None = None) -> Value:
    g.Ngg(x)  # wrong: no operator
    g.Add(x)  # wrong: an input is missing
    g.Add(x, b)  # wrong: an input that may be left out
    g.Relu(x, alpha=3)  # wrong: no attribute
    g.Concat(x, x)  # wrong: the axis is missing
    g.Neg(g.TopK(x, 3))  # wrong: two outputs
    g.domain("com.microsoft").Gelo(x)  # wrong: no operator
    values, indices = g.TopK(x, 3)
    return g.Add(g.domain("com.acme").Anything(values, n=1), g.Cast(indices, to=x.dtype))
"""
