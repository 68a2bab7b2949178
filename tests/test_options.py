"""Options of commands: the same defaults, limits and forms on the command line, in settings and from Python."""

import pickle
from contextlib import suppress
from functools import partial
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import invoke
from msgspec import structs
from passwright.app.cli.entry import COMMANDS, app
from passwright.app.cli.parameters import options_from
from passwright.app.cli.settings import is_settable, key_of
from passwright.app.optimize.run_options import RunOptions
from passwright.app.options import Option, arguments_of, options_of
from passwright.app.tune.tune_options import TuneOptions
from passwright.core.errors import PassesError, UsageError
from rewriting import cases
from typer.main import get_command

import passwright
from passwright import bench, compare, convert_opset, diff, info, optimize, tune, verify

TWO_NAMES = {"verify", "diff", "explain"}
GROUP: Any = get_command(app)


def arguments(name: str) -> list[str]:
    return {"list": [], "check": []}.get(name, ["m.onnx", "n.onnx"] if name in TWO_NAMES else ["m.onnx"])


def contexts() -> dict[str, Any]:
    parent = GROUP.make_context("passes", [], resilient_parsing=True)
    return {n: GROUP.commands[n].make_context(n, arguments(n), parent=parent) for n in COMMANDS}


def test_defaults_are_those_of_python() -> None:
    found = [(options_from(c, ctx.params), c()) for n, ctx in contexts().items() for c in GROUP.commands[n].classes]
    assert [pair for pair in found if pair[0] != pair[1]] == []
    assert [own for own, _ in found if pickle.loads(pickle.dumps(own)) != own] == []


def test_limits_are_those_of_settings_and_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".git").mkdir()
    (tmp_path / "m.onnx").touch()
    limited = 0
    for name in COMMANDS:
        command = GROUP.commands[name]
        for p in command.params:
            about = command.options.get(p.name)
            if about is None or about.least is None:
                continue
            limited += 1
            wrong = {about.least - 1: f"{about.least} or more"}
            wrong |= {} if about.most is None else {about.most + 1: f"{about.most} or less"}
            for value, limit in wrong.items():
                reason = f"{about.kind(value)}: it must be {limit}"
                given = invoke(name, *arguments(name), f"--{key_of(p)}={about.kind(value)}", code=2).stderr
                assert f"error: --{key_of(p)} {reason}\n" in given
                if is_settable(about):
                    Path("passwright.toml").write_text(f"[{name}]\n{key_of(p)} = {about.kind(value)}\n")
                    given = invoke(name, *arguments(name), code=2).stderr
                    assert f"error: passwright.toml: [{name}] {key_of(p)}: {reason}\n" in given
                    Path("passwright.toml").unlink()
                for options in command.classes:
                    if p.name in options.__dataclass_fields__ and hasattr(options, "among"):
                        with pytest.raises(UsageError, match=reason):
                            options(**{p.name: about.kind(value)})
    assert limited > 20


@cases(
    ("kind", "value", "expected"),
    {
        "digits": (int, "03", 3), "a negative number": (int, "-3", -3), "space": (int, " 3", 3),
        "a fraction": (int, "3.5", "3.5: it must be an integer"), "a word": (int, "x", "x: it must be an integer"),
        "nothing": (float, "", ": it must be a number"), "not a number": (float, "x", "x: it must be a number"),
        "exponent": (float, "1e3", 1000.0), "an integer of TOML": (float, 3, 3.0),
        "without end": (float, "inf", np.inf),
        "no integer": (int, "inf", "inf: it must be an integer"), "a path": (Path, "a", Path("a")),
    },
)  # fmt: skip
def test_texts_become_values(kind: type, value: Any, expected: Any) -> None:
    about = Option("", kind=kind)
    if isinstance(expected, str):
        with pytest.raises(ValueError, match="it must be") as e:
            about.converted(value)
        assert str(e.value) == expected
    else:
        found = about.converted(value)
        assert (found, isinstance(found, kind)) == (expected, True)


@cases(
    ("given", "reason"),
    {
        "true for a number": ({"seed": True}, "seed True: it must be an integer"),
        "a fraction": ({"seed": 1.5}, "seed 1.5: it must be an integer"),
        "None for a number": ({"seed": None}, "seed None: it must be an integer"),
        "no time": ({"time_limit": 0}, "time_limit 0: it must be 0.001 or more"),
        "no memory": ({"memory": -5}, "memory -5: not of the form 2GB, 512MiB or 1000000"),
        "a word for true": ({"exact": "yes"}, "exact yes: it must be true or false"),
        "no size of weights": ({"external_data": -1}, "external_data -1: not of the form 2GB, 512MiB or 1000000"),
        "no effort": ({"verify": "best"}, "verify best: choose from quick, default, thorough"),
        "a form": ({"dim": "N"}, "dim N: not of the form batch=1"),
    },
)
def test_values_that_python_cannot_give(given: dict[str, Any], reason: str) -> None:
    with pytest.raises(UsageError) as e:
        optimize("nowhere.onnx", **given)
    assert str(e.value) == reason


def test_texts_from_python_are_those_of_the_command_line() -> None:
    options: Any = RunOptions
    found = options(memory="2KB", dim="N=7", shape="x:1,4", outputs="a,b", skip="fuse-gemm", seed=np.int64(3))
    assert (found.memory, found.dim, found.shape) == (2000, {"N": 7}, {"x": (1, 4)})
    assert (found.outputs, found.skip, found.seed) == (("a", "b"), ["fuse-gemm"], 3)


@pytest.mark.parametrize("batch", [(), 8, [0], "0", ""], ids=repr)
def test_batches_that_python_cannot_give(batch: Any) -> None:
    with pytest.raises(UsageError, match=r"^batch .*: not of the form 1,32, with sizes of at least 1$"):
        bench(["nowhere.onnx"], batch=batch)


class Other:
    """An object that no option takes."""


VALUES = (
    3,
    2.5,
    "",
    [3],
    [["x"]],
    b"x",
    {3: 3},
    {"x": 3},
    {"x": "3"},
    {"x": None},
    np.zeros(3),
    range(3),
    None,
    Other(),
)
SUBJECTS = {"bench": [[]], "info": [[]], "explain": ["m.onnx", "x"], "verify": ["m.onnx"] * 2, "diff": ["m.onnx"] * 2,
            "convert_opset": ["m.onnx", 18]}  # fmt: skip


@pytest.mark.parametrize("name", ["bench", "bisect_ort", "compare", "convert_opset", "diff", "explain", "info",
                                  "optimize", "profile", "quantize", "tune", "verify"])  # fmt: skip
def test_values_of_wrong_types_are_refused(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    function: Any = getattr(passwright, name)
    subjects = SUBJECTS.get(name, ["m.onnx"])
    options = [p for p in signature(function).parameters.values() if p.kind is not p.VAR_POSITIONAL][len(subjects) :]
    assert {"json", "progress"} <= {p.name for p in options}
    for p in options:
        with pytest.raises(UsageError, match=rf"^{p.name} of type Other: (it must be|not of the form|choose from)"):
            function(*subjects, **{p.name: Other()})
        for value in VALUES:
            with suppress(PassesError):
                function(*subjects, **{p.name: value})


@cases(
    ("call", "reason"),
    {
        "a text for a size": (partial(optimize, dim={"N": "1"}), "dim {'N': '1'}: not of the form {'batch': 1}"),
        "a size for a shape": (
            partial(optimize, shape={"x": 3}),
            "shape {'x': 3}: not of the form {'name': [1, 3, 224, 224]}",
        ),
        "a fraction of a size": (
            partial(tune, dim={"N": [1.5]}),
            "dim {'N': [1.5]}: not of the form {'batch': [1, 8]}",
        ),
        "no path": (partial(verify, other="n.onnx", json=3), "json 3: it must be a path"),
        "no text": (partial(tune, goal=3), "goal 3: it must be a string"),
        "no texts": (partial(optimize, skip=[3]), "skip [3]: it must be a string, or several"),
        "no function": (partial(optimize, progress=3), "progress 3: it must be a function, true or false"),
        "an array": (partial(optimize, skip=np.zeros(9)), "skip of type ndarray: it must be a string, or several"),
        "no pass": (
            partial(optimize, pipeline=3),
            "pipeline 3: it must be the names of pipelines and passes, or a pass",
        ),
        "no opset": (partial(convert_opset, opset=None), "opset None: it must be an integer"),
    },
)
def test_messages_of_wrong_types(call: Any, reason: str) -> None:
    with pytest.raises(UsageError) as e:
        call("nowhere.onnx")
    assert str(e.value) == reason


def test_one_size_of_a_dim_is_several() -> None:
    options: Any = TuneOptions
    assert options(dim={"N": 3}).dim == options(dim="N=3").dim == {"N": (3,)}


def test_values_are_converted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed = list[object]()
    _, about = options_of(RunOptions)["memory"]
    counted = structs.replace(about, parse=lambda text: parsed.append(text) or 2000)
    monkeypatch.setitem(arguments_of(RunOptions), "memory", (None, counted))
    assert options_from(RunOptions, {"memory": "2KB"}).memory == 2000
    assert parsed == ["2KB"]


def test_unknown_parameters_are_named() -> None:
    unknown = r"^optimize\(\) got an unexpected keyword argument 'pipelin'; did you mean pipeline or plugin\?$"
    with pytest.raises(TypeError, match=unknown):
        optimize("nowhere.onnx", pipelin="basic")
    with pytest.raises(UsageError, match=r"^pipeline other: choose from"):
        tune("nowhere.onnx", pipeline="other")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"compare\(\) got an unexpected keyword argument 'quantized'$"):
        compare("nowhere.onnx", quantized=True)


@cases(
    ("call", "reason"),
    {
        "twice": (
            partial(convert_opset, "m.onnx", 18, opset=3),
            r"convert_opset\(\) got multiple values for .*'opset'",
        ),
        "twice, of a class": (partial(optimize, "m.onnx", "basic", pipeline="x"), r"optimize\(\): multiple values for"),
        "none": (optimize, r"optimize\(\): missing a required argument: 'model'"),
        "one of two": (partial(diff, "m.onnx"), r"diff\(\): missing a required argument: 'other'"),
        "too many": (partial(diff, "m.onnx", "n.onnx", 3), r"diff\(\): too many positional arguments"),
        "unknown": (partial(info, "m.onnx", jsn=3), r"info\(\) got an unexpected keyword argument 'jsn'"),
    },
)
def test_wrong_arguments_name_the_function(call: Any, reason: str) -> None:
    with pytest.raises(TypeError, match=f"^{reason}"):
        call()
