"""The graph, its mutators and its invariants."""

import operator
from collections.abc import Callable

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from passwright.core import Graph, MatchFailure, Model, Op, PassesError, Tensor, Value, from_onnx, to_onnx
from passwright.core.errors import GraphError
from rewriting import cases, each, load, op_types, require_equivalent

DIAMOND = "g (float[2] x) => (float[2] y) <float[2] w = {1,2}> { a = Neg(x) b = Exp(a) c = Mul(a, w) y = Add(b, c) }"
BODIES = (
    "g (bool k, float[2] x) => (float[2] y) <float[2] w = {1,2}> { a = Neg(x) b = Exp(a) z = If (k) <"
    "then_branch = p () => (float[2] r) { t = Mul(a, w) r = Abs(t) }, "
    "else_branch = q () => (float[2] s) { s = Add(a, b) }> y = Tanh(z) }"
)


def read(text: str) -> Model:
    model = from_onnx(load(text))
    model.graph.validate()
    return model


def values(graph: Graph) -> dict[str, Value]:
    found = {v.name: v for v in (*graph.inputs, *graph.initializers)}
    return found | {v.name: v for op in graph.ops() for v in op.outputs}


def graph(text: str) -> tuple[Graph, dict[str, Value]]:
    """A graph, and its values by name."""
    found = read(text).graph
    return found, values(found)


def op(graph: Graph, op_type: str) -> Op:
    (found,) = graph.ops(op_type)
    return found


def new(op_type: str) -> Op:
    return Op(op_type, "", "", {}, None)


def test_edges_match_text() -> None:
    g, v = graph(DIAMOND)
    assert [o.type for o in g.ops()] == ["Neg", "Exp", "Mul", "Add"]
    assert op(g, "Mul").inputs == (v["a"], v["w"])
    assert set(v["a"].consumers) == {op(g, "Exp"), op(g, "Mul")}
    assert v["a"].producer is op(g, "Neg")
    assert g.producer(v["x"]) is g.producer(v["w"]) is g.producer(None) is None
    assert g.outputs == (v["y"],)
    assert g.is_output(v["y"])
    assert not g.is_output(v["a"])
    assert g.is_unused(v["y"]) is g.is_unused(v["a"]) is False
    assert v["w"].is_const
    assert not v["x"].is_const
    assert len(g) == 4
    assert op(g, "Neg") in g


def test_value_read_twice_is_two_edges() -> None:
    g = read("g (float[2] x) => (float[2] y) { y = Add(x, x) }").graph
    (x,) = g.inputs
    assert op(g, "Add").inputs == (x, x)
    assert list(x.consumers) == [op(g, "Add")]
    assert list(g.nx.in_edges(op(g, "Add"), keys=True)) == [(x, op(g, "Add"), 0), (x, op(g, "Add"), 1)]


def test_omitted_inputs() -> None:
    g = read("g (float[2] x, float m) => (float[2] y) { y = Clip(x, , m) }").graph
    assert op(g, "Clip").inputs == (g.inputs[0], None, g.inputs[1])
    assert op(g, "Clip").input(1) is op(g, "Clip").input(7) is None


def test_bodies() -> None:
    g, v = graph(BODIES)
    then, otherwise = op(g, "If").subgraphs
    assert [len(sub) for sub in g.with_subgraphs()] == [4, 2, 1]
    assert then.owner is otherwise.owner is op(g, "If")
    assert set(op(g, "If").captures) == {v["a"], v["b"], v["w"]}
    assert then.producer(v["a"]) is None
    assert {u.type for u in v["a"].consumers} == {"Exp", "Mul", "Add"}


def test_overridable_initializer_is_input_with_default() -> None:
    g = read("g (float[2] x, float[2] w = {1,2}) => (float[2] y) { y = Add(x, w) }").graph
    w = g.inputs[1]
    assert w in g.input_defaults
    assert w not in g.initializers
    assert not w.is_const
    with pytest.raises(MatchFailure):
        _ = w.const


@each("access", [lambda v: v.shape, lambda v: v.rank, lambda v: v.dtype, lambda v: v.const])
def test_unknown_properties_decline(access: Callable[[Value], object]) -> None:
    with pytest.raises(MatchFailure, match="v"):
        access(Value("v"))


def test_static_shape_declines_for_symbols() -> None:
    g = read("g (float[n,3] x) => (float[n,3] y) { y = Neg(x) }").graph
    assert g.inputs[0].shape == ("n", 3)
    with pytest.raises(MatchFailure, match="x"):
        _ = g.inputs[0].static_shape


def test_sorted_ops_follow_edges() -> None:
    g = read(DIAMOND).graph
    late = g.add_op(new("Relu"), [g.inputs[0]], [Value("late")])
    g.set_inputs(op(g, "Neg"), [late.outputs[0]])
    order = g.sorted_ops()
    assert order.index(late) < order.index(op(g, "Neg"))
    assert [o.type for o in order if o is not late] == ["Neg", "Exp", "Mul", "Add"]


def test_sorted_ops_follow_captures() -> None:
    g = read(BODIES).graph
    late = g.add_op(new("Relu"), [g.inputs[1]], [Value("late")])
    then = op(g, "If").subgraphs[0]
    late.order_key = 99
    then.set_inputs(op(then, "Abs"), [late.outputs[0]])
    order = g.sorted_ops()
    assert order.index(late) < order.index(op(g, "If"))


@cases("read_by_first", {"of several ops": "y", "of one op": "a"})
def test_cycle_is_named(read_by_first: str) -> None:
    g, v = graph(DIAMOND)
    g.set_inputs(op(g, "Neg"), [v[read_by_first]])
    with pytest.raises(GraphError, match=r"cycle.*Neg a"):
        g.sorted_ops()
    with pytest.raises(GraphError, match="cycle"):
        g.validate()


def test_cycle_through_capture() -> None:
    g, v = graph(BODIES)
    g.set_inputs(op(g, "Neg"), [v["z"]])
    with pytest.raises(GraphError, match="cycle"):
        g.validate()


def test_sorting_deep_graph_does_not_recurse() -> None:
    """The order keys are reversed, so that no op is sorted at first."""
    g = read("g (float[2] x) => (float[2] y) { y = Neg(x) }").graph
    first, value = op(g, "Neg"), g.inputs[0]
    for n in range(3000):
        made = g.add_op(new("Abs"), [value], [Value(f"v{n}")])
        made.order_key, value = -n, made.outputs[0]
    first.order_key = -9999
    g.set_inputs(first, [value])
    assert [o.outputs[0].name for o in g.sorted_ops()] == [*(f"v{n}" for n in range(3000)), "y"]


def test_networkx_view_of_graph() -> None:
    g = read(DIAMOND).graph
    v, net = values(g), g.nx
    assert nx.is_directed_acyclic_graph(net)
    assert nx.is_bipartite(net)
    assert set(net) == {*v.values(), *g.ops()}
    assert nx.ancestors(net, v["b"]) == {op(g, "Exp"), v["a"], op(g, "Neg"), v["x"]}
    assert nx.descendants(net, v["w"]) == {op(g, "Mul"), v["c"], op(g, "Add"), v["y"]}
    assert nx.shortest_path_length(net, v["x"], v["y"]) == 6
    assert net.number_of_edges() == 10
    order = {n: i for i, n in enumerate(nx.topological_sort(net))}
    assert all(order[a] < order[b] for a, b in net.edges())
    assert nx.dag_longest_path_length(net) == 6
    assert nx.condensation(net).number_of_nodes() == len(net)
    assert nx.number_weakly_connected_components(net) == 1
    assert net.in_degree(op(g, "Add")) == 2
    assert set(net.reverse().successors(v["b"])) == {op(g, "Exp")}


def test_networkx_view_of_captures() -> None:
    g = read(BODIES).graph
    v, net = values(g), g.nx
    assert net.has_edge(v["w"], op(g, "If"))
    assert net.has_edge(v["a"], op(g, "If"))
    assert v["w"] in nx.ancestors(net, v["y"])
    assert nx.is_directed_acyclic_graph(net)


def test_networkx_view_has_data() -> None:
    g = read("""g (bool k, float[N,2] x, s) => (float[2,2] y) <float[2,2] u = {1,2,3,4}, float[2] w = {1,2}> {
        [sum] a = Add(x, w)
        b = Transpose<perm=[1,0]>(a)
        y = If (k) <then_branch = p () => (r) { r = MatMul(b, u) }, else_branch = q () => (t) { t = Neg(u) }>
    }""").graph
    v, net = values(g), g.nx
    assert dict(net.nodes[v["x"]]) == {"kind": "input", "name": "x", "dtype": "float", "shape": ("N", 2)}
    assert dict(net.nodes[v["s"]]) == {"kind": "input", "name": "s"}
    tensor = v["w"].tensor
    facts = {"kind": "initializer", "name": "w", "dtype": "float", "shape": (2,), "nbytes": 8, "tensor": tensor}
    assert dict(net.nodes[v["w"]]) == facts
    assert net.nodes[v["b"]]["shape"] == (2, "N")
    transpose = {"kind": "op", "name": "", "op_type": "Transpose", "domain": "", "attributes": {"perm": [1, 0]}}
    assert dict(net.nodes[op(g, "Transpose")]) == transpose
    assert net.edges[v["w"], op(g, "Add"), 1] == {"index": 1, "nbytes": 8}
    assert net.edges[op(g, "If"), v["y"], 0] == {"index": 0, "nbytes": 16}
    assert dict(net[v["b"]]) == {op(g, "If"): {"body": {}}}
    body = op(g, "If").subgraphs[0].nx
    assert body.nodes[v["b"]]["kind"] == body.nodes[v["u"]]["kind"] == "outer"
    assert nx.get_node_attributes(net, "kind", "?").keys() == set(net)


def test_networkx_algorithms_take_the_view() -> None:
    text = """g (float[4,4] x, float[4,4] z) => (float[4,4] y) {
        a = Sub(x, z) b = Sub(a, a) c = ReduceSum(b) y = Add(c, z) }"""
    g = read(text).graph
    v, net = values(g), g.nx
    assert nx.dag_longest_path_length(net, weight="nbytes") == 5 * 64 + 2 * 4 + 64
    swapped = read(text.replace("Sub(x, z)", "Sub(z, x)")).graph.nx
    same = read(text.replace("x", "k")).graph.nx
    by_type = nx.isomorphism.categorical_node_match(["kind", "op_type"], ["", ""])
    by_index = nx.isomorphism.categorical_multiedge_match("index", None)
    assert nx.is_isomorphic(net, same, by_type, by_index)
    assert not nx.is_isomorphic(net, swapped, by_type, by_index)
    cut, (before, after) = nx.minimum_cut(nx.DiGraph(net), v["x"], v["y"], capacity="nbytes")
    assert cut == 4
    assert op(g, "ReduceSum") in before
    assert op(g, "Add") in after
    assert nx.immediate_dominators(net, v["x"])[v["y"]] is op(g, "Add")


def test_networkx_view_is_read_only() -> None:
    g = read(DIAMOND).graph
    net, add = g.nx, op(g, "Add")
    writes: list[Callable[[], object]] = [
        lambda: net.add_edge(g.inputs[0], add),
        lambda: net.remove_node(add),
        lambda: nx.set_node_attributes(net, {add: {"colour": 1}}),
        lambda: nx.set_node_attributes(net, 1, "colour"),
        lambda: nx.set_edge_attributes(net, 1, "weight"),
        lambda: operator.setitem(net.nodes[add], "op_type", "Sub"),
        lambda: net.edges[g.inputs[0], op(g, "Neg"), 0].update(index=1),
        lambda: net.nodes[add].pop("op_type"),
    ]
    for write in writes:
        with pytest.raises(GraphError, match=r"graph.nx is read only: edit a copy, nx.MultiDiGraph\(graph.nx\)"):
            write()
    assert nx.is_frozen(net)
    for copy in (
        nx.DiGraph(net),
        nx.MultiDiGraph(net),
        net.copy(),
        net.reverse(),
        net.to_undirected(),
        net.subgraph([add]).copy(),
    ):
        copy.nodes[add]["op_type"] = "Sub"
        copy.remove_node(add)
    g.validate()
    assert net.nodes[add]["op_type"] == "Add"


def test_networkx_view_is_kept_until_a_change() -> None:
    g = read(BODIES).graph
    v, net = values(g), g.nx
    assert g.nx is net
    data = net.nodes[op(g, "Exp")]
    g.set_inputs(op(g, "Exp"), [v["x"]])
    reads: list[Callable[[], object]] = [
        lambda: len(net), lambda: list(net), lambda: net.nodes[v["x"]], lambda: net.has_edge(v["a"], op(g, "Exp")),
        lambda: nx.ancestors(net, v["y"]), lambda: list(nx.topological_sort(net)), lambda: v["a"] in net,
    ]  # fmt: skip
    for read_it in reads:
        with pytest.raises(GraphError, match=r"the graph changed after this networkx view was created: use graph\.nx"):
            read_it()
    assert data["op_type"] == "Exp"
    assert g.nx.has_edge(v["x"], op(g, "Exp"))
    assert not g.nx.has_edge(v["a"], op(g, "Exp"))


def test_reorder() -> None:
    g = read(DIAMOND).graph
    neg, exp, mul, add = g.sorted_ops()
    g.reorder([neg, mul, exp, add])
    assert g.sorted_ops() == [neg, mul, exp, add]
    with pytest.raises(GraphError, match="an order must contain each op of the graph exactly once"):
        g.reorder([neg, mul, exp])
    with pytest.raises(GraphError, match="Mul c is before Neg a, on which it depends"):
        g.reorder([mul, neg, exp, add])
    assert g.sorted_ops() == [neg, mul, exp, add]


def test_add_op_refuses_second_producer() -> None:
    g, v = graph(DIAMOND)
    with pytest.raises(GraphError, match="a is produced by both"):
        g.add_op(new("Abs"), [g.inputs[0]], [v["a"]])
    g.validate()


def test_remove_op_refuses_used_ops() -> None:
    g = read(DIAMOND).graph
    for name in ("Neg", "Add"):
        with pytest.raises(GraphError, match="still used"):
            g.remove_op(op(g, name))
    g.validate()
    assert len(g) == 4


def test_remove_op_removes_its_uses() -> None:
    g, v = graph(DIAMOND)
    dead = g.add_op(new("Add"), [v["a"], v["a"]], [Value("dead")])
    g.remove_op(dead)
    assert dead not in g
    assert dead not in v["a"].consumers
    assert list(g.ops("Add")) != [dead]
    g.validate()


def test_set_inputs_moves_edges() -> None:
    g, v = graph(DIAMOND)
    g.set_inputs(op(g, "Add"), [v["b"], v["b"], None])
    assert op(g, "Add") not in v["c"].consumers
    assert list(v["b"].consumers) == [op(g, "Add")]
    g.validate()


def test_prune_removes_newly_dead_values() -> None:
    g, v = graph(DIAMOND)
    g.set_inputs(op(g, "Add"), [v["b"], v["b"]])
    assert g.prune(g.ops("Mul")) == 1
    assert v["w"] not in g.initializers
    assert [o.type for o in g.ops()] == ["Neg", "Exp", "Add"]
    assert g.prune(g.ops()) == 0
    g.validate()


def test_removal_drops_uses_in_nested_subgraphs() -> None:
    g = read(
        "g (bool k, float[2] x) => (float[2] y) { a = Neg(x) y = Abs(x) z = If (k) <"
        "then_branch = p () => (float[2] r) { r = If (k) <"
        "then_branch = p1 () => (float[2] a) { t = Exp(x) }, else_branch = q1 () => (float[2] u) { u = Abs(x) }> }, "
        "else_branch = q () => (float[2] s) { s = Exp(x) }> }"
    ).graph
    a = values(g)["a"]
    assert a.consumers
    g.remove_op(op(g, "If"))
    assert not a.consumers
    g.validate()


def test_prune_of_dead_if_removes_its_captures() -> None:
    g, v = graph(BODIES)
    g.set_inputs(op(g, "Tanh"), [v["x"]])
    assert g.prune(g.ops("If")) == 3
    assert not g.initializers
    assert list(v["x"].consumers) == [op(g, "Tanh")]
    g.validate()


def test_take_over_keeps_old_value() -> None:
    m = read(DIAMOND)
    g, v = m.graph, values(m.graph)
    users = list(v["a"].consumers)
    made = g.add_op(new("Abs"), [g.inputs[0]], [Value("new")])
    g.take_over(made.outputs[0], v["a"])
    assert v["a"].producer is made
    assert made.outputs == (v["a"],)
    assert list(v["a"].consumers) == users
    assert g.prune(g.ops("Neg")) == 1
    g.validate()
    assert op_types(to_onnx(m)) == ["Abs", "Exp", "Mul", "Add"]


def test_take_over_of_graph_output_keeps_its_name() -> None:
    m = read(DIAMOND)
    g = m.graph
    made = g.add_op(new("Abs"), [g.inputs[0]], [Value("new")])
    g.take_over(made.outputs[0], g.outputs[0])
    g.prune(list(g.ops("Add")))
    g.validate()
    assert op_types(to_onnx(m)) == ["Abs"]
    assert to_onnx(m).graph.node[0].output == ["y"]


def test_take_over_redirects_consumers_of_new_value() -> None:
    g, v = graph(DIAMOND)
    made = g.add_op(new("Abs"), [g.inputs[0]], [Value("new")])
    reader = g.add_op(new("Sqrt"), [made.outputs[0]], [Value("read")])
    g.take_over(made.outputs[0], v["a"])
    assert reader.inputs == (v["a"],)
    g.validate()


def test_take_over_requires_producer() -> None:
    g, v = graph(DIAMOND)
    with pytest.raises(GraphError, match="x"):
        g.take_over(g.inputs[0], v["a"])


def test_replace_uses() -> None:
    g, v = graph(DIAMOND)
    g.replace_uses(v["a"], v["x"])
    assert not v["a"].consumers
    assert set(v["x"].consumers) == {op(g, "Neg"), op(g, "Exp"), op(g, "Mul")}
    g.validate()


def test_replace_uses_inside_bodies() -> None:
    g, v = graph(BODIES)
    g.replace_uses(v["a"], v["x"])
    then, otherwise = op(g, "If").subgraphs
    assert op(then, "Mul").inputs[0] is v["x"]
    assert op(otherwise, "Add").inputs[0] is v["x"]
    assert v["a"] not in op(g, "If").captures
    g.validate()


def test_replace_uses_of_graph_output_transfers_its_name() -> None:
    m = read(DIAMOND)
    g, v = m.graph, values(m.graph)
    g.replace_uses(v["y"], v["b"])
    g.prune(list(g.ops("Add")))
    g.validate()
    assert g.outputs[0].name == "y"
    assert [n.output[0] for n in to_onnx(m).graph.node] == ["a", "y"]


@cases(
    ("text", "source"),
    {
        "output and input": (DIAMOND, "x"),
        "two outputs": ("g (float[2] x) => (float[2] y, float[2] z) { y = Neg(x) z = Abs(x) }", "z"),
        "output and default": ("g (float[2] x, float[2] w = {1,2}) => (float[2] y) { y = Add(x, w) }", "w"),
    },
)
def test_replace_value_keeps_names_of_interface(text: str, source: str) -> None:
    m = read(text)
    v = values(m.graph)
    with pytest.raises(MatchFailure):
        m.graph.replace_uses(v["y"], v[source])
    m.graph.validate()
    m.graph.replace_value(v["y"], v[source])
    m.graph.validate()
    (identity,) = [n for n in to_onnx(m).graph.node if n.op_type == "Identity"]
    assert (identity.input, identity.output) == ([source], ["y"])


def test_output_listed_twice_is_replaced_twice() -> None:
    g, v = graph(DIAMOND)
    g.outputs = (v["y"], v["y"])
    g.declared.outputs *= 2
    g.replace_uses(v["y"], v["b"])
    assert g.outputs == (v["b"], v["b"])
    g.validate()


def test_pinned_values_are_kept() -> None:
    g, v = graph(DIAMOND)
    g.pinned.add(v["b"])
    with pytest.raises(MatchFailure, match="by name"):
        g.replace_uses(v["b"], v["c"])
    g.pinned.add(v["w"])
    g.set_inputs(op(g, "Mul"), [v["a"], v["a"]])
    assert not g.drop_initializer(v["w"])
    assert not g.is_unused(v["w"])


def test_make_constant() -> None:
    m = read(DIAMOND)
    g, v = m.graph, values(m.graph)
    g.make_constant(v["b"], Tensor.from_array(np.array([5, 6], np.float32)))
    assert g.prune(g.ops("Exp")) == 1
    g.validate()
    assert v["b"].is_const
    out = to_onnx(m)
    assert [t.name for t in out.graph.initializer] == ["w", "b"]
    assert op_types(out) == ["Neg", "Mul", "Add"]


def test_fresh_names_are_unused() -> None:
    g = read(BODIES).graph
    taken = {"k", "x", "w", "a", "b", "z", "y", "t", "r", "s"}
    made = [g.fresh_name(stem) for stem in [*sorted(taken), *sorted(taken), "new", "new"]]
    assert len({*made, *taken}) == len(made) + len(taken)
    assert made[-1].startswith("new")


def test_fresh_names_differ_from_those_of_earlier_runs() -> None:
    first = read("g (float[2] x) => (float[2] y) { a = Neg(x) y = Abs(a) }").graph.fresh_name("a")
    again = read(f"g (float[2] x) => (float[2] y) {{ {first} = Neg(x) y = Abs({first}) }}").graph
    assert again.fresh_name("a") != first
    assert again.fresh_name(first).count("_pw") == 1


def test_tensors_are_read_only() -> None:
    g, v = graph(DIAMOND)
    with pytest.raises(ValueError, match="read-only"):
        v["w"].const[0] = 9
    made = g.add_constant(Tensor.from_array(np.zeros(3)))
    with pytest.raises(ValueError, match="read-only"):
        made.const[0] = 9


def put(item: object, **fields: object) -> None:
    """Set fields of an object, past the mutators of the graph."""
    for name, field in fields.items():
        setattr(item, name, field)


@each(
    "corrupt",
    {
        "second producer": lambda g, v: put(v["a"], producer=op(g, "Exp")),
        "missing use": lambda g, v: v["a"].remove_consumer(op(g, "Exp")),
        "false use": lambda g, v: v["b"].add_consumer(op(g, "Neg")),
        "false use of an input": lambda g, v: v["x"].add_consumer(op(g, "Add")),
        "false use of a constant": lambda g, v: v["w"].add_consumer(op(g, "Add")),
        "use by an unknown op": lambda _, v: v["b"].add_consumer(new("Abs")),
        "inputs set directly": lambda g, v: put(op(g, "Exp"), inputs=(v["x"],)),
        "value without producer": lambda g, _: g.set_inputs(op(g, "Exp"), [Value("ghost")]),
        "value of a removed op": lambda g, _: g._ops.pop(op(g, "Neg")),
        "stale index": lambda g, _: g._by_type["Neg"].update({new("Neg"): None}),
        "wrong index": lambda g, _: put(op(g, "Neg"), type="Abs"),
        "other graph": lambda g, _: put(op(g, "Neg"), graph=read(DIAMOND).graph),
        "output without producer": lambda g, _: put(g, outputs=(*g.outputs, Value("ghost"))),
        "output renamed": lambda g, _: put(g.outputs[0], name="other"),
        "output slots": lambda g, v: operator.setitem(g._outputs._values, 0, v["b"]),
        "constant with producer": lambda g, v: g.initializers.update({v["a"]: None}),
        "initializer without tensor": lambda _, v: put(v["w"], tensor=None),
        "duplicate name": lambda _, v: put(v["a"], name="b"),
    },
)
def test_validate_finds_corruption(corrupt: Callable[[Graph, dict[str, Value]], object]) -> None:
    g, v = graph(DIAMOND)
    corrupt(g, v)
    with pytest.raises(PassesError):
        g.validate()


def test_validate_checks_bodies() -> None:
    g, v = graph(BODIES)
    then = op(g, "If").subgraphs[0]
    v["a"].remove_consumer(op(then, "Mul"))
    with pytest.raises(GraphError):
        g.validate()


def test_validate_finds_body_with_wrong_owner() -> None:
    g = read(BODIES).graph
    op(g, "If").subgraphs[0].owner = op(g, "Neg")
    with pytest.raises(GraphError):
        g.validate()


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9), st.integers(0, 9)), max_size=12))
def test_random_mutations_keep_invariants(steps: list[tuple[int, int, int]]) -> None:
    """Identities are inserted, values take over and replace each other: the graph stays equivalent."""
    model = load(BODIES)
    m = from_onnx(model)
    g = m.graph
    for kind, a, b in steps:
        pool = [v for o in g.sorted_ops() for v in o.outputs if v.consumers or g.is_output(v)]
        value = pool[a % len(pool)]
        if kind == 0:
            made = g.add_op(new("Identity"), [value], [Value(g.fresh_name("i"))]).outputs[0]
            made.producer.order_key = value.producer.order_key
            for user in [u for u in value.consumers if u.graph is g and u is not made.producer][: b % 3]:
                g.set_inputs(user, [made if v is value else v for v in user.inputs])
        elif kind == 1 and value.producer is not None and value.producer.type == "Identity":
            g.replace_value(value, value.producer.inputs[0])
        elif kind == 2 and value.producer is not None and not value.producer.subgraphs:
            twin = g.add_op(
                Op(value.producer.type, "", "", {}, None), value.producer.inputs, [Value(g.fresh_name("t"))]
            )
            twin.order_key = value.producer.order_key
            g.take_over(twin.outputs[0], value)
        else:
            g.prune(list(g.ops()))
        g.validate()
    g.prune(list(g.ops()))
    g.validate()
    require_equivalent(model, to_onnx(m), exact=True)
