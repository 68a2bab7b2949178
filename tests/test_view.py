"""`passes view`: a model opened in Netron, here a fake that records its calls."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest
from passwright.app.cli.entry import app
from typer.testing import CliRunner

if TYPE_CHECKING:
    from collections.abc import Callable

MODEL = Path(__file__).parent.parent / "golden_models" / "loop_if.onnx"


class Netron(ModuleType):
    """The part of Netron's interface used by the command (9.3)."""

    def __init__(self, port: int = 8080, error: Exception | None = None) -> None:
        super().__init__("netron")
        self.asked: list[Any] = []
        self.port, self.error = port, error

    def start(self, file: str, address: Any = None, browse: bool = True) -> tuple[str, int]:
        self.asked.append(("start", file, address, browse))
        if self.error is not None:
            raise self.error
        return "localhost", address or self.port

    def wait(self) -> None:
        self.asked.append("wait")

    def stop(self) -> None:
        self.asked.append("stop")


@pytest.fixture
def view(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    def run(netron: ModuleType | None, *arguments: Any) -> Any:
        monkeypatch.setitem(sys.modules, "netron", netron)
        return CliRunner().invoke(app, ["view", *map(str, arguments)])

    return run


@pytest.mark.parametrize(
    ("options", "asked", "place"),
    [
        ([], (None, True), "localhost:8080"),
        (["--no-browser"], (None, False), "localhost:8080"),
        (["--port", "9000"], (9000, True), "localhost:9000"),
    ],
)
def test_opens_the_model(view: Callable[..., Any], options: list[str], asked: tuple[Any, bool], place: str) -> None:
    netron = Netron()
    result = view(netron, MODEL, *options)
    assert result.exit_code == 0, result.output
    assert netron.asked == [("start", str(MODEL), *asked), "wait", "stop"]
    assert place in result.output


def test_missing_netron_error_names_pip_install(view: Callable[..., Any]) -> None:
    result = view(None, MODEL)
    assert result.exit_code == 2
    assert result.stderr == "error: this needs Netron: pip install netron\n"


@pytest.mark.parametrize("name", ["no model", "missing"])
def test_invalid_model_is_rejected(view: Callable[..., Any], tmp_path: Path, name: str) -> None:
    (tmp_path / "no model").write_text("{}")
    netron = Netron()
    result = view(netron, tmp_path / name)
    assert result.exit_code == 1
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    assert not netron.asked


def test_port_in_use_is_reported(view: Callable[..., Any]) -> None:
    result = view(Netron(error=OSError(98, "Address already in use")), MODEL, "--port", "8080")
    assert result.exit_code == 1
    assert "at port 8080" in result.stderr
    assert result.stderr.count("\n") == 1


def test_server_stops_on_interrupt(view: Callable[..., Any]) -> None:
    class Interrupted(Netron):
        def wait(self) -> None:
            raise KeyboardInterrupt

    netron = Interrupted()
    view(netron, MODEL)
    assert netron.asked[-1] == "stop"
