"""Targets, and the pipelines made of them."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from msgspec import structs
from onnx import TensorProto
from passwright.app.registry import environment
from passwright.core import NEVER, Op, RewriteBuilder, RulePass, Support, Target, Value, from_onnx, rule
from passwright.core.errors import TargetError, UsageError
from passwright.core.ir.cost_model import CPU
from passwright.core.ir.op_schemas import split_op_type
from passwright.core.ort.sessions import SessionConfig, create_session
from passwright.core.run.target import Misfit, TargetFit
from passwright.passes.pipelines import PIPELINES, pipeline_for
from passwright.passes.targets import ORT, QUANTIZATION_TARGETS, SEVEN_BITS, QuantizationTarget
from rewriting import each, load, op_types

from passwright import explain, optimize

pytestmark = pytest.mark.usefixtures("_verifies_in_process")
FLOAT, HALF = TensorProto.FLOAT, TensorProto.FLOAT16
TARGET = Target(
    "test",
    "a runtime of these tests",
    opset=17,
    operators={
        "Softmax": NEVER,
        "Gelu": Support(first=20),
        "Gemm": Support(dtypes={"float"}),
        "Relu": Support(last=13),
        "test.Known": Support(),
    },
    others="standard",
)


@each(
    ("op", "version", "dtypes", "answer"),
    [
        ("Softmax", 17, [FLOAT], False),
        ("Gelu", 19, [FLOAT], False),
        ("Gelu", 20, [FLOAT], True),
        ("Gemm", 17, [FLOAT, HALF], True),
        ("Gemm", 17, [HALF, FLOAT], False),
        ("Gemm", 17, [0], True),
        ("Gemm", 17, [], True),
        ("Relu", 13, [FLOAT], True),
        ("Relu", 14, [FLOAT], False),
        ("Tanh", 17, [FLOAT], True),
        ("test.Known", 1, [FLOAT], True),
        ("test.Other", 1, [FLOAT], False),
    ],
)
def test_operators_that_may_be_added(op: str, version: int, dtypes: list[int], answer: bool) -> None:
    domain, op_type = split_op_type(op)
    assert TARGET.may_add(op_type, domain, version, dtypes) is answer


def test_a_function_decides_on_operators_that_are_not_listed() -> None:
    target = structs.replace(TARGET, others=lambda op_type, _domain, _version, _dtypes: op_type != "Tanh")
    assert not target.may_add("Tanh", "", 17, [FLOAT])
    assert target.may_add("Exp", "", 17, [FLOAT])
    assert not structs.replace(TARGET, others="none").may_add("Exp", "", 17, [FLOAT])


SOFTMAX = "m = ReduceMax<axes=[-1]>(x) d = Sub(x, m) e = Exp(d) s = ReduceSum(e, last) y = Div(e, s)"
MODEL = f"g (float[N,4] x) => (float[N,4] y) <int64[1] last = {{-1}}> {{ {SOFTMAX} }}"


def test_rewrites_add_no_op_that_the_target_does_not_run() -> None:
    model = load(MODEL, 13)
    assert op_types(optimize(model, pipeline=pipeline_for(structs.replace(TARGET, operators={}))).model) == ["Softmax"]
    kept = optimize(model, pipeline=pipeline_for(TARGET))
    assert op_types(kept.model) == ["ReduceMax", "Sub", "Exp", "ReduceSum", "Div"]
    assert kept.model.opset_import[0].version == 17


@rule(lambda g, x: g.Exp(x))
def exp_to_other(g: RewriteBuilder, x: Value) -> Value:
    """Exp(x) => Other(x)"""
    return g.domain("test").Other(x)


def test_rules_of_plugins_are_held_to_it() -> None:
    model = load("g (float[4] x) => (float[4] y) { y = Exp(x) }", 17)
    target = structs.replace(TARGET, last=(RulePass("other", (exp_to_other,)),))
    assert op_types(optimize(model, pipeline=pipeline_for(target)).model) == ["Exp"]


def test_costs_are_those_of_the_target() -> None:
    body = "<int64[1] last = {-1}> { a = Abs(x) y = ReduceSum(a, last) }"
    model = load(f"g (float[1000,4] x) => (float[1000,1] y) {body}", 17)
    for costs, want in ((CPU, ["Abs", "ReduceSum"]), (replace(CPU, slow_kernels={}), ["ReduceL1"])):
        pipeline = pipeline_for(structs.replace(TARGET, costs=costs))
        assert op_types(optimize(model, pipeline=pipeline).model) == want
        found = explain(model, "fuse_reduce_l1", pipeline=pipeline, as_is=True).rules[0].match_report
        assert found is not None
        assert bool(found.matches) == (want == ["ReduceL1"])


def test_ort_raises_the_opset_and_adds_no_contributed_operator() -> None:
    assert PIPELINES["ort"] == pipeline_for(ORT)
    result = optimize(load(MODEL, 13), pipeline="ort").model
    assert op_types(result) == ["Softmax"]
    assert result.opset_import[0].version >= 23
    assert not ORT.may_add("SkipLayerNormalization", "com.microsoft", 1, [FLOAT])


def test_ort_adds_attention_in_single_precision() -> None:
    assert [ORT.may_add("Attention", "", 23, [dtype] * 3) for dtype in (FLOAT, HALF)] == [True, False]


MACHINES = [
    ("x86_64", "flags\t\t: fpu avx2 avx512f avx512_vnni", "x86-vnni"),
    ("AMD64", "flags\t\t: avx2 avx_vnni", "x86-vnni"),
    ("x86_64", "model name\t: some\nflags\t\t: fpu avx2 avx512f", "x86"),
    ("x86_64", None, "x86"),
    ("aarch64", "Features\t: asimd", "arm"),
    ("arm64", None, "arm"),
    ("riscv64", None, "portable"),
]


@pytest.mark.parametrize(("machine", "cpuinfo", "target"), MACHINES)
def test_quantization_target_of_a_machine(
    machine: str, cpuinfo: str | None, target: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "cpuinfo"
    if cpuinfo is not None:
        file.write_text(cpuinfo)
    monkeypatch.setattr(environment, "CPUINFO", file)
    monkeypatch.setattr(environment.platform, "machine", lambda: machine)
    assert environment.quantization_target() is QUANTIZATION_TARGETS[target]
    assert environment.quantization_target("arm").name == "arm"


def test_unknown_quantization_target() -> None:
    with pytest.raises(UsageError, match="--target x86-vni: no target has that name; did you mean x86-vnni or x86"):
        environment.quantization_target("x86-vni")


def sums_of_products(target: QuantizationTarget) -> tuple[float, float]:
    """The sum of 64 products of the largest activations and weights of a target, in onnxruntime, and the right one."""
    limit, kind = target.weight_limit, "int8" if target.activations == TensorProto.INT8 else "uint8"
    zero = -128 if kind == "int8" else 0
    text = f"""g (float[1,64] x) => (float[1,2] y)
        <float one = {{1}}, {kind} z = {{{zero}}}, float out = {{10000}}, int8 none = {{0}}> {{
        q = QuantizeLinear(x, one, z) d = DequantizeLinear(q, one, z) w = DequantizeLinear(weights, one, none)
        m = MatMul(d, w) r = QuantizeLinear(m, out, z) y = DequantizeLinear(r, out, z) }}"""
    model = load(text, 13, {"weights": np.full((64, 2), limit, np.int8)})
    session = create_session(model.SerializeToString(), SessionConfig("ENABLE_ALL", prepack_weights=True))
    (found,) = session.run(None, {"x": np.full((1, 64), 255, np.float32)})
    return float(found[0, 0]), 255.0 * limit * 64


def test_sums_with_the_largest_weights_are_exact() -> None:
    machine = environment.quantization_target()
    for target in {machine.name: machine, "portable": QUANTIZATION_TARGETS["portable"]}.values():
        found, wanted = sums_of_products(target)
        assert abs(found - wanted) <= 5000, target.name
    found, wanted = sums_of_products(structs.replace(machine, weight_limit=SEVEN_BITS + 1))
    assert (abs(found - wanted) > 5000) == (machine.name == "x86"), "the limit is too low for this machine"


def test_the_reason_is_said_where_names_are_long() -> None:
    places = [f"/{'encoder/layer/' * 20}{i}/Mul_output_0" for i in range(3)]
    fit = TargetFit("chip", [Misfit("MatMul", place, "rank 4 of A") for place in places])
    assert re.search(r"3 MatMul at .{,100}Mul_output_0', \.\.\. \(rank 4 of A\)$", str(fit))
    assert fit.lines() == [f"3 MatMul at '{places[0]}', '{places[1]}', ... (rank 4 of A)"]


@pytest.mark.parametrize(("axis", "allowed", "is_taken"), [(1, -1, True), (-1, 1, True), (0, -1, False), (-2, 0, True)])
def test_axes_are_counted_from_the_front(axis: int, allowed: int, is_taken: bool) -> None:
    text = f"g (float[2,3] x) => (float[2,3] y) {{ y = Softmax<axis = {axis}>(x) }}"
    op = next(from_onnx(load(text)).graph.ops("Softmax"))
    assert list(Support(attributes={"axis": (allowed,)}).obstacles(op)) == ([] if is_taken else [f"axis {axis}"])


ADD = "g (float[2] x) => (float[2] y) { y = Add(x, x) }"


@each(
    ("make", "message"),
    {
        "dtypes": (lambda: any_support(dtypes="float"), "^dtypes takes element types such as .* not 'float'$"),
        "ranks": (lambda: any_support(ranks={"X": 4}), "^ranks takes ranks such as"),
        "attributes": (lambda: any_support(attributes={"group": 1}), "^attributes takes lists of values by name"),
        "constant": (lambda: any_support(constant="axes"), "^constant takes names of inputs"),
        "condition": (lambda: any_support(condition=True), "^condition takes a function"),
        "first": (lambda: any_support(first="13"), "^first takes an opset such as 13, not '13'$"),
        "last of a form": (lambda: any_support(last="17"), "^last takes an opset"),
        "outputs": (lambda: any_support(outputs="1"), "^outputs takes a number of outputs"),
        "opset": (lambda: any_target(opset="17"), "^target t: opset takes a number such as 17, not '17'$"),
        "an opset to come": (lambda: any_target(opset=99), r"^target t: opset takes 1 to \d+, or 0 for any, not 99$"),
        "costs": (lambda: any_target(costs=3), "^target t: costs takes a CostModel, not 3$"),
        "fallback": (lambda: any_target(fallback=5), "^target t: fallback takes the name of a pipeline"),
        "name of a pipeline": (lambda: Target("basic"), "^target basic: its fallback pipeline has the same name"),
        "unknown input": (
            lambda: any_target(operators={"Conv": Support(ranks={"Y": (1,)})}),
            "^target t: Conv has no attribute or input Y at any opset",
        ),
        "unknown operator": (lambda: any_target(avoided={"Reluu": Support()}), "no opset has an operator Reluu"),
        "class": (lambda: any_target(operators={"Add": Support}), "^target t: operators takes forms by operator"),
        "types": (lambda: any_target(operators={"Add": ("float",)}), "^target t: operators takes forms by operator"),
        "list": (lambda: any_target(operators=["Add"]), r"forms by operator, such as .*, not \['Add'\]$"),
        "avoided": (lambda: any_target(avoided={"Add": (Support(),)}), "^target t: avoided takes forms"),
        "others": (lambda: any_target(others="all"), "^target t: others takes 'none', 'standard' or a function"),
        "last": (lambda: any_target(last=("drop-identity",)), "^target t: last takes a list of passes"),
        "decompositions": (lambda: any_target(decompositions=(len,)), "^target t: decompositions takes a list"),
    },
)
def test_arguments_of_other_types(make: Callable[[], object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        make()


def any_support(**given: Any) -> Support:
    return Support(**given)


def any_target(**given: Any) -> Target:
    return Target("t", **given)


def is_small(op: Op) -> bool:
    return False


def test_a_condition_declines_by_false_and_names_its_line_where_it_raises() -> None:
    (add,) = from_onnx(load(ADD)).graph.ops()
    assert Target("t", operators={"Add": Support(condition=lambda _: False)}).obstacle(add) == "its condition is false"
    assert not Target("t", operators={"Add": Support(condition=lambda _: None)}).obstacle(add)
    named = Target("t", operators={"Add": Support(condition=is_small)})
    assert named.obstacle(add) == "its condition is_small is false"
    with pytest.raises(UsageError, match=r"others fails on Add: TypeError: .* \(test_targets.py:\d+\)$"):
        any_target(others=lambda _: True).obstacle(add)
    with pytest.raises(UsageError, match=r"on Add y fails: ZeroDivisionError: .* \(test_targets.py:\d+\)$"):
        Target("t", operators={"Add": Support(condition=lambda _: 1 / 0)}).obstacle(add)


def test_a_decomposition_that_makes_the_same_op_is_not_taken() -> None:
    @rule(lambda g, x: g.HardSwish(x))
    def same(g: RewriteBuilder, x: Value) -> Value:
        """HardSwish(x) => HardSwish(x)"""
        return g.HardSwish(x)

    model, never = load("g (float[2] x) => (float[2] y) { y = HardSwish(x) }", 17), Support(last=0)
    target = Target("t", operators={"HardSwish": never}, others="standard", decompositions=(same,))
    assert op_types(optimize(model, target=target).model) == ["HardSigmoid", "Mul"]
    strict = structs.replace(target, operators={"HardSwish HardSigmoid Clip Min Max Add": never})
    with pytest.raises(TargetError, match="same would need HardSwish"):
        optimize(model, target=strict)


def test_a_decomposition_that_raises_is_said() -> None:
    @rule(lambda g, x: g.HardSwish(x))
    def wrong(g: Any, x: Value) -> Value:
        """HardSwish(x) => Relu(x), misspelt"""
        return cast("Value", g.Rellu(x))

    target = Target("t", operators={"HardSwish": Support(last=0)}, others="standard", decompositions=(wrong,))
    found = optimize(load("g (float[2] x) => (float[2] y) { y = HardSwish(x) }", 17), target=target).report
    assert found.target is not None
    assert not found.target.misfits, "another decomposition was taken"
    assert any("wrong failed at HardSwish y: no opset has an operator Rellu" in note for note in found.notes)
