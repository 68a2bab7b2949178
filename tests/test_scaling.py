"""Linear work: steps are counted, not seconds."""

import gc
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import onnx
import pytest
from operation_counts import count_calls
from passwright.core import EXACT, ChangeLog, Op, Value, rule
from passwright.core.errors import EvaluationError
from passwright.core.io.convert import from_onnx
from passwright.core.io.split_models import SplitModel
from passwright.core.ir.op import SLOTS_THRESHOLD
from passwright.core.rewriting.driver import RuleIndex, Worklist
from passwright.core.support import gc_pause
from passwright.core.support.gc_pause import gc_paused
from passwright.core.verify.combined_plans import combined_plans
from passwright.core.verify.input_search import InputSearch
from passwright.core.verify.input_sets import InputSet
from passwright.core.verify.input_specs import input_specs
from passwright.core.verify.model_constants import NO_CONSTANTS
from passwright.core.verify.regions.region_comparison import plan_groups
from passwright.core.verify.regions.value_graph import ValueGraph
from passwright.passes.cleanup.merge_duplicates import MergeDuplicates, Scope
from passwright.passes.folding.fold_constants import FoldConstants
from rewriting import load
from tiers import slow_unless

from passwright import optimize

SMALL = 3 * SLOTS_THRESHOLD


def model(ops: Iterable[str], last: str, x: str = "N,8", **weights: Any) -> onnx.ModelProto:
    """A model from x to y: some ops, and one that makes y."""
    return load(f"g (float[{x}] x) => (y) {{ {' '.join(ops)} y = {last} }}", weights=weights)


def joined(ops: Iterable[str], n: int, join: str, x: str = "N,8", **weights: Any) -> onnx.ModelProto:
    """A model whose last op takes v0, v1, ..."""
    return model(ops, f"{join}({', '.join(f'v{i}' for i in range(n))})", x, **weights)


def star(n: int) -> onnx.ModelProto:
    """Equal ops that feed a wide one."""
    kinds = ["Sin", "Cos", "Exp", "Tan"]
    return joined(["t = Transpose<perm=[1,0]>(x)", *(f"v{i} = {kinds[i % 4]}(t)" for i in range(n))], n, "Sum")


def idle(n: int) -> onnx.ModelProto:
    """No-op ops that feed a wide one."""
    ops = (f"r{i} = LeakyRelu<alpha={0.1 + i / 1e5}>(x) v{i} = Identity(r{i})" for i in range(n))
    return joined(ops, n, "Concat<axis=0>")


def equal_constants(n: int) -> onnx.ModelProto:
    """A wide op of the same constant many times."""
    return joined([], n, "Sum", **{f"v{i}": np.ones((1, 8), np.float32) for i in range(n)})


def cut_up(n: int) -> onnx.ModelProto:
    """Slices that are one Split with many outputs."""
    ops = (f"p{i} = Slice(x, s{i}, s{i + 1}) v{i} = {('Sin', 'Cos')[i % 2]}(p{i})" for i in range(n))
    return joined(ops, n, "Concat<axis=0>", f"{n},8", **{f"s{i}": np.array([i]) for i in range(n + 1)})


def siblings(n: int) -> onnx.ModelProto:
    """Products of one value with many weights."""
    weights = {f"w{i}": np.full((4, 4), i, np.float32) for i in range(n)}
    return joined((f"p{i} = MatMul(x, w{i}) v{i} = Sin(p{i})" for i in range(n)), n, "Sum", "4,4", **weights)


def chain(n: int) -> onnx.ModelProto:
    """A chain without possible rewrites."""
    return model(["v0 = Sin(x)", *(f"v{i + 1} = Sin(v{i})" for i in range(n))], f"Cos(v{n})")


def nested_concats(n: int) -> onnx.ModelProto:
    """A chain of Concats that are one."""
    ops = (f"v{i + 1} = Concat<axis=0>({f'v{i}' if i else 'x'}, x)" for i in range(n))
    return model(ops, f"ReduceMax(v{n})")


def other_concats(n: int) -> onnx.ModelProto:
    """Concats along another axis than the wide one that reads them."""
    weights = {f"c{i}": np.full((1, 1), i, np.float32) for i in range(n)}
    return joined((f"v{i} = Concat<axis=1>(x, c{i})" for i in range(n)), n, "Concat<axis=0>", "1,8", **weights)


def concat_of_splits(n: int) -> onnx.ModelProto:
    """A wide Concat of the outputs of many Splits, in order."""
    ops = (f"r{i} = LeakyRelu<alpha={i / 1e5:f}>(x) v{2 * i}, v{2 * i + 1} = Split<axis=1>(r{i})" for i in range(n))
    return joined(ops, 2 * n, "Concat<axis=1>", "1,8")


def expands(n: int) -> onnx.ModelProto:
    """A wide Sum of Expands."""
    ops = (f"r{i} = LeakyRelu<alpha={i / 1e5:f}>(x) v{i} = Expand(r{i}, s)" for i in range(n))
    return joined(ops, n, "Sum", "1,8", s=np.array([4, 8]))


def shapes_of_parts(n: int) -> onnx.ModelProto:
    """A Split whose outputs become unused one after the other."""
    parts = f"{', '.join(f'p{i}' for i in range(n))} = Split<axis=0>(x)"
    used = f"last = Neg(p{n - 1}) unused = Shape(last)"
    shapes = (f"s{i} = Shape(p{i}) v{i} = Cast<to=1>(s{i})" for i in range(n))
    return joined([parts, *shapes, used], n, "Concat<axis=0>", f"{n},8")


def equal_conditions(n: int) -> onnx.ModelProto:
    """Ifs with one condition, of which the first is large."""
    large = " ".join(f"a{i + 1} = Sin(a{i})" for i in range(n))
    first = f"<then_branch = t () => (float[2] a{n}) {{ a0 = Neg(x) {large} }}"
    ops = [f"v0 = If (c) {first}, else_branch = e () => (float[2] b) {{ b = Neg(x) }}>"]
    ops += [
        f"v{i} = If (c) <then_branch = t{i} () => (float[2] p{i}) <float w{i} = {{{i}}}> {{ p{i} = Mul(x, w{i}) }}, "
        f"else_branch = e{i} () => (float[2] q{i}) {{ q{i} = Neg(x) }}>"
        for i in range(1, n)
    ]
    return load(f"g (float[2] x, bool c) => (y) {{ {' '.join(ops)} y = Sum({', '.join(f'v{i}' for i in range(n))}) }}")


def computed_batches(n: int) -> onnx.ModelProto:
    """Reshapes to a batch that is known when constants are folded, with no-op layers between them."""
    ops = ["v0 = Identity(x)"]
    for i in range(n):
        ops.append(f"i{i} = Squeeze(c) s{i} = Shape(v{i}) b{i} = Gather(s{i}, i{i}) u{i} = Unsqueeze(b{i}, c)")
        ops.append(f"d{i} = Concat<axis=0>(u{i}, w) r{i} = Reshape(v{i}, d{i})")
        ops.append(f"p{i} = Dropout(r{i}) v{i + 1} = Sin(p{i})")
    return model(ops, f"Cos(v{n})", c=np.array([0]), w=np.array([8]))


def constant_conditions(n: int) -> onnx.ModelProto:
    """Ifs that are inlined one after the other, on values of unknown rank."""
    ops = " ".join(
        f"v{i + 1} = If (c) <then_branch = a{i} () => (t{i}) {{ t{i} = Sin(v{i}) }}, "
        f"else_branch = b{i} () => (e{i}) {{ e{i} = Neg(v{i}) }}>"
        for i in range(n)
    )
    return load(f"g (float[N] x, int64[M] s) => (y) <bool c = {{1}}> {{ v0 = Reshape(x, s) {ops} y = Cos(v{n}) }}")


def copied(monkeypatch: pytest.MonkeyPatch, work: Callable[[], object]) -> int:
    """Count the places visited by `work` to replace a value."""
    from passwright.core.ir import op

    looked_at, real = 0, op.replaced

    def counting(among: Any, old: Value, new: Value) -> Any:
        nonlocal looked_at
        looked_at += len(among)
        return real(among, old, new)

    with monkeypatch.context() as m:
        m.setattr(op, "replaced", counting)
        work()
    return looked_at


MODELS = [star, idle, equal_constants, cut_up, siblings, chain, computed_batches, constant_conditions]
WIDE = [nested_concats, other_concats, concat_of_splits, expands, shapes_of_parts]


FIRST = {star, cut_up, nested_concats}


@pytest.mark.parametrize("build", slow_unless(FIRST, [*MODELS, *WIDE]))
def test_calls_grow_with_the_graph(build: Callable[[int], onnx.ModelProto]) -> None:
    def run(n: int) -> Callable[[], object]:
        m = build(n)
        return lambda: optimize(m, verify=False)

    run(SMALL)()  # fill the caches
    assert count_calls(run(3 * SMALL)) < 3.6 * count_calls(run(SMALL))


def test_bodies_are_numbered_once() -> None:
    def merged(n: int) -> Callable[[], object]:
        graph = from_onnx(equal_conditions(n)).graph
        return lambda: MergeDuplicates().run(graph, ChangeLog())

    merged(8)()
    assert count_calls(merged(90)) < 3.6 * count_calls(merged(30))


def test_input_specs_take_linear_time() -> None:
    def described(n: int) -> Callable[[], object]:
        ops = " ".join(f"v{i + 1} = Sin(v{i})" for i in range(n))
        body = f"b (int64 i, bool c, float[2] v0) => (bool again, float[2] v{n}) {{ again = Identity(c) {ops} }}"
        m = from_onnx(load(f'g (float[2] x, int64 n) => (float[2] y) {{ y = Loop<body = {body}>(n, "", x) }}'))
        return lambda: input_specs(m)

    assert count_calls(described(3 * SMALL)) < 3.6 * count_calls(described(SMALL))


def wide_sum(n: int, dims: str = "2") -> onnx.ModelProto:
    """A Sum of many graph inputs, with many consumers; `i` in `dims` is the number of an input."""
    inputs = ", ".join(f"float[{dims.replace('i', str(i))}] x{i}" for i in range(n))
    ops = " ".join(f"v{i} = Sin(s)" for i in range(n))
    return load(f"g ({inputs}) => ({', '.join(f'v{i}' for i in range(n))})"
                f"{{ s = Sum({', '.join(f'x{i}' for i in range(n))}) {ops} }}")  # fmt: skip


def test_specs_of_many_inputs_of_one_op_take_linear_time() -> None:
    def described(n: int) -> Callable[[], object]:
        m = from_onnx(wide_sum(n))
        return lambda: input_specs(m)

    described(8)()
    assert count_calls(described(3 * SMALL)) < 3.6 * count_calls(described(SMALL))


def test_plans_for_many_inputs_take_linear_time() -> None:
    def planned(n: int) -> Callable[[], object]:
        specs = input_specs(from_onnx(wide_sum(n)))
        return lambda: combined_plans(specs, [{}], NO_CONSTANTS, frozenset(), 0)

    assert count_calls(planned(SMALL)) < 3.6 * count_calls(planned(SMALL // 3))


@pytest.mark.parametrize("refused", slow_unless({False}, [False, True]))
def test_sizes_of_many_symbols_take_linear_time(refused: bool) -> None:
    def searched(n: int) -> Callable[[], object]:
        specs = input_specs(from_onnx(wide_sum(n, "Ni")))

        def run(input_set: InputSet, _: float | None = None) -> dict[str, Any]:
            if refused and list(input_set.sizes.values()).count(1) > 1:
                raise EvaluationError("equal")
            return {"s": np.zeros(2)}

        return lambda: list(InputSearch(run, specs, {}, combines=False).runs())

    searched(10)()
    assert count_calls(searched(180)) < 3.6 * count_calls(searched(60))


def test_groups_of_sites_do_not_list_all_that_is_kept() -> None:
    """Values that are read long after they were computed."""
    n = 200
    early = " ".join(f"e{i + 1} = Sin(e{i})" for i in range(n))
    late = " ".join(f"v{i + 1} = Add(v{i}, e{n - i})" for i in range(n))
    graph = ValueGraph.of(
        SplitModel(load(f"g (float[2] x) => (v{n}) {{ e0 = Exp(x) {early} v0 = Neg(x) {late} }}"), {})
    )
    names = [*(f"e{i}" for i in range(1, n)), *(f"v{i}" for i in range(1, n))]
    plans = plan_groups(graph, [names[i : i + 4] for i in range(0, len(names), 4)], tuple)
    assert sum(len(p.computed) + len(p.taken) + len(p.released) for p in plans) < 4 * len(names)


def test_regions_have_only_the_functions_that_they_call() -> None:
    function = '<domain: "f", opset_import: ["": 17]> F{} (a) => (b) {{ b = Sin(a) }}'
    main = '<ir_version: 8, opset_import: ["": 17, "f": 1]> g (float[2] x) => (y) { v = f.F1(x) y = f.F2(v) }'
    text = "\n".join([main, *map(function.format, range(3))])
    graph = ValueGraph.of(SplitModel(onnx.parser.parse_model(text), {}))
    assert [[f.name for f in graph.called_functions([n])] for n in (0, 1)] == [["F1"], ["F2"]]


def test_budget_is_not_recounted_per_body() -> None:
    def folded(n: int) -> Callable[[], object]:
        ops = (
            f"v{i + 1} = If (c) <then_branch = a{i} () => (float[2] t{i}) <float[2] w{i} = {{1, {i}}}>"
            f"{{ t{i} = Mul(v{i}, w{i}) }}, else_branch = b{i} () => (float[2] e{i}) {{ e{i} = Neg(v{i}) }}>"
            for i in range(n)
        )
        m = from_onnx(load(f"g (float[2] x, bool c) => (float[2] v{n}) {{ v0 = Exp(x) {' '.join(ops)} }}"))
        return lambda: FoldConstants().run(m.graph, ChangeLog())

    assert count_calls(folded(3 * SMALL)) < 3.6 * count_calls(folded(SMALL))


@pytest.mark.parametrize("build", slow_unless(FIRST, MODELS))
def test_edges_of_wide_ops_are_not_copied_per_replacement(
    build: Callable[[int], onnx.ModelProto], monkeypatch: pytest.MonkeyPatch
) -> None:
    m = build(3 * SMALL)
    assert copied(monkeypatch, lambda: optimize(m, verify=False)) < 40 * SMALL


def test_edges_of_wide_ops_are_correct() -> None:
    """Edges replaced one by one, read in between, and set again."""
    n = SLOTS_THRESHOLD + 2
    graph = from_onnx(star(n)).graph
    (wide,) = graph.ops("Sum")
    values = list(wide.inputs)
    for i in (3, 1, 4):
        old = values[i]
        assert old is not None
        assert values[0] is not None
        graph.replace_uses(old, values[0])
        values[i] = values[0]
    assert wide.inputs == tuple(values)
    assert values[0] is not None
    assert values[2] is not None
    graph.replace_uses(values[0], values[2])
    values = [values[2] if v is values[0] else v for v in values]
    graph.set_inputs(wide, values[1:])
    assert values[1] is not None
    assert values[5] is not None
    graph.replace_uses(values[5], values[1])
    assert wide.inputs == tuple(values[1] if v is values[5] else v for v in values[1:])
    graph.prune(graph.ops("Sin", "Cos", "Exp", "Tan"))
    graph.validate()


def test_op_has_no_other_attributes() -> None:
    op = Op("Relu", "", "", {}, None)
    with pytest.raises(AttributeError):
        op.weights  # noqa: B018 - asking for it is the test


def test_worklist_keeps_the_order() -> None:
    a, b, c = (Op(t, "", "", {}, None) for t in "abc")
    work, seen = Worklist(), list[Op]()
    work.add([a, b, a])
    for op in work:
        seen.append(op)
        if len(seen) < 3:
            work.add([b, c, a])
    assert seen == [a, b, c, a, b]


@rule(lambda g, x, y: g.Add(g.Conv(x, y), g.Conv(y, x)), contract=EXACT)
def two_of_a_kind(g: Any, x: Value, y: Value) -> Value:
    """Conv(x, y) + Conv(y, x) => x"""
    return x


def test_rules_on_two_producers_are_not_tried_for_one() -> None:
    ops = "a = Conv(x, x) b = Conv(x, x) c = Add(a, x) d = Add(a, b)"
    one, two = from_onnx(model([ops], "Sum(c, d)", "1,1,1")).graph.ops("Add")
    candidates = RuleIndex([two_of_a_kind])
    assert candidates.candidates_at(one) == []
    assert candidates.candidates_at(two) == [two_of_a_kind]


def test_merge_duplicates_frees_its_scopes() -> None:
    graph = from_onnx(star(8)).graph
    with gc_paused():  # only reference counts free objects here
        before = {id(o) for o in gc.get_objects() if isinstance(o, Scope)}
        MergeDuplicates().run(graph, ChangeLog())
        assert not [o for o in gc.get_objects() if isinstance(o, Scope) and id(o) not in before]


def test_collector_state_is_restored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gc_pause, "_has_frozen", [False])
    gc.unfreeze()
    with gc_paused():
        assert not gc.isenabled()
    assert gc.isenabled()
    assert gc.get_freeze_count() == 0
    gc.freeze()  # as `conftest.py` does
