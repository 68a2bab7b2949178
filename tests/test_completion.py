"""Completion in shells: the protocol of each, names that are kept between uses, and the shells themselves."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from passwright.app import completion
from passwright.app.cli import COMMANDS, app
from passwright.app.completion import KINDS, collect_names, known_names
from passwright.app.listing.listing import listing
from test_cli import COMMAND
from typer.testing import CliRunner


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for caches with the names in it."""
    folder = tmp_path_factory.mktemp("caches")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder))
        known_names()
    return folder


@pytest.fixture(autouse=True)
def _use(kept: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(kept))
    monkeypatch.chdir(tmp_path)


def bash(line: str) -> list[str]:
    """The completions of the last word of a line."""
    words = line.split(" ")
    env = {"_PASSES_COMPLETE": "complete_bash", "COMP_WORDS": "\n".join(words), "COMP_CWORD": str(len(words) - 1)}
    result = CliRunner().invoke(app, [], prog_name="passes", env=env)
    assert (result.exit_code, result.stderr) == (0, "")
    return result.stdout.split()


@pytest.mark.parametrize(
    ("line", "completed"),
    [
        ("passes qu", {"quantize"}),
        ("passes --ver", {"--version"}),
        ("passes run --pipel", {"--pipeline"}),
        ("passes run --pipeline bas", {"basic"}),
        ("passes run --pipeline basic,fuse-gem", {"basic,fuse-gemm"}),
        ("passes run --pipeline fuse-gemm,fuse-gem", set[str]()),
        ("passes run m.onnx --only merge-transp", {"merge-transposes"}),
        ("passes run --skip a --skip merge_transp", {"merge_transposes"}),
        ("passes run --enable raise-", {"raise-opset"}),
        ("passes run --verify th", {"thorough"}),
        ("passes verify --effort q", {"quick"}),
        ("passes bench --level ext", {"extended"}),
        ("passes compare --with ort,onnxsl", {"ort,onnxslim"}),
        ("passes explain matmul_add_to_g", {"matmul_add_to_gemm"}),
        ("passes explain basi", {"basic"}),
        ("passes list fuse-gem", {"fuse-gemm"}),
        ("passes list --op Erf", {"Erf"}),
        ("passes check fuse-gem", {"fuse-gemm"}),
        ("passes run no-such", set[str]()),
    ],
)
def test_words_are_completed(line: str, completed: set[str]) -> None:
    assert set(bash(line)) == completed


def test_commands_are_listed_to_each_shell() -> None:
    assert bash("passes ") == list(COMMANDS)
    for shell, written in (("zsh", '"diff"'), ("fish", "diff")):
        env = {"_PASSES_COMPLETE": f"complete_{shell}", "_TYPER_COMPLETE_ARGS": "passes "}
        env["_TYPER_COMPLETE_FISH_ACTION"] = "get-args"
        assert written in CliRunner().invoke(app, [], prog_name="passes", env=env).stdout.split()


def test_models_are_completed() -> None:
    for name in ("mobilenet.onnx", "m b.onnx", "m.txt", "resnet.onnx"):
        Path(name).touch()
    Path("folder").mkdir()
    Path("folder", "inner.onnx").touch()
    assert bash("passes run mo") == ["mobilenet.onnx"]
    assert bash("passes run m") == []  # m b.onnx has to be quoted, as the shell does for files
    assert bash("passes diff mobilenet.onnx res") == ["resnet.onnx"]
    assert bash("passes explain fuse-gemm folder/") == ["folder/inner.onnx"]
    assert bash("passes run f") == []  # a folder, to which the shell adds a slash
    assert bash("passes run nowhere/") == []
    hostile = 'x\\";touch ran;\\".onnx'
    Path(hostile).touch()
    assert bash("passes run x") == []


def test_names_are_those_of_the_list() -> None:
    names, everything = collect_names([]), listing()
    own = [p for p in everything.passes if p.source.startswith("passwright ")]
    assert set(names["passes"]) == {p.name for p in own}
    assert set(names["rules"]) == {r.name for p in own for r in p.rules}
    assert {"basic", "none"} <= set(names["pipelines"])
    assert names == known_names()


PLUGIN = """
from pathlib import Path
from passwright.core import EXACT, Fixpoint, Plugin, RulePass, rule

Path("ran").touch()

@rule(lambda g, x: g.Abs(x), contract=EXACT)
def shorten_abs(g, x): return x

class ModelTransform:
    name: str = "stamp-model"
    def transform(self, model): return 0

class Other:
    name = "not-a-pass"

PLUGIN = Plugin((RulePass("shorten", (shorten_abs,)), ModelTransform()), pipelines={"shortest": ["basic", "shorten"]})
"""


@pytest.mark.parametrize("is_editable", [False, True])
def test_names_of_installed_plugins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_editable: bool) -> None:
    """Their sources are read, and not run; others are those of the rules in a module, and of one that is broken."""
    site, source = tmp_path / "site", tmp_path / ("project/src" if is_editable else "site") / "short_plugin"
    info = site / "short_plugin-1.0.dist-info"
    for folder in (info, source):
        folder.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: short-plugin\nVersion: 1.0\n")
    entries = ("a = short_plugin:PLUGIN", "b = short_plugin.loose_rules", "c = short_plugin.broken", "d = gone.module")
    (info / "entry_points.txt").write_text("\n".join(("[passwright.passes]", *entries)))
    if is_editable:
        (info / "direct_url.json").write_text(json.dumps({"url": (tmp_path / "project").as_uri()}))
    (source / "__init__.py").write_text(PLUGIN)
    (source / "loose_rules.py").write_text("@core.rule(lambda g, x: x)\ndef loose(g, x): return x\n")
    (source / "broken.py").write_text("def (")
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    own = collect_names([])
    found = {kind: set(names) - set(own[kind]) for kind, names in known_names().items()}
    assert {kind: names for kind, names in found.items() if names} == {
        "passes": {"shorten", "stamp-model", "loose-rules"},
        "rules": {"shorten_abs", "loose"},
        "pipelines": {"shortest"},
    }
    assert not Path("ran").exists()
    assert bash("passes run --enable stam") == ["stamp-model"]
    (source / "loose_rules.py").write_text("")
    assert "loose-rules" not in known_names()["passes"]


def test_names_are_kept_until_files_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "new"))
    calls = list[int]()

    def collected(_: object) -> completion.Names:
        calls.append(1)
        return {kind: ["name"] for kind in KINDS}

    monkeypatch.setattr(completion, "collect_names", collected)
    path = tmp_path / "new" / "passwright" / "completion.json"
    for text in (None, None, "no JSON", "[]", '{"key": 1}', json.dumps({"key": "other"})):
        if text is not None:
            path.write_text(text)
        assert known_names() == {kind: ["name"] for kind in KINDS}
    assert len(calls) == 5
    monkeypatch.setattr(completion, "ROOT", tmp_path)
    known_names()
    assert len(calls) == 6
    (tmp_path / "passes").mkdir()
    (tmp_path / "passes" / "new.py").touch()
    known_names()
    assert len(calls) == 7
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert known_names()["rules"] == ["name"]


def test_completion_imports_no_onnx(kept: Path) -> None:
    code = (
        "import sys; sys.argv = ['passes']\nfrom passwright.__main__ import main\n"
        "try: main()\nfinally: print(*sys.modules, file=sys.stderr)"
    )
    env = os.environ | {
        "_PASSES_COMPLETE": "complete_bash",
        "COMP_WORDS": "passes run --only fuse-gem",
        "COMP_CWORD": "3",
    }
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env)
    assert set(done.stderr.split()).isdisjoint({"onnx", "numpy", "rich", "pydantic"})


SCRIPTS = {
    "bash": """
eval "$(_PASSES_COMPLETE=source_bash passes)"
complete -p passes
COMP_WORDS=(passes run --only fuse-gem); COMP_CWORD=3
_passes_completion passes
echo "completed: ${COMPREPLY[*]}"
passes --install-completion
""",
    "zsh": """
autoload -Uz compinit; compinit -D
eval "$(_PASSES_COMPLETE=source_zsh passes)"
_TYPER_COMPLETE_ARGS="passes run --only fuse-gem" _PASSES_COMPLETE=complete_zsh passes
passes --install-completion
""",
    "fish": """
env _PASSES_COMPLETE=source_fish passes | source
complete --do-complete "passes run --only fuse-gem"
passes --install-completion
""",
}


@pytest.mark.parametrize("shell", SCRIPTS)
def test_shells_complete(shell: str, tmp_path: Path) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    env = os.environ | {"HOME": str(tmp_path), "PATH": f"{Path(COMMAND).parent}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        [shell], input=SCRIPTS[shell], env=env, capture_output=True, text=True, check=False, timeout=300
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "fuse-gemm" in done.stdout
    assert f"{shell} completion installed in {tmp_path}" in done.stdout
    assert any("_PASSES_COMPLETE" in f.read_text() for f in tmp_path.rglob("*passes*") if f.is_file())
