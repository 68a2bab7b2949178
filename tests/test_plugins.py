"""Plugins: installed packages and local files."""

import io
import json
import os
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Callable, Sequence
from functools import partial
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from commands import invoke
from pass_loading import installed_passes, make_pipeline, passes_from_file
from passwright.app.check.rule_check import select_passes
from passwright.app.cli.entry import app
from passwright.app.listing.document import describe_all
from passwright.app.listing.listing import listing
from passwright.app.registry import adapter_names
from passwright.app.registry.pass_sources import (
    PluginLike,
    caller_registry,
    find_subject,
    full_registry,
    plugin_registries,
)
from passwright.app.report.terminal import Terminal
from passwright.core import Fixpoint, Pipeline, Plugin, RulePass, leaves
from passwright.core.errors import FailureKind, PluginError, UnknownNameError, UnverifiableError, UsageError
from passwright.core.plugins.pass_registry import ENTRY_POINT_GROUP, InstalledPlugins, LoadErrors, PassEntry
from passwright.passes.pipelines import BUILT_IN
from rewriting import cases, each, load, op_types
from rich.console import Console
from typer.testing import CliRunner

from passwright import info, optimize, replay, verify

pytestmark = pytest.mark.usefixtures("_few_combined_inputs", "_verifies_in_process")

PACKAGE = Path(__file__).parent / "plugin"
COMMAND = str(Path(sys.executable).with_name("passes"))
TEXT = """g (float[N] x) => (float[N] y) {
    w = Sin(x) a = Sinh(w) b = Cosh(w) t = Div(a, b) c = Sin(t) d = Cos(t) u = Div(c, d) v = Abs(u) y = Cosh(v)
}"""
PLAIN = ["Sin", "Sinh", "Cosh", "Div", "Sin", "Cos", "Div", "Abs", "Cosh"]

Install = Callable[..., Path]
RAISING = """
from __future__ import annotations
from dataclasses import dataclass
from passwright.core import Graph, ChangeLog, Plugin

@dataclass(frozen=True)
class RaisingScales:
    \"\"\"Raises where a factor is within `tolerance` of 1.\"\"\"
    tolerance: float = 0.0
    name: str = "raising-scales"

    def run(self, graph: Graph, change_log: ChangeLog) -> int:
        for op in graph.ops("Mul"):
            if abs(op.inputs[1].const.item() - 1) <= self.tolerance:
                raise ArithmeticError("a factor near 1")
        return 0

PLUGIN = Plugin((RaisingScales(),))
"""


def catalogue(plugins: Sequence[PluginLike] = (), broken: LoadErrors | None = None) -> dict[str, PassEntry]:
    """Every pass by name."""
    wrong: LoadErrors = {} if broken is None else broken
    found = full_registry(caller_registry(plugin_registries(plugins)), InstalledPlugins(), wrong)
    if broken is None and wrong:
        raise next(iter(wrong.values()))
    return found.passes


def dist_info(folder: Path, name: str, version: str, entries: dict[str, str]) -> None:
    """Write the metadata of an installed package, as pip does."""
    info = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    (info / "entry_points.txt").write_text(
        "\n".join([f"[{ENTRY_POINT_GROUP}]", *(f"{k} = {v}" for k, v in entries.items()), ""])
    )


@pytest.fixture
def example(tmp_path: Path) -> Path:
    """A folder for the path with the example package in it, as its pyproject describes it."""
    project = tomllib.loads((PACKAGE / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    dist_info(tmp_path / "site", project["name"], project["version"], project["entry-points"][ENTRY_POINT_GROUP])
    (tmp_path / "site" / "passwright_example").symlink_to(PACKAGE / "src" / "passwright_example")
    return tmp_path / "site"


@pytest.fixture
def on_path(example: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The example package is installed, in this process."""
    monkeypatch.syspath_prepend(example)
    return example


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Install another package of one module."""

    def put(name: str, code: str, *, version: str = "0.9", **entries: str) -> Path:
        site = tmp_path / f"site-{name}"
        module = name.replace("-", "_")
        dist_info(site, name, version, entries or {name: module})
        (site / f"{module}.py").write_text(code)
        monkeypatch.syspath_prepend(site)
        monkeypatch.delitem(sys.modules, module, raising=False)
        return site

    return put


def code_of(rule: str, op: str = "Abs", *, name: str | None = None, group: str = "") -> str:
    """A module with one rule, in a pass of that name if one is given."""
    made = f"\nMINE = RulePass({name!r}, ({rule},))\n" if name else ""
    return (
        "from passwright.core import EXACT, RulePass, rule\n"
        f"@rule(lambda g, x: g.{op}(g.{op}(x)), contract=EXACT, group={group!r})\n"
        f"def {rule}(g, x):\n"
        f'    "{op}({op}(x)) => {op}(x)"\n'
        f"    return g.{op}(x)\n{made}"
    )


def test_entry_points_are_found(on_path: Path) -> None:
    found = installed_passes()
    assert {name: f.source for name, f in found.items()} == {
        "tangent": "passwright-example 1.2.3",
        "hyperbolic": "passwright-example 1.2.3",
        "example-rule": "passwright-example 1.2.3",
        "drop-scales": "passwright-example 1.2.3",
        "cosh-of-either-sign": "passwright-example 1.2.3",
    }
    rules = {name: [r.name for r in f.item.rules] for name, f in found.items() if isinstance(f.item, RulePass)}
    assert rules == {
        "tangent": ["quotient_to_tan"],
        "hyperbolic": ["quotient_to_tanh"],
        "example-rule": ["cosh_of_either_sign"],
        "cosh-of-either-sign": ["cosh_of_either_sign"],
    }


def test_passes_need_the_installed_package() -> None:
    assert set(installed_passes()).isdisjoint({"tangent", "hyperbolic", "example-rule"})


@cases(
    ("enable", "ops"),
    {
        "not requested": ([], PLAIN),
        "loose rules of a module": (["tangent"], ["Sin", "Sinh", "Cosh", "Div", "Tan", "Abs", "Cosh"]),
        "pass": (["hyperbolic"], ["Sin", "Tanh", "Sin", "Cos", "Div", "Abs", "Cosh"]),
        "rule": (["example-rule"], [*PLAIN[:-2], "Cosh"]),
        "all": (["tangent", "hyperbolic", "example-rule"], ["Sin", "Tanh", "Tan", "Cosh"]),
    },
)
def test_plugin_passes_run_when_enabled(on_path: Path, enable: list[str], ops: list[str]) -> None:
    result = optimize(load(TEXT), enable=enable)
    assert op_types(result.model) == ops
    assert result.report.verification is not None


KERNELS = """
import numpy as np
from passwright.core import EXACT, Plugin, RulePass, Support, Target, kernel, rule

@kernel("com.acme.Scale", like=0)
def scale(x, factor=1.0):
    return x * np.float32(factor)

@rule(lambda g, x, f: g.domain("com.acme").Scale(g.Neg(x), factor=f), contract=EXACT)
def neg_behind(g, x, f):
    return g.Neg(g.domain("com.acme").Scale(x, factor=f))

@rule(lambda g, x: g.HardSwish(x))
def swish(g, x):
    return g.Mul(x, g.HardSigmoid(x, alpha=1 / 6, beta=0.5))

HEADER = '<ir_version: 8, opset_import: ["": 17, "com.acme": 1]>'
BODY = "g (float[N,3] x) => (float[N,3] y) { a = Neg(x) y = com.acme.Scale<factor=-2.0>(a) }"
EXAMPLES = {"neg_behind": [HEADER + BODY]}
PLUGIN = Plugin(
    (neg_behind,), {"scaled": "neg-behind", "other": RulePass("whole", (neg_behind,))},
    targets=(Target("chip", operators={"com.acme.Scale Neg": Support()}, decompositions=[swish]),), kernels=(scale,),
)
"""


@cases("options", {
    "a pass": {"enable": ["neg-behind"]},
    "a pipeline as a text": {"pipeline": "scaled"},
    "a pipeline as a pass": {"pipeline": "other"},
    "a target": {"target": "chip"},
})  # fmt: skip
def test_kernels_of_installed_packages_are_used_with_their_passes(install: Install, options: dict[str, Any]) -> None:
    install("scales", KERNELS)
    header = '<ir_version: 8, opset_import: ["": 17, "com.acme": 1]>'
    model = onnx.parser.parse_model(
        header + "g (float[N,3] x) => (float[N,3] y) { a = Neg(x) y = com.acme.Scale<factor=-2.0>(a) }"
    )
    assert optimize(model, **options).report.verification is not None
    with pytest.raises(UnverifiableError, match=r"no kernel for com\.acme\.Scale"):
        optimize(model)
    for name in ("scales", "scaled", "chip", "neg-behind"):
        assert verify(model, model, kernels=[name]).agrees
    with pytest.raises(
        UsageError, match=r"^kernels scale: it is not a Python file, and no installed plugin has kernels of that name"
    ):
        verify(model, model, kernels=["scale"])


ANALYSES = "from passwright.core import Plugin\nPLUGIN = Plugin(analyses={'ops in all': len, %r: str})"


def test_analyses_of_installed_packages_are_shown_by_name(install: Install, tmp_path: Path) -> None:
    install("counts", ANALYSES % "counts text")
    onnx.save(load("g (float[2] x) => (float[2] y) { a = Abs(x) y = Neg(a) }"), tmp_path / "m.onnx")
    result = CliRunner().invoke(app, ["info", str(tmp_path / "m.onnx"), "--analysis", "ops in all"])
    (row,) = (line for line in result.output.splitlines() if "ops in all" in line)
    assert row.strip("│ ").split("│")[1].strip() == "2"
    assert "counts text" not in result.output
    with pytest.raises(UnknownNameError, match="no analysis is named ops in al; did you mean ops in all"):
        info(tmp_path / "m.onnx", analysis=["ops in al"])
    mine = Plugin(analyses={"mine": lambda graph: len(graph.inputs)})
    (found,) = info(tmp_path / "m.onnx", analysis=["ops in all"], plugin=[mine]).models
    assert found.analyses == {"mine": "1", "ops in all": "2"}
    install("others", "from passwright.core import Plugin\nPLUGIN = Plugin(analyses={'ops in all': repr})")
    with pytest.raises(PluginError, match="two analyses are named ops in all"):
        info(tmp_path / "m.onnx", analysis=["ops in all"])
    install("broken", "1 / 0")
    with pytest.raises(PluginError, match=r"broken 0\.9.*ZeroDivisionError"):
        info(tmp_path / "m.onnx", analysis=["broken"])


@pytest.mark.parametrize("name", ["neg-behind", "neg_behind", "whole"])
def test_check_has_the_kernels_of_installed_packages(install: Install, name: str) -> None:
    install("scales", KERNELS)
    invoke("check", name, "--budget", "5")


def test_reproducers_have_the_versions_of_packages(
    install: Install, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = install("lone-scales", KERNELS, version="0.4")
    file, model = str(tmp_path / "run.zip"), load("g (float[N] x) => (float[N] y) { y = Neg(x) }")
    optimize(model, enable=["neg-behind"], reproducer=file)
    assert replay(file).versions == {}
    monkeypatch.setattr(sys, "path", [p for p in sys.path if p != str(site)])
    monkeypatch.delitem(sys.modules, "lone_scales")
    found = replay(file)
    assert found.versions == {"lone-scales": ("0.4", "")}
    assert "lone-scales: 0.4 in the recorded run, none here" in found.lines()


def test_plugin_passes_can_be_selected(on_path: Path) -> None:
    everything = ["tangent", "hyperbolic", "example-rule"]

    def ops_after(**options: Any) -> list[str]:
        return op_types(optimize(load(TEXT), enable=everything, **options).model)

    assert ops_after(only=["tangent"]) == ["Sin", "Sinh", "Cosh", "Div", "Tan", "Abs", "Cosh"]
    assert ops_after(skip=["quotient_to_tanh"]) == ["Sin", "Sinh", "Cosh", "Div", "Tan", "Cosh"]
    assert ops_after(exact=True) == [*PLAIN[:-2], "Cosh"]


def test_command_finds_plugin_passes(example: Path, tmp_path: Path) -> None:
    env = {**os.environ, "PYTHONPATH": str(example)}
    run = partial(subprocess.run, env=env, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=300)
    listed = run([COMMAND, "list"]).stdout.splitlines()
    assert "passes from passwright-example 1.2.3" in listed
    assert any(line.split() == ["tangent", "1", "rule", *["Sin(x)", "/", "Cos(x)", "=>", "Tan(x)"]] for line in listed)
    words = ["example", "(passwright-example", "1.2.3):", "basic,drop-scales{tolerance=1e-9}"]
    assert words in [line.split() for line in listed]


def test_command_runs_plugin_passes(on_path: Path, tmp_path: Path) -> None:
    told = CliRunner().invoke(app, ["list", "hyperbolic", "drop-scales"]).stdout.splitlines()
    assert "    quotient_to_tanh  [conditional: Cosh(x) does not overflow]" in told
    assert "drop-scales, a pass (passwright-example 1.2.3), only if enabled, opsets 13 to 25" in told
    assert "    stage cleanup, after drop-identity" in told
    assert "    {tolerance=0.0}  float: how far a factor may be from 1" in told
    onnx.save(load(TEXT), tmp_path / "m.onnx")
    files = [str(tmp_path / "m.onnx"), "-o", str(tmp_path / "out.onnx")]
    done = CliRunner().invoke(app, ["run", *files, "--enable", "tangent", "--enable", "hyperbolic"])
    assert "verified" in done.stdout
    assert op_types(onnx.load(tmp_path / "out.onnx")) == ["Sin", "Tanh", "Tan", "Abs", "Cosh"]


SCALES = "g (float[N] x) => (float[N] y) { a = Mul(x, near) b = Tanh(a) c = Mul(b, far) y = Abs(c) }"
FACTORS = {"near": np.float32(1 + 2**-23), "far": np.float32(1.25)}


@pytest.mark.parametrize(
    ("options", "ops", "wrong"),
    [
        ({"enable": ["drop-scales"]}, ["Mul", "Tanh", "Mul", "Abs"], []),
        ({"enable": ["drop-scales{tolerance=1e-6}"]}, ["Tanh", "Mul", "Abs"], []),
        ({"enable": ["drop-scales{tolerance=0.5}"]}, ["Tanh", "Mul", "Abs"], ["c"]),
        ({"pipeline": "example"}, ["Mul", "Tanh", "Mul", "Abs"], []),
        ({"pipeline": "example", "enable": ["drop-scales{tolerance=0.5}"]}, ["Tanh", "Mul", "Abs"], ["c"]),
        ({"pipeline": "basic,drop-scales{tolerance=0.5}"}, ["Tanh", "Mul", "Abs"], ["c"]),
        ({"pipeline": "drop-scales{tolerance=0.5}"}, ["Tanh", "Mul", "Abs"], ["c"]),
    ],
)
def test_wrong_plugin_changes_are_rejected(
    on_path: Path, options: dict[str, Any], ops: list[str], wrong: list[str]
) -> None:
    result = optimize(load(SCALES, weights=FACTORS), **options)
    assert op_types(result.model) == ops
    assert [(q.pass_name, q.place, q.failure_kind) for q in result.report.rejected] == [
        ("drop-scales", place, FailureKind.WRONG) for place in wrong
    ]


@pytest.mark.parametrize(
    "options",
    [
        ["--enable", "drop-scales{tolerance=0.5}"],
        ["--pipeline", "basic,drop-scales{tolerance=0.5}"],
        ["--pipeline", "loose"],
        ["--pipeline", "more.toml:loose"],
    ],
)
def test_repro_records_pass_options(
    on_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str]
) -> None:
    onnx.save(load(SCALES, weights=FACTORS), tmp_path / "m.onnx")
    written = '[loose]\npasses = ["basic", "raising-scales{tolerance=0.5}"]\n'
    for name in ("pipelines.toml", "more.toml"):
        (tmp_path / name).write_text(written)
    (tmp_path / "raising.py").write_text(RAISING)
    if "drop-scales" in options[1]:
        options = [options[0], options[1].replace("drop-", "raising-")]
    options = ["--plugin", "raising.py", *options]
    monkeypatch.chdir(tmp_path)
    invoke("run", "m.onnx", *options, "--repro", "wrong")
    (folder,) = (tmp_path / "wrong").iterdir()
    command = next(line.strip() for line in (folder / "README.md").read_text().splitlines() if "passes bisect" in line)
    monkeypatch.chdir(folder)
    again = invoke(*shlex.split(command)[1:], code=3)
    assert again.stdout.startswith("raising-scales"), command


def test_two_packages_with_one_name(install: Install) -> None:
    install("first-plugin", code_of("one", name="same"), first="first_plugin")
    install("second-plugin", code_of("two", name="same"), version="2.0", second="second_plugin")
    with pytest.raises(PluginError) as caught:
        catalogue()
    message = str(caught.value)
    assert "two passes are named same" in message
    assert {"first-plugin 0.9" in message, "second-plugin 2.0" in message} == {True}


def test_built_in_name_is_rejected(install: Install) -> None:
    install("greedy-plugin", code_of("mine", name="fuse-gemm"))
    with pytest.raises(PluginError, match=r"named fuse-gemm: one from passwright 0\.1\.0, one from greedy-plugin 0\.9"):
        catalogue()


def test_a_local_file_and_a_package_with_one_name(install: Install, tmp_path: Path) -> None:
    install("some-plugin", code_of("mine", name="same"))
    (tmp_path / "local.py").write_text(code_of("other", name="same"))
    with pytest.raises(PluginError, match=r"named same: one from .*local\.py, one from some-plugin 0\.9"):
        catalogue([tmp_path / "local.py"])


BESIDE_LOOSE_RULES = r"a\.py: two would form a pass named a .*; rename the pass"


@cases(
    ("codes", "message"),
    {
        "two rules": ([code_of("same_rule"), code_of("same_rule", "Ceil")], "same_rule"),
        "a built-in rule": ([code_of("drop_identity")], "drop_identity"),
        "a pass and its file": ([code_of("one", name="a") + code_of("two", "Ceil")], BESIDE_LOOSE_RULES),
        "a group and its file": ([code_of("one", group="a") + code_of("two", "Ceil")], BESIDE_LOOSE_RULES),
    },
)
def test_files_with_one_name_for_two_things(tmp_path: Path, codes: list[str], message: str) -> None:
    for name, code in zip("ab", codes, strict=False):
        (tmp_path / f"{name}.py").write_text(code)
    with pytest.raises(PluginError, match=message):
        make_pipeline("basic", sorted(tmp_path.glob("*.py")))


@each("group", [Pipeline, Fixpoint])
def test_a_pass_with_a_built_in_name_inside_a_group(group: type[Pipeline | Fixpoint]) -> None:
    inner = Pipeline("inner", (RulePass("merge-transposes", ()),))
    with pytest.raises(PluginError, match="two passes are named merge-transposes: one from passwright 0"):
        make_pipeline("basic", [group("mine", (RulePass("own", ()), inner))])


@cases(
    ("value", "content", "message"),
    {
        "import": ("mine", "import nowhere_at_all", "ModuleNotFoundError: No module named 'nowhere_at_all'"),
        "exception": ("mine", "1 / 0", "ZeroDivisionError: division by zero"),
        "syntax": ("mine", "def (", "SyntaxError"),
        "exit": ("mine", "import sys\nsys.exit(0)", "SystemExit: 0"),
        "own BaseException": ("mine", "class Panic(BaseException): ...\nraise Panic('oh')", "Panic: oh"),
        "rule": ("mine", "from passwright.core import rule\n@rule(lambda g, x: g.Relu(x))\ndef r(g, z): ...", "binds"),
        "missing attribute": ("mine:RULES", "", "AttributeError"),
        **{f"malformed {value}": (value, "", "not of the form package.module") for value in ("", ":", "a b", "mine:")},
    },
)
def test_failing_entry_point(install: Install, value: str, content: str, message: str) -> None:
    install("mine", content, version="3.1", some=value)
    with pytest.raises(PluginError, match=rf"entry point some = {value} of mine 3\.1: .*{message}"):
        installed_passes()


@cases(
    ("content", "message"),
    {
        "a rule": (code_of("one"), "which provides odd-plugin"),
        "nothing": ("", "which provides no pass, rule or pipeline"),
        "several": (
            "from passwright.core import Plugin, RulePass\nPLUGIN = Plugin([RulePass(f'p{i}', ()) for i in range(6)])",
            r"provides p0, p1, p2, p3, p4, \.\.\.$",
        ),
        "another version": (
            "from passwright.core import Plugin\nPLUGIN = Plugin(pipelines={'a': 'none'}, passwright='>=9')",
            "^odd-plugin 0.9 requires passwright >=9",
        ),
    },
)
def test_entry_point_without_such_a_pass(install: Install, content: str, message: str) -> None:
    install("odd-plugin", content, mine="odd_plugin")
    with pytest.raises(PluginError, match=message):
        make_pipeline("basic", enable=["mine"])


def test_class_is_not_a_pass(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text("class Mine:\n    name = 'mine'\n    def run(self, graph, change_log):\n        return 0\n")
    with pytest.raises(PluginError, match=r"nor a rule; Mine is a class; .* create an instance: MINE = Mine\(\)"):
        passes_from_file(path)


def test_plugin_output_goes_to_stderr(tmp_path: Path) -> None:
    path = tmp_path / "noisy.py"
    path.write_text(f"print('imported')\n{code_of('one')}".replace("    return", "    print('called')\n    return"))
    onnx.save(load("g (float[N] x) => (float[N] y) { a = Abs(x) y = Abs(a) }"), tmp_path / "m.onnx")
    options = ["run", str(tmp_path / "m.onnx"), "--plugin", str(path), "--only", "noisy", "--json", "-"]
    result = CliRunner().invoke(app, options)
    assert json.loads(result.stdout)["passes"][0]["changes"] == 1
    assert set(result.stderr.split()) == {"imported", "called"}


@cases("thing", {"number": "3", "text": "'text'", "function": "print", "class": "RulePass"})
def test_other_objects_are_rejected(install: Install, thing: str) -> None:
    install("odd-plugin", f"from passwright.core import RulePass\nTHING = {thing}", mine="odd_plugin:THING")
    with pytest.raises(PluginError, match=r"mine of odd-plugin 0\.9 is not a pass, rule, plugin or module"):
        installed_passes()


@cases(
    ("arguments", "code", "line"),
    {
        "list": (["list"], 0, "warning: entry point broken-plugin"),
        "run": (["run", "m.onnx"], 0, ""),
        "another built-in pass": (["run", "m.onnx", "--enable", "fuse-gemm"], 0, ""),
        "another": (["run", "m.onnx", "--enable", "good-plugin"], 0, ""),
        "itself": (["run", "m.onnx", "--enable", "broken-plugin"], 1, "error: entry point broken"),
        "check of another": (["check", "cancel_negations", "--budget", "1"], 0, ""),
        "check of itself": (["check", "broken-plugin"], 1, "error: entry point broken"),
    },
)
def test_broken_package_stops_only_its_users(
    install: Install, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], code: int, line: str
) -> None:
    onnx.save(load(TEXT), tmp_path / "m.onnx")
    install("broken-plugin", "import nowhere_at_all")
    install("good-plugin", code_of("fine"))
    monkeypatch.chdir(tmp_path)
    done = invoke(*arguments, code=code)
    assert done.stderr.count("\n") == bool(line)
    assert done.stderr.startswith(line)


def test_clashing_packages_stop_only_their_users(install: Install) -> None:
    install("first-plugin", code_of("one", name="same"), first="first_plugin")
    install("second-plugin", code_of("two", name="same"), version="2.0", second="second_plugin")
    make_pipeline("basic", enable=["fuse-gemm"])
    with pytest.raises(PluginError, match="two passes are named same"):
        make_pipeline("basic", enable=["same"])


def plugin_of(names: str, **said: Any) -> str:
    """A module whose PLUGIN has no-op passes of those names."""
    rest = "".join(f", {key}={value!r}" for key, value in said.items())
    passes = ", ".join(f"RulePass({name!r}, ())" for name in names.split())
    return f"from passwright.core import PassPlacement, Plugin, RulePass\nPLUGIN = Plugin([{passes}]{rest})\n"


def loaded(*modules: str) -> set[str]:
    return set(modules) & set(sys.modules)


@pytest.mark.parametrize(
    ("options", "imported"),
    [
        ({}, set[str]()),
        ({"enable": ["fuse-gemm"]}, set[str]()),
        ({"pipeline": "none,fuse-gemm{}"}, set[str]()),
        ({"enable": ["by-name"]}, {"first_plugin"}),
        ({"pipeline": "basic,by-name"}, {"first_plugin"}),
        ({"enable": ["inside"]}, {"first_plugin", "second_plugin"}),
        ({"pipeline": "theirs"}, {"first_plugin", "second_plugin"}),
    ],
)
def test_only_needed_packages_are_imported(install: Install, options: dict[str, Any], imported: set[str]) -> None:
    install("first-plugin", plugin_of("by-name"), **{"by-name": "first_plugin:PLUGIN"})
    install("second-plugin", plugin_of("inside", pipelines={"theirs": "none,inside"}), second="second_plugin")
    make_pipeline(**{"pipeline": "basic", **options})
    assert loaded("first_plugin", "second_plugin") == imported


@pytest.mark.parametrize(
    ("name", "imported"),
    [("cancel_negations", set[str]()), ("merge-negations", set[str]()), ("ort:basic", set[str]()),
     ("one", {"some_plugin"}), ("some-plugin", {"some_plugin"})],
)  # fmt: skip
@pytest.mark.parametrize(
    "ask", [lambda name: find_subject(name, Pipeline("none", ())), lambda name: select_passes([name])]
)
def test_known_names_import_no_package(
    install: Install, ask: Callable[[str], object], name: str, imported: set[str]
) -> None:
    install("some-plugin", code_of("one"), plugin="some_plugin")
    ask(name)
    assert loaded("some_plugin") == imported


@pytest.mark.parametrize(
    ("wanted", "fits"),
    [("", True), (">=0.1,<1", True), ("~=0.1", True), ("==0.1.*", True), (">=1", False), ("<0.1", False)],
)
def test_supported_passwright_versions(install: Install, wanted: str, fits: bool) -> None:
    install("some-plugin", plugin_of("mine", passwright=wanted, pipelines={"theirs": "mine"}))
    install("good-plugin", plugin_of("fine"))
    for options in ({"pipeline": "mine"}, {"pipeline": "theirs"}, {"pipeline": "basic", "enable": ["mine"]}):
        if fits:
            make_pipeline(**options)
            continue
        with pytest.raises(PluginError) as caught:
            make_pipeline(**options)
        assert str(caught.value) == f"some-plugin 0.9 requires passwright {wanted}; this is 0.1.0"
    make_pipeline("fine")


@cases(
    ("content", "message"),
    {
        "versions": ("Plugin(passwright='soon')", "passwright='soon' is not of the form >=0.1,<1"),
        "opsets": ("Plugin(opsets=(25, 13))", r"opsets=\(25, 13\) is not the first and last opset"),
        "one opset": ("Plugin(opsets=13)", "opsets=13 is not the first and last"),
        "a class": ("Plugin(passes=[RulePass])", "is neither a pass nor a rule"),
        "own class": ("Plugin(passes=[Mine])", "Mine is a class; use an instance, such as Mine()"),
        "a rule": ("Plugin(passes=ABS)", r"passes must be a tuple or a list, not Rule\(.*\.\.\."),
        "pipelines": ("Plugin(pipelines=['a'])", r"pipelines must be a dict by name, not \['a'\]"),
        "a number for versions": ("Plugin(passwright=1)", "passwright=1 is not of the form >=0.1,<1"),
        "None for versions": ("Plugin(passwright=None)", "passwright=None is not of the form"),
        "before None": ("Plugin([PassPlacement(ABS, before=None)])", "before must be names, .* not None"),
        "after a number": ("Plugin([PassPlacement(ABS, after=3)])", "after must be names, .* not 3"),
        "a space before a name": ("RulePass(' pad', ())", "' pad' is not a valid name"),
        "an escape in a name": ("RulePass('a\\x1b[31mb', ())", r"is not a valid name"),
        "half a character in a name": ("RulePass('a\\ud800b', ())", r"is not a valid name"),
        "a number": ("Plugin(pipelines={'a': 3})", "pipeline a is neither a string nor a pass: 3"),
        "commas in a name": ("Plugin([RulePass('a,b', ())])", "'a,b' is not a valid name"),
        "no name": ("RulePass('', ())", "'' is not a valid name"),
        "braces in a name": ("Plugin(pipelines={'a{': 'none'})", "'a{' is not a valid name"),
        "raises": ("type('P', (), {'name': property(lambda s: 1 / 0), 'run': 3})()", "ZeroDivision"),
        "a number for a name": ("type('P', (), {'name': 3, 'run': 3})()", "3 is not a valid name"),
        "generator": ("Plugin(p for p in [RulePass('a', ())])", "passes must be a tuple or a list"),
        "two": ("Plugin(); OTHER = Plugin()", "defines more than one Plugin"),
    },
)
def test_bad_plugins_are_rejected(install: Install, content: str, message: str) -> None:
    mine = "from passwright.core import PassPlacement, Plugin\nclass Mine:\n    name, run = 'mine', print\n"
    install("odd-plugin", f"{code_of('ABS')}{mine}PLUGIN = {content}")
    with pytest.raises(PluginError, match=rf"odd-plugin.*{message}"):
        installed_passes()


def test_placed_passes_of_a_module(install: Install) -> None:
    code = code_of("one") + code_of("two", "Ceil") + "from passwright.core import PassPlacement\n"
    install("some-plugin", code + "FIRST = PassPlacement(one, stage='fuse')\n")
    assert set(installed_passes()) == {"one", "some-plugin"}
    names = [p.name for p in leaves(make_pipeline("basic", enable=["some-plugin", "one"]))]
    assert names[names.index("one") - 1] == "fuse-rotary"
    assert names[-1] == "some-plugin"


def test_placed_pass_as_entry_point(install: Install) -> None:
    code = code_of("one") + "from passwright.core import PassPlacement\nP = PassPlacement(one)"
    install("some-plugin", code, x="some_plugin:P")
    assert set(installed_passes()) == {"one"}


def test_order_of_enabling_does_not_affect_placement(install: Install) -> None:
    placed = "PLUGIN = Plugin([PassPlacement(p, stage='fuse') for p in PLUGIN.passes])\n"
    install("first-plugin", plugin_of("b a") + placed, first="first_plugin:PLUGIN")
    install("second-plugin", plugin_of("d c") + placed, second="second_plugin:PLUGIN")
    orders = [[p.name for p in leaves(make_pipeline("none", enable=e))] for e in permutations("abcd")]
    assert all(order == ["b", "a", "d", "c"] for order in orders)


@pytest.mark.parametrize("options", [{"pipeline": "same"}, {"pipeline": "basic", "enable": ["same"]}])
def test_clashing_pipelines(install: Install, options: dict[str, Any]) -> None:
    install("first-plugin", plugin_of("a", pipelines={"same": "a"}))
    install("second-plugin", plugin_of("b", pipelines={"same": "b"}))
    with pytest.raises(PluginError, match=r"two pipelines are named same: one from first-plugin .*, one from second-"):
        make_pipeline(**options)
    assert [p.name for p in leaves(make_pipeline("a,b"))] == ["a", "b"]


def test_clashing_pass_and_pipeline(install: Install) -> None:
    install("first-plugin", plugin_of("same"))
    install("second-plugin", plugin_of("b", pipelines={"same": "b"}))
    with pytest.raises(PluginError, match=r"same is a pass from first-plugin 0\.9, and a pipeline from second-plugin"):
        make_pipeline("same")
    broken: dict[str, PluginError] = {}
    assert {"same", "b"} <= set(installed_passes(broken))
    assert set(broken) == {"same"}


def test_broken_pass_does_not_affect_its_package(install: Install) -> None:
    install("greedy-plugin", plugin_of("fuse-gemm mine"), greedy="greedy_plugin")
    assert make_pipeline("mine").name == "mine"
    assert "mine" in catalogue(broken={})


def listed(*arguments: str, code: int = 0) -> Any:
    result = invoke("list", *arguments, "--json", "-", code=code)
    return json.loads(result.stdout) if code == 0 else result.stderr


def test_list_as_json(on_path: Path) -> None:
    data = listed()
    passes = {p["name"]: p for p in data["passes"]}
    scales = passes["drop-scales"]
    assert scales.pop("doc").startswith("x * c => x, where no element")
    assert scales == {
        "name": "drop-scales", "source": "passwright-example 1.2.3", "stage": "cleanup", "before": [],
        "after": ["drop-identity"], "opsets": [13, 25], "pipelines": [], "rules": [], "option": "",
        "options": [
            {"name": "tolerance", "type": "float", "default": "0.0", "doc": "how far a factor may be from 1"}
        ],
    }  # fmt: skip
    assert passes["fuse-gelu"]["pipelines"] == ["basic", "ort"]
    assert passes["fuse-gelu"]["source"] == "passwright 0.1.0"
    assert {p["stage"] for p in data["passes"]} == {"", "cleanup", "transform", "final", "fold", "fuse", "layout"}
    pipelines = {p["name"]: p for p in data["pipelines"]}
    assert pipelines["example"]["passes"] == ["basic,drop-scales{tolerance=1e-9}"]
    assert (len(pipelines["basic"]["passes"]), pipelines["basic"]["repeats"]) == (len(BUILT_IN), True)
    assert data["broken"] == {}


def test_list_of_selected_names(on_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pipelines.toml").write_text('[written]\npasses = ["basic", "tangent"]\nrepeat = true')
    data = listed("tangent", "quotient_to_tanh", "written", "example", "tangent")
    assert [p["name"] for p in data["passes"]] == ["tangent"]
    assert [r["contract"] for r in data["rules"]] == ["conditional: Cosh(x) does not overflow"]
    assert [(p["name"], p["source"], p["repeats"]) for p in data["pipelines"]] == [
        ("written", "pipelines.toml", True),
        ("example", "passwright-example 1.2.3", False),
    ]
    assert listed("quotient_to_tah", code=2) == (
        "error: no rule is named quotient_to_tah; did you mean quotient_to_tanh or quotient_to_tan?\n"
    )
    assert listed("tangnt", code=2) == "error: no pass or pipeline is named tangnt; did you mean tangent?\n"


def test_list_of_targets(install: Install, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    module = """
from passwright.core import NEVER, Plugin, Support, Target, require, rule
@rule(lambda g, x: g.Gelu(x))
def gelu_of_phone(g, x):
    "Gelu(x) => x * Sigmoid(1.702 * x)"
    return g.Mul(x, g.Sigmoid(g.Mul(x, 1.702)))
def has_few_dims(op):
    require(op.inputs[0].rank < 5, "rank 5")
PHONE = Target("phone", "a phone", opset=20, source="its manual", operators={
    "Gelu": NEVER, "Add Sub": Support(dtypes=("float",), condition=has_few_dims),
    "Conv": (
        Support(attributes={"group": (1,)}, constant=("W",)),
        Support(first=11, ranks={"X": (3, 4)}, omitted=("B",)),
    ),
}, decompositions=(gelu_of_phone,))
PLUGIN = Plugin(targets=(PHONE,))
"""
    install("phone-plugin", module, phone="phone_plugin")
    everything = {t["name"]: t["source"] for t in listed()["targets"]}
    own = dict.fromkeys(("openvino", "ort", "webgpu"), "passwright 0.1.0")
    assert everything == {**own, "phone": "phone-plugin 0.9"}
    data = listed("phone", "gelu_of_phone")
    (phone,) = data["targets"]
    assert phone["operators"] == {
        "never": ["Gelu"],
        "type float, if has_few_dims": ["Add", "Sub"],
        "group 1, W constant or opset 11 and later, rank of X 3|4, without B": ["Conv"],
    }
    assert [r["name"] for r in (*phone["rules"], *data["rules"])] == ["gelu_of_phone", "gelu_of_phone"]
    assert [p["name"] for p in data["pipelines"]] == ["phone"]
    text = CliRunner().invoke(app, ["list", "phone"]).output
    assert "phone, a target (phone-plugin 0.9), opset 20\n    a phone\n    by its manual\n" in text
    assert "    lacks Gelu\n    takes Add Sub: type float, if has_few_dims\n" in text
    (tmp_path / "small.toml").write_text('name = "small"\n[operators]\nRelu = {}')
    assert [t["operators"] for t in listed("small.toml")["targets"]] == [{"any": ["Relu"]}]
    assert [t["name"] for t in listed("--search", "browsers")["targets"]] == ["webgpu"]


def test_list_reports_broken_packages(install: Install, tmp_path: Path) -> None:
    install("broken-plugin", "import nowhere_at_all")
    result = invoke("list", "--json", tmp_path / "list.json")
    assert result.stderr.startswith("warning: entry point broken-plugin = broken_plugin of broken-plugin 0.9: Module")
    broken = json.loads((tmp_path / "list.json").read_text())["broken"]
    assert list(broken) == ["broken-plugin"]
    assert "nowhere_at_all" in listed("broken-plugin", code=1)


def test_list_fits_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.StringIO()
    screen = Terminal()
    screen.out = Console(file=out, force_terminal=True, width=80, color_system=None)
    screen.show(describe_all(listing()))
    lines = out.getvalue().splitlines()
    assert max(map(len, lines)) <= 80
    assert sum(line.startswith("  fold-constants                fold       2 options") for line in lines) == 1


def test_names_of_other_optimizers(monkeypatch: pytest.MonkeyPatch) -> None:
    others = {"other": RulePass("other", ()), "other:part": RulePass("other:part", ())}
    monkeypatch.setattr(adapter_names, "adapter", others.get)
    assert [p.name for p in leaves(make_pipeline("none,other:part", enable=["other"]))] == ["other:part", "other"]
    assert make_pipeline("other").name == "other"
    assert make_pipeline("other:part,fuse-gelu", skip=["other:part"]) == Pipeline(
        "other:part,fuse-gelu", (next(p for p in BUILT_IN if p.name == "fuse-gelu"),)
    )
    assert listed("other:part")["passes"][0]["source"] == "other"


@cases(
    ("content", "passes"),
    {
        "a loose rule": (code_of("a"), {"my-file": ["a"]}),
        "two loose rules": (code_of("a") + code_of("b", "Ceil"), {"my-file": ["a", "b"]}),
        "a pass": (code_of("a", name="own"), {"own": ["a"]}),
        "both": (code_of("a", name="own") + code_of("b", "Ceil"), {"own": ["a"], "my-file": ["b"]}),
        "groups": (
            code_of("a", group="mine") + code_of("b", "Ceil", group="yours") + code_of("c", "Floor", group="mine"),
            {"mine": ["a", "c"], "yours": ["b"]},
        ),
        "a group and a rule": (code_of("a", group="mine") + code_of("b"), {"mine": ["a"], "my-file": ["b"]}),
        "a placed group": (
            code_of("a", group="mine")
            + "from passwright.core import Plugin, PassPlacement, rule_pass\n"
            + "PLUGIN = Plugin((PassPlacement(rule_pass(__name__, 'mine'), stage='fuse'),))",
            {"mine": ["a"]},
        ),
        "a group of a plugin in its order": (
            code_of("a", group="mine")
            + code_of("b", group="mine")
            + "from passwright.core import Plugin\nP = Plugin((b, a))",
            {"mine": ["b", "a"]},
        ),
        "passes and rules in lists": (
            code_of("a") + code_of("b", "Ceil") + "P = (RulePass('own', (a,)),)\nR = [b]\ndel a, b",
            {"own": ["a"], "my-file": ["b"]},
        ),
        "one rule under two names": (code_of("a") + "again = a\n", {"my-file": ["a"]}),
        "imported rule": (
            "from passwright.passes.linear.gemm import matmul_add_to_gemm\n" + code_of("a"),
            {"my-file": ["a"]},
        ),
    },
)
def test_passes_of_a_file(tmp_path: Path, content: str, passes: dict[str, list[str]]) -> None:
    (tmp_path / "my_file.py").write_text(content)
    found = passes_from_file(tmp_path / "my_file.py")
    assert {n: [r.name for r in f.item.rules] for n, f in found.items() if isinstance(f.item, RulePass)} == passes
    assert {f.source for f in found.values()} == {str(tmp_path / "my_file.py")}


def test_file_and_its_imported_pass_run_together(tmp_path: Path) -> None:
    imported = "from passwright.core import rule_pass\nfrom passwright.passes.linear import gemm\n"
    (tmp_path / "my_file.py").write_text(f"{imported}G = rule_pass(gemm, 'fuse-gemm')\n" + code_of("a"))
    assert "my-file" in catalogue([tmp_path / "my_file.py"])


@cases(
    ("content", "what"),
    {
        "exit": ("import sys\nsys.exit(0)", "SystemExit: 0"),
        "own BaseException": ("class Panic(BaseException): ...\nraise Panic('oh')", "Panic: oh"),
        "GeneratorExit": ("raise GeneratorExit", "GeneratorExit"),
    },
)
def test_failing_file_is_reported(tmp_path: Path, content: str, what: str) -> None:
    (tmp_path / "my_file.py").write_text(content)
    with pytest.raises(PluginError, match=rf"my_file\.py: {what} \(my_file\.py:\d\)$"):
        passes_from_file(tmp_path / "my_file.py")


def test_interrupted_import_is_not_reported(tmp_path: Path) -> None:
    (tmp_path / "my_file.py").write_text("raise KeyboardInterrupt")
    with pytest.raises(KeyboardInterrupt):
        passes_from_file(tmp_path / "my_file.py")


def test_two_files_of_one_name_in_different_folders(tmp_path: Path) -> None:
    for folder, rule, op in (("a", "one", "Abs"), ("b", "two", "Ceil")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "rules.py").write_text(code_of(rule, op))
    with pytest.raises(PluginError) as caught:
        catalogue([tmp_path / "a" / "rules.py", tmp_path / "b" / "rules.py"])
    assert str(tmp_path / "a" / "rules.py") in str(caught.value)
    assert str(tmp_path / "b" / "rules.py") in str(caught.value)


def test_the_same_file_twice_is_one(tmp_path: Path) -> None:
    (tmp_path / "my_file.py").write_text(code_of("a", "ThresholdedRelu"))
    model = load("g (float[2] x) => (float[2] y) { a = ThresholdedRelu(x) y = ThresholdedRelu(a) }")
    twice = [tmp_path / "my_file.py"] * 2
    assert op_types(optimize(model, plugin=twice).model) == ["ThresholdedRelu"]


def test_rules_of_a_group_are_one_pass_of_the_caller() -> None:
    names: dict[str, Any] = {}
    exec(code_of("one", group="both") + code_of("two", "Ceil", group="both"), names)
    model = load("g (float[2] x) => (float[2] z) { a = Abs(x) b = Abs(a) c = Ceil(b) z = Ceil(c) }")
    report = optimize(model, "none", [names["two"], names["one"]], only=["both"]).report
    assert [(p.name, p.rules) for p in report.passes] == [("both", {"one": 1, "two": 1})]


def test_a_dataclass_works_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "counting.py").write_text(
        "from __future__ import annotations\n"
        "from dataclasses import dataclass\n"
        "from passwright.core import Graph, ChangeLog\n"
        "@dataclass(frozen=True)\n"
        "class Counting:\n"
        '    """Counts, and changes nothing."""\n'
        "    name: str = 'counting'\n"
        "    def run(self, graph: Graph, change_log: ChangeLog) -> int:\n"
        "        return 0\n"
        "COUNTING = Counting()\n"
    )
    assert set(passes_from_file(tmp_path / "counting.py")) == {"counting"}
    report = optimize(load(TEXT), plugin=[tmp_path / "counting.py"]).report
    assert report.passes[-1].name == "counting"
    listed = CliRunner().invoke(app, ["list", "--plugin", str(tmp_path / "counting.py")]).stdout
    assert any(line.endswith("  Counts, and changes nothing.") for line in listed.splitlines())
