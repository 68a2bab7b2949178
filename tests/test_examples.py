"""Example plugins: their rewrites, the models they leave unchanged, and the commands of their READMEs."""

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
from rewriting import apply_passes, becomes, cases, each, initializers, load, op_types, require_equivalent, run, stays
from tiers import slow_unless

from passwright import optimize

pytestmark = pytest.mark.usefixtures("_verifies_in_process")
EXAMPLES = Path(__file__).parent.parent / "examples"
RNG = np.random.default_rng(0)


READMES = ("rule_file", "split_matmul", "sink_into_branches", "phone_target", "package")


@pytest.mark.parametrize("name", slow_unless({"split_matmul", "sink_into_branches", "phone_target"}, READMES))
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


@each("compare", ["Greater", "GreaterOrEqual", "Less", "LessOrEqual"])
@each("kind", ["float", "double"])
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


CONSTANT = "g (float[N] x) => (bool[N] y) <float c = {0.3}>"


@each(
    "text",
    {
        "threshold 1": "g (float[N] x) => (bool[N] y) <float c = {1}> { s = Sigmoid(x) y = Greater(s, c) }",
        "threshold 0": "g (float[N] x) => (bool[N] y) <float c = {0}> { s = Sigmoid(x) y = Less(s, c) }",
        "threshold above 1": "g (float[2] x) => (bool[2] y) <float[2] c = {0.5,2}> { s = Sigmoid(x) y = Less(s, c) }",
        "not constant": "g (float[N] x, float c) => (bool[N] y) { s = Sigmoid(x) y = Less(s, c) }",
        "overridable": "g (float[N] x, float c = {0.3}) => (bool[N] y) { s = Sigmoid(x) y = Less(s, c) }",
        "Sigmoid is an output": CONSTANT.replace(" y)", " y, float[N] s)") + "{ s = Sigmoid(x) y = Less(s, c) }",
        "Tanh": f"{CONSTANT} {{ s = Tanh(x) y = Less(s, c) }}",
    },
)
def test_thresholds_are_kept(text: str) -> None:
    stays(text, rule_of_file("compare_logits"))


@each(
    ("before", "after"),
    {
        "default and explicit last axis": ("s = Softmax(x) y = ArgMax <axis = -1> (s)", "y = ArgMax <axis = -1> (x)"),
        "both": ("s = Softmax <axis = 1> (x) y = ArgMax <axis = -1> (s)", "y = ArgMax <axis = -1> (x)"),
        "LogSoftmax": ("s = LogSoftmax(x) y = ArgMax <axis = 1> (s)", "y = ArgMax <axis = 1> (x)"),
        "other attributes": ("s = Softmax(x) y = ArgMax <axis=1, select_last_index=1> (s)",
                             "y = ArgMax <axis=1, select_last_index=1> (x)"),
    },
)  # fmt: skip
def test_best_class_is_taken_from_logits(before: str, after: str) -> None:
    interface = "g (float[N,10] x) => (int64[N,1] y)"
    rule = rule_of_file("choose_by_logits")
    out = becomes(f"{interface} {{ {before} }}", f"{interface} {{ {after} }}", rule, runs=False)
    logits = RNG.standard_normal((500, 10), np.float32)
    assert is_equal_on(load(f"{interface} {{ {before} }}"), out, logits)


def is_equal_on(before: onnx.ModelProto, after: onnx.ModelProto, x: np.ndarray) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(run(before, {"x": x}), run(after, {"x": x}), strict=True))


@each(
    ("text", "opset"),
    {
        "another axis": ("g (float[N,10] x) => (int64[1,10] y) { s = Softmax(x) y = ArgMax <axis = 0> (s) }", 17),
        "ArgMin": ("g (float[N,10] x) => (int64[N,1] y) { s = Softmax(x) y = ArgMin <axis = 1> (s) }", 17),
        "opset 12": ("g (float[N,10] x) => (int64[N,1] y) { s = Softmax(x) y = ArgMax <axis = 1> (s) }", 12),
        "Softmax is an output": (
            "g (float[N,10] x) => (int64[N,1] y, float[N,10] s) { s = Softmax(x) y = ArgMax <axis = 1> (s) }",
            17,
        ),
    },
)
def test_choices_are_kept(text: str, opset: int) -> None:
    stays(text, rule_of_file("choose_by_logits"), opset=opset)


def test_rule_valid_for_given_inputs_only(tmp_path: Path) -> None:
    model = load("g (float[N,10] x) => (int64[N,1] y) { s = Softmax(x) y = ArgMax <axis = 1> (s) }")
    plugin = EXAMPLES / "rule_file" / "decide_on_logits.py"
    result = optimize(model, plugin=[plugin])
    assert [(q.pass_name, q.by, q.place) for q in result.report.rejected] == [
        ("decide-on-logits", "choose_by_logits", "y")
    ]
    assert op_types(result.model) == ["Softmax", "ArgMax"]
    np.savez(tmp_path / "inputs.npz", x=RNG.standard_normal((100, 10), np.float32))
    result = optimize(model, plugin=[plugin], inputs=tmp_path / "inputs.npz")
    assert list(result.report.rejected) == []
    assert op_types(result.model) == ["ArgMax"]


def split_matmul(columns: int) -> Pass:
    passes_from_file(EXAMPLES / "split_matmul" / "split_matmul.py")
    return sys.modules["passwright_local_split_matmul"].SplitMatMul(columns=columns)


W, TRANSPOSED, ROW = (RNG.standard_normal(shape, np.float32) for shape in ((4, 10), (10, 4), (10,)))
W8 = {"w": W[:, :8]}
BRANCH = "y = If(c) <then_branch = t () => (float[N,8] p) %s, else_branch = e () => (float[N,8] q) { q = Sum(u) }>"


@each(
    ("inputs", "outputs", "before", "parts", "after", "weights"),
    {
        "the last block is narrower": (
            "float[N,T,4] x", "float[N,T,10] y", "y = MatMul(x, w)",
            "abc", "p = MatMul(x, a) q = MatMul(x, b) r = MatMul(x, c) y = Concat <axis = 2> (p, q, r)", {"w": W}),
        "a vector": (
            "float[4] x", "float[8] y", "y = MatMul(x, w)",
            "ab", "p = MatMul(x, a) q = MatMul(x, b) y = Concat <axis = 0> (p, q)", W8),
        "Gemm with a row": (
            "float[N,4] x", "float[N,8] y", "y = Gemm <alpha = 0.5, beta = 2.0> (x, w, c)",
            "abcd", """p = Gemm <alpha = 0.5, beta = 2.0> (x, a, c) q = Gemm <alpha = 0.5, beta = 2.0> (x, b, d)
                       y = Concat <axis = 1> (p, q)""", W8 | {"c": ROW[:8]}),
        "Gemm, transposed, with a number": (
            "float[N,4] x", "float[N,8] y", "y = Gemm <transB = 1> (x, w, c)",
            "abc", "p = Gemm <transB = 1> (x, a, c) q = Gemm <transB = 1> (x, b, c) y = Concat <axis = 1> (p, q)",
            {"w": TRANSPOSED[:8], "c": ROW[:1]}),
        "Gemm with a column that is an input": (
            "float[4,3] x, float[3,1] c", "float[3,8] y", "y = Gemm <transA = 1> (x, w, c)",
            "ab", "p = Gemm <transA = 1> (x, a, c) q = Gemm <transA = 1> (x, b, c) y = Concat <axis = 1> (p, q)", W8),
        "Gemm without C": (
            "float[N,4] x", "float[N,8] y", "y = Gemm(x, w)",
            "ab", "p = Gemm(x, a) q = Gemm(x, b) y = Concat <axis = 1> (p, q)", W8),
        "integers": (
            "int32[N,4] x", "int32[N,5] y", "y = MatMul(x, w)",
            "ab", "p = MatMul(x, a) q = MatMul(x, b) y = Concat <axis = 1> (p, q)",
            {"w": np.arange(20, dtype=np.int32).reshape(4, 5)}),
        "weights that two products share": (
            "float[N,4] x, float[N,4] u", "float[N,8] y, float[N,8] z", "y = MatMul(x, w) z = MatMul(u, w)",
            "ab", """p = MatMul(x, a) q = MatMul(x, b) y = Concat <axis = 1> (p, q)
                     r = MatMul(u, a) s = MatMul(u, b) z = Concat <axis = 1> (r, s)""", W8),
        "in a branch": (
            "float[N,4] x, float[N,8] u, bool c", "float[N,8] y", BRANCH % "{ p = MatMul(x, w) }",
            "", BRANCH % """<float a = {0}, float b = {0}>
            { r = MatMul(x, a) s = MatMul(x, b) p = Concat <axis = 1> (r, s) }""", W8),
    },
)  # fmt: skip
def test_products_are_split(
    inputs: str, outputs: str, before: str, parts: str, after: str, weights: dict[str, np.ndarray]
) -> None:
    p, interface = split_matmul(4), f"g ({inputs}) => ({outputs})"
    constants = ", ".join(f"{inputs.partition('[')[0]} {name} = {{0}}" for name in parts)
    texts = f"{interface} {{ {before} }}", f"{interface} {f'<{constants}>' * bool(parts)} {{ {after} }}"
    out = becomes(*texts, p, weights=weights)
    again, change_log = apply_passes(out, p)
    assert not change_log.changes
    assert to_onnx(again) == out
    assert becomes(*texts, p, weights=weights) == out


@each(
    ("inputs", "output", "body", "weights"),
    {
        "maximum width": ("float[N,4] x", "float[N,4] y", "y = MatMul(x, w)", {"w": W[:, :4]}),
        "an input": ("float[N,4] x, float[4,9] w", "float[N,9] y", "y = MatMul(x, w)", {}),
        "overridable": ("float[N,1] x, float[1,5] w = {1,2,3,4,5}", "float[N,5] y", "y = MatMul(x, w)", {}),
        "batched weights": ("float[2,N,4] x", "float[2,N,10] y", "y = MatMul(x, w)", {"w": np.stack([W, W])}),
        "weights on the left": ("float[4,N] x", "float[10,N] y", "y = MatMul(w, x)", {"w": TRANSPOSED}),
        "Gemm with a row that is an input": (
            "float[N,4] x, float[10] c", "float[N,10] y", "y = Gemm(x, w, c)", {"w": W}),
        "no columns": ("float[N,4] x", "float[N,0] y", "y = MatMul(x, w)", {"w": W[:, :0]}),
        "no product": ("float[N,4] x", "float[N,10] y", "y = Add(x, w)", {"w": ROW[:4]}),
    },
)  # fmt: skip
def test_products_are_kept(inputs: str, output: str, body: str, weights: dict[str, np.ndarray]) -> None:
    stays(f"g ({inputs}) => ({output}) {{ {body} }}", split_matmul(4), weights=weights, runs="Add" not in body)


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
    result = optimize(model, plugin=[plugin], enable=["split-matmul{columns=2}"])
    assert op_types(result.model) == [*["MatMul"] * 5, "Concat"]


@each("columns", [0, -1])
def test_columns_is_at_least_one(columns: int) -> None:
    with pytest.raises(ValueError, match="columns is at least 1"):
        split_matmul(columns)


def sink_into_branches() -> Pass:
    passes_from_file(EXAMPLES / "sink_into_branches" / "sink_into_branches.py")
    return sys.modules["passwright_local_sink_into_branches"].SinkIntoBranches()


def branches(then: str, other: str) -> str:
    return f"y = If(c) <then_branch = t () => (float[2] {then}, else_branch = e () => (float[2] {other}>"


NESTED = """p) { p = If(c) <then_branch = u () => (float[2] r) { %s r = Neg(a) },
    else_branch = v () => (float[2] s) { s = Abs(x) }> }"""
NEGATED, POSITIVE = "p) { p = Neg(a) }", "q) { q = Abs(x) }"


@each(
    ("before", "after"),
    {
        "one for each branch": (
            "a = Exp(x) b = Sqrt(x)" + branches(NEGATED, "q) { q = Abs(b) }"),
            branches("p) { a = Exp(x) p = Neg(a) }", "q) { b = Sqrt(x) q = Abs(b) }"),
        ),
        "paths that diverge and join": (
            "s = Sin(x) a = Exp(s) b = Cos(s) d = Mul(a, b)" + branches("p) { p = Add(d, a) }", POSITIVE),
            branches("p) { s = Sin(x) a = Exp(s) b = Cos(s) d = Mul(a, b) p = Add(d, a) }", POSITIVE),
        ),
        "shared operand is not sunk": (
            "s = Sin(x) a = Exp(s) b = Cos(s)" + branches(NEGATED, "q) { q = Abs(b) }"),
            "s = Sin(x)" + branches("p) { a = Exp(s) p = Neg(a) }", "q) { b = Cos(s) q = Abs(b) }"),
        ),
        "an output of the branch": (
            "a = Exp(x)" + branches("a) { }", POSITIVE),
            branches("a) { a = Exp(x) }", POSITIVE),
        ),
        "a branch of a branch": (
            "a = Exp(x)" + branches(NESTED % "", POSITIVE),
            branches(NESTED % "a = Exp(x)", POSITIVE),
        ),
    },
)
def test_values_of_one_branch_are_sunk(before: str, after: str) -> None:
    p = sink_into_branches()
    out = becomes(*(f"g (float[2] x, bool c) => (float[2] y) {{ {text} }}" for text in (before, after)), p)
    again, change_log = apply_passes(out, p)
    assert not change_log.changes
    assert to_onnx(again) == out


BRANCHES = branches(NEGATED, POSITIVE)


@each(
    "text",
    {
        "an output": f"g (float[2] x, bool c) => (float[2] y, float[2] a) {{ a = Exp(x) {BRANCHES} }}",
        "used": f"g (float[2] x, bool c) => (float[2] y, float[2] z) {{ a = Exp(x) z = Neg(a) {BRANCHES} }}",
        "an input": f"g (float[2] x, float[2] a, bool c) => (float[2] y) {{ {BRANCHES} }}",
        "the condition": """g (bool[] x) => (bool[] y) { a = Not(x) y = If(a) <
            then_branch = t () => (bool[] p) { p = Not(a) }, else_branch = e () => (bool[] q) { q = Not(x) }> }""",
        "both branches": (
            f"g (float[2] x, bool c) => (float[2] y) {{ a = Exp(x) {branches(NEGATED, 'q) { q = Abs(a) }')} }}"
        ),
    },
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


@cases(
    ("before", "after"),
    {
        "HardSwish": ("y = HardSwish(x)", "t = HardSigmoid <alpha = 0.16666667, beta = 0.5> (x) y = Mul(x, t)"),
        "Mish": ("y = Mish(x)", "s = Softplus(x) t = Tanh(s) y = Mul(x, t)"),
        "Gelu": ("y = Gelu(x)", "d = Div(x, k) e = Erf(d) b = Add(e, k) p = Mul(x, b) y = Mul(p, k)"),
    },
)
def test_activations_are_decomposed(before: str, after: str, edge: Callable[[str], ModuleType]) -> None:
    texts = (f"g (float[N,5] x) => (float[N,5] y) <float k = {{0}}> {{ {text} }}" for text in (before, after))
    becomes(*texts, rule_pass(edge("activations"), "spell-out-activations"), opset=20)


@cases(
    "text",
    {
        "another Gelu": 'g (float[N] x) => (float[N] y) { y = Gelu <approximate = "tanh"> (x) }',
        "another type": "g (float16[N] x) => (float16[N] y) { y = Gelu(x) }",
        "another activation": "g (float[N] x) => (float[N] y) { y = Relu(x) }",
    },
)
def test_other_activations_are_kept(text: str, edge: Callable[[str], ModuleType]) -> None:
    stays(text, rule_pass(edge("activations"), "spell-out-activations"), opset=20, runs=False)


@pytest.mark.parametrize("kind", ["float", "double", "uint8"])
@pytest.mark.parametrize(("mode", "perm"), [("DCR", "0,3,4,1,5,2"), ("CRD", "0,1,4,2,5,3"), ("", "0,3,5,1,2,4")])
def test_moves_of_blocks_are_decomposed(kind: str, mode: str, perm: str, edge: Callable[[str], ModuleType]) -> None:
    wide, deep = f"{kind}[N,3,4,6]", f"{kind}[N,12,2,3]"
    interface = f"g ({deep} x) => ({wide} y)" if mode else f"g ({wide} x) => ({deep} y)"
    op = f'DepthToSpace <blocksize = 2, mode = "{mode}">' if mode else "SpaceToDepth <blocksize = 2>"
    after = f"<int64 s = {{0}}> {{ a = Reshape(x, s) b = Transpose <perm = [{perm}]> (a) y = Reshape(b, s) }}"
    rule = rule_pass(edge("blocks"), "spell-out-blocks")
    becomes(f"{interface} {{ y = {op} (x) }}", f"{interface} {after}", rule)


@cases(
    "text",
    {
        "any height": "g (float[N,12,H,3] x) => (float[N,3,R,6] y) { y = DepthToSpace <blocksize = 2> (x) }",
        "no height": "g (float[N,12,0,3] x) => (float[N,3,0,6] y) { y = DepthToSpace <blocksize = 2> (x) }",
    },
)
def test_unsupported_depth_to_space_is_kept(text: str, edge: Callable[[str], ModuleType]) -> None:
    stays(text, rule_pass(edge("blocks"), "spell-out-blocks"), runs=False)


@cases(
    "text",
    {
        "Gather": "y = Gather <axis = 1> (x, i)",
        "made by a Constant": "i2 = Constant <value = int64[2] {1,-2}> () y = Gather <axis = 1> (x, i2)",
        "also used as int64": "j = Identity(i) y = Gather <axis = 1> (x, i) z = Gather(j, i)",
    },
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


@cases(
    "text",
    {
        "an input": "g (float[N,3] x, int64[2] i) => (float[N,2] y) { y = Gather <axis = 1> (x, i) }",
        "overridable": "g (float[N,3] x, int64[2] i = {0,1}) => (float[N,2] y) { y = Gather <axis = 1> (x, i) }",
        "narrow": "g (float[N,3] x) => (float[N,2] y) <int32[2] i = {0,1}> { y = Gather <axis = 1> (x, i) }",
        "no indices": "g (float[N,3] x) => (float[N,0] y) <int64[0] i = {}> { y = Gather <axis = 1> (x, i) }",
        "int64 required": "g (float[2,3] x) => (float[2] y) <int64[2,2] i = {0,1, 1,2}> { y = GatherND(x, i) }",
    },
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
