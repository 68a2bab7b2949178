"""Custom operators: libraries for onnxruntime, kernels in Python, and local functions of onnxscript."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from ast import literal_eval
from collections.abc import Callable, Mapping
from contextlib import chdir
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from commands import invoke
from passwright.app.measure.tuned_settings import Configuration
from passwright.app.models.conditions import options_digest
from passwright.app.optimize.run_options import RunOptions
from passwright.app.tune.session_script import session_script
from passwright.core import EXACT, RewriteBuilder, Value, from_onnx, rule
from passwright.core.errors import (
    EvaluationError,
    ModelLoadError,
    PluginError,
    TimeLimitError,
    UnverifiableError,
    UsageError,
)
from passwright.core.ort import custom_operator_files, python_kernels
from passwright.core.ort.backends import LoadedModel, OnnxReference
from passwright.core.ort.custom_operator_files import read_custom_operators
from passwright.core.ort.evaluation_worker import EvaluationLimits
from passwright.core.ort.python_kernels import Kernel, kernel
from passwright.core.ort.sessions import SessionConfig
from passwright.core.processes.custom_operators import CustomOperators, KernelPlace, with_custom_operators
from passwright.core.processes.watchdog import time_limit
from passwright.core.support.python_files import import_file
from passwright.testing import CheckInconclusive, RuleIsWrong, becomes, check_rule, stays
from rewriting import load

import passwright

pytestmark = pytest.mark.usefixtures("_few_combined_inputs")
SOURCE = Path(__file__).parent / "custom_ops.c"
X = np.float32([[1, -2, 3], [4, 5, -6]])
MODEL = """g (float[N,3] x) => (float[N,3] y) {
    a = Relu(x) i = Identity(a) b = com.acme.Scale<factor=2.0>(i) y = Neg(b) }"""
KERNELS = """
import numpy as np
from onnx.reference.op_run import OpRun
from passwright.core import kernel

@kernel("com.acme.Scale")
def scale(x, factor=1.0):
    return x * x.dtype.type(factor)

class Parts(OpRun):
    op_domain = "com.acme"
    def _run(self, x, at=1):
        return x[:at], x[at:]

@kernel("com.acme.Gelu")  # a name that ONNX has in another domain
def gelu(x):
    return x

@kernel("com.acme.Upper")
def upper(x):
    return np.array([s.upper() for s in x.reshape(-1)], object).reshape(x.shape)

@kernel("com.acme.Pieces")
def pieces(x):
    return [x[:1], x[1:]]

@kernel("com.acme.Raises")
def raises(x):
    raise ValueError("no such thing")

@kernel("com.acme.Exits")
def exits(x):
    raise SystemExit(3)

@kernel("com.acme.Double")
def double(x):
    return x.astype(np.float64)

@kernel("com.acme.Changes")
def changes(x):
    x += 1
    return x

@kernel("com.acme.Text")
def text(x):
    return "a"

@kernel("com.acme.Dates")
def dates(x):
    return np.array(["2026-01-01"], "datetime64[D]")

@kernel("com.acme.Count")
def count(x, CALLS=[]):
    CALLS.append(0)
    return x * np.float32(len(CALLS))
"""
RULES = """
from passwright.core import EXACT, rule

@rule(lambda g, x, f: g.domain("com.acme").Scale(g.Neg(x), factor=f), contract=EXACT)
def right(g, x, f):
    return g.Neg(g.domain("com.acme").Scale(x, factor=f))

@rule(lambda g, x, f: g.domain("com.acme").Scale(g.Abs(x), factor=f), contract=EXACT)
def wrong(g, x, f):
    return g.Abs(g.domain("com.acme").Scale(x, factor=f))

HEADER = '<ir_version: 8, opset_import: ["": 17, "com.acme": 1]>'
MODEL = HEADER + "g (float[N,3] x) => (float[N,3] y) { a = %s(x) y = com.acme.Scale<factor=-2.0>(a) }"
EXAMPLES = {"right": [MODEL % "Neg"], "wrong": [MODEL % "Abs"]}
"""


@kernel("com.acme.Scale")
def twice(x: Any, factor: float = 1.0) -> Any:
    """A kernel in a module that a process can import."""
    return x * np.float32(factor)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("küstom ops")
    (made / "kernels.py").write_text(KERNELS, encoding="utf-8")
    onnx.save(load(MODEL), made / "m.onnx")
    return made


@pytest.fixture(scope="module")
def compiled(folder: Path) -> Callable[[str], Path]:
    """A library of tests/custom_ops.c, made with a macro."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no compiler of C")

    def make(macro: str = "WORKS") -> Path:
        library = folder / f"lib{macro.lower()} ü.so"
        if not library.exists():
            command = [compiler, f"-D{macro}", "-shared", "-fPIC", "-w", str(SOURCE), "-o", str(library)]
            subprocess.run(command, check=True)
        return library

    return make


def run(folder: Path, text: str, outputs: list[str], feeds: Mapping[str, Any], opset: int = 18) -> list[Any]:
    with with_custom_operators(read_custom_operators((), [folder / "kernels.py"])):
        return LoadedModel(load(text, opset).SerializeToString()).run(outputs, feeds)


@pytest.mark.parametrize(
    ("text", "inputs", "expected"),
    [
        pytest.param(MODEL, {"x": X}, [-2 * np.maximum(X, 0)], id="between"),
        pytest.param(MODEL, {"x": X[:0]}, [X[:0]], id="empty"),
        pytest.param(
            "g (float[N,3] x) => (float[N,3] y) { y = com.acme.Scale<factor=2.0>(x) }", {"x": X}, [2 * X], id="alone"
        ),
        pytest.param(
            "g (float[N,3] x) => (float[N,3] y) { a = com.acme.Scale<factor=2.0>(x) b = com.acme.Scale(a) "
            "c = Exp(x) d = Neg(b) e = Mul(c, d) f = com.acme.Scale<factor=0.5>(e) y = Add(f, c) }",
            {"x": X}, [np.exp(X) * -X + np.exp(X)], id="in-a-row",
        ),
        pytest.param(
            "g (float[N,3] x) => (float[K,3] y, float[M,3] z) { a, b = com.acme.Parts<at=1>(x) y = Neg(a) z = Neg(b) }",
            {"x": X}, [-X[:1], -X[1:]], id="class-with-two-outputs",
        ),
        pytest.param("g (float[N,3] x) => (float[N,3] y) { y = com.acme.Gelu(x) }", {"x": X}, [X], id="name-in-onnx"),
        pytest.param(
            "g (float[N,3] x) => (float[N,3] y) <int64[1] one = {1}, float[1] w = {3}> "
            "{ s = com.acme.Scale(x) c = Constant<value_float=2.0>() t = Mul(s, w) u = Mul(t, c) y = Add(u, c) }",
            {"x": X}, [6 * X + 2], id="weights-and-constants",
        ),
        pytest.param(
            "g (string[N] s) => (string[N] t) { a = com.acme.Upper(s) t = Identity(a) }",
            {"s": np.array(["a", "ü"], object)}, [np.array(["A", "Ü"], object)], id="strings",
        ),
        pytest.param(
            "g (float16[N,3] x) => (float16[N,3] y) { a = com.acme.Scale<factor=2.0>(x) y = Neg(a) }",
            {"x": X.astype(np.float16)}, [(-2 * X).astype(np.float16)], id="halves",
        ),
        pytest.param(
            "g (float[N,3] x) => (float[N,3] y) { h = Cast<to=16>(x) a = com.acme.Scale<factor=2.0>(h) n = Neg(a) "
            "y = Cast<to=1>(n) }",
            {"x": X}, [-2 * X], id="bfloat16-in-onnx",
        ),
        pytest.param(
            "g (float[N,3] x) => (float[N,3] y) { q = com.acme.Pieces(x) y = ConcatFromSequence<axis=0>(q) }",
            {"x": X}, [X], id="sequence",
        ),
        pytest.param(
            """g (float[N,3] x, bool c) => (float[N,3] y) { w = Neg(x) y = If(c) <
                then_branch = t () => (float[N,3] p) { p = com.acme.Scale<factor=2.0>(w) },
                else_branch = e () => (float[N,3] q) { q = Identity(w) }> }""",
            {"x": X, "c": np.array(True)}, [-2 * X], id="in-a-subgraph",
        ),
        pytest.param(
            """g (float[N,3] x) => (float[N,3] y) <bool c = {0}> { y = If(c) <
                then_branch = t () => (float[N,3] p) { p = com.acme.Scale<factor=2.0>(x) },
                else_branch = e () => (float[N,3] x) { }> }""",
            {"x": X}, [X], id="in-a-branch-that-is-not-taken",
        ),
        pytest.param(
            """g (float[N,3] x) => (float[N,3] y, float[M,N,3] z) <int64 n = {3}, float[1] one = {1}> {
                half = Constant<value_float = 0.5>()
                y, z = Loop(n, , x) <body = b (int64 i, bool c, float[N,3] s) => (bool d, float[N,3] t, float[N,3] u) {
                    d = Identity(c) k = Cast<to=1>(i) a = Add(s, one) f = Greater(k, half) t = If(f) <
                        then_branch = v () => (float[N,3] p) { p = com.acme.Scale<factor=2.0>(a) },
                        else_branch = w () => (float[N,3] q) { q = Mul(a, half) }>
                    u = Neg(t) }> }""",
            {"x": X}, [2 * X + 8, -np.stack([(X + 1) / 2, X + 3, 2 * X + 8])], id="in-a-loop",
        ),
        pytest.param(
            """g (float[N] x, float s) => (float y, float[N] z) { y, z = Scan<num_scan_inputs=1,
                body = b (float t, float e) => (float u, float v) { a = com.acme.Scale<factor=2.0>(e) u = Add(t, a)
                    v = Identity(u) }>(s, x) }""",
            {"x": X[0], "s": np.float32(1)}, [np.float32(5), np.float32([3, -1, 5])], id="in-a-scan",
        ),
    ],
)  # fmt: skip
def test_kernels_in_python(folder: Path, text: str, inputs: dict[str, Any], expected: list[Any]) -> None:
    if "bfloat16" in text or "to=16" in text:
        text = text.replace("n = Neg(a)", "f = Cast<to=1>(a) n = Neg(f)")
    found = run(folder, text, [o.name for o in load(text, 18).graph.output], inputs)
    for got, want in zip(found, expected, strict=True):
        assert got.dtype == want.dtype
        if want.dtype == object:
            assert got.tolist() == want.tolist()
        else:
            np.testing.assert_allclose(got, want, rtol=1e-6)


@pytest.mark.parametrize(
    ("op", "message"),
    [
        ("Raises", "the kernel com.acme.Raises of kernels.py failed: ValueError: no such thing (kernels.py:"),
        ("Exits", "the kernel com.acme.Exits of kernels.py failed: SystemExit: 3"),
        ("Double", "com.acme.Double gave double for y, declared as float"),
        ("Changes", "the kernel com.acme.Changes of kernels.py failed: ValueError: output array is read-only"),
        ("Text", "the kernel com.acme.Text of kernels.py returned an object of type str instead of an array"),
        ("Dates", "a kernel returned an array of datetime64[D], which ONNX does not support"),
        ("Scale<base=2>", "com.acme.Scale of kernels.py failed: TypeError: scale() got an unexpected keyword argument"),
    ],
)
def test_a_kernel_that_fails_is_named(folder: Path, op: str, message: str) -> None:
    with pytest.raises(EvaluationError) as failed:
        run(folder, f"g (float[N,3] x) => (float[N,3] y) {{ y = com.acme.{op}(x) }}", ["y"], {"x": X})
    assert message in str(failed.value)


TYPED = """g (float[N,3] x) => (float[N,3] y) {
    a = com.acme.Scale<factor=2.0>(x) b = com.acme.Scale<factor=2.0>(a) y = Neg(b) }"""


@pytest.mark.parametrize("form", ["like", "function", "library", "without"])
def test_types_of_outputs(folder: Path, compiled: Callable[[str], Path], form: str) -> None:
    """Of a kernel as it declares them, of others as onnxruntime infers them; the library infers no shapes."""
    (folder / "typed.py").write_text(SCRIPT, encoding="utf-8")
    given: dict[str, tuple[list[Any], list[Any]]] = {
        "like": ([], [kernel("com.acme.Scale", like=0)(np.negative)]),
        "function": ([], [folder / "typed.py"]),
        "library": ([compiled("WORKS")] if form == "library" else [], []),
        "without": ([], [folder / "kernels.py"]),
    }
    with with_custom_operators(read_custom_operators(*given[form])):
        value = from_onnx(load(TYPED, 18)).graph.outputs[0].producer.inputs[0]
        _ = value.known_shape
        expected = {"without": (0, None), "library": (1, None)}.get(form, (1, ("N", 3)))
        assert (value.known_dtype, value.known_shape) == expected


def test_a_kernel_keeps_what_it_declares() -> None:
    declared = kernel("com.acme.Scale", like=0)(np.transpose)
    with with_custom_operators(read_custom_operators((), [declared])):
        session = LoadedModel(
            load("g (float[2,3] x) => (float[M,N] y) { y = com.acme.Scale(x) }", 18).SerializeToString()
        )
        with pytest.raises(EvaluationError, match=r"gave float32\[3, 2\], and declares like=0, so float32\[2, 3\]"):
            session.run(["y"], {"x": X})


def test_a_kernel_that_keeps_it_at_some_sizes_alone_is_an_error(folder: Path) -> None:
    (folder / "first.py").write_text(
        "from passwright.core import kernel\n@kernel('com.acme.Scale', like=0)\ndef scale(x):\n    return x[:1]\n",
        encoding="utf-8",
    )
    onnx.save(load("g (float[N,3] x) => (float[N,3] y) { a = Identity(x) y = com.acme.Scale(a) }"), folder / "s.onnx")
    text = passes(folder, "run", "s.onnx", "--kernels", "first.py", code=4)
    assert re.search(
        r"^error: the kernel .* gave float32\[1, 3\], and declares like=0, so float32\[\d, 3\]$", text, re.MULTILINE
    )
    (folder / "rule.py").write_text(
        "from passwright.core import rule\n"
        + (folder / "first.py").read_text(encoding="utf-8")
        + "@rule(lambda g, x: g.Neg(g.Neg(x)))\ndef scaled(g, x):\n    return g.domain('com.acme').Scale(x)\n",
        encoding="utf-8",
    )
    assert "scaled changes the results of the model: the rewritten model fails" in passes(
        folder, "check", "rule.py", "--budget", "20", code=3
    )


def test_bodies_with_kernels_keep_the_bits_of_onnxruntime(folder: Path) -> None:
    text = """g (float[N] x, bool c) => (float[N] y) { y = If(c) <
        then_branch = t () => (float[N] p) { e = Exp(x) p = %s(e) },
        else_branch = e () => (float[N] q) { q = Identity(x) }> }"""
    inputs = {"x": np.random.default_rng(0).normal(0, 20, 1000).astype(np.float32), "c": np.array(True)}
    own, custom = (run(folder, text % op, ["y"], inputs) for op in ("Neg", "com.acme.Scale<factor=-1.0>"))
    np.testing.assert_array_equal(*own, *custom)


def test_a_declared_input_that_a_node_lacks_is_named() -> None:
    with with_custom_operators(read_custom_operators((), [kernel("com.acme.Scale", like=3)(np.negative)])):
        model = load("g (float[2,3] x) => (float[2,3] y) { y = com.acme.Scale(x) }", 18).SerializeToString()
        with pytest.raises(EvaluationError, match="declares like=3, an input that the node does not have"):
            LoadedModel(model).run(["y"], {"x": X})


def test_an_operator_that_is_not_repeatable_is_named(folder: Path) -> None:
    onnx.save(load("g (float[N,3] x) => (float[N,3] y) { y = com.acme.Count(x) }"), folder / "count.onnx")
    text = passes(folder, "run", "count.onnx", "--kernels", "kernels.py", code=4)
    assert "gives other outputs when it is run again on the same inputs (y: " in text
    assert text.endswith("com.acme.Count has to compute the same each time\n")


def test_too_few_outputs(folder: Path) -> None:
    text = "g (float[N,3] x) => (float[N,3] y, float[N,3] z) { y, z = com.acme.Scale(x) }"
    with pytest.raises(EvaluationError, match=r"of kernels\.py returned 1 of the 2 outputs of the node"):
        run(folder, text, ["y", "z"], {"x": X})


def test_operators_without_kernel_are_named(folder: Path) -> None:
    text = """g (float[N,3] x, bool c) => (float[N,3] y) { w = com.acme.Scale(x) v = org.other.Wave(w) y = If(c) <
        then_branch = t () => (float[N,3] p) { p = com.acme.Unheard(v) },
        else_branch = e () => (float[N,3] q) { q = Identity(w) }> }"""
    model = load(text, 18).SerializeToString()
    missing = r"there is no kernel for com\.acme\.Scale, com\.acme\.Unheard, org\.other\.Wave: give a library with"
    for backend in (LoadedModel, OnnxReference):
        with pytest.raises(ModelLoadError, match=missing):
            backend(model)
    with pytest.raises(UnverifiableError) as refused:
        passwright.verify(folder / "m.onnx", folder / "m.onnx")
    assert str(refused.value).count("there is no kernel") == 1


SCRIPT = """
from onnxscript import script, opset18 as op
from onnxscript.values import Opset
acme = Opset("com.acme", 1)

@script(acme)
def Twice(x):
    return op.Add(x, x)

@script(acme)
def Scale(x, factor: float = 1.0):
    return op.Mul(Twice(x), op.CastLike(op.Constant(value_float=factor), x))
"""


def test_functions_of_onnxscript(folder: Path) -> None:
    """Calls in subgraphs too, beside kernels in Python; a local function of the model has precedence."""
    file = folder / "functions.py"
    file.write_text(SCRIPT, encoding="utf-8")
    text = """g (float[N,3] x, bool c) => (float[N,3] y) { w = com.acme.Scale<factor=3.0>(x) y = If(c) <
        then_branch = t () => (float[N,3] p) { p = com.acme.Twice(w) },
        else_branch = e () => (float[N,3] q) { q = com.acme.Gelu(w) }> }"""
    model, feeds = load(text, 18), {"x": X, "c": np.array(True)}
    with with_custom_operators(read_custom_operators((), [file])):
        small = load(MODEL, 18).SerializeToString()
        np.testing.assert_array_equal(LoadedModel(small).run(["y"], {"x": X})[0], -4 * np.maximum(X, 0))
        with pytest.raises(ModelLoadError, match=r"no kernel for com\.acme\.Gelu:"):
            LoadedModel(model.SerializeToString())
    with with_custom_operators(read_custom_operators((), [file, kernel("com.acme.Gelu")(np.negative)])):
        np.testing.assert_array_equal(LoadedModel(model.SerializeToString()).run(["y"], feeds)[0], 12 * X)


class _NoKernel:
    """An object that is no kernel."""

    def __call__(self) -> None:
        """Nothing."""


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (_NoKernel(), "an object of type _NoKernel is not a kernel: it must be a function decorated with @kernel"),
        (
            Kernel(lambda x: x, "com.acme.Scale"),
            "the kernel com.acme.Scale must be at the top level of a module or file",
        ),
        (Kernel(np.negative, "com.microsoft.Gelu"), ""),
        (Kernel(np.negative, "ai.onnx.ml.Scaler"), "a kernel for ai.onnx.ml.Scaler: ONNX defines the operators there"),
    ],
)
def test_unusable_kernels(given: Any, message: str) -> None:
    if not message:
        assert read_custom_operators((), [given]) is not None
        return
    with pytest.raises(UsageError) as refused:
        read_custom_operators((), [given])
    assert message in str(refused.value)


@pytest.mark.parametrize("op", ["Scale", "", "com.acme."])
def test_a_kernel_has_a_domain(op: str) -> None:
    with pytest.raises(UsageError, match="not of the form com"):
        kernel(op)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: kernel(np.negative), "^kernel takes the name of an operator, such as @kernel"),  # type: ignore[arg-type]
        (lambda: kernel("com.acme.Scale", like="x"), "^kernel takes the index of an input as like"),  # type: ignore[arg-type]
    ],
)
def test_arguments_of_a_kernel(make: Callable[[], object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        make()


def test_an_operator_has_one_kernel_in_a_file(tmp_path: Path) -> None:
    one = "@kernel('com.acme.Scale')\ndef {}(x):\n    return x\n"
    (tmp_path / "two.py").write_text("from passwright.core import kernel\n" + one.format("a") + one.format("b"))
    with pytest.raises(UsageError, match=r"com.acme.Scale has two kernels in .*two.py: a and b"):
        read_custom_operators((), [tmp_path / "two.py"])


def test_kernels_of_a_module(folder: Path) -> None:
    """In Python, a kernel is found by the name of its module in the process that runs the model."""
    result = passwright.optimize(folder / "m.onnx", kernels=[twice])
    assert len(result.model.graph.node) == 3
    assert result.report.verification is not None
    assert result.report.options["kernels"] == ["Kernel"]


def test_a_kernel_in_a_package_that_the_worker_lacks_is_read_from_its_file(folder: Path) -> None:
    (folder / "own.py").write_text("def scale(x):\n    return x\n", encoding="utf-8")
    place = KernelPlace("com.acme", "Scale", "nowhere.own", str(folder / "own.py"), "scale", None)
    assert python_kernels._thing_at(place)(3) == 3


def test_files_count_for_results(folder: Path) -> None:
    """A result of `--resume` is made again if a file with kernels changes."""
    file = folder / "changing.py"
    digests = set[str]()
    for text in (KERNELS, KERNELS + "\n"):
        file.write_text(text, encoding="utf-8")
        digests.add(options_digest("run", RunOptions(kernels=[file])))
    assert len(digests) == 2


def passes(folder: Path, *arguments: str, code: int = 0) -> str:
    with chdir(folder):
        return invoke(*arguments, code=code).output


def test_run_with_a_library(folder: Path, compiled: Callable[[str], Path]) -> None:
    library = compiled("WORKS").name
    text = passes(folder, "run", "m.onnx", "-o", "small.onnx", "--custom-ops", library, "--json", "r.json")
    assert "4 -> 3 nodes" in text
    assert "verified: bit-identical" in text
    report = json.loads((folder / "r.json").read_text(encoding="utf-8"))
    assert report["options"]["custom_ops"] == [library]
    passes(folder, "verify", "m.onnx", "small.onnx", "--custom-ops", library)
    (folder / "passwright.toml").write_text(f'custom-ops = ["{library}"]\n', encoding="utf-8")
    try:
        passes(folder, "run", "m.onnx", code=2)  # settings that run code are to be trusted
        passes(folder, "run", "m.onnx", "--trust-settings")
    finally:
        (folder / "passwright.toml").unlink()


def test_the_script_of_a_session_has_the_libraries() -> None:
    with with_custom_operators(CustomOperators(("/opt/it's ü.so",))):
        text = session_script(Configuration(), "m.onnx", "")
    assert literal_eval(text.partition("register_custom_ops_library(")[2].partition(")\n")[0]) == "/opt/it's ü.so"


@pytest.mark.parametrize(
    ("macro", "message"),
    [
        ("NO_ENTRY", "its operators cannot be loaded: Failed to get symbol RegisterCustomOps"),
        ("CRASH_AT_LOAD", "its operators cannot be loaded: onnxruntime with libcrash_at_load ü.so crashed (SIG"),
        ("CRASH", "onnxruntime with libcrash ü.so crashed (SIG"),
    ],
)
def test_a_library_that_fails_is_named(folder: Path, compiled: Callable[[str], Path], macro: str, message: str) -> None:
    code = 4 if macro == "CRASH" else 1
    text = passes(folder, "run", "m.onnx", "--custom-ops", compiled(macro).name, code=code)
    assert message in text
    assert len(text.splitlines()) == 1


def test_a_library_that_does_not_end_is_named(compiled: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    library = compiled("HANG_AT_LOAD")
    with (
        time_limit(1.0, lambda: "the run"),
        pytest.raises(TimeLimitError, match=r"libhang_at_load .*: loading its operators took too long"),
    ):
        read_custom_operators([library], [])
    monkeypatch.setattr(custom_operator_files, "LOADING", EvaluationLimits(seconds=0.2))
    with pytest.raises(PluginError, match=r"onnxruntime with libhang_at_load ü\.so did not end within 0\.2 s"):
        read_custom_operators([library], [])


@pytest.mark.parametrize(
    ("content", "message"), [(None, "no such library"), (b"\0" * 100, "invalid ELF header"), (b"", "file too short")]
)
def test_files_that_are_no_libraries(tmp_path: Path, content: bytes | None, message: str) -> None:
    file = tmp_path / "no.so"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(PluginError, match=message):
        read_custom_operators([file], [])


def test_sessions_with_kernels_are_not_saved(folder: Path) -> None:
    config = SessionConfig(optimized_model_path=str(folder / "optimized.onnx"))
    with (
        with_custom_operators(read_custom_operators((), [folder / "kernels.py"])),
        pytest.raises(ModelLoadError, match="cannot optimize a model with kernels in Python"),
    ):
        LoadedModel(folder / "m.onnx", config)


def test_check_of_rules_with_custom_operators(folder: Path) -> None:
    (folder / "rules.py").write_text(RULES, encoding="utf-8")
    assert "inconclusive" in passes(folder, "check", "rules.py", "right", "--budget", "5", code=4)
    passes(folder, "check", "rules.py", "right", "--kernels", "kernels.py", "--budget", "5")
    text = passes(folder, "check", "rules.py", "wrong", "--kernels", "kernels.py", "--budget", "20", code=3)
    assert "com.acme.Scale" in text


def test_plugins_have_kernels(folder: Path) -> None:
    """A file of rules and kernels, or a Plugin of them, is enough for all commands."""
    (folder / "whole.py").write_text(RULES + KERNELS, encoding="utf-8")
    (folder / "plugin.py").write_text(
        RULES + KERNELS + "from passwright.core import Plugin\nPLUGIN = Plugin(passes=(right,), kernels=(scale,))",
        encoding="utf-8",
    )
    passes(folder, "check", "whole.py", "right", "--budget", "5")
    passes(folder, "check", "right", "--plugin", "plugin.py", "--budget", "5")
    plugin = ("--plugin", "plugin.py")
    passes(folder, "run", "m.onnx", "-o", "small.onnx", *plugin)
    passes(folder, "verify", "m.onnx", "small.onnx", *plugin)
    passes(folder, "bench", "m.onnx", "--min-time", "0.01", *plugin)
    assert "no kernel for com.acme.Scale" in passes(folder, "verify", "m.onnx", "small.onnx", code=4)


def test_a_plugin_is_imported_once(folder: Path) -> None:
    count = "print('imported', end=' ')\n"
    (folder / "once.py").write_text(count + RULES + KERNELS, encoding="utf-8")
    output = passes(folder, "run", "m.onnx", "--plugin", "once.py", "--kernels", "once.py", "--no-verify", "--dry-run")
    assert output.count("imported") == 1


def test_check_rule_has_the_kernels_of_its_module() -> None:
    domain, header = "com.acme", '<ir_version: 8, opset_import: ["": 17, "com.acme": 1]>'
    text = "g (float[N,3] x) => (float[N,3] y) { a = Neg(x) y = com.acme.Scale<factor=-2.0>(a) }"

    @rule(lambda g, x, f: g.domain(domain).Scale(g.Neg(x), factor=f), contract=EXACT)
    def negate_last(g: RewriteBuilder, x: Value, f: float) -> Value:
        """Scale(-x, f) => -Scale(x, f)"""
        return g.Neg(g.domain(domain).Scale(x, factor=f))

    assert check_rule(negate_last, examples=[header + text], budget=40).ran > 5  # variants of the example run, too


def test_becomes_and_stays_have_the_kernels_of_modules_and_take_others(folder: Path) -> None:
    @rule(lambda g, x, f: g.domain("com.acme").Scale(g.Neg(x), factor=f), contract=EXACT)
    def negate_last(g: RewriteBuilder, x: Value, f: float) -> Value:
        return g.Neg(g.domain("com.acme").Scale(x, factor=f))

    head = "g (float[N,3] x) => (float[N,3] y)"
    last = f"{head} {{ a = com.acme.Scale<factor=-2.0>(x) y = Neg(a) }}"
    becomes(f"{head} {{ a = Neg(x) y = com.acme.Scale<factor=-2.0>(a) }}", last, negate_last)
    stays(last, negate_last)
    other = f"{head} {{ y = com.acme.Gelu(x) }}"
    with pytest.raises(ModelLoadError, match=r"there is no kernel for com\.acme\.Gelu"):
        stays(other, negate_last)
    stays(other, negate_last, kernels=[folder / "kernels.py"])


def test_reports_of_wrong_rules_have_outputs_of_custom_operators(folder: Path) -> None:
    (folder / "whole.py").write_text(RULES + KERNELS, encoding="utf-8")
    text = passes(folder, "check", "whole.py", "wrong", "--budget", "20", code=3)
    assert "before:\n    y = float32[" in text
    assert "after:\n    y = float32[" in text


def test_check_rule_takes_kernels(folder: Path) -> None:
    (folder / "rules.py").write_text(RULES, encoding="utf-8")
    module = import_file(folder / "rules.py")
    with pytest.raises(CheckInconclusive, match="no kernel for"):
        check_rule(module.right, budget=5)
    check_rule(module.right, budget=5, kernels=[folder / "kernels.py"])
    with pytest.raises(RuleIsWrong):
        check_rule(module.wrong, budget=20, kernels=[folder / "kernels.py"])


def test_a_wrong_rule_on_a_custom_operator_is_left_out(folder: Path) -> None:
    """The command that shows it has the kernels."""
    (folder / "wrong.py").write_text(
        RULES.partition("HEADER")[0].replace("g.Abs(g.domain", "(g.domain").replace("g.Abs", "g.Relu"), encoding="utf-8"
    )
    text = "g (float[N,3] x) => (float[N,3] y) { a = Relu(x) b = com.acme.Scale<factor=2.0>(a) y = Neg(b) }"
    onnx.save(load(text), folder / "relu.onnx")
    arguments = ("run", "relu.onnx", "--pipeline", "wrong", "--plugin", "wrong.py", "--kernels", "kernels.py")
    output = passes(folder, *arguments, "--repro", "repros", "-o", "kept.onnx")
    assert "skipped wrong #0 at b" in output
    readme = next((folder / "repros").rglob("README.md")).read_text(encoding="utf-8")
    assert f"--kernels '{(folder / 'kernels.py').resolve()}'" in readme
