"""Models generated from a rule's pattern: validity, reproducibility, variety, and where the rule fires."""

from collections.abc import Sequence
from functools import cache
from itertools import chain
from random import Random

import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from passwright.core import EXACT, Op, RewriteBuilder, Rule, RulePass, Value, from_onnx, leaves, require, rule
from passwright.core.errors import EvaluationError
from passwright.core.ort.backends import LoadedModel
from passwright.passes.pipelines import BUILT_IN
from passwright.testing.case import Case, FaultKind
from passwright.testing.fault_report import CheckResult
from passwright.testing.fuzzing import RuleTester
from passwright.testing.guided_search import MAX_SAME_FINGERPRINT, GeneratedCase, fingerprint, guided_search
from passwright.testing.model_comparison import Discrepancy, RewriteComparison
from passwright.testing.models.choices import Choices
from passwright.testing.models.dictionary import dictionary_of
from passwright.testing.models.model_builder import GenerationError
from passwright.testing.models.model_generator import generate_case
from record import load_examples
from rewriting import each, load
from tiers import slow_unless


def replay(sequence: Sequence[int]) -> Choices:
    """The choices of a sequence; the simplest one if it has no valid number."""
    numbers = iter(sequence)
    return Choices(lambda count: number if 0 <= (number := next(numbers, -1)) < count else 0)


RULES = {r.name: r for p in BUILT_IN for leaf in leaves(p) if isinstance(leaf, RulePass) for r in leaf.rules}
# Rules with conditions beyond their patterns.
CONDITIONAL = (
    "fuse_gelu", "fuse_elu", "fuse_layer_norm_of_scale_and_offset", "fuse_softmax",
    "fuse_attention",     "fuse_guarded_attention", "fold_heads_into_attention", "gemm_without_reshapes",
    "merge_products_of_same_operand", "fuse_bounded_lp_norm", "drop_casts_around_norm",
    "gather_of_ranges_to_unsqueeze",
    "gather_nd_of_ranges_to_unsqueeze",
)  # fmt: skip


@rule(lambda g, x: g.Neg(g.Neg(x)), contract=EXACT)
def cancel(g: RewriteBuilder, x: Value) -> Value:
    """Neg(Neg(x)) => x"""
    return x


@rule(lambda g, x, c: g.Mul(g.Add(x, g.const(c)), g.const(c)), contract=EXACT)
def twice_the_same(g: RewriteBuilder, x: Value, c: Value) -> Value:
    """(x + c) * c => (c + x) * c"""
    require(c.const.size == 1 and c.const == 123.25, "another number")
    return g.Mul(g.Add(c, x), c)


@rule(lambda g, x, pads, w, pad, conv, b=None: g.Conv(g.Pad(x, pads) @ pad, w, b) @ conv)
def any_conv(g: RewriteBuilder, x: Value, pads: Value, w: Value, pad: Op, conv: Op, b: Value | None) -> Value:
    """Conv(Pad(x, pads), w, b) => Conv(x, w, b)"""
    return g.Conv(x, w, b, **conv.attrs)


@rule(lambda g, w, conv, op: g.one_of("Add", "Sum")(..., g.Conv(..., g.const(w), ...) @ conv, ...) @ op)
def any_operands(g: RewriteBuilder, conv: Op, op: Op) -> Value:
    """Sum(..., Conv(x, w, ...), ...) => Sum(Conv(x, w, ...), ...)"""
    return g.Sum(conv.outputs[0], *(v for v in op.inputs if v is not conv.outputs[0]))


@rule(lambda g, x, p: g.Transpose(g.Transpose(x, perm=p), perm=p), contract=EXACT)
def same_transposes(g: RewriteBuilder, x: Value, p: list[int]) -> Value:
    """Two equal Transposes => x"""
    return x


@rule(lambda g, x: g.Softmax(x), contract=EXACT)
def plain_softmax(g: RewriteBuilder, x: Value) -> Value:
    """Softmax(x) => x"""
    return x


@rule(lambda g, x, w, product: g.domain("com.microsoft").FusedMatMul(x, w) @ product)
def fused_product(g: RewriteBuilder, x: Value, w: Value, product: Op) -> Value:
    """FusedMatMul(x, w) => MatMul(x, w)"""
    return g.MatMul(x, w)


@rule(lambda g, x, w, s, b=None: g.domain("com.microsoft").SkipLayerNormalization(x, w, s, b), contract=EXACT)
def skip_norm(g: RewriteBuilder, x: Value, w: Value, s: Value, b: Value | None) -> Value:
    """SkipLayerNormalization(x, w, s, b) => LayerNormalization(x + w, s, b)"""
    return g.LayerNormalization(g.Add(x, w), s, b)


@rule(lambda g, x, b: g.Relu(g.domain("com.microsoft").BiasGelu(x, b)))
def biased_gelu(g: RewriteBuilder, x: Value, b: Value) -> Value:
    """Relu(BiasGelu(x, b)) => Relu(x + b)"""
    return g.Relu(g.Add(x, b))


@rule(lambda g, x, w: g.domain("com.microsoft").FusedConv(x, w, activation="Relu"))
def fused_conv(g: RewriteBuilder, x: Value, w: Value) -> Value:
    """FusedConv(x, w) => Relu(Conv(x, w))"""
    return g.Relu(g.Conv(x, w))


@rule(lambda g, x, t: g.domain("ai.onnx.ml").Binarizer(x, threshold=t))
def binarizer(g: RewriteBuilder, x: Value, t: float | None) -> Value:
    """Binarizer(x) => x"""
    return x


@rule(lambda g, x, y: g.StringConcat(x, y), contract=EXACT)
def turned_strings(g: RewriteBuilder, x: Value, y: Value) -> Value:
    """StringConcat(x, y) => StringConcat(y, x)"""
    return g.StringConcat(y, x)


OTHER_DOMAINS = (fused_product, skip_norm, biased_gelu, fused_conv, binarizer, turned_strings)
OWN = (cancel, twice_the_same, any_conv, any_operands, same_transposes, plain_softmax)


@cache
def searched(r: Rule) -> list[GeneratedCase]:
    """The first 200 cases of a rule, generated once for all tests."""
    return list(guided_search(r).generate(200))


def first_cases(r: Rule, count: int) -> list[Case]:
    return [found.case for found in searched(r)[:count]]


def loads(model: onnx.ModelProto) -> bool:
    """Whether onnxruntime has kernels for the whole model."""
    try:
        LoadedModel(model.SerializeToString())
    except EvaluationError:
        return False
    return True


@each("r", OWN)
def test_rules_fire_on_generated_models(r: Rule) -> None:
    assert sum(f.fired and not f.case.no_fire_reason for f in searched(r)) >= 20


@each("r", OWN)
def test_rules_do_not_fire_where_forbidden(r: Rule) -> None:
    assert not [f.case for f in searched(r) if f.fired and f.case.no_fire_reason]


def test_all_traits_occur() -> None:
    traits = {t for r in OWN for case in first_cases(r, 200) for t in case.traits}
    assert traits >= {
        "a constant has another reader",
        "a constant is an input that may be overridden",
        "a middle value has another reader",
        "a middle value is an output",
        "a size is left open",
        "an attribute is off its default",
        "an optional input is left out",
        "it is inside an If",
    }


def test_dims_types_and_opsets_vary() -> None:
    models = [case.model for case in first_cases(cancel, 200)]
    inputs = [i.type.tensor_type for m in models for i in m.graph.input if i.name != "condition"]
    dims = {d.dim_value for t in inputs for d in t.shape.dim}
    assert dims >= {0, 1, 2, 3, 4}
    assert {t.elem_type for t in inputs} >= {onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16, onnx.TensorProto.INT64}
    assert {m.opset_import[0].version for m in models} >= {7, 13, 18, 23}


@each("r", OWN)
def test_models_are_valid(r: Rule) -> None:
    for case in first_cases(r, 40):
        onnx.checker.check_model(case.model, full_check=True)
        from_onnx(case.model)


@each(("name", "counted"), [("squeeze_of_slice_to_gather", set[str]()), ("merge_gathers", {"Gather"})])
def test_axes_of_early_opsets_count_from_the_start(name: str, counted: set[str]) -> None:
    models = [f.case.model for f in guided_search(RULES[name]).generate(150)]
    nodes = [node for m in models if m.opset_import[0].version < 11 for node in m.graph.node]
    axes = [(node, (*a.ints, a.i)) for node in nodes for a in node.attribute if a.name in {"axis", "axes"}]
    assert {node.op_type for node, numbers in axes if min(numbers) < 0} == counted


def test_most_models_load_in_onnxruntime() -> None:
    models = [case.model for r in OWN for case in first_cases(r, 20)]
    assert sum(map(loads, models)) > 0.8 * len(models)


@pytest.mark.parametrize("name", slow_unless(CONDITIONAL[::3], CONDITIONAL))
def test_variants_of_examples_fire(name: str) -> None:
    example = load_examples()[name].model()
    searches = [guided_search(RULES[name], seed=seed, examples=[example]).generate(200) for seed in range(3)]
    fired: list[bytes] = []
    for found in chain.from_iterable(searches):
        if found.fired and not found.case.no_fire_reason:
            fired.append(found.case.model.SerializeToString(deterministic=True))
        if len(fired) >= 12 and len(set(fired)) > 1:
            break
    assert len(fired) >= 12
    assert len(set(fired)) > 1


@each("r", OTHER_DOMAINS)
def test_operators_of_other_domains_are_generated(r: Rule) -> None:
    found = [f for f in guided_search(r).generate(100) if f.fired and not f.case.no_fire_reason]
    assert len(found) >= 10
    assert sum(loads(f.case.model) for f in found) > len(found) / 2


def test_fingerprints_of_models_differ() -> None:
    fingerprints = [fingerprint(f.case) for f in searched(cancel) if f.fired]
    assert max(fingerprints.count(one) for one in fingerprints) <= MAX_SAME_FINGERPRINT


def test_traits_are_evenly_distributed() -> None:
    traits = [f.case.traits for f in searched(twice_the_same)]
    overridden = sum("a constant is an input that may be overridden" in t for t in traits)
    assert len(traits) / 12 < overridden < len(traits) / 2


def test_window_sizes_are_not_symbolic() -> None:
    for case in first_cases(any_conv, 200):
        convs = [n for n in case.model.graph.node if n.op_type == "Conv"]
        windows = {name for n in convs for name in n.input[1:]}
        inputs = [i.type.tensor_type for i in case.model.graph.input if i.name in windows]
        assert not [d for t in inputs for d in t.shape.dim if d.dim_param]


def test_seed_determines_cases() -> None:
    one, two, other = ([f.case for f in guided_search(any_conv, seed=seed).generate(50)] for seed in (0, 0, 1))
    assert one == two
    assert one != other


def test_choice_sequence_reproduces_model() -> None:
    for r in OWN:
        words = dictionary_of(r)
        for found in searched(r)[:20]:
            assert generate_case(r, replay(found.choice_sequence), words) == found.case


@given(sequence=st.lists(st.integers(0, 40), max_size=60))
@settings(max_examples=60)
def test_any_choice_sequence_gives_model_or_error(sequence: list[int]) -> None:
    for r in OWN:
        try:
            case = generate_case(r, replay(sequence), dictionary_of(r))
        except GenerationError:
            continue
        assert case.model.graph.node


@pytest.mark.parametrize(("r", "nodes"), [(cancel, 2), (any_conv, 2), (twice_the_same, 2)], ids=["x", "conv", "c"])
def test_the_smallest_case_with_a_fault_is_found(r: Rule, nodes: int) -> None:
    """A fault on every case on which the rule fires is shown on the smallest of these, in few steps."""
    compared: list[RewriteComparison] = []

    def refuse(request: RewriteComparison) -> Discrepancy:
        compared.append(request)
        return Discrepancy(FaultKind.REFUSED, "it is refused")

    tester = RuleTester(r, refuse, ())
    found = max((f for f in searched(r) if f.fired), key=lambda f: len(f.choice_sequence))
    fault = tester.find_fault(found.case, CheckResult(r))
    assert fault is not None
    smallest = tester.minimize(fault, found.choice_sequence).case
    assert len(smallest.model.graph.node) == nodes
    assert set(smallest.traits) <= {"an optional input is left out"}
    assert len(compared) < 100


def test_recorded_choices_reproduce_case() -> None:
    words, rng = dictionary_of(any_conv), Random(3)
    before = next(f for f in searched(any_conv) if f.fired and not f.case.no_fire_reason)
    first = replay(before.choice_sequence)
    generate_case(any_conv, first, words)
    again = Choices(rng.randrange, first.recorded)
    assert generate_case(any_conv, again, words) == before.case
    assert again.recorded == first.recorded


@pytest.mark.parametrize(
    ("r", "numbers", "operators"),
    [
        pytest.param(twice_the_same, {123.25, -123.25}, set[str](), id="in its own code"),
        pytest.param(RULES["fuse_hard_swish"], {-3.0, 3.0}, set[str](), id="boundaries"),
        pytest.param(RULES["fuse_softmax"], set[float](), {"Exp", "Sub", "ReduceMax"}, id="in called functions"),
    ],
)
def test_dictionary_of_rule(r: Rule, numbers: set[float], operators: set[str]) -> None:
    words = dictionary_of(r)
    assert numbers <= {*words.own_numbers, *words.numbers}
    assert operators <= {*words.operators}


def test_example_without_match_is_refused() -> None:
    example = load("g (float[N] x) => (float[N] y) { y = Relu(x) }")
    sequence = (1, *[0] * 80)
    with pytest.raises(GenerationError):
        generate_case(cancel, replay(sequence), dictionary_of(cancel), [example])


def test_example_of_other_domain_is_varied() -> None:
    example = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["": 17, "com.microsoft": 1]> g (float[N,3] x, float[3] b) => (float[N,3] y)'
        "{ t = com.microsoft.BiasGelu(x, b) y = Relu(t) }"
    )
    found = [f.case.model for f in guided_search(biased_gelu, examples=[example]).generate(60)]
    assert {tuple(o.domain for o in m.opset_import) for m in found} == {("", "com.microsoft")}
