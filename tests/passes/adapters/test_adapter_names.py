"""Names of adapters for other tools, and messages where a tool is missing."""

import subprocess
import sys
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest
from passwright.app.registry import adapter_names
from passwright.app.registry.adapter_names import adapter, available
from passwright.core import Pass, Pipeline
from passwright.core.errors import PluginError, UnknownNameError
from rewriting import each


@each("name", ["onnxoptimizer:fuse_bn_into_conv", "ort:basic", "ort:extended", "ort:all"])
def test_adapter_pass_has_requested_name(name: str) -> None:
    found = adapter(name)
    assert isinstance(found, Pass)
    assert found.name == name
    assert found == adapter(name)


@each("name", ["", "basic", "fold-constants", "onnxsimplifier", "ortho", "my:pass", ":", "torch:x"])
def test_other_names_have_no_adapter(name: str) -> None:
    assert adapter(name) is None


def test_onnxoptimizer_alone_runs_default_passes() -> None:
    found = adapter("onnxoptimizer")
    assert isinstance(found, Pipeline)
    assert "onnxoptimizer:fuse_bn_into_conv" in {p.name for p in found.passes}


@each(
    ("name", "message"),
    [
        ("onnxoptimizer:fuse_bn_into_con", "did you mean fuse_bn_into_conv"),
        ("onnxoptimizer:", "onnxoptimizer has no pass named ''"),
        ("ort", "ort:basic, ort:extended, ort:layout, ort:all"),
        ("ort:none", "ort:basic"),
    ],
)
def test_unknown_part_is_reported(name: str, message: str) -> None:
    with pytest.raises(UnknownNameError) as caught:
        adapter(name)
    assert message in str(caught.value)


def test_missing_tool_error_names_pip_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adapter_names, "find_spec", lambda name: None if name == "onnxsim" else object())
    monkeypatch.setattr(adapter_names, "version", lambda _: "1.0")
    with pytest.raises(PluginError, match=r"onnxsim needs onnxsim, which is not installed \(pip install onnxsim\)"):
        adapter("onnxsim")
    assert available()["onnxsim"] == "not installed (pip install onnxsim)"
    assert available()["ort"] == "1.0"
    with pytest.raises(UnknownNameError, match="onnxslim has no separate passes; use onnxslim"):
        adapter("onnxslim:x")


def test_module_without_package_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    def version(package: str) -> str:
        raise PackageNotFoundError(package)

    monkeypatch.setattr(adapter_names, "version", version)
    assert available()["ort"] == "installed"
    assert adapter("ort:basic") is not None


def test_output_of_rule_file_goes_to_stderr(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "loud.py"
    file.write_text("from onnxscript.rewriter import RewriteRule\nprint('here I am')\n"
                    "RULE = RewriteRule(lambda op, x: op.Neg(op.Neg(x)), lambda op, x: op.Identity(x))")  # fmt: skip
    adapter(f"onnxscript:{file}:RULE")
    assert capsys.readouterr() == ("", "here I am\n")


def test_tools_are_imported_lazily() -> None:
    text = (
        "import sys\nfrom passwright.app.registry.adapter_names import adapter, available\n"
        "from passwright import rule_from_functions\n"
        "available(); adapter('basic')\n"
        "print([m for m in ('onnxscript', 'onnxoptimizer', 'onnxsim', 'onnxslim', 'onnxruntime') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "[]"
