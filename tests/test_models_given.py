"""Models as functions of Python take them, and the errors that functions raise."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import pytest
from passwright.app.report.progress import in_python
from rewriting import cases, load
from tiers import slow_unless

import passwright

pytestmark = pytest.mark.usefixtures("_few_combined_inputs", "_verifies_in_process", "_commands_measure_briefly")
TEXT = "g (float[N,4] x) => (float[N,4] y) { a = Identity(x) y = Relu(a) }"
BRIEF: dict[str, Any] = {"min_time": 0.01, "threads": 1}
FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "optimize": lambda m: passwright.optimize(m).report.source,
    "convert_opset": lambda m: passwright.convert_opset(m, 21).report.source,
    "verify": lambda m: passwright.verify(m, m).original,
    "diff": lambda m: passwright.diff(m, m).other,
    "explain": lambda m: passwright.explain(m, "drop_identity").source,
    "info": lambda m: passwright.info(m).models[0].model,
    "infos": lambda m: passwright.info([m, m]).models[1].model,
    "show": lambda m: re.findall(r"\bg\b", passwright.show(m))[0],
    "bisect_ort": lambda m: passwright.bisect_ort(m).source,
    "bisect_engine": lambda m: passwright.bisect_engine(m, "onnxruntime").source,
    "bench": lambda m: passwright.bench(m, batch=(1,), **BRIEF).models[0].model,
    "profile": lambda m: passwright.profile(m, **BRIEF).source,
    "compare": lambda m: passwright.compare(m, tools=[], batch=(1,), **BRIEF).source,
    "quantize": lambda m: passwright.quantize(m, trials=1, **BRIEF).report.source,
    "tune": lambda m: passwright.tune(m, trials=1, dim={"N": [1]}, **BRIEF).report.source,
    "advise": lambda m: passwright.advise(m, time=0.0, threads=1, dim={"N": [1]}).source,
}
LONG = {"compare", "quantize", "tune", "advise"}
KINDS: dict[str, Callable[[Path], Any]] = {
    "text": str,
    "path": Path,
    "message": onnx.load,
    "bytes": Path.read_bytes,
    "result": passwright.optimize,
}


@pytest.mark.parametrize("name", slow_unless([n for n in FUNCTIONS if n not in LONG], FUNCTIONS))
def test_every_function_takes_every_kind_of_model(name: str, tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    onnx.save(load(TEXT), path)
    for kind, made in KINDS.items():
        is_file = kind in {"text", "path"} and name != "show"
        assert FUNCTIONS[name](made(path)) == (str(path) if is_file else "g"), kind
    with pytest.raises(passwright.UsageError, match=r"a model must be a path, an onnx\.ModelProto, its bytes or"):
        FUNCTIONS[name](3)
    with pytest.raises(passwright.ModelError):
        FUNCTIONS[name](b"\1\2 no model")
    with pytest.raises(passwright.ModelError, match=r"nowhere\.onnx"):
        FUNCTIONS[name]("nowhere.onnx") if name not in {"info", "infos"} else passwright.optimize("nowhere.onnx")


def test_bench_tells_models_of_one_name_apart() -> None:
    report = passwright.bench([load(TEXT), load(TEXT)], batch=(1,), **BRIEF)
    assert [m.model for m in report.models] == ["g", "g (2)"]
    with pytest.raises(passwright.UsageError, match="no model was given"):
        passwright.bench([])


@cases(
    ("message", "expected"),
    {
        "dim": ("--dim nix: the model has no such symbol", "dim nix: the model has no such symbol"),
        "two": ("--exact and --budget: give one of them", "exact and budget: give one of them"),
        "value": ("needs more; --memory SIZE raises the limit", "needs more; memory raises the limit"),
        "dashes": ("--min-time 0: too short", "min_time 0: too short"),
        "off": ("leave out --no-verify", "leave out verify=False"),
        "command": ("see `passes list --search` and --plugin", "see `passes list --search` and plugin"),
        "name": ("a--b, a --- b and --- are names", "a--b, a --- b and --- are names"),
    },
)
def test_messages_speak_python(message: str, expected: str) -> None:
    assert in_python(message) == expected


def test_errors_name_arguments() -> None:
    with pytest.raises(passwright.ModelError, match=r"^dim M: the model has no such symbol"):
        passwright.optimize(load(TEXT), dim={"M": 1})
    with pytest.raises(passwright.UsageError, match=r"exact and budget"):
        passwright.verify(load(TEXT), load(TEXT), exact=True, budget="1%")
    with pytest.raises(passwright.UsageError, match=r"^tools nix: "):
        passwright.compare(load(TEXT), tools=["nix"])
    with pytest.raises(passwright.UnknownNameError, match=r"`passes list --search \w+`"):
        passwright.optimize(load(TEXT), "zzzzzz")
