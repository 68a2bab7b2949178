"""Help of commands."""

import re
import shlex

import pytest
from option_table import REFERENCE, option_table
from passwright.app.cli.entry import COMMANDS, app
from typer.main import get_command
from typer.testing import CliRunner

PYTHON = re.compile(r"<\w+>|\b(?:bool|str|int|TEXT|INTEGER|FLOAT|PATH|BOOLEAN|None)\b|list\[|x>=")
"""Types and ranges of Python and of typer."""


def page(columns: int, *arguments: str) -> str:
    env = {"COLUMNS": str(columns), "NO_COLOR": "1"}
    result = CliRunner().invoke(app, [*arguments, "--help"], prog_name="passes", env=env, color=True)
    assert result.exit_code == 0
    assert all(line.isprintable() for line in result.stdout.splitlines())
    return result.stdout


@pytest.mark.parametrize("columns", [80, 40])
@pytest.mark.parametrize("name", ["", *COMMANDS])
def test_help_fits_and_names_no_types(name: str, columns: int) -> None:
    text = page(columns, *([name] if name else []))
    assert [line for line in text.splitlines() if len(line) > columns] == []
    assert PYTHON.findall(text) == []
    if name:
        assert "\nExamples:\n  passes " in text
        assert "\nExit codes" in text
    else:
        for other, entry in COMMANDS.items():
            assert f"\n{entry.group}:\n" in text
            assert re.search(rf"^  {other}\s", text, re.MULTILINE)


def test_groups_of_run() -> None:
    text = page(80, "run")
    groups = re.findall(r"^(\w+):$", text, re.MULTILINE)
    wanted = [
        "Arguments",
        "Output",
        "Selection",
        "Model",
        "Verification",
        "Speed",
        "Reports",
        "Settings",
        "Help",
        "Examples",
    ]
    assert groups == wanted
    assert text.startswith("Usage: passes run [OPTIONS] [FILE...]")
    assert re.search(r"^  -o, --output FILE +\w", text, re.MULTILINE)
    assert "[default: basic]" in " ".join(text.split())
    assert re.search(r"--seed N +Seed of the generated inputs. \[default: 0\]", text)


@pytest.mark.parametrize("name", COMMANDS)
def test_options_have_values_and_examples_parse(name: str) -> None:
    command = get_command(app).commands[name]  # type: ignore[attr-defined]
    for p in command.params:
        assert p.help, p.name
        assert p.metavar or getattr(p, "is_flag", False), p.name
    options = {option for p in command.params for option in p.opts}
    for example in command.examples:
        program, called, *arguments = shlex.split(example)
        assert (program, called) == ("passes", name)
        assert {a for a in arguments if a.startswith("-")} <= options
        command.make_context(name, [*arguments, *(["x"] if name == "new" else [])], resilient_parsing=True)


def test_reference_has_the_table_of_options() -> None:
    hint = "python docs/catalogue/option_table.py writes it"
    assert f"{option_table()}\n## " in REFERENCE.read_text(encoding="utf-8"), hint


def test_headings_are_bold_on_a_terminal() -> None:
    coloured = CliRunner().invoke(app, ["run", "--help"], color=True, env={"TERM": "xterm", "NO_COLOR": ""}).stdout
    assert "\x1b[1mVerification\x1b[0m:" in coloured
    assert "\x1b" not in CliRunner().invoke(app, ["run", "--help"]).stdout
    assert "\x1b" not in CliRunner().invoke(app, ["run", "--help"], color=True, env={"TERM": "dumb"}).stdout


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("rum", "there is no command rum; did you mean run?"),
        ("optimize m.onnx", "there is no command optimize; did you mean run?"),
        ("simplify", "there is no command simplify; did you mean run?"),
        ("zzzz", "there is no command zzzz (see passes -h)"),
        ("m.onnx out.onnx", "m.onnx is no command; did you mean passes run m.onnx?"),
        ("run", "missing argument 'FILE'"),
        ("explain basic", "missing argument 'FILE'"),
        ("explain m.onnx", "missing argument 'RULE_OR_PASS': give basic for all rules of the pipeline"),
        ("info", "missing argument 'FILE...'"),
        ("run m.onnx --opset banana", "--opset banana: it must be an integer"),
        ("run m.onnx --opset", "option '--opset' requires an argument"),
        ("run m.onnx --zzzz", "no such option: --zzzz"),
        ("run m.onnx --skip-optimization x", "no such option: --skip-optimization; did you mean --skip?"),
        ("run m.onnx --target-opset 18", "no such option: --target-opset; did you mean --opset or --target?"),
        ("run m.onnx --tarjet chip", "no such option: --tarjet; did you mean --target or --strict?"),
        ("diff a.json b.onnx", "a.json and b.onnx: give two models, or two reports of --json"),
    ],
)
def test_usage_errors_are_one_line(line: str, message: str) -> None:
    result = CliRunner().invoke(app, line.split(), prog_name="passes", env={"COLUMNS": "40"})
    assert (result.exit_code, result.stdout, result.stderr) == (2, "", f"error: {message}\n")


def test_help_without_a_command() -> None:
    nothing = CliRunner().invoke(app, [], prog_name="passes")
    assert (nothing.exit_code, nothing.stdout) == (2, "")
    assert nothing.stderr.rstrip("\n") == CliRunner().invoke(app, ["--help"], prog_name="passes").stdout.rstrip("\n")
