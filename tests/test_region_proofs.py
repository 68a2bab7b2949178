"""Proofs of the regions in which two models differ, with `passes verify` and `passes run`."""

import json
from pathlib import Path

import numpy as np
import onnx
from passwright.app.cli.entry import app
from passwright.app.optimize.region_proofs import changing_run
from passwright.app.registry.resolved_pipeline import resolve_pipeline
from passwright.app.report.verdict_text import proof_lines
from passwright.core import from_onnx
from passwright.core.io.files import split_model
from passwright.core.io.model_source import model_source
from passwright.core.proof.finite_field_proof import NO_TIME
from passwright.core.proof.obligation import Obligation
from passwright.core.proof.prover import Prover
from passwright.core.proof.region_obligations import Regions, RewrittenModel
from passwright.core.proof.region_proofs import SMALL_EXTENTS, ProofSeconds, RegionProofs, prove_regions
from passwright.core.proof.verdict import ProofVerdict
from passwright.core.run.pipeline import selectable_names
from passwright.core.run.pipeline_run import PipelineRun
from passwright.core.verify.proof_guarantees import Guarantee, ProofCounts
from rewriting import cases, each, load
from typer.testing import CliRunner

from passwright import optimize, verify

TYPES = "g (float[N,4] x) => (float[N,4] y)"
WEIGHT = {"w": np.random.default_rng(0).standard_normal((4, 4)).astype(np.float32)}
BEFORE = "{ a = MatMul(x, w) t = Transpose<perm=[1,0]>(a) u = Neg(t) r = Neg(u) y = Transpose<perm=[1,0]>(r) }"


def proofs(before: onnx.ModelProto, after: onnx.ModelProto, seconds: float = 60.0) -> RegionProofs:
    first, second = (split_model(m.SerializeToString()) for m in (before, after))
    regions = Regions.of(RewrittenModel(first, second, from_onnx(before).graph))
    return prove_regions(regions, [Prover().prove], seconds=ProofSeconds(seconds))


def test_a_changed_region_is_proved_with_its_weights() -> None:
    after = "{ a = MatMul(x, w) y = Identity(a) }"
    found = proofs(load(f"{TYPES} {BEFORE}", weights=WEIGHT), load(f"{TYPES} {after}", weights=WEIGHT))
    assert [(r.cut_point, r.verdict.guarantee) for r in found.regions] == [("y", Guarantee.REALS)]
    assert found.counts.proved == {Guarantee.REALS: 1}
    assert found.to_data()["proved"] == 1


def test_equal_models_have_no_changed_region() -> None:
    model = load(f"{TYPES} {BEFORE}", weights=WEIGHT)
    assert proofs(model, model).regions == ()


def test_a_wrong_region_is_not_proved() -> None:
    after = "{ a = MatMul(x, w) y = Neg(a) }"
    found = proofs(load(f"{TYPES} {BEFORE}", weights=WEIGHT), load(f"{TYPES} {after}", weights=WEIGHT))
    assert [r.verdict.guarantee for r in found.regions] == [Guarantee.UNKNOWN]


@cases(
    ("dtype", "before", "after", "is_proved"),
    {
        "another place": ("int64", "y = ArgMax<axis=1>(x)", "y = ArgMin<axis=1>(x)", False),
        "a place": ("int64", "y = ArgMax<axis=1>(x)", "a = Neg(x) y = ArgMin<axis=1>(a)", False),
        "other integers": ("int32", "y = Add(i, i)", "y = Mul(i, i)", False),
        "integers": ("int32", "a = Add(i, i) y = Add(a, i)", "a = Neg(i) b = Sub(i, a) y = Add(b, i)", True),
        "another extent": ("int64", "y = Shape<start=1>(x)", "y = Shape<end=1>(x)", False),
        "an extent": ("int64", "y = Shape<end=1>(x)", "a = Neg(x) y = Shape<end=1>(a)", True),
    },
)
def test_outputs_of_integers_have_regions(dtype: str, before: str, after: str, is_proved: bool) -> None:
    dims = "A" if "Shape" in before else "A,B"
    types = f"g (float[N,4] x, int32[N,4] i) => ({dtype}[{dims}] y)"
    found = proofs(*(load(f"{types} {{ {text} }}") for text in (before, after)))
    assert [(r.cut_point, r.is_proved) for r in found.regions] == [("y", is_proved)]


def test_shapes_belong_to_a_region() -> None:
    types = "g (float[N,M] x) => (float[A,B] y)"
    zero = "<int64 zero = {0}, int64[2] s = {0, -1}, int64[1] m = {-1}, int64[1] i = {0}>"
    before = f"{zero} {{ a = Relu(x) b = Shape(a) c = Gather(b, i) d = Concat<axis=0>(c, m) y = Reshape(a, d) }}"
    after = f"{zero} {{ a = Relu(x) y = Reshape(a, s) }}"
    found = proofs(load(f"{types} {before}"), load(f"{types} {after}"))
    assert [(r.cut_point, r.is_proved) for r in found.regions] == [("y", True)]


def test_regions_without_time_or_of_large_weights_are_unknown() -> None:
    large = {"w": np.zeros((300, 4000), np.float32)}
    before, after = (f"g (float[N,300] x) => (float[N,4000] y) {{ a = MatMul(x, w) {end} }}"
                     for end in ("b = Neg(a) y = Neg(b)", "y = Identity(a)"))  # fmt: skip
    found = proofs(load(before, weights=large), load(after, weights=large))
    assert [r.is_proved for r in found.regions] == [True]  # the product is shared
    folded = "g (float[N,300] x) => (float[N,4000] y) { y = MatMul(x, w) }"
    found = proofs(load(before, weights=large), load(folded, weights=large))
    assert [r.verdict.reason for r in found.regions] == ["its weights have more than 1048576 elements"]
    found = proofs(load(before, weights=large), load(after, weights=large), seconds=-1.0)
    assert [r.verdict.reason for r in found.regions] == [NO_TIME]


def test_verify_proves(tmp_path: Path) -> None:
    paths = tmp_path / "a.onnx", tmp_path / "b.onnx"
    texts = (f"{TYPES} {BEFORE}", f"{TYPES} {{ a = MatMul(x, w) y = Identity(a) }}")
    for path, text in zip(paths, texts, strict=True):
        onnx.save(load(text, weights=WEIGHT), path)
    report = verify(*paths, prove=True)
    assert report.proofs is not None
    assert sum(report.proofs.counts.proved.values()) == 1
    data = json.loads(report.to_json())
    assert data["proofs"]["regions"][0]["value"] == "y"
    assert verify(*paths).proofs is None


def test_wrong_models_are_not_proved(tmp_path: Path) -> None:
    paths = tmp_path / "a.onnx", tmp_path / "b.onnx"
    for path, text in zip(paths, ("{ y = Relu(x) }", "{ y = Neg(x) }"), strict=True):
        onnx.save(load(f"{TYPES} {text}"), path)
    report = verify(*paths, prove=True)
    assert not report.agrees
    assert report.proofs is None


def test_run_proves(tmp_path: Path) -> None:
    onnx.save(load(f"{TYPES} {BEFORE}", weights=WEIGHT), tmp_path / "a.onnx")
    report = optimize(tmp_path / "a.onnx", prove=True).report
    assert report.proofs is not None
    assert report.proofs.changed == sum(report.proofs.proved.values()) == 1
    assert json.loads(report.to_json())["proofs"]["changed"] == 1
    assert optimize(tmp_path / "a.onnx").report.proofs is None
    result = CliRunner().invoke(app, ["run", str(tmp_path / "a.onnx"), "--prove"])
    assert "proved: 1 of 1 changed region (1 over the reals, at sizes 2 to 3 of symbols)" in result.stdout


def test_a_proof_without_symbols_says_so() -> None:
    (line,) = proof_lines(ProofCounts(1, {str(Guarantee.REALS): 1}, {}))
    assert line == "proved: 1 of 1 changed region (1 over the reals, at the extents of the models)"


def test_empty_outputs_show_nothing() -> None:
    types, weight = "g (float[N,1,L] x) => (float[A,B,C] y)", {"w": np.ones((1, 1, 500), np.float32)}
    texts = ("{ c = Conv(x, w) y = Neg(c) }", "{ y = Conv(x, w) }")  # of a length of 130 at most
    found = proofs(*(load(f"{types} {text}", weights=weight) for text in texts))
    assert [r.is_proved for r in found.regions] == [False]


def test_layers_of_equal_structure_are_proved_once() -> None:
    calls: list[object] = []

    def counted(obligation: Obligation) -> list[ProofVerdict]:
        calls.append(obligation)
        return Prover().prove(obligation)

    rng = np.random.default_rng(1)
    weights = {f"{n}{i}": rng.standard_normal((4, 4)).astype(np.float32) for n in "wv" for i in range(3)}
    texts = []
    for layer in ("s# = Neg(a#) b# = Mul(s#, v#)", "t# = Mul(a#, v#) b# = Neg(t#)"):
        layers = [layer, "e# = Identity(a#) " + layer.replace("a#", "e#"), layer]
        inner = [text.replace("#", str(i)) for i, text in enumerate(layers)]
        parts = (f"a{i} = Mul({'x' if i == 0 else f'y{i - 1}'}, w{i}) {inner[i]} y{i} = Relu(b{i})" for i in range(3))
        texts.append("g (float[4,4] x) => (float[4,4] y2) { " + " ".join(parts) + " }")
    first, second = (load(text, weights=weights) for text in texts)
    for i, node in enumerate(second.graph.node):
        node.metadata_props.add(key="passwright.from", value=str(i))
    models = RewrittenModel(*(split_model(m.SerializeToString()) for m in (first, second)), from_onnx(first).graph)
    found = prove_regions(Regions.of(models), [counted])
    assert [r.is_proved for r in found.regions] == [True] * 3
    assert len(calls) == 1


@cases(
    ("before", "after", "is_small"),
    {
        "convolution": ("y = Conv(x, w)", "v = Neg(w) c = Conv(x, v) y = Neg(c)", True),
        "reads an extent": (
            "y = Conv(x, w)",
            "v = Neg(w) c = Conv(x, v) s = Shape(c) d = Expand(c, s) y = Neg(d)",
            False,
        ),
    },
)
def test_images_are_small_where_all_places_are_alike(before: str, after: str, is_small: bool) -> None:
    types, weight = "g (float[1,1,20,20] x) => (float[A,B,C,D] y)", {"w": np.ones((1, 1, 3, 3), np.float32)}
    found = proofs(*(load(f"{types} {{ {text} }}", weights=weight) for text in (before, after)))
    assert [r.is_proved for r in found.regions] == [True]
    assert (SMALL_EXTENTS in found.regions[0].verdict.coverage) is is_small


@cases(
    ("op", "is_decided"),
    {
        "a maximum": ("Relu(#)", True),
        "the maximum cancels": ("Softmax(#)", False),
        "decided by extents": ("Where(c, #, k)", False),
    },
)
def test_decisions_by_numbers_take_more_draws(op: str, is_decided: bool) -> None:
    shape = "s = Shape(x) one = Constant<value=int64[1]{1}>() c = Equal(s, one) k = Constant<value=float[1]{2}>()"
    texts = (f"{{ {shape} {text} }}" for text in (f"y = {op}", f"t = Neg(x) u = Neg(t) y = {op}"))
    texts = (text.replace("#", name) for text, name in zip(texts, "xu", strict=True))
    found = proofs(*(load(f"g (float[N,2] x) => (float[N,2] y) {text}") for text in texts))
    assert [r.is_proved for r in found.regions] == [True]
    assert any("regions of maxima" in note for note in found.regions[0].verdict.notes) is is_decided


@each(
    ("before", "after", "is_proved"),
    {
        "many": ("s = Sqrt(x) y = MatMul(s, w)", "s = Sqrt(x) z = Neg(w) t = MatMul(s, z) y = Neg(t)", True),
        "a law of roots": ("s = Sqrt(x) y = Mul(s, s)", "y = Identity(x)", True),
        "of one sign": ("s = Mul(x, x) y = Sqrt(s)", "y = Identity(x)", False),
        "no law": ("s = Add(x, x) y = Sqrt(s)", "t = Sqrt(x) y = Add(t, t)", False),
        "logarithm": ("s = Log(x) y = MatMul(s, w)", "s = Log(x) t = Add(s, s) y = MatMul(t, w)", False),
    },
)
def test_roots_of_numbers_without_one_are_unknown_numbers(before: str, after: str, is_proved: bool) -> None:
    """An element that depends on many roots is defined in few draws where those of non-squares are not."""
    types = "g (float[N,16] x) => (float[N,16] y)"
    weight = {"w": np.random.default_rng(2).standard_normal((16, 16)).astype(np.float32)}
    found = proofs(*(load(f"{types} {{ {text} }}", weights=weight) for text in (before, after)))
    assert [r.is_proved for r in found.regions] == [is_proved]


def test_dims_that_follow_from_others_have_the_sizes_of_runs() -> None:
    """`s` has as many rows as the sum of two extents that only running the model tells."""
    types = "g (float[N,4] x, int64[2] starts) => (float[A,4] y)"
    shared = (
        "<int64[1] axes = {0}> { e = NonZero(x) i = Transpose<perm=[1,0]>(e) r = GatherND(x, i) u = Unsqueeze(r, axes) "
    )
    before, after = (load(f"{types} {shared} {end} }}") for end in ("a = Neg(u) y = Neg(a)", "y = Identity(u)"))
    assert [r.is_proved for r in proofs(before, after).regions] == [True]


def test_small_regions_come_first() -> None:
    tried: list[str] = []

    def recorded(obligation: Obligation) -> list[ProofVerdict]:
        tried.append(obligation.rule)
        return Prover().prove(obligation)

    before, after = (
        f"g (float[N] x) => (float[N] y, float[N] z) {{ {end} }}"
        for end in ("b = Exp(x) c = Exp(b) d = Neg(c) e = Neg(d) y = Exp(e) t = Abs(x) s = Neg(t) z = Neg(s)",
                    "b = Exp(x) f = Exp(b) y = Exp(f) z = Abs(x)")
    )  # fmt: skip
    models = [load(text) for text in (before, after)]
    regions = Regions.of(
        RewrittenModel(*(split_model(m.SerializeToString()) for m in models), from_onnx(models[0]).graph)
    )
    assert regions.cut_points == ("y", "z")
    prove_regions(regions, [recorded])
    assert list(dict.fromkeys(tried)) == ["z", "y"]


def test_a_repeated_run_makes_the_changes_alone(tmp_path: Path) -> None:
    onnx.save(load(f"{TYPES} {BEFORE}", weights=WEIGHT), tmp_path / "a.onnx")
    source, pipeline = model_source(tmp_path / "a.onnx", inline=True), resolve_pipeline("basic").pipeline
    run = PipelineRun(source.load, pipeline)
    first = run.replay()
    repeated = changing_run(run, first.change_log)
    assert len(selectable_names(repeated.pipeline)) < len(selectable_names(pipeline)) / 4
    second = repeated.replay()
    assert second.change_log.counts == first.change_log.counts
    assert [op.type for op in second.model.graph.ops()] == [op.type for op in first.model.graph.ops()]


@cases(
    ("before", "after", "is_proved"),
    {
        "not": ("c = And(a, b) d = Not(c) y = Where(d, x, z)", "s = And(b, a) y = Where(s, z, x)", True),
        "De Morgan": (
            "c = Not(a) d = Not(b) e = Or(c, d) y = Where(e, x, z)",
            "s = And(a, b) y = Where(s, z, x)",
            True,
        ),
        "of bools alone": (
            "c = Xor(a, b) y = Cast<to=1>(c)",
            "s = Cast<to=1>(a) t = Cast<to=1>(b) u = Sub(s, t) y = Mul(u, u)",
            False,
        ),
        "wrong": ("c = And(a, b) y = Where(c, x, z)", "s = Or(a, b) y = Where(s, x, z)", False),
        "both": ("c = Or(a, b) y = Where(c, x, z)", "s = Xor(a, b) y = Where(s, x, z)", False),
    },
)
def test_logic_of_bools_is_proved_by_polynomials(before: str, after: str, is_proved: bool) -> None:
    """The bools are values of both models, and no inputs of which all combinations are drawn."""
    types = "g (float[N,3] x, float[N,3] z, bool[N,3] p, bool[N,3] q) => (float[N,3] y)"
    shared = "a = Identity(p) b = Identity(q)"
    found = proofs(*(load(f"{types} {{ {shared} {text} }}") for text in (before, after)))
    assert [r.is_proved for r in found.regions if r.cut_point == "y"] == [is_proved]


def test_a_constant_of_a_function_need_not_be_a_tensor() -> None:
    """As those of functions, whose attribute is one of the call, until they are inlined without it."""
    texts = (f"{TYPES} {{ c = Constant() a = Neg(x) {end} }}" for end in ("b = Neg(a) y = Add(b, c)", "y = Add(x, c)"))
    found = proofs(*(load(text) for text in texts))
    assert [r.is_proved for r in found.regions] == [False]
