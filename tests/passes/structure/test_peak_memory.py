"""The pass that reorders ops for memory: against the best order, and where order has a meaning."""

from __future__ import annotations

from heapq import heappop, heappush
from random import Random

import onnx
import pytest
from onnx import TensorProto, helper
from passwright.core import ChangeLog, Graph, Op, from_onnx, to_onnx
from passwright.core.analyses.liveness import Liveness
from passwright.passes.structure.peak_memory import ReducePeakMemory
from rewriting import apply_passes, cases, load, require_equivalent

from passwright import optimize

TILES = """a = Tile(x, r) b = Tile(z, r)
    c = ReduceSum<keepdims=0>(a, k) d = ReduceMax<axes=[0], keepdims=0>(b) y = Add(c, d)"""
CONSTANTS = "<int64[2] r = {50, 1}, int64[1] k = {0}>"
BRANCHES = f"g (float[4,8] x, float[4,8] z) => (float[8] y) {CONSTANTS} {{ {TILES} }}"
IN_FILE_ORDER = ReducePeakMemory("in-file-order")


def order_of(graph: Graph) -> str:
    return " ".join(op.outputs[0].name for op in graph.sorted_ops())


@cases(
    ("text", "order"),
    {
        "branches": (BRANCHES, "a c b d y"),
        "symbols": (BRANCHES.replace("[4,8]", "[N,8]"), "a c b d y"),
        "views are in the memory of their input": (
            """g (float[8] x) => (float[8] y)
            <int64[2] s = {2,4}, int64[2] r = {50,1}, int64[2] q = {60,1}, int64[1] k = {0}> {
                n = Neg(x) v = Reshape(n, s) a = Tile(v, r) b = Tile(v, q) c = ReduceSum<keepdims=0>(a, k)
                d = ReduceSum<keepdims=0>(b, k) y = Concat<axis=0>(c, d) }""",
            "n v b d a c y",
        ),
    },
)
def test_becomes(text: str, order: str) -> None:
    model = load(text)
    result, change_log = apply_passes(model, IN_FILE_ORDER)
    assert order_of(result.graph) == order
    assert [(c.by, c.place) for c in change_log.changes] == [("reduce-peak-memory", "y")]
    require_equivalent(model, to_onnx(result), exact=True)
    assert apply_passes(to_onnx(result), IN_FILE_ORDER)[1].change_count == 0


LOOP = """g (int64 n, bool t, float[4,8] x, float[4,8] z) => (float[8] y) <int64[2] r = {50, 1}, int64[1] k = {0}> {
    w = Identity(x)
    y0 = ReduceSum<keepdims=0>(x, k)
    y = Loop(n, t, y0) <body = p (int64 i, bool u, float[8] s) => (bool uo, float[8] o) {
        uo = Identity(u) TILES o = Add(s, e) }> }"""


def test_bodies() -> None:
    text = LOOP.replace("TILES", TILES.replace("y = ", "e = "))
    result, change_log = apply_passes(load(text), IN_FILE_ORDER)
    assert [c.place for c in change_log.changes] == ["uo"]
    (body,) = next(result.graph.ops("Loop")).subgraphs
    names = order_of(body).split()
    assert names.index("c") == names.index("a") + 1 or names.index("d") == names.index("b") + 1


@cases(
    "text",
    {
        "ops with effects keep their order": BRANCHES.replace("Tile(", "com.example.Tile("),
        "random ops keep their order": """g (float[8] x) => (float[8] y) <int64[1] k = {0}> {
            a = RandomNormalLike(x) b = RandomNormalLike(x) c = Neg(a) d = Neg(b) e = Add(c, d) y = Add(e, x) }""",
        "a size is unknown": BRANCHES.replace("y = Add(c, d)", "e = com.example.Some(c) y = Add(e, d)"),
        "no order is better": "g (float[8] x) => (float[8] y) { a = Neg(x) b = Abs(x) y = Add(a, b) }",
        "ops that update inputs": """g (float[1,2,4] x, float[2] s) => (float[1,2,4] y) {
            t, m, v = BatchNormalization<training_mode=1>(x, s, s, s, s) a = Neg(x) b = Add(a, t) y = Add(b, x) }""",
    },
)
def test_stays(text: str) -> None:
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 17, "com.example" : 1]> {text}')
    before = order_of(from_onnx(model).graph)
    result, change_log = apply_passes(model, ReducePeakMemory())
    assert (order_of(result.graph), change_log.change_count) == (before, 0)


def test_order_of_onnxruntime_counts() -> None:
    """Two sums whose second operand onnxruntime computes first: the order of the file may help in one way alone."""
    text = BRANCHES.replace("Add(c, d)", "Add(d, c)")
    result, _ = apply_passes(load(text), ReducePeakMemory("depth-first"))
    assert order_of(result.graph) == order_of(from_onnx(load(text)).graph)  # depth-first is the best order already
    assert apply_passes(load(text), ReducePeakMemory())[1].change_count == 1


def random_graph(random: Random) -> Graph:
    """A graph of ops whose results have random sizes."""
    nodes, sizes, used = list[onnx.NodeProto](), {"x": 10}, set[str]()
    for i in range(random.randint(5, 11)):
        read = random.choices(list(sizes)[-random.choice([3, 5, 9]) :], k=random.choice([1, 1, 2, 3]))
        sizes[f"v{i}"] = random.choice([1, 2, 4, 8, 16, 32])
        used.update(read)
        nodes.append(helper.make_node("Sum", read, [f"v{i}"]))
    infos = {name: helper.make_tensor_value_info(name, TensorProto.UINT8, [size]) for name, size in sizes.items()}
    outputs = [infos[name] for name in sizes if name not in used]
    proto = helper.make_graph(nodes, "g", [infos["x"]], outputs, value_info=list(infos.values()))
    model = helper.make_model(proto, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    graph = from_onnx(model).graph
    graph.context.infer = lambda _: None  # the sizes are those declared
    return graph


def least_peak(liveness: Liveness) -> int:
    """The least peak of any order: a path over sets of ops whose highest need is least."""
    ops: list[Op] = list(liveness.order)
    read, made = ([ways(op) for op in ops] for ways in (liveness.blocks_read, liveness.blocks_made))
    maker = {v: i for i, blocks in enumerate(made) for v in blocks}
    readers = {v: sum(1 << i for i, blocks in enumerate(read) if v in blocks) for v in maker}
    before = [sum(1 << maker[v] for v in blocks) for blocks in read]
    sizes = {v: int(str(liveness.sizes[v])) for v in maker}
    best, queue = {0: 0}, [(0, 0)]
    while queue:
        peak, done = heappop(queue)
        if done == (1 << len(ops)) - 1:
            return peak
        there = (v for v, i in maker.items() if done >> i & 1)
        live = sum(sizes[v] for v in there if readers[v] & ~done or liveness.last_reader(v) is None)
        for i in range(len(ops)):
            if not done >> i & 1 and not before[i] & ~done:
                higher, after = max(peak, live + sum(sizes[v] for v in made[i])), done | 1 << i
                if higher < best.get(after, 1 << 40):
                    best[after] = higher
                    heappush(queue, (higher, after))
    raise AssertionError


def test_order_is_near_the_best() -> None:
    found = best = given = 0
    for seed in range(25):
        graph = random_graph(Random(seed))
        before = Liveness(graph)
        given, best = given + int(str(before.peak)), best + least_peak(before)
        apply_to(graph)
        after = graph.analysis(Liveness).peak
        assert least_peak(before) <= int(str(after)) <= int(str(before.peak))
        found += int(str(after))
    assert given > 1.15 * best
    assert found < 1.02 * best


def apply_to(graph: Graph) -> None:
    IN_FILE_ORDER.run(graph, ChangeLog())
    graph.validate()


@pytest.mark.parametrize("runs", ["any", "in-file-order", "depth-first"])
def test_options(runs: str) -> None:
    report = optimize(load(BRANCHES), enable=[f"reduce-peak-memory{{runs={runs}}}"]).report
    assert report.passes[-1].changes == (runs != "depth-first")
