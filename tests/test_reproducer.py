"""Reproducers: files with all that repeats a run, and replays of them."""

from __future__ import annotations

import json
import shutil
import stat
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from commands import invoke
from passwright.core import ModelError, PassesError, Pipeline
from passwright.core.errors import UsageError, VerificationError
from rewriting import cases, load

from passwright import optimize, replay

pytestmark = pytest.mark.usefixtures("_few_combined_inputs", "_verifies_in_process")
TEXT = "g (float[N,4] x) => (float[N,4] y) { a = Neg(x) b = Neg(a) c = Identity(b) y = Mul(c, w) }"
PLUGIN = '''
from repro_helper import CONTRACT
from passwright.core import rule

@rule(lambda g, x: g.Neg(g.Neg(x)), contract=CONTRACT)
def two_negations(g, x):
    """Neg(Neg(x)) => x"""
    return x
'''
WRONG = '''
from passwright.core import EXACT, rule

@rule(lambda g, x, w: g.Mul(x, w), contract=EXACT)
def drop_product(g, x):
    """Mul(x, w) => x, which is wrong"""
    return x
'''


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with a model and plugins."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    onnx.save(load(TEXT, weights={"w": np.full(4, 2, np.float32)}), "m.onnx")
    Path("rules.py").write_text(PLUGIN)
    Path("wrong.py").write_text(WRONG)
    Path("repro_helper.py").write_text("from passwright.core import EXACT as CONTRACT\n")
    return tmp_path


def elsewhere(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Move the reproducer to an empty folder, and work there."""
    place = folder / "elsewhere"
    place.mkdir()
    shutil.move("run.zip", place)
    for path in folder.iterdir():
        if path != place:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    monkeypatch.chdir(place)
    monkeypatch.delitem(__import__("sys").modules, "repro_helper", raising=False)


def test_a_run_is_repeated_elsewhere(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    onnx.save(onnx.load("m.onnx"), "m.onnx", save_as_external_data=True, location="w.bin", size_threshold=0)
    np.savez("given.npz", x=np.ones((2, 4), np.float32))
    Path("pipelines.toml").write_text('[mine]\npasses = ["drop-identity"]\n')
    first = optimize("m.onnx", "mine", ["rules.py"], inputs="given.npz", seed=7, dim={"N": 2}, reproducer="run.zip")
    assert [p.changes for p in first.report.passes] == [1, 1]
    elsewhere(folder, monkeypatch)
    found = replay("run.zip", trust_plugins=True, output="o.onnx")
    assert (found.is_same, found.versions) == (True, {})
    assert onnx.load("o.onnx") == first.model
    assert found.report is not None
    assert found.report.options["seed"] == 7


@pytest.mark.parametrize(
    ("options", "held"),
    [
        pytest.param({"target": "small.toml"}, ["small.toml"], id="target"),
        pytest.param({"target": "ort"}, [], id="target-by-name"),
        pytest.param({"pipeline": "own pipelines/more.toml:inner"}, ["more.toml"], id="folder-with-a-space"),
        pytest.param({"pipeline": "outer.toml:outer"}, ["outer.toml", "more.toml", "ends.toml"], id="nested"),
        pytest.param(
            {"pipeline": "mine", "target": "small.toml"},
            ["pipelines.toml", "outer.toml", "more.toml", "ends.toml", "small.toml"],
            id="local-pipeline",
        ),
    ],
)
def test_files_of_pipelines_and_targets_are_held(
    folder: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], held: list[str]
) -> None:
    """Files that files of pipelines name, from their own folders, are held too, with what they say of each other."""
    Path("own pipelines").mkdir()
    Path("ort").mkdir()  # the target has the name of a folder
    Path("own pipelines/more.toml").write_text("[inner]\npasses = ['drop-identity']\nfallback = '../ends.toml:end'")
    Path("ends.toml").write_text('[end]\npasses = ["none"]')
    Path("outer.toml").write_text('[outer]\npasses = ["own pipelines/more.toml:inner", "merge-constants"]  # why')
    Path("pipelines.toml").write_text('[mine]\npasses = ["outer.toml:outer", "short"]\n[short]\npasses = ["none"]')
    Path("small.toml").write_text('name = "mine"\n[operators]\n"Neg Mul Abs" = {}')
    first = optimize("m.onnx", **options, reproducer="run.zip")
    elsewhere(folder, monkeypatch)
    found = replay("run.zip", trust_plugins=True)
    assert (found.is_same, found.found) == (True, f"result {first.digest}")
    with zipfile.ZipFile("run.zip") as archive:
        names = [name for name in archive.namelist() if name.endswith(".toml")]
    assert {Path(name).name for name in names} >= set(held)


def test_the_model_is_the_one_before_the_run(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = optimize("m.onnx", "drop-identity", in_place=True, reproducer="run.zip")
    assert onnx.load("m.onnx") == result.model
    elsewhere(folder, monkeypatch)
    assert replay("run.zip").is_same


def test_all_kinds_of_options_are_recorded() -> None:
    Path("data.py").write_text("import numpy as np\ndef some():\n    return [{'x': np.ones((2, 4), np.float32)}]\n")
    options: dict[str, Any] = {
        "pipeline": "basic", "only": ["drop-identity", "two_negations"], "plugin": ["rules.py"], "dim": {"N": 2},
        "shape": {"x": (2, 4)}, "outputs": ["y"], "exact": True, "value_info": "keep", "external_data": 1000,
        "verify": "quick", "memory": "2GB", "time_limit": 100, "strict": True, "inputs": ["data.py:some"],
        "enable": ["fold-constants"], "skip": ["merge-constants"], "opset": 18, "freeze_initializers": True,
    }  # fmt: skip
    first = optimize("m.onnx", **options, reproducer="run.zip")
    found = replay("run.zip", trust_plugins=True)
    assert (found.is_same, found.found) == (True, f"result {first.digest}")
    assert found.report is not None
    own = {"plugin", "inputs"}  # whose files are in the archive
    assert {k: v for k, v in found.report.options.items() if k not in own} == {
        k: v for k, v in first.report.options.items() if k not in own
    }
    with zipfile.ZipFile("run.zip") as archive:
        recorded = json.loads(archive.read("manifest.json"))["options"]
    assert recorded.keys() == options.keys() - {"pipeline"}
    assert (recorded["plugin"], recorded["inputs"]) == (["files/0/rules.py"], ["files/1/data.py:some"])


def test_failures_are_repeated(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(VerificationError):
        optimize("m.onnx", "none", ["wrong.py"], strict=True, output="o.onnx", reproducer="run.zip")
    elsewhere(folder, monkeypatch)
    found = replay("run.zip", trust_plugins=True)
    assert (found.is_same, found.report) == (True, None)
    assert found.recorded.startswith("VerificationError: y: 8 of 8 elements differ")


@pytest.mark.parametrize(
    "options", [{"pipeline": "no-such-pass"}, {"plugin": ["broken.py"]}, {"outputs": ["z"]}], ids=str
)
def test_runs_that_do_not_begin_are_recorded(options: dict[str, Any]) -> None:
    Path("broken.py").write_text("1 / 0\n")
    with pytest.raises(PassesError):
        optimize("m.onnx", reproducer="run.zip", **options)
    assert replay("run.zip", trust_plugins=True).recorded.partition(":")[0] in {
        "UnknownNameError",
        "PluginError",
        "ModelError",
    }


def test_models_and_inputs_in_memory_are_recorded() -> None:
    inputs = {"x": np.arange(8, dtype=np.float32).reshape(2, 4)}
    first = optimize(onnx.load("m.onnx"), "drop-identity", inputs=inputs, reproducer="run.zip")
    assert replay("run.zip").found == f"result {first.digest}"


def test_objects_of_python_cannot_be_repeated() -> None:
    optimize("m.onnx", Pipeline("empty", ()), inputs=[{"x": np.ones((1, 4), np.float32)}], reproducer="run.zip")
    with pytest.raises(
        UsageError, match="the run used Python objects, which the file does not contain: pipeline: Pipeline"
    ):
        replay("run.zip")


def test_other_outcomes_and_versions_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    optimize("m.onnx", "drop-identity", reproducer="run.zip")
    rewritten(lambda m: m | {"result": "0" * 32, "versions": m["versions"] | {"onnx": "1.0"}})
    found = replay("run.zip")
    assert not found.is_same
    assert found.versions == {"onnx": ("1.0", onnx.__version__)}
    shown = invoke("run", "--replay", "run.zip", code=3)
    assert f"onnx: 1.0 in the recorded run, {onnx.__version__} here" in shown.stderr
    assert "differs from the recorded run" in shown.stderr


def test_a_replay_that_stops_early_says_so() -> None:
    optimize("m.onnx", "drop-identity", reproducer="run.zip")
    shown = invoke("run", "--replay", "run.zip", "--stop-after", "0", code=3)
    assert "this run stops after 0 changes (--stop-after), unlike that run" in " ".join(shown.stderr.split())


def test_the_command_repeats_runs() -> None:
    shown = invoke("run", "m.onnx", "--plugin", "rules.py", "--reproducer", "run.zip", "--seed=3", "--check", code=3)
    shown = invoke("run", "--replay", "run.zip", code=2)
    assert (
        " contains code, which a replay runs: plugin files/0/rules.py; look at it, and add --trust-plugins"
        in shown.stderr
    )
    shown = invoke("run", "--replay", "run.zip", "--trust-plugins", "-o", "o.onnx", "--statistics")
    assert "the same as in the recorded run: result " in shown.stdout
    assert shown.stdout.startswith("run.zip, m.onnx: 4 -> ")
    assert "drop_identity" in shown.stdout
    assert Path("o.onnx").exists()
    assert "sets --seed: leave it out" in invoke("run", "--replay", "run.zip", "--seed=4", code=2).stderr
    assert "--check cannot be combined with --replay" in invoke("run", "--replay", "run.zip", "--check", code=2).stderr
    assert "--replay takes no model" in invoke("run", "m.onnx", "--replay", "run.zip", code=2).stderr
    assert "missing argument 'FILE'" in invoke("run", code=2).stderr


@cases("path", {"the model": "m.onnx", "a plugin": "rules.py", "the result": "o.onnx"})
def test_reproducers_replace_no_file_of_the_run(path: str) -> None:
    before = Path(path).read_bytes() if Path(path).exists() else None
    with pytest.raises(ModelError, match="the reproducer would overwrite"):
        optimize("m.onnx", plugin=["rules.py"], output="o.onnx", reproducer=path)
    assert (Path(path).read_bytes() if Path(path).exists() else None) == before


def rewritten(change: Callable[[dict[str, Any]], Any], **files: bytes) -> None:
    """Rewrite the manifest of the reproducer, and add files."""
    with zipfile.ZipFile("run.zip") as archive:
        contents = {name: archive.read(name) for name in archive.namelist()}
    contents["manifest.json"] = json.dumps(change(json.loads(contents["manifest.json"]))).encode()
    with zipfile.ZipFile("run.zip", "w") as archive:
        for name, content in {**contents, **files}.items():
            archive.writestr(name, content)


def add_link() -> None:
    entry = zipfile.ZipInfo("files/0/link")
    entry.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile("run.zip", "a") as archive:
        archive.writestr(entry, "/etc/passwd")


def add_twice() -> None:
    with zipfile.ZipFile("run.zip", "a") as archive, pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr("model/m.onnx", b"another")


def cut() -> None:
    content = Path("run.zip").read_bytes()
    Path("run.zip").write_bytes(content[: len(content) // 2])


def damage() -> None:
    content = bytearray(Path("run.zip").read_bytes())
    content[60:70] = b"\xff" * 10
    Path("run.zip").write_bytes(content)


def add(name: str) -> Callable[[], None]:
    return lambda: rewritten(dict, **{name: b"x"})


def with_options(**options: Any) -> Callable[[], None]:
    return lambda: rewritten(lambda m: m | {"options": options})


@cases(
    ("damage", "message"),
    {
        "cut": (cut, "run.zip is damaged, or not a reproducer"),
        "flipped": (damage, "run.zip is damaged, or not a reproducer"),
        "a parent": (add("files/../../x"), "it has files/../../x, which is not a file in its folders"),
        "absolute": (add("/tmp/x"), "it has /tmp/x, which is not a file in its folders"),
        "another folder": (add("x/y"), "it has x/y, which is not a file in its folders"),
        "of Windows": (add("files\\..\\x"), "which is not a file in its folders"),
        "a link": (add_link, "it has files/0/link, which is not a file in its folders"),
        "twice": (add_twice, "run.zip"),
        "no manifest": (lambda: rewritten(lambda _: []), "manifest.json: Expected `object`, got `array`"),
        "a new format": (lambda: rewritten(lambda m: m | {"format": 9}), "its format is 9, and this version reads 1"),
        "no model": (lambda: rewritten(lambda m: m | {"model": "model/n.onnx"}), "it has no model model/n.onnx"),
        "a model outside": (lambda: rewritten(lambda m: m | {"model": "model/../../m.onnx"}), "it has no model model/"),
        "an output": (with_options(output="/tmp/x"), "this version has no option output"),
        "no option": (with_options(nothing=1), "this version has no option nothing"),
        "a value": (with_options(seed="x"), "run.zip is damaged: seed x: it must be an integer"),
        "a file outside": (with_options(inputs=["/etc/passwd"]), "its option inputs names /etc/passwd"),
        "a file above": (with_options(inputs=["files/0/../../../x.npz"]), "its option inputs names files/0/../../../x"),
        "a plugin outside": (with_options(plugin=["rules.py"]), "its option plugin names rules.py"),
        "code in a pipeline": (
            with_options(pipeline="onnxscript:os:x"),
            " contains code, which a replay runs: pipeline",
        ),
        "code of inputs": (with_options(inputs=["files/0/a.py:f"]), " contains code, which a replay runs: inputs"),
    },
)
def test_hostile_and_damaged_files_are_one_line(damage: Callable[[], None], message: str, folder: Path) -> None:
    optimize("m.onnx", "drop-identity", reproducer="run.zip", verify=False)
    damage()
    before = sorted(folder.iterdir())
    with pytest.raises(PassesError) as e:
        replay("run.zip")
    assert message in str(e.value)
    assert "\n" not in str(e.value)
    assert sorted(folder.iterdir()) == before


def test_large_contents_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    optimize("m.onnx", "drop-identity", reproducer="run.zip", verify=False)
    rewritten(dict, **{"files/0/zeros": bytes(1 << 20)})
    monkeypatch.setattr("passwright.app.models.replay.MAX_BYTES", 1 << 18)
    monkeypatch.setattr("passwright.app.models.replay.MAX_RATIO", 0)
    with pytest.raises(ModelError, match="its files are too many or too large"):
        replay("run.zip")
