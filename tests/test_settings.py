"""Settings in `passwright.toml` and `pyproject.toml`."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import onnx
import pytest
from commands import invoke
from passwright.app.cli.entry import COMMANDS, app
from passwright.app.cli.settings import MAX_BYTES, SettingsFile, checked_settings, find_settings, key_of, may_run_code
from passwright.core.errors import UsageError
from rewriting import load, op_types
from test_cli import TEXT, WEIGHTS, plugin
from typer.main import get_command
from typer.testing import CliRunner

pytestmark = pytest.mark.usefixtures("_few_combined_inputs", "_verifies_in_process")

OK, BAD, USAGE = range(3)
WRITING = {
    "output", "output_dir", "in_place", "resume", "json", "format", "html", "map", "repro", "keep", "trace", "settings",
    "journal", "no_verify", "script", "store", "summarize", "table", "into", "other",
}  # fmt: skip


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with a model, in which the test stands."""
    (tmp_path / ".git").mkdir()
    onnx.save(load(TEXT, weights=WEIGHTS), tmp_path / "m.onnx")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def settle(text: str, name: str = "passwright.toml") -> None:
    Path(name).write_text(text, encoding="utf-8")


def shown(*arguments: str) -> dict[str, tuple[object, str]]:
    """The values and sources that --show-settings prints."""
    lines = [line for line in invoke(*arguments, "--show-settings").stdout.splitlines() if not line.startswith("#")]
    pairs = [line.rsplit("  # ", 1) for line in lines]
    return {key: (value, source) for text, source in pairs for key, value in tomllib.loads(text).items()}


def refusal(*arguments: str, code: int = USAGE) -> str:
    """The one line of an error."""
    result = invoke(*arguments, code=code)
    assert result.stdout == ""
    first, *others = result.stderr.splitlines()
    assert all(line.startswith("(settings of ") for line in others)
    return first


def test_settings_change_a_run(project: Path) -> None:
    settle('[tool.passwright]\nskip = ["fuse-gemm"]\n', "pyproject.toml")
    invoke("run", "m.onnx", "-o", "out.onnx", "--no-verify")
    assert op_types(onnx.load("out.onnx")) == ["MatMul", "Add", "Relu"]
    invoke("run", "m.onnx", "-o", "out.onnx", "--no-verify", "--skip", "drop-identity")
    assert op_types(onnx.load("out.onnx")) == ["Identity", "Gemm", "Relu"]
    invoke("run", "m.onnx", "-o", "out.onnx", "--no-verify", "--no-settings")
    assert op_types(onnx.load("out.onnx")) == ["Gemm", "Relu"]


def test_sources_are_shown(project: Path) -> None:
    settle('skip = "fuse-gemm"\nseed = 3\nmemory = "2GB"\ntime-limit = 60\nexact = true\n[bench]\nthreads = 2\n')
    found = shown("run", "--seed", "4", "--output", "o.onnx")
    assert found == {
        "output": ("o.onnx", "command line"),
        "pipeline": ("basic", "default"),
        "exact": (True, "passwright.toml"),
        "skip": (["fuse-gemm"], "passwright.toml"),
        "seed": (4, "command line"),
        "threads": (0, "default"),
        "min-time": (2.0, "default"),
        "memory": ("2GB", "passwright.toml"),
        "time-limit": (60.0, "passwright.toml"),
    }
    assert shown("bench")["threads"] == (2, "passwright.toml")
    assert shown("bench")["seed"] == (3, "passwright.toml")
    assert "exact" not in shown("verify")  # there it requires bits, of models of any origin
    assert shown("verify")["memory"] == ("2GB", "passwright.toml")
    settle("[diff]\nlimit = 3\n")
    assert shown("diff") == {"limit": (3, "passwright.toml")}
    assert shown("run", "--no-settings") == {
        "pipeline": ("basic", "default"),
        "seed": (0, "default"),
        "threads": (0, "default"),
        "min-time": (2.0, "default"),
    }


@pytest.mark.parametrize(
    ("text", "arguments", "key"),
    [
        ("threads = 4\nlimit = 3\nmin-time = 1", ["run", "m.onnx", "-o", "o.onnx", "--no-verify"], "threads"),
        ("[compare]\nbudget = '2%'", ["compare", "m.onnx"], "budget"),
        ("[check]\nfloat32 = true", ["check", "cancel-log"], "float32"),
    ],
    ids=["run", "compare", "check"],
)
def test_settings_that_need_another_option(project: Path, text: str, arguments: list[str], key: str) -> None:
    settle(text)
    assert shown(*arguments).get(key, (None, "default"))[1] == "default"
    enabling = {"threads": "--check-speed", "budget": "--quantized", "float32": "--prove"}[key]
    assert shown(*arguments, enabling)[key][1] == "passwright.toml"
    settle(f"{text}\n{enabling[2:]} = true\n")
    assert shown(*arguments)[key][1] == "passwright.toml"
    if key == "threads":
        settle(text)
        invoke(*arguments)


def test_nearest_file_wins(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def seed() -> object:
        return shown("run")["seed"]

    (project / "sub" / "deep").mkdir(parents=True)
    settle("[tool.passwright]\nseed = 1\n", "pyproject.toml")
    settle("[tool.other]\nname = 'passwright'\n", "sub/pyproject.toml")  # has no settings, so it does not count
    monkeypatch.chdir(project / "sub" / "deep")
    assert seed() == (1, "../../pyproject.toml")
    settle("[tool.passwright]\nseed = 2\n", "../pyproject.toml")
    assert seed() == (2, "../pyproject.toml")
    settle("seed = 3\n", "../passwright.toml")
    assert seed() == (3, "../passwright.toml")
    (project / "sub" / ".git").write_text("gitdir: elsewhere")  # as in a worktree
    assert seed() == (3, "../passwright.toml")
    (project / "sub" / "deep" / ".git").mkdir()
    assert seed() == (0, "default")


def test_paths_are_relative_to_the_file(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (project / "sub").mkdir()
    settle(
        'inputs = "data/x.npz"\nplugin = ["rules.py", "/abs.py"]\npipeline = "basic,pipes.toml:mine,fuse-gemm"\n'
        '[quantize]\ndata = ["data", "reader.py:samples"]\nmetric = "m.py:f"\nlabelled = "l.npz"\n'
    )
    monkeypatch.chdir(project / "sub")
    found = {key: value for key, (value, _) in shown("run").items()}
    assert found["inputs"] == ["../data/x.npz"]
    assert found["plugin"] == ["../rules.py", "/abs.py"]
    assert found["pipeline"] == "basic,../pipes.toml:mine,fuse-gemm"
    found = {key: value for key, (value, _) in shown("quantize", "-o", "q.onnx").items()}
    assert found["data"] == ["../data", "../reader.py:samples"]
    assert (found["metric"], found["labelled"]) == ("../m.py:f", "../l.npz")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("skp = 1", "passwright.toml: skp is not an option; did you mean skip?"),
        ("time_limit = 1", "passwright.toml: time_limit is not an option; did you mean time-limit or limit?"),
        ("seed = 'a'", "passwright.toml: seed must be an integer"),
        ("seed = true", "passwright.toml: seed must be an integer"),
        ("seed = 1.5", "passwright.toml: seed must be an integer"),
        ("seed = -1", "passwright.toml: seed: "),
        ("time-limit = 'a'", "passwright.toml: time-limit must be a number"),
        ("exact = 1", "passwright.toml: exact must be true or false"),
        ("skip = [1]", "passwright.toml: skip must be a list of strings"),
        ("skip = {a = 1}", "passwright.toml: skip must be a list of strings"),
        ("pipeline = ['basic']", "passwright.toml: pipeline must be a string"),
        ("inputs = 3", "passwright.toml: inputs must be a list of strings"),
        ("output = 'o.onnx'", "passwright.toml: output can only be given on the command line"),
        ("json = '-'", "passwright.toml: json can only be given on the command line"),
        ("no-verify = true", "passwright.toml: no-verify can only be given on the command line"),
        ("[run]\nskp = 1", "passwright.toml: [run] skp is not an option; did you mean skip?"),
        ("[rum]\nskip = 1", "passwright.toml: rum is not an option"),
        (
            "ep = 'cuda'",
            "passwright.toml: ep is not an option of passes run: set it in [tune], [info], [compare], [bench]",
        ),
        ("seed = ", "passwright.toml:1: "),
        ("seed = 1\nseed = 2", "passwright.toml:2: "),
        ("skip = " + "[" * 5000, "passwright.toml: "),
        ("dim = 'batch'", "--dim batch: not of the form batch=1"),
    ],
)
def test_mistakes_are_one_line(project: Path, text: str, message: str) -> None:
    settle(text)
    assert refusal("run", "m.onnx").startswith(f"error: {message}")
    for option in ("--help", "--no-settings"):
        invoke("run", option, "m.onnx", "--show-settings")


def test_refused_options_name_the_file(project: Path) -> None:
    settle('only = "no-such-pass"')
    result = CliRunner().invoke(app, ["run", "m.onnx"])
    assert result.stderr.splitlines()[1] == "(settings of passwright.toml: only; --no-settings ignores them)"


@pytest.mark.parametrize("name", ["passwright.toml", "pyproject.toml"])
def test_unreadable_files(project: Path, name: str) -> None:
    """A file that may have settings is read or refused, never passed over."""
    file = Path(name)
    text = f"[tool.passwright]\nexact = true # {'x' * MAX_BYTES}"
    hint = "it may contain settings, which --no-settings ignores"
    for make, reason in (
        (lambda: file.write_bytes(b"\xff"), "is not UTF-8 text"),
        (lambda: file.write_text("[tool.passwright]\nexact = true", encoding="utf-16"), "is not UTF-8 text"),
        (lambda: file.write_text(text, encoding="utf-8"), "cannot be read: File too large"),
        (lambda: os.mkfifo(name), "cannot be read: Not a regular file"),
        (lambda: file.symlink_to(os.devnull), "cannot be read: Not a regular file"),
        (lambda: file.symlink_to("nowhere"), "does not exist"),
        (lambda: file.symlink_to(name), "cannot be read: Too many levels of symbolic links"),
    ):
        make()
        assert refusal("run", "m.onnx") == f"error: {name} {reason}; {hint}"
        invoke("run", "m.onnx", "--no-settings", "--show-settings")
        file.unlink()
    file.mkdir()
    assert refusal("run", "m.onnx") == f"error: {name} is a folder, not a file; {hint}"
    file.rmdir()
    file.write_text("[tool.passwright]\nseed = 1", encoding="utf-16-le")  # all bytes are ASCII
    assert refusal("run", "m.onnx").startswith(f"error: {name}:1: ")


def test_project_files(project: Path) -> None:
    settle("this is [not TOML", "pyproject.toml")  # that of another tool, and no settings
    assert find_settings() is None
    settle("[project]\ndependencies = ['passwright']\n[tool.passwrong]\nseed = 1", "pyproject.toml")
    assert find_settings() is None
    settle("[tool.passwright", "pyproject.toml")
    assert refusal("run", "m.onnx").startswith("error: pyproject.toml:1: ")
    for text in ("tool.passwright = 3", "[[tool.passwright]]\nseed = 1", "tool = ['passwright']"):
        settle(text, "pyproject.toml")
        assert refusal("run", "m.onnx") == "error: pyproject.toml: tool.passwright is not a table"
    for text in (
        f"[tool{' ' * 20}.{' ' * 20}passwright]\nseed = 1",
        '[tool."pass\\u0077right"]\nseed = 1',
        '["\\U00000074ool"."\\u0070asswright"]\nseed = 1',
        "tool = {other = {a = 1}, passwright = {seed = 1}}",
        "\ufefftool.passwright.seed = 1\r\n",
    ):
        settle(text, "pyproject.toml")
        assert shown("run")["seed"] == (1, "pyproject.toml"), text


def test_typed_options_exclude_settings(project: Path) -> None:
    settle('verify = "quick"\nskip = "matmul_add_to_gemm"\npipeline = "fuse-gemm"\n[run]\nverbose = true\n')
    invoke("run", "m.onnx", "--no-verify", "--quiet")
    assert {"skip", "verify", "pipeline"} <= shown("bisect", "m.onnx").keys()
    with_ort = shown("bisect", "m.onnx", "--ort")
    assert {key for key, (_, source) in with_ort.items() if source == "passwright.toml"} == {"verify"}
    assert shown("profile", "m.onnx", "--no-optimize")["pipeline"] == ("basic", "default")


def test_settings_run_no_code_unless_trusted(project: Path) -> None:
    written = Path(plugin(project, "drop_relu"))
    written.write_text(f"{written.read_text()}\nopen('ran', 'w').close()\n")
    settle(f"[tool.passwright]\nplugin = [{written.name!r}]\n", "pyproject.toml")
    for command in (["run", "m.onnx"], ["bisect", "m.onnx"], ["explain", "basic", "m.onnx"], ["list"]):
        expected = "error: pyproject.toml: plugin may run code that is not installed: add --trust-settings"
        assert refusal(*command).startswith(expected)
    shown("run")
    assert not Path("ran").exists()
    assert "written" in invoke("run", "m.onnx", "o.onnx", "--no-verify", "--trust-settings").stdout
    assert op_types(onnx.load("o.onnx")) == ["Gemm"]
    assert Path("ran").exists()


@pytest.mark.parametrize(
    ("name", "value", "is_code"),
    [
        ("plugin", ["rules.py"], True),
        ("on", "tcp://host:8786", True),
        ("skip", ["fuse-gemm"], False),
        ("inputs", "x.npz", False),
        ("inputs", "reader.py:samples", True),
        ("data", ["x.npz", "reader.py:samples"], True),
        ("metric", "f.py:accuracy", True),
        ("ep", "cpu", False),
        ("ep", "openvino{device_type=CPU}", True),
        ("pipeline", "basic,fuse-gemm{n=3}", False),
        ("pipeline", "onnxscript:package.module:RULES", True),
        ("pipeline", "pure.toml:mine", False),
        ("pipeline", "other.toml:mine", True),
        ("pipeline", "absent.toml:mine", True),
        ("enable", ["a,other.toml:mine"], True),
        ("pipeline", "mine", False),
    ],
)
def test_values_that_may_run_code(project: Path, name: str, value: object, is_code: bool) -> None:
    settle('[mine]\npasses = ["basic"]\n', "pure.toml")
    settle('[mine]\npasses = ["basic", "\\u006fnnxscript:rules:RULES"]\n', "other.toml")
    group = get_command(app)
    about = next(c.options[name] for c in (group.commands[n] for n in COMMANDS) if name in c.options)  # type: ignore[attr-defined]
    assert may_run_code(name, about, value) is is_code
    if name == "pipeline" and value == "mine":  # such names are looked up in this file
        Path("other.toml").rename("pipelines.toml")
        assert may_run_code(name, about, value)


def test_options_that_write_are_no_settings() -> None:
    group = get_command(app)
    refused = set[str]()
    for name in COMMANDS:
        command = group.commands[name]  # type: ignore[attr-defined]
        for p in command.params:
            is_scheme = (name, p.name) == ("quantize", "format")
            if p.param_type_name == "option" and p.name in WRITING and not is_scheme:
                with pytest.raises(UsageError, match=r"can only be given on the command line$"):
                    checked_settings(SettingsFile(Path("f.toml"), {}), name, {key_of(p): "x"}, command, None)
                refused.add(p.name)
    assert refused == WRITING


def test_python_ignores_settings(project: Path) -> None:
    from passwright import optimize

    settle('pipeline = "none"')
    assert op_types(optimize("m.onnx", verify=False).model) == ["Gemm", "Relu"]


def test_settings_fit_the_width(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settle('skip = "fuse-gemm"')
    monkeypatch.setenv("COLUMNS", "40")
    lines = invoke("run", "--show-settings").stdout.splitlines()
    assert 'skip = ["fuse-gemm"]  # passwright.toml' in lines
    assert max(map(len, lines)) <= 40


def test_without_settings_their_reader_is_not_imported(project: Path) -> None:
    code = (
        "import sys; sys.argv = ['passes', 'run', 'nowhere.onnx']\nfrom passwright.app.cli.entry import main\n"
        "try: main()\nfinally: print('tomllib' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.stderr.strip()) == ("False", "error: nowhere.onnx does not exist")
