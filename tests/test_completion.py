"""Completion in shells: the protocol of each, the names, and the shells themselves."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from names import names_text
from passwright.app.cli.completion import FILE
from passwright.app.cli.entry import COMMANDS, app
from test_cli import COMMAND
from typer.testing import CliRunner


@pytest.fixture(autouse=True)
def _use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
        ("passes compare --tools ort,onnxsl", {"ort,onnxslim"}),
        ("passes explain matmul_add_to_g", {"matmul_add_to_gemm"}),
        ("passes explain basi", {"basic"}),
        ("passes list fuse-gem", {"fuse-gemm"}),
        ("passes list --op Erf", {"Erf"}),
        ("passes check fuse-gem", {"fuse-gemm"}),
        ("passes verify m.onnx --engine openvino:", {"openvino:bf16", "openvino:f16", "openvino:int8"}),
        ("passes bench --engine onnxruntime --engine onn", {"onnxruntime"}),
        ("passes tune --engine openvino:b", {"openvino:bf16"}),
        ("passes run --target web", {"webgpu"}),
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


def test_files_are_left_to_the_shell() -> None:
    Path("mobilenet.onnx").touch()
    assert bash("passes run mo") == []
    assert bash("passes verify mobilenet.onnx mo") == []


def test_names_are_those_of_the_package() -> None:
    hint = "python docs/catalogue/names.py writes it"
    assert FILE.read_text(encoding="utf-8") == names_text(), hint


@pytest.mark.parametrize("line", ["passes run --onl", "passes run --pipeline basic,fuse-g"])
def test_words_are_completed_without_onnx(line: str) -> None:
    code = (
        "import sys; sys.argv = ['passes']\nfrom passwright.__main__ import main\n"
        "try: main()\nfinally: print(*sys.modules, file=sys.stderr)"
    )
    words = {"COMP_WORDS": "\n".join(line.split()), "COMP_CWORD": str(line.count(" "))}
    env = os.environ | {"_PASSES_COMPLETE": "complete_bash"} | words
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
