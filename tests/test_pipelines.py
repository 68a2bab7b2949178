"""Pipelines composed of names: on the command line, from Python, and in pipelines.toml."""

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx
import pytest
from commands import invoke
from pass_loading import make_pipeline
from passwright.app.cli.entry import app
from passwright.app.registry.name_resolver import NameResolver
from passwright.app.registry.resolved_pipeline import resolve_pipeline
from passwright.core import (
    EXACT,
    Fixpoint,
    Pass,
    PassPlacement,
    Pipeline,
    Plugin,
    RewriteBuilder,
    RulePass,
    Value,
    leaves,
    rule,
)
from passwright.core.errors import PluginError, UnknownNameError, UsageError
from passwright.passes.folding.fold_constants import FoldConstants
from passwright.passes.pipelines import BUILT_IN, PIPELINES
from rewriting import cases, load, op_types
from typer.testing import CliRunner

from passwright import optimize

pytestmark = pytest.mark.usefixtures("_few_combined_inputs")

BASIC = PIPELINES["basic"]
TEXT = "g (float[N] x) => (float[N] y) { a = Identity(x) b = Identity(a) c = Sin(b) d = Cos(b) y = Div(c, d) }"


@dataclass(frozen=True)
class Option:
    """A no-op with options."""

    n: int = 1
    share: float = 0.5
    name: str = "option"

    def run(self, *_: object) -> int:
        return 0


@rule(lambda g, x: g.Ceil(g.Ceil(x)), contract=EXACT)
def ceil_once(g: RewriteBuilder, x: Value) -> Value:
    """Ceil(Ceil(x)) => Ceil(x)"""
    return g.Ceil(x)


MINE = Plugin(
    passes=(PassPlacement(Option(), stage="fuse"), ceil_once),
    pipelines={"mine": "basic,option{n=7}", "loop": Fixpoint("other", (FoldConstants(1), Option(3)))},
)


def shape_of(p: Pass) -> Any:
    if p == BASIC:
        return "basic"
    if isinstance(p, Pipeline | Fixpoint):
        return (type(p).__name__[0], p.name, *map(shape_of, p.passes))
    return f"{p.name}{{{p.n}}}" if isinstance(p, Option) else p.name


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        pytest.param("basic", "basic", id="a pipeline"),
        pytest.param("none", ("P", "none"), id="none"),
        pytest.param("fuse-gemm", "fuse-gemm", id="a pass"),
        pytest.param("basic,fuse-gemm", ("P", "basic,fuse-gemm", "basic", "fuse-gemm"), id="both"),
        pytest.param("option{n=3}", "option{3}", id="option"),
        pytest.param(
            "option{n=3}, fuse-gelu",
            ("P", "option{n=3},fuse-gelu", "option{3}", "fuse-gelu"),
            id="an option of several",
        ),
        pytest.param("mine", ("P", "mine", "basic", "option{7}"), id="of a plugin"),
        pytest.param("loop", ("F", "loop", "fold-constants", "option{3}"), id="a pass of a plugin"),
        pytest.param("mine,ceil-once", ("P", "mine,ceil-once", ("P", "mine", "basic", "option{7}"), "ceil-once")),
    ],
)
def test_names_compose(text: str, shape: Any) -> None:
    assert shape_of(NameResolver([MINE]).pipeline_from_text(text)) == shape


@cases(
    ("text", "error", "message"),
    {
        "unknown": ("bsic", UnknownNameError, "no pass or pipeline is named bsic; did you mean basic"),
        "second": (
            "basic,nothing-like-it",
            UnknownNameError,
            "named nothing-like-it .pipelines: none, basic, ort, mine",
        ),
        "an option of a pipeline": ("basic{n=3}", UsageError, "a pipeline has no options"),
        "of a RulePass": ("fuse-gemm{n=3}", UsageError, "fuse-gemm has no option n; it has none"),
        "unknown option": ("option{m=3}", UsageError, r"there are n \(int, 1\), share \(float, 0.5\)"),
        "type": ("option{n=x}", UsageError, "n=x is not of the type int"),
        "twice": ("option,option", UsageError, "named twice"),
        "two options": ("mine,option", UsageError, "the pipeline has two different passes named option"),
        "a file": ("mine.py", UnknownNameError, "named mine.py; a file with passes is given with --plugin"),
        "a rule": ("drop_identity", UnknownNameError, "no pass or pipeline"),
        "empty": ("", UsageError, "a name is missing"),
    },
)
def test_bad_composition_is_rejected(text: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make_pipeline(text, [MINE])


@cases(
    ("name", "message"),
    {
        "almost": ("fuse-gem", r"is named fuse-gem; did you mean fuse-gemm"),
        "in no pipeline": ("debloat", "add passes outside pipelines with --enable"),
    },
)
def test_unknown_names_cannot_be_selected(name: str, message: str) -> None:
    for selection in ({"only": [name]}, {"skip": [name]}):
        with pytest.raises(UnknownNameError, match=message):
            make_pipeline("basic", **selection)


@pytest.mark.parametrize("what", ["plugin", "only", "skip", "enable"])
def test_string_is_no_list_of_names(what: str) -> None:
    with pytest.raises(UsageError, match=rf"{what} must be a list, such as {what}=\['fuse-gemm'\]"):
        make_pipeline("basic", **{what: "fuse-gemm"})


@cases("pipeline", {"None": None, "number": 3, "list": ["basic"], "plugin": MINE, "class": Option})
def test_other_objects_are_no_pipeline(pipeline: Any) -> None:
    with pytest.raises(PluginError, match="is neither a pass nor a rule"):
        make_pipeline(pipeline)


def test_rule_as_pipeline() -> None:
    assert make_pipeline(ceil_once).name == "ceil-once"


def passes_of(p: Pass) -> list[Any]:
    return [shape_of(q) for q in leaves(p)]


def folding(p: Pass) -> FoldConstants:
    (found,) = (q for q in leaves(p) if isinstance(q, FoldConstants))
    return found


def test_enabling_a_present_pass_sets_its_options() -> None:
    p = make_pipeline("basic", enable=["fold-constants{max_growth=1MB}"])
    assert isinstance(p, Fixpoint)
    assert [q.name for q in p.passes] == [q.name for q in BUILT_IN]
    assert folding(p) == FoldConstants(max_growth=10**6)


@pytest.mark.parametrize(
    ("enable", "share"),
    [
        (["fold-constants{max_growth=5}", "fold-constants{max_share=0.5}"], 0.5),
        (["fold-constants{max_growth=5,max_share=0.5}", "fold-constants"], 0.5),
        (["fuse-gelu,fold-constants{max_growth=5}"], 0.05),
    ],
)
def test_enabling_several_times(enable: list[str], share: float) -> None:
    assert folding(make_pipeline("basic", enable=enable)) == FoldConstants(5, share)


def test_options_apply_to_all_instances_of_a_pass() -> None:
    p = make_pipeline("basic,fold-constants", enable=["fold-constants{max_growth=5}"])
    assert isinstance(p, Pipeline)
    assert [folding(q).max_growth for q in p.passes] == [5, 5]


def test_enabled_caller_pass_gets_options_and_position() -> None:
    names = passes_of(make_pipeline("basic", [MINE], enable=["option{n=5}"]))
    assert names[names.index("option{5}") - 1] == "fuse-rotary"
    assert names[-1] == "ceil-once"
    assert len(names) == len(BUILT_IN) + 2


@pytest.mark.parametrize(
    ("enable", "message"),
    [
        (["option{n=1}", "option{n=2}"], "option: option n is set twice, to 1 and to 2"),
        (["mine"], "mine is a pipeline: use --pipeline"),
        (["basic"], "basic is a pipeline"),
        (["own{n=1}"], "own is a group of passes and has no options"),
        (["nothing"], "no pass or pipeline is named nothing"),
        (["option{n=1"], "a brace is not closed"),
    ],
)
def test_bad_enable_is_rejected(enable: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        make_pipeline("basic", [MINE, Fixpoint("own", (Option(name="inner"),))], enable=enable)


def test_final_pass_runs_after_the_loop() -> None:
    p = make_pipeline("basic", [PassPlacement(Option(), stage="final")])
    assert shape_of(p) == ("P", "basic", "basic", "option{1}")
    assert optimize(load(TEXT), plugin=[PassPlacement(Option(), stage="final")]).report.pipeline == "basic"


def test_contradicting_placements_are_rejected() -> None:
    with pytest.raises(PluginError, match="option before fuse-gelu; in the pipeline fuse-gelu comes before fuse-gemm"):
        make_pipeline("basic", [PassPlacement(Option(), before=("fuse-gelu",), after=("fuse-gemm",))])
    # Another pipeline holds neither.
    make_pipeline("none", [PassPlacement(Option(), before=("fuse-gelu",), after=("fuse-gemm",))])


def test_caller_passes_run_unless_pipeline_names_some() -> None:
    assert passes_of(make_pipeline("none", [MINE])) == ["option{1}", "ceil-once"]
    assert passes_of(make_pipeline("ceil-once", [MINE])) == ["ceil-once"]
    assert passes_of(make_pipeline("ceil-once", [MINE], enable=["option{n=2}"])) == ["option{2}", "ceil-once"]
    other = RulePass("other", ())
    assert passes_of(make_pipeline("ceil-once", [MINE, other])) == ["ceil-once", "other"]


def test_caller_pass_as_pipeline(tmp_path: Path) -> None:
    result = optimize(load(TEXT), Option(), plugin=[ceil_once], enable=["option{n=3}", "drop-identity"])
    assert [p.name for p in result.report.passes] == ["option", "ceil-once", "drop-identity"]
    assert "Identity" not in op_types(result.model)


@cases(
    ("plugin", "message"),
    {
        "a pass": (Plugin((Option(name="fuse-gemm"),)), "two passes are named fuse-gemm"),
        "a pipeline": (Plugin(pipelines={"basic": "none"}), "two pipelines are named basic"),
        "a pipeline as a pass": (
            Plugin(pipelines={"fuse-gemm": "none"}),
            r"fuse-gemm is a pass from passwright 0\.1\.0, and a pipeline from the caller",
        ),
        "a pass as a pipeline": (
            Plugin((Option(name="basic"),)),
            r"basic is a pipeline from passwright 0\.1\.0, and a pass from the caller",
        ),
        "inside a pipeline": (
            Plugin(pipelines={"p": Pipeline("p", (Option(name="fuse-gemm"),))}),
            "two passes are named fuse-gemm",
        ),
        "other rules inside a pipeline": (
            Plugin(pipelines={"p": Pipeline("p", (RulePass("fuse-gemm", (ceil_once,)),))}),
            "two passes are named fuse-gemm",
        ),
    },
)
def test_taken_names_are_rejected(plugin: Plugin, message: str) -> None:
    with pytest.raises(PluginError, match=message):
        make_pipeline("basic", [plugin])


def test_pipeline_may_skip_rules_and_set_options() -> None:
    part = Pipeline("p", (RulePass("merge-transposes", ()), FoldConstants(5)))
    assert passes_of(make_pipeline("p", [Plugin(pipelines={"p": part})])) == ["merge-transposes", "fold-constants"]


def test_cyclic_pipelines_are_rejected() -> None:
    with pytest.raises(PluginError, match=r"^pipeline b of the caller: pipelines that include each other: a -> b -> a"):
        make_pipeline("a", [Plugin(pipelines={"a": "basic,b", "b": "a"})])


@pytest.mark.parametrize("text", ["", "basic,,", "nothing-like-it", "fuse-gemm{n=3}", "basic{"])
def test_bad_pipelines_of_plugins_are_rejected(text: str) -> None:
    broken = Plugin(pipelines={"theirs": text})
    assert len(leaves(make_pipeline("basic", [broken]))) == len(BUILT_IN)
    with pytest.raises(PluginError, match=r"^pipeline theirs of the caller: "):
        make_pipeline("theirs", [broken])


def test_only_and_skip_accept_groups() -> None:
    assert passes_of(make_pipeline("mine,fuse-gelu", [MINE], only=["mine"])) == passes_of(make_pipeline("mine", [MINE]))
    assert passes_of(make_pipeline("mine,fuse-gelu", [MINE], skip=["mine"])) == ["fuse-gelu"]
    assert passes_of(make_pipeline("mine,fuse-gelu", [MINE], skip=["basic", "option"])) == ["fuse-gelu"]
    for name in ("basic", "nothing"):
        with pytest.raises(UnknownNameError, match=name):
            make_pipeline("basic", skip=[name])


def limited(first: int, last: int) -> Plugin:
    return Plugin((Option(), ceil_once), {"p": Pipeline("p", (Option(name="inner"),))}, opsets=(first, last))


@pytest.mark.parametrize(
    ("opset", "opsets", "unfit"),
    [
        (17, (13, 25), []),
        (13, (13, 25), []),
        (17, (13, 17), []),
        (12, (13, 25), ["the caller supports opsets 13 to 25, the model has 12"] * 2),
        (17, (18, 25), ["the caller supports opsets 18 to 25, the model has 17"] * 2),
    ],
)
def test_passes_run_at_supported_opsets_only(opset: int, opsets: tuple[int, int], unfit: list[str]) -> None:
    text = "g (float[N] x) => (float[N] y) { a = Ceil(x) y = Ceil(a) }"
    report = optimize(load(text, opset), plugin=[limited(*opsets)]).report
    assert [u.reason for u in report.unfit] == unfit
    assert {p.name for p in report.passes}.isdisjoint({"option", "ceil-once"}) is bool(unfit)
    assert json.loads(report.to_json())["unfit"] == [
        {"pass_name": name, "reason": why} for name, why in zip(("option", "ceil-once"), unfit, strict=False)
    ]
    assert not unfit or str(report.unfit[0]) == f"option skipped: {unfit[0]}"


@pytest.mark.parametrize(
    ("opset", "to", "unfit"),
    [
        (17, 24, []),
        (25, 18, ["the caller supports opsets 13 to 24, the model has 25"] * 2),
        (17, 26, ["the caller supports opsets 13 to 24, the model has 17 and is raised up to 26"] * 2),
        (12, 18, ["the caller supports opsets 13 to 24, the model has 12 and is raised up to 18"] * 2),
    ],
)
def test_passes_support_raised_opsets_too(opset: int, to: int, unfit: list[str]) -> None:
    choice = resolve_pipeline("basic", [limited(13, 24)], enable=[f"raise-opset{{to={to}}}"])
    assert [u.reason for u in choice.for_opsets({"": opset})[1]] == unfit


@pytest.mark.parametrize(("to", "unfit"), [(18, 0), (24, 0), (25, 2)])
def test_passes_see_the_opset_after_a_conversion_that_comes_first(to: int, unfit: int) -> None:
    choice = resolve_pipeline("basic", [limited(18, 24)], enable=[f"convert-opset{{to={to}}}"])
    reasons = [u.reason for u in choice.for_opsets({"": 17})[1]]
    assert reasons == [f"the caller supports opsets 18 to 24, the model has 17 and is converted to {to}"] * unfit


def test_model_without_standard_opset() -> None:
    choice = resolve_pipeline("basic", [limited(13, 25)])
    fitted, unfit = choice.for_opsets({"com.microsoft": 1})
    assert {u.reason for u in unfit} == {"the caller supports opsets 13 to 25, the model imports no standard one"}
    assert fitted == BASIC


def test_opset_limits_apply_inside_plugin_pipelines() -> None:
    fitted, unfit = resolve_pipeline("p,fuse-gemm", [limited(18, 25)]).for_opsets({"": 17})
    assert [u.pass_name for u in unfit] == ["inner"]
    assert passes_of(fitted) == ["fuse-gemm"]
    assert resolve_pipeline("inner", [Option(name="inner")]).for_opsets({"": 1})[1] == []
    (alone,) = resolve_pipeline("option", [limited(18, 25)]).for_opsets({"": 17})[1]
    assert alone.pass_name == "option"


def test_passes_outside_the_pipeline_are_not_reported() -> None:
    assert resolve_pipeline("basic", [limited(18, 25)], skip=["option", "ceil-once"]).for_opsets({"": 17})[1] == []


TOML = """
# pipelines of ours
[small]
passes = ["drop-identity", "fold-constants{max_growth=1kB}"]
repeat = true

[both]
passes = ["small", "option{n=4}"]
skip = ["drop_identity"]
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pipelines.toml").write_text(TOML)
    return tmp_path


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        ("small", ("F", "small", "drop-identity", "fold-constants")),
        ("both", ("P", "both", ("F", "small", "drop-identity", "fold-constants"), "option{4}")),
        ("small,option", ("P", "small,option", ("F", "small", "drop-identity", "fold-constants"), "option{1}")),
        ("pipelines.toml:small", ("F", "small", "drop-identity", "fold-constants")),
        ("./pipelines.toml:small", ("F", "small", "drop-identity", "fold-constants")),
    ],
)
def test_written_pipelines(folder: Path, text: str, shape: Any) -> None:
    p = NameResolver([MINE]).pipeline_from_text(text)
    assert shape_of(p) == shape
    assert folding(p).max_growth == 1000


@pytest.mark.parametrize("change", [lambda t: "\ufeff" + t, lambda t: t.replace("\n", "\r\n")], ids=["BOM", "CRLF"])
def test_files_with_bom_or_crlf(folder: Path, change: Callable[[str], str]) -> None:
    (folder / "pipelines.toml").write_bytes(change(TOML).encode())
    assert shape_of(make_pipeline("small")) == ("F", "small", "drop-identity", "fold-constants")


def test_rules_that_a_written_pipeline_skips(folder: Path) -> None:
    drop = next(p for p in leaves(make_pipeline("both", [MINE])) if p.name == "drop-identity")
    assert isinstance(drop, RulePass)
    assert drop.rules == ()


def test_file_in_another_folder(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(TOML)
    assert make_pipeline(f"{tmp_path}/mine.toml:small").name == "small"
    with pytest.raises(UnknownNameError, match=r"mine\.toml has no pipeline named none; it has small, both"):
        make_pipeline(f"{tmp_path}/mine.toml:none")
    with pytest.raises(UnknownNameError, match="no pass or pipeline is named small"):
        make_pipeline("small")


def test_file_is_read_only_for_unknown_names(folder: Path) -> None:
    (folder / "pipelines.toml").write_text("not [ toml")
    make_pipeline("basic,option", [MINE], enable=["fuse-gemm"])
    with pytest.raises(UsageError, match=r"^pipelines\.toml:1: "):
        make_pipeline("small")


@cases(
    ("toml", "message"),
    {
        "syntax": ('[a]\npasses = ["basic"', r"pipelines\.toml:\d: "),
        "no passes": ("\n[a]\nrepeat = true", r"pipelines\.toml:2: a is not a pipeline, which has "),
        "no table": ("\na = 3", r"pipelines\.toml:2: a is not a pipeline"),
        "a text": ('[a]\npasses = "basic"', r"pipelines\.toml:2: passes must be a list of names"),
        "numbers": ("[a]\npasses = [1]", r"pipelines\.toml:2: passes must be a list of names"),
        "repeat": ('[a]\npasses = []\nrepeat = "yes"', r"pipelines\.toml:3: repeat must be true or"),
        "fallback": ("[a]\npasses = []\nfallback = 3", r"pipelines\.toml:3: fallback must be a name"),
        "another key": ("[a]\npasses = []\n\ntwice = 1", r"pipelines\.toml:4: unknown key twice"),
        "a spec": ('[a]\npasses = ["b{n=3"]', r"pipelines\.toml:2: b\{n=3: a brace is not closed"),
        "twice": ('[a]\npasses = ["b", "b"]', r"pipelines\.toml:2: b,b: b is named twice"),
        "no name": ('[a]\npasses = ["basic", ""]', r"pipelines\.toml:2: basic,: a name is missing"),
        "depth": ("a = " + "[" * 9999, r"pipelines\.toml: cannot be read: RecursionError"),
        "digits": ("a = " + "9" * 9999, r"pipelines\.toml: cannot be read: ValueError"),
        "a name": ('[a]\npasses = ["b"]', r"pipelines\.toml:1: no pass or pipeline is named b"),
        "skip": ('[a]\npasses = []\nskip = ["b"]', r"pipelines\.toml:1: no pass or rule of the"),
        "near": ('[a]\npasses = ["basic"]\nskip = ["gemm"]', ".*:1: .* gemm; did you mean fuse-gemm"),
        "circle": (
            '[a]\npasses = ["b"]\n[b]\npasses = ["a"]',
            "pipelines.toml:3: pipelines that include each other: a -> b -> a",
        ),
        "deep": (
            '[a]\npasses = ["p0"]\n' + "".join(f'[p{i}]\npasses = ["p{i + 1}"]\n' for i in range(900)),
            "pipelines.toml:59: p29: pipelines include each other more than 30 deep",
        ),
        "itself": ('[a]\npasses = ["a"]', "pipelines.toml:1: pipelines that include each other: a -> a"),
        "a name that is built in": (
            "[a]\npasses = []\n[basic]\npasses = []",
            r"pipelines\.toml:3: basic is taken: the name belongs to passwright 0\.1\.0",
        ),
        "option": ('[a]\npasses = ["fuse-gemm{n=3}"]', r"pipelines\.toml:1: fuse-gemm has no option n"),
    },
)
def test_bad_files_are_rejected(folder: Path, toml: str, message: str) -> None:
    (folder / "pipelines.toml").write_text(toml)
    with pytest.raises(UsageError, match=f"^{message}") as caught:
        make_pipeline("a")
    assert "\n" not in str(caught.value)


def test_unreadable_files_are_rejected(folder: Path) -> None:
    (folder / "folder.toml").mkdir()
    with pytest.raises(UnknownNameError, match=r"one in a file is named pipelines\.toml:NAME"):
        make_pipeline("pipelines.toml")
    for name, message in (
        ("x\0", "Invalid argument"),
        ("x" * 5000, "File name too long"),
        ("folder", "Is a directory"),
    ):
        with pytest.raises(UsageError, match=f"cannot read {name}.toml: {message}"):
            make_pipeline(f"{name}.toml:a")
    (folder / "latin.toml").write_bytes(b'[a]\npasses = ["\xe9"]')
    for name, message in (("latin", "latin.toml:1: not UTF-8 text"), ("gone", "cannot read gone.toml: No such file")):
        with pytest.raises(UsageError, match=message):
            make_pipeline(f"{name}.toml:a")


def test_hostile_files_end_soon(folder: Path) -> None:
    doubling = (f'[{a}{n}]\npasses = ["p{n + 1}", "q{n + 1}"]\n' for n in range(24) for a in "pq")
    (folder / "doubling.toml").write_text("".join(doubling) + "[p24]\npasses = []\n[q24]\npasses = []\n")
    (folder / "deep.toml").write_text(f"[a{'.a' * 2000}]\n")
    (folder / "nested.toml").write_text(f"a = {'[' * 5000}{']' * 5000}\n")
    os.mkfifo(folder / "fifo.toml")
    (folder / "large.toml").touch()
    os.truncate(folder / "large.toml", 1 << 30)
    for name, message in (
        ("doubling", "pipelines include each other more than 1000 times"),
        ("deep", "a line has more than 1000 dots"),
        ("nested", "cannot be read: RecursionError"),
        ("fifo", "cannot read fifo.toml: Not a regular file"),
        ("large", "cannot read large.toml: File too large"),
    ):
        with pytest.raises(UsageError, match=message):
            make_pipeline(f"{name}.toml:p0")


def test_paths_are_relative_to_the_pipelines_file(folder: Path) -> None:
    (folder / "sub").mkdir()
    (folder / "sub" / "pipelines.toml").write_text('[a]\npasses = ["b.toml:b"]')
    (folder / "sub" / "b.toml").write_text('[b]\npasses = ["drop-identity"]')
    assert passes_of(make_pipeline("sub/pipelines.toml:a")) == ["drop-identity"]


def passes(*arguments: str, code: int = 0) -> str:
    return invoke(*arguments, code=code).output


def test_command_composes_pipelines(folder: Path) -> None:
    onnx.save(load(TEXT), "m.onnx")
    passes("run", "m.onnx", "--pipeline", "small,fuse-gemm", "-o", "out.onnx", "--json", "r.json")
    assert json.loads(Path("r.json").read_text())["pipeline"] == "small,fuse-gemm"
    assert op_types(onnx.load("out.onnx")) == ["Sin", "Cos", "Div"]
    assert "error: fold-constants has no option n; there are max_growth (int, 1048576)" in passes(
        "run", "m.onnx", "--enable", "fold-constants{n=1}", code=2
    )
    assert passes("bisect", "m.onnx", "--pipeline", "small").startswith("nothing is wrong")


def test_output_may_not_overwrite_the_pipelines_file(folder: Path) -> None:
    onnx.save(load(TEXT), "m.onnx")
    said = passes("run", "m.onnx", "--pipeline", "small", "-o", "pipelines.toml", code=1)
    assert said.startswith("error: ")
    assert Path("pipelines.toml").read_text() == TOML


def test_warnings_on_unsupported_opsets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    onnx.save(load(TEXT, 12), "m.onnx")
    Path("late.py").write_text(
        "from passwright.core import Plugin, rule\n@rule(lambda g, x: g.Ceil(g.Ceil(x)))\ndef ceil_once(g, x):\n"
        "    return g.Ceil(x)\nPLUGIN = Plugin((ceil_once,), opsets=(13, 25))\n"
    )
    warning = "warning: ceil-once skipped: late.py supports opsets 13 to 25, the model has 12\n"
    for command in ("run", "bisect"):
        result = CliRunner().invoke(app, [command, "m.onnx", "--plugin", "late.py"])
        assert (result.exit_code, result.stderr) == (0, warning)
