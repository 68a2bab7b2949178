"""Commands of the program, run in the process of a test."""

from collections.abc import Mapping

from passwright.app.cli.entry import app
from typer.testing import CliRunner, Result


def invoke(
    *arguments: object,
    code: int = 0,
    env: Mapping[str, str | None] | None = None,
    input: bytes | None = None,  # noqa: A002 - as typer calls it
) -> Result:
    """Run a command, which has to end with that exit code; `input` is its standard input."""
    result = CliRunner(env=env).invoke(app, [*map(str, arguments)], input=input)
    assert result.exit_code == code, result.output + repr(result.exception)
    return result
