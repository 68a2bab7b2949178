"""Example plugins: their rewrites, the models they leave unchanged, and the commands of their READMEs."""

from __future__ import annotations

import importlib
import shutil
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import onnx
import pytest
from executable_documents import run_document
from pass_loading import passes_from_file
from passwright.core import ChangeLog, Pass, Rule, RulePass, from_onnx, rule_pass, to_onnx
from passwright.core.plugins.pass_registry import ENTRY_POINT_GROUP
from passwright.core.rewriting.change_log import Exclusions
from rewriting import apply_passes, becomes, initializers, load, op_types, require_equivalent, run, stays

from passwright import optimize

EXAMPLES = Path(__file__).parent.parent / "examples"
RNG = np.random.default_rng(0)


@pytest.mark.parametrize("name", ["rule_file", "split_matmul", "sink_into_branches", "phone_target", "package"])
def test_readme_shows_actual_output(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "example"
    shutil.copytree(EXAMPLES / name, folder, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setenv("PYTHONPATH", str(installed(tmp_path / "site")) if name == "package" else "")
    in_process = name != "package"  # the package is found on the path of a new process
    assert run_document(folder / "README.md", folder, in_process=in_process) >= 2


def installed(site: Path) -> Path:
    """A folder for the path, with the package and its pip metadata."""
    project = tomllib.loads((EXAMPLES / "package" / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    info = site / f"passwright_edge-{project['version']}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    entries = project["entry-points"][ENTRY_POINT_GROUP]
    (info / "entry_points.txt").write_text(
        "\n".join([f"[{ENTRY_POINT_GROUP}]", *(f"{k} = {v}" for k, v in entries.items()), ""])
    )
    (site / "passwright_edge").symlink_to(EXAMPLES / "package" / "src" / "passwright_edge")
    return site


def rule_of_file(name: str) -> Rule:
    (found,) = passes_from_file(EXAMPLES / "rule_file" / "decide_on_logits.py").values()
    assert isinstance(found.item, RulePass)
    return next(r for r in found.item.rules if r.name == name)


@pytest.mark.parametrize("compare", ["Greater", "GreaterOrEqual", "Less", "LessOrEqual"])
@pytest.mark.parametrize("kind", ["float", "double"])
def test_threshold_moves_before_sigmoid(compare: str, kind: str) -> None:
    out = becomes(
        f"g ({kind}[N,3] x) => (bool[N,3] y) <{kind} c = {{0.3}}> {{ s = Sigmoid(x) y = {compare}(s, c) }}",
        f"g ({kind}[N,3] x) => (bool[N,3] y) <{kind} c = {{0}}> {{ y = {compare}(x, c) }}",
        rule_of_file("compare_logits"),
    )
    (logit,) = initializers(out).values()
    assert logit == pytest.approx(np.log(3 / 7))


def test_threshold_per_class() -> None:
    becomes(
        "g (float[N,3] x) => (bool[N,3] y) <float[3] c = {0.1,0.3,0.8}> { s = Sigmoid(x) y = Greater(s, c) }",
        "g (float[N,3] x) => (bool[N,3] y) <float[3] c = {0,0,0}> { y = Greater(x, c) }",
        rule_of_file("compare_logits"),
    )


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(
            "g (float[N] x) => (bool[N] y) <float c = {1}> { s = Sigmoid(x) y = Greater(s, c) }", id="threshold 1"
        ),
        pytest.param(
            "g (float[N] x) => (bool[N] y) <float c = {0}> { s = Sigmoid(x) y = Less(s, c) }", id="threshold 0"
        ),
        pytest.param(
            "g (float[2] x) => (bool[2] y) <float[2] c = {0.5,2}> { s = Sigmoid(x) y = Less(s, c) }",
            id="threshold above 1",
        ),
        pytest.param("g (float[N] x, float c) => (bool[N] y) { s = Sigmoid(x) y = Less(s, c) }", id="not constant"),
        pytest.param(
            "g (float[N] x, float c = {0.3}) => (bool[N] y) { s = Sigmoid(x) y = Less(s, c) }", id="overridable"
        ),
        pytest.param(
            "g (float[N] x) => (bool[N] y, float[N] s) <float c = {0.3}> { s = Sigmoid(x) y = Less(s, c) }",
            id="Sigmoid is an output",
        ),
        pytest.param("g (float[N] x) => (bool[N] y) <float c = {0.3}> { s = Tanh(x) y = Less(s, c) }", id="Tanh"),
    ],
)
def test_thresholds_are_kept(text: str) -> None:
    stays(text, rule_of_file("compare_logits"))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(
            "s = Softmax(x) y = ArgMax <axis = -1> (s)",
            "y = ArgMax <axis = -1> (x)",
            id="default and explicit last axis",
        ),
        pytest.param("s = Softmax <axis = 1> (x) y = ArgMax <axis = -1> (s)", "y = ArgMax <axis = -1> (x)", id="both"),
        pytest.param("s = LogSoftmax(x) y = ArgMax <axis = 1> (s)", "y = ArgMax <axis = 1> (x)", id="LogSoftmax"),
        pytest.param(
            "s = Softmax(x) y = ArgMax <axis = 1, select_last_index = 1> (s)",
            "y = ArgMax <axis = 1, select_last_index = 1> (x)",
            id="other attributes",
        ),
    ],
)
def test_best_class_is_taken_from_logits(before: str, after: str) -> None:
    interface = "g (float[N,10] x) => (int64[N,1] y)"
    rule = rule_of_file("choose_by_logits")
    out = becomes(f"{interface} {{ {before} }}", f"{interface} {{ {after} }}", rule, runs=False)
    logits = RNG.standard_normal((500, 10), np.float32)
    assert is_equal_on(load(f"{interface} {{ {before} }}"), out, logits)


def is_equal_on(before: onnx.ModelProto, after: onnx.ModelProto, x: np.ndarray) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(run(before, {"x": x}), run(after, {"x": x}), strict=True))


@pytest.mark.parametrize(
    ("text", "opset"),
    [
        pytest.param(
            "g (float[N,10] x) => (int64[1,10] y) { s = Softmax(x) y = ArgMax <axis = 0> (s) }", 17, id="another axis"
        ),
        pytest.param(
            "g (float[N,10] x) => (int64[N,1] y) { s = Softmax(x) y = ArgMin <axis = 1> (s) }", 17, id="ArgMin"
        ),
        pytest.param(
            "g (float[N,10] x) => (int64[N,1] y) { s = Softmax(x) y = ArgMax <axis = 1> (s) }", 12, id="opset 12"
        ),
        pytest.param(
            "g (float[N,10] x) => (int64[N,1] y, float[N,10] s) { s = Softmax(x) y = ArgMax <axis = 1> (s) }",
            17,
            id="Softmax is an output",
        ),
    ],
)
def test_choices_are_kept(text: str, opset: int) -> None:
    stays(text, rule_of_file("choose_by_logits"), opset=opset)


def test_rule_valid_for_given_inputs_only(tmp_path: Path) -> None:
    model = load("g (float[N,10] x) => (int64[N,1] y) { s = Softmax(x) y = ArgMax <axis = 1> (s) }")
    plugin = EXAMPLES / "rule_file" / "decide_on_logits.py"
    result = optimize(model, plugins=[plugin])
    assert [(q.pass_name, q.by, q.place) for q in result.report.rejected] == [
        ("decide-on-logits", "choose_by_logits", "y")
    ]
    assert op_types(result.model) == ["Softmax", "ArgMax"]
    np.savez(tmp_path / "inputs.npz", x=RNG.standard_normal((100, 10), np.float32))
    result = optimize(model, plugins=[plugin], inputs=tmp_path / "inputs.npz")
    assert list(result.report.rejected) == []
    assert op_types(result.model) == ["ArgMax"]


def split_matmul(columns: int) -> Pass:
    passes_from_file(EXAMPLES / "split_matmul" / "split_matmul.py")
    return sys.modules["passwright_local_split_matmul"].SplitMatMul(columns=columns)


W, TRANSPOSED, ROW = (RNG.standard_normal(shape, np.float32) for shape in ((4, 10), (10, 4), (10,)))


@pytest.mark.parametrize(
    ("before", "after", "weights"),
    [
        pytest.param(
            "g (float[N,T,4] x) => (float[N,T,10] y) { y = MatMul(x, w) }",
            "g (float[N,T,4] x) => (float[N,T,10] y) <float a = {0}, float b = {0}, float c = {0}>"
            "{ p = MatMul(x, a) q = MatMul(x, b) r = MatMul(x, c) y = Concat <axis = 2> (p, q, r) }",
            {"w": W},
            id="the last block is narrower",
        ),
        pytest.param(
            "g (float[4] x) => (float[8] y) { y = MatMul(x, w) }",
            "g (float[4] x) => (float[8] y) <float a = {0}, float b = {0}>"
            "{ p = MatMul(x, a) q = MatMul(x, b) y = Concat <axis = 0> (p, q) }",
            {"w": W[:, :8]},
            id="a vector",
        ),
        pytest.param(
            "g (float[N,4] x) => (float[N,8] y) { y = Gemm <alpha = 0.5, beta = 2.0> (x, w, c) }",
            "g (float[N,4] x) => (float[N,8] y) <float a = {0}, float b = {0}, float c = {0}, float d = {0}> {"
            "p = Gemm <alpha = 0.5, beta = 2.0> (x, a, c) q = Gemm <alpha = 0.5, beta = 2.0> (x, b, d)"
            "y = Concat <axis = 1> (p, q) }",
            {"w": W[:, :8], "c": ROW[:8]},
            id="Gemm with a row",
        ),
        pytest.param(
            "g (float[N,4] x) => (float[N,8] y) { y = Gemm <transB = 1> (x, w, c) }",
            "g (float[N,4] x) => (float[N,8] y) <float a = {0}, float b = {0}, float c = {0}>"
            "{ p = Gemm <transB = 1> (x, a, c) q = Gemm <transB = 1> (x, b, c) y = Concat <axis = 1> (p, q) }",
            {"w": TRANSPOSED[:8], "c": ROW[:1]},
            id="Gemm, transposed, with a number",
        ),
        pytest.param(
            "g (float[4,3] x, float[3,1] c) => (float[3,8] y) { y = Gemm <transA = 1> (x, w, c) }",
            "g (float[4,3] x, float[3,1] c) => (float[3,8] y) <float a = {0}, float b = {0}>"
            "{ p = Gemm <transA = 1> (x, a, c) q = Gemm <transA = 1> (x, b, c) y = Concat <axis = 1> (p, q) }",
            {"w": W[:, :8]},
            id="Gemm with a column that is an input",
        ),
        pytest.param(
            "g (float[N,4] x) => (float[N,8] y) { y = Gemm(x, w) }",
            "g (float[N,4] x) => (float[N,8] y) <float a = {0}, float b = {0}>"
            "{ p = Gemm(x, a) q = Gemm(x, b) y = Concat <axis = 1> (p, q) }",
            {"w": W[:, :8]},
            id="Gemm without C",
        ),
        pytest.param(
            "g (int32[N,4] x) => (int32[N,5] y) { y = MatMul(x, w) }",
            "g (int32[N,4] x) => (int32[N,5] y) <int32 a = {0}, int32 b = {0}>"
            "{ p = MatMul(x, a) q = MatMul(x, b) y = Concat <axis = 1> (p, q) }",
            {"w": np.arange(20, dtype=np.int32).reshape(4, 5)},
            id="integers",
        ),
        pytest.param(
            "g (float[N,4] x, float[N,4] u) => (float[N,8] y, float[N,8] z) { y = MatMul(x, w) z = MatMul(u, w) }",
            "g (float[N,4] x, float[N,4] u) => (float[N,8] y, float[N,8] z) <float a = {0}, float b = {0}> {"
            "p = MatMul(x, a) q = MatMul(x, b) y = Concat <axis = 1> (p, q)"
            "r = MatMul(u, a) s = MatMul(u, b) z = Concat <axis = 1> (r, s) }",
            {"w": W[:, :8]},
            id="weights that two products share",
        ),
        pytest.param(
            "g (float[N,4] x, bool c) => (float[N,8] y) { y = If(c) <"
            "then_branch = t () => (float[N,8] p) { p = MatMul(x, w) },"
            "else_branch = e () => (float[N,8] q) { q = Concat <axis = 1> (x, x) }> }",
            "g (float[N,4] x, bool c) => (float[N,8] y) { y = If(c) <"
            "then_branch = t () => (float[N,8] p) <float a = {0}, float b = {0}>"
            "{ r = MatMul(x, a) s = MatMul(x, b) p = Concat <axis = 1> (r, s) },"
            "else_branch = e () => (float[N,8] q) { q = Concat <axis = 1> (x, x) }> }",
            {"w": W[:, :8]},
            id="in a branch",
        ),
    ],
)
def test_products_are_split(before: str, after: str, weights: dict[str, np.ndarray]) -> None:
    p = split_matmul(4)
    out = becomes(before, after, p, weights=weights)
    again, change_log = apply_passes(out, p)
    assert not change_log.changes
    assert to_onnx(again) == out
    assert becomes(before, after, p, weights=weights) == out


@pytest.mark.parametrize(
    ("text", "weights"),
    [
        pytest.param("g (float[N,4] x) => (float[N,4] y) { y = MatMul(x, w) }", {"w": W[:, :4]}, id="maximum width"),
        pytest.param("g (float[N,4] x, float[4,9] w) => (float[N,9] y) { y = MatMul(x, w) }", {}, id="an input"),
        pytest.param(
            "g (float[N,4] x, float[4,5] w = {1,2,3,4,5, 1,2,3,4,5, 1,2,3,4,5, 1,2,3,4,5}) => (float[N,5] y)"
            "{ y = MatMul(x, w) }",
            {},
            id="overridable",
        ),
        pytest.param(
            "g (float[2,N,4] x) => (float[2,N,10] y) { y = MatMul(x, w) }",
            {"w": np.stack([W, W])},
            id="batched weights",
        ),
        pytest.param(
            "g (float[4,N] x) => (float[10,N] y) { y = MatMul(w, x) }", {"w": TRANSPOSED}, id="weights on the left"
        ),
        pytest.param(
            "g (float[N,4] x, float[10] c) => (float[N,10] y) { y = Gemm(x, w, c) }",
            {"w": W},
            id="Gemm with a row that is an input",
        ),
        pytest.param("g (float[N,4] x) => (float[N,0] y) { y = MatMul(x, w) }", {"w": W[:, :0]}, id="no columns"),
        pytest.param("g (float[N,4] x) => (float[N,10] y) { y = Add(x, w) }", {"w": ROW[:4]}, id="no product"),
    ],
)
def test_products_are_kept(text: str, weights: dict[str, np.ndarray]) -> None:
    stays(text, split_matmul(4), weights=weights, runs="Add" not in text)


def test_shared_weights_are_split_once() -> None:
    text = "g (float[N,4] x, float[N,4] u) => (float[N,8] y, float[N,8] z) { y = MatMul(x, w) z = MatMul(u, w) }"
    result, change_log = apply_passes(load(text, weights={"w": W[:, :8]}), split_matmul(4))
    assert [c.place for c in change_log.changes] == ["y", "z"]
    assert [a.shape for a in initializers(to_onnx(result)).values()] == [(4, 4), (4, 4)]


def test_changes_can_be_excluded_and_have_provenance() -> None:
    model = load(
        "g (float[N,4] x) => (float[N,8] y, float[N,8] z) { y = MatMul(x, w) [wide] z = MatMul(x, w) }",
        weights={"w": W[:, :8]},
    )
    result, change_log = from_onnx(model), ChangeLog(exclusions=Exclusions(changes={("split-matmul", "y"): 0}))
    assert split_matmul(4).run(result.graph, change_log) == 1
    out = to_onnx(result)
    assert op_types(out) == ["MatMul", "MatMul", "MatMul", "Concat"]
    assert {p.value for n in out.graph.node for p in n.metadata_props} == {"split-matmul", '["wide"]'}
    require_equivalent(model, out)


def test_pipeline_does_not_merge_split_blocks() -> None:
    model = load("g (float[N,4] x) => (float[N,10] y) { y = MatMul(x, w) }", weights={"w": W})
    plugin = EXAMPLES / "split_matmul" / "split_matmul.py"
    result = optimize(model, plugins=[plugin], enable=["split-matmul{columns=2}"])
    assert op_types(result.model) == [*["MatMul"] * 5, "Concat"]


@pytest.mark.parametrize("columns", [0, -1])
def test_columns_is_at_least_one(columns: int) -> None:
    with pytest.raises(ValueError, match="columns is at least 1"):
        split_matmul(columns)


def sink_into_branches() -> Pass:
    passes_from_file(EXAMPLES / "sink_into_branches" / "sink_into_branches.py")
    return sys.modules["passwright_local_sink_into_branches"].SinkIntoBranches()


CHOICE = "g (float[N] x, bool c) => (float[N] y)"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(
            "a = Exp(x) b = Sqrt(x) y = If(c) <then_branch = t () => (float[N] p) { p = Neg(a) }, "
            "else_branch = e () => (float[N] q) { q = Abs(b) }>",
            "y = If(c) <then_branch = t () => (float[N] p) { a = Exp(x) p = Neg(a) }, "
            "else_branch = e () => (float[N] q) { b = Sqrt(x) q = Abs(b) }>",
            id="one for each branch",
        ),
        pytest.param(
            "s = Sin(x) a = Exp(s) b = Cos(s) d = Mul(a, b) y = If(c) <then_branch = t () => (float[N] p) "
            "{ p = Add(d, a) }, else_branch = e () => (float[N] q) { q = Abs(x) }>",
            "y = If(c) <then_branch = t () => (float[N] p) { s = Sin(x) a = Exp(s) b = Cos(s) d = Mul(a, b) "
            "p = Add(d, a) }, else_branch = e () => (float[N] q) { q = Abs(x) }>",
            id="paths that diverge and join",
        ),
        pytest.param(
            "s = Sin(x) a = Exp(s) b = Cos(s) y = If(c) <then_branch = t () => (float[N] p) { p = Neg(a) }, "
            "else_branch = e () => (float[N] q) { q = Abs(b) }>",
            "s = Sin(x) y = If(c) <then_branch = t () => (float[N] p) { a = Exp(s) p = Neg(a) }, "
            "else_branch = e () => (float[N] q) { b = Cos(s) q = Abs(b) }>",
            id="shared operand is not sunk",
        ),
        pytest.param(
            "a = Exp(x) y = If(c) <then_branch = t () => (float[N] a) { }, "
            "else_branch = e () => (float[N] q) { q = Abs(x) }>",
            "y = If(c) <then_branch = t () => (float[N] a) { a = Exp(x) }, "
            "else_branch = e () => (float[N] q) { q = Abs(x) }>",
            id="an output of the branch",
        ),
        pytest.param(
            "a = Exp(x) y = If(c) <then_branch = t () => (float[N] p) { p = If(c) <"
            "then_branch = u () => (float[N] r) { r = Neg(a) }, else_branch = v () => (float[N] s) { s = Abs(x) }> }, "
            "else_branch = e () => (float[N] q) { q = Abs(x) }>",
            "y = If(c) <then_branch = t () => (float[N] p) { p = If(c) <"
            "then_branch = u () => (float[N] r) { a = Exp(x) r = Neg(a) }, "
            "else_branch = v () => (float[N] s) { s = Abs(x) }> }, else_branch = e () => (float[N] q) { q = Abs(x) }>",
            id="a branch of a branch",
        ),
    ],
)
def test_values_of_one_branch_are_sunk(before: str, after: str) -> None:
    p = sink_into_branches()
    out = becomes(f"{CHOICE} {{ {before} }}", f"{CHOICE} {{ {after} }}", p)
    again, change_log = apply_passes(out, p)
    assert not change_log.changes
    assert to_onnx(again) == out


BRANCHES = (
    "y = If(c) <then_branch = t () => (float[2] p) { p = Neg(a) }, else_branch = e () => (float[2] q) { q = Abs(x) }>"
)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(f"g (float[2] x, bool c) => (float[2] y, float[2] a) {{ a = Exp(x) {BRANCHES} }}", id="an output"),
        pytest.param(
            f"g (float[2] x, bool c) => (float[2] y, float[2] z) {{ a = Exp(x) z = Neg(a) {BRANCHES} }}", id="used"
        ),
        pytest.param(f"g (float[2] x, float[2] a, bool c) => (float[2] y) {{ {BRANCHES} }}", id="an input"),
        pytest.param(
            "g (bool[] x) => (bool[] y) { a = Not(x) y = If(a) <then_branch = t () => (bool[] p) { p = Not(a) }, "
            "else_branch = e () => (bool[] q) { q = Not(x) }> }",
            id="the condition",
        ),
        pytest.param(
            "g (float[2] x, bool c) => (float[2] y) { a = Exp(x) y = If(c) <then_branch = t () => (float[2] p) "
            "{ p = Neg(a) }, else_branch = e () => (float[2] q) { q = Abs(a) }> }",
            id="both branches",
        ),
    ],
)
def test_values_used_elsewhere_are_kept(text: str) -> None:
    stays(text, sink_into_branches())


def test_random_ops_are_not_sunk() -> None:
    text = f"g (float[2] x, bool c) => (float[2] y) {{ a = RandomNormalLike(x) {BRANCHES} }}"
    _, change_log = apply_passes(load(text), sink_into_branches())
    assert not change_log.changes


@pytest.fixture
def edge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], ModuleType]:
    """The modules of the package, which is installed in this process."""
    monkeypatch.syspath_prepend(installed(tmp_path / "site"))
    return lambda name: importlib.import_module(f"passwright_edge.{name}")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(
            "y = HardSwish(x)", "t = HardSigmoid <alpha = 0.16666667, beta = 0.5> (x) y = Mul(x, t)", id="HardSwish"
        ),
        pytest.param("y = Mish(x)", "s = Softplus(x) t = Tanh(s) y = Mul(x, t)", id="Mish"),
        pytest.param("y = Gelu(x)", "d = Div(x, k) e = Erf(d) b = Add(e, k) p = Mul(x, b) y = Mul(p, k)", id="Gelu"),
    ],
)
def test_activations_are_decomposed(before: str, after: str, edge: Callable[[str], ModuleType]) -> None:
    interface = "g (float[N,5] x) => (float[N,5] y) <float k = {0}>"
    becomes(
        f"{interface} {{ {before} }}",
        f"{interface} {{ {after} }}",
        rule_pass(edge("activations"), "spell-out-activations"),
        opset=20,
    )


@pytest.mark.parametrize(
    "text",
    [
        pytest.param('g (float[N] x) => (float[N] y) { y = Gelu <approximate = "tanh"> (x) }', id="another Gelu"),
        pytest.param("g (float16[N] x) => (float16[N] y) { y = Gelu(x) }", id="another type"),
        pytest.param("g (float[N] x) => (float[N] y) { y = Relu(x) }", id="another activation"),
    ],
)
def test_other_activations_are_kept(text: str, edge: Callable[[str], ModuleType]) -> None:
    stays(text, rule_pass(edge("activations"), "spell-out-activations"), opset=20, runs=False)


@pytest.mark.parametrize("kind", ["float", "double", "uint8"])
@pytest.mark.parametrize("mode", ["DCR", "CRD"])
def test_depth_to_space_is_decomposed(kind: str, mode: str, edge: Callable[[str], ModuleType]) -> None:
    perm = "0,3,4,1,5,2" if mode == "DCR" else "0,1,4,2,5,3"
    becomes(
        f'g ({kind}[N,12,2,3] x) => ({kind}[N,3,4,6] y) {{ y = DepthToSpace <blocksize = 2, mode = "{mode}"> (x) }}',
        f"g ({kind}[N,12,2,3] x) => ({kind}[N,3,4,6] y) <int64 s = {{0}}>"
        f"{{ a = Reshape(x, s) b = Transpose <perm = [{perm}]> (a) y = Reshape(b, s) }}",
        rule_pass(edge("blocks"), "spell-out-blocks"),
    )


def test_space_to_depth_is_decomposed(edge: Callable[[str], ModuleType]) -> None:
    becomes(
        "g (float[N,3,4,6] x) => (float[N,12,2,3] y) { y = SpaceToDepth <blocksize = 2> (x) }",
        "g (float[N,3,4,6] x) => (float[N,12,2,3] y) <int64 s = {0}>"
        "{ a = Reshape(x, s) b = Transpose <perm = [0,3,5,1,2,4]> (a) y = Reshape(b, s) }",
        rule_pass(edge("blocks"), "spell-out-blocks"),
    )


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(
            "g (float[N,12,H,3] x) => (float[N,3,R,6] y) { y = DepthToSpace <blocksize = 2> (x) }", id="any height"
        ),
        pytest.param(
            "g (float[N,12,0,3] x) => (float[N,3,0,6] y) { y = DepthToSpace <blocksize = 2> (x) }", id="no height"
        ),
    ],
)
def test_unsupported_depth_to_space_is_kept(text: str, edge: Callable[[str], ModuleType]) -> None:
    stays(text, rule_pass(edge("blocks"), "spell-out-blocks"), runs=False)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("y = Gather <axis = 1> (x, i)", id="Gather"),
        pytest.param(
            "i2 = Constant <value = int64[2] {1,-2}> () y = Gather <axis = 1> (x, i2)", id="made by a Constant"
        ),
        pytest.param("j = Identity(i) y = Gather <axis = 1> (x, i) z = Gather(j, i)", id="also used as int64"),
    ],
)
def test_indices_are_narrowed(text: str, edge: Callable[[str], ModuleType]) -> None:
    outputs = "float[N,2] y, int64[2] z" if "z =" in text else "float[N,2] y"
    model = load(f"g (float[N,3] x) => ({outputs}) <int64[2] i = {{0,1}}> {{ {text} }}")
    p = edge("indices").NARROW_INDICES
    result, change_log = apply_passes(model, p)
    out = to_onnx(result)
    assert change_log.changes
    assert change_log.is_exact
    require_equivalent(model, out, exact=True)
    kinds = {t.name: t.data_type for t in out.graph.initializer}
    assert all(kinds[n.input[1]] == onnx.TensorProto.INT32 for n in out.graph.node if n.op_type == "Gather")
    assert "Constant" not in op_types(out)
    assert not apply_passes(out, p)[1].changes


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("g (float[N,3] x, int64[2] i) => (float[N,2] y) { y = Gather <axis = 1> (x, i) }", id="an input"),
        pytest.param(
            "g (float[N,3] x, int64[2] i = {0,1}) => (float[N,2] y) { y = Gather <axis = 1> (x, i) }", id="overridable"
        ),
        pytest.param(
            "g (float[N,3] x) => (float[N,2] y) <int32[2] i = {0,1}> { y = Gather <axis = 1> (x, i) }", id="narrow"
        ),
        pytest.param(
            "g (float[N,3] x) => (float[N,0] y) <int64[0] i = {}> { y = Gather <axis = 1> (x, i) }", id="no indices"
        ),
        pytest.param(
            "g (float[2,3] x) => (float[2] y) <int64[2,2] i = {0,1, 1,2}> { y = GatherND(x, i) }", id="int64 required"
        ),
    ],
)
def test_indices_are_kept(text: str, edge: Callable[[str], ModuleType]) -> None:
    stays(text, edge("indices").NARROW_INDICES)


def test_indices_in_body_and_beyond_32_bits(edge: Callable[[str], ModuleType]) -> None:
    text = """g (float[N,3] x, bool c) => (float[N,2] y) <int64[2] i = {0,2}, int64[2] far = {0,-2147483649}> {
        y = If(c) <
        then_branch = t () => (float[N,2] p) { p = Gather <axis = 1> (x, i) },
        else_branch = e () => (float[N,2] q) { q = Gather <axis = 1> (x, far) }> }"""
    result, change_log = apply_passes(load(text), edge("indices").NARROW_INDICES)
    assert [c.place for c in change_log.changes] == ["p"]
    assert "far" in initializers(to_onnx(result))
    assert "i" not in initializers(to_onnx(result))


def test_edge_pipeline_removes_unsupported_ops(edge: Callable[[str], ModuleType]) -> None:
    edge("indices")
    model = load(
        "g (float[N,8,6,6] x) => (float[N,2,12,2] y) <int64[2] i = {0,7}>"
        "{ a = HardSwish(x) b = Gelu(a) c = DepthToSpace <blocksize = 2> (b) y = Gather <axis = 3> (c, i) }",
        opset=20,
    )
    result = optimize(model, "edge")
    assert {"HardSwish", "Gelu", "DepthToSpace"}.isdisjoint(op_types(result.model))
    assert not result.report.rejected
    assert result.report.verification is not None


def test_model_of_older_opset_is_unchanged(edge: Callable[[str], ModuleType]) -> None:
    edge("indices")
    model = load("g (float[N,3] x) => (float[N,2] y) <int64[2] i = {0,2}> { y = Gather <axis = 1> (x, i) }", opset=12)
    assert optimize(model, enable=["narrow-indices"]).model == model
