"""Pictures of regions and patterns: contents, layout and escaping of names."""

import re
from itertools import combinations, pairwise
from pathlib import Path
from xml.etree import ElementTree as ET

import numpy as np
import onnx
import pytest
from onnx import helper
from passwright.app.report.op_pictures import region_picture
from passwright.app.report.picture import Box, BoxKind, Picture, box_size, picture_layout, svg
from passwright.core import EXACT, Op, RewriteBuilder, Rule, RulePass, Value, from_onnx, rule
from passwright.core.io.model_source import model_source
from passwright.passes.pipelines import BUILT_IN
from pattern_pictures import pattern_picture
from rewriting import load

RULES = [r for p in BUILT_IN if isinstance(p, RulePass) for r in p.rules]
HALVES = ", ".join(["0.5"] * 16)
RESIDUAL = (
    f"g (float[N,4] x) => (float[N,4] y, float[N,4] r) <float[4,4] w = {{{HALVES}}}> {{ h = MatMul(x, w) r = Relu(h) "
    "t = Transpose <perm = [1,0]> (r) u = Transpose <perm = [1,0]> (t) y = Add(u, x) }"
)


def ops_of(text: str, opset: int = 17) -> list[Op]:
    return from_onnx(load(text, opset)).graph.sorted_ops()


def words(picture: Picture) -> list[str]:
    """The texts of the boxes."""
    return sorted(" ".join(box.lines) for box in picture.boxes)


def parse_xml(text: str) -> ET.Element:
    """The picture as XML. Raises ParseError if it is malformed."""
    return ET.fromstring(text)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param(
            "g (float[N] x) => (float[N] y) { y = Relu(x) }", ["Relu", "x float[N]", "y float[N]"], id="one op"
        ),
        pytest.param(
            "g (float[2] x) => (float[2] y) <float[2] k = {1, 2.5}> { y = Add(x, k) }",
            ["Add", "k [1, 2.5]", "x float[2]", "y float[2]"],
            id="a small constant",
        ),
        pytest.param(
            "g (float[2] x) => (float[2] y) <float k = {0.1}> { y = Mul(x, k) }",
            ["Mul", "k 0.1", "x float[2]", "y float[2]"],
            id="a scalar",
        ),
        pytest.param(
            "g (float[2,3] x) => (float[3,2] y) { y = Transpose <perm = [1,0]> (x) }",
            ["Transpose perm: [1, 0]", "x float[2,3]", "y float[3,2]"],
            id="an attribute",
        ),
        pytest.param(
            "g (float[2] x) => (float[2] y) { y = LeakyRelu <alpha = 0.01> (x) }",
            ["LeakyRelu", "x float[2]", "y float[2]"],
            id="an attribute at its default",
        ),
        pytest.param(
            "g (bool c, float[2] x) => (float[2] y) { y = If (c) <then_branch = a () => (float[2] t) { t = Neg(x) }, "
            "else_branch = b () => (float[2] e) { e = Relu(x) }> }",
            ["If then_branch: Neg else_branch: Relu", "c bool[]", "x float[2]", "y float[2]"],
            id="bodies and the values they read",
        ),
        pytest.param(
            "g (float[0,3] x) => (float[0,3] y) <float[0] k = {}> { y = Clip(x, , k) }",
            ["Clip", "k []", "x float[0,3]", "y float[0,3]"],
            id="no elements, omitted input",
        ),
    ],
)
def test_texts_of_region(text: str, want: list[str]) -> None:
    assert words(region_picture(ops_of(text))) == want


def test_value_read_outside_is_an_output() -> None:
    ops = ops_of(RESIDUAL)
    assert "r float[N,4]" in words(region_picture(ops[:2]))
    assert words(region_picture(ops[2:3])) == ["Transpose perm: [1, 0]", "r float[N,4]", "t float[4,N]"]


def test_marked_ops_are_highlighted() -> None:
    ops = ops_of(RESIDUAL)
    picture = region_picture(ops, marked=ops[2:4])
    assert [box.lines[0] for box in picture.boxes if box.marked] == ["Transpose", "Transpose"]
    assert svg(picture, "t").count("--passes-mark") == 4


def test_picture_has_minimum_width() -> None:
    drawn = svg(region_picture(ops_of(RESIDUAL)), "t")
    width, least = (float(re.search(p, drawn)[1]) for p in (r' width="(\d+)"', r"min-width: (\d+)px"))
    assert 0.65 < least / width < 0.75


def test_graph_without_ops_shows_its_outputs() -> None:
    graph = from_onnx(load("g () => (float[2] y) <float[2] y = {1, 2}> { }")).graph
    assert words(region_picture([], shown_values=graph.outputs)) == ["y [1, 2]"]
    assert words(region_picture([])) == []
    parse_xml(svg(region_picture([]), "nothing"))


def test_many_inputs_are_counted() -> None:
    names = [f"x{i}" for i in range(1000)]
    graph = helper.make_graph(
        [helper.make_node("Concat", names, ["y"], axis=0)],
        "g",
        [helper.make_tensor_value_info(n, 1, [1]) for n in names],
        [helper.make_tensor_value_info("y", 1, [1000])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)
    assert "992 more" in words(region_picture(from_onnx(model).graph.sorted_ops()))


def test_inner_inputs_are_all_drawn() -> None:
    body = " ".join(f"v{i} = Neg(x)" for i in range(20))
    names = ", ".join(f"v{i}" for i in range(20))
    picture = region_picture(ops_of(f"g (float[N] x) => (float[M] y) {{ {body} y = Concat <axis = 0> ({names}) }}"))
    assert len(picture.lines) == 20 + 20 + 1
    assert not [word for word in words(picture) if "more" in word]


@pytest.mark.parametrize("name", ['<b>&"x"', "a\x00b\x1b[1m", "]]>", "ütf-8 名前", "x" * 500, " "], ids=repr)
def test_any_name_can_be_drawn(name: str) -> None:
    op = helper.make_node("Neg", [name], [name + "'"], name=name)
    ends = [helper.make_tensor_value_info(n, 1, [name, 2]) for n in (name, name + "'")]
    graph = helper.make_graph([op], "g", ends[:1], ends[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)
    drawn = svg(region_picture(from_onnx(model).graph.sorted_ops()), name)
    parse_xml(drawn)
    assert "<b>" not in drawn
    assert drawn.encode()


def test_attributes_of_any_kind() -> None:
    op = helper.make_node(
        "Strange", ["x"], ["y"], domain="some.where.far.away.in.a.very.long.domain", s="text\n<",
        many=list(range(10_000)), tensor=onnx.numpy_helper.from_array(np.zeros((3, 4), np.float16)), f=1 / 3,
        words=["a", "b"], kind=helper.make_tensor_type_proto(1, [2]),
    )  # fmt: skip
    ends = [helper.make_tensor_value_info(n, 1, [2]) for n in "xy"]
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(op.domain, 1)]
    model = helper.make_model(helper.make_graph([op], "g", ends[:1], ends[1:]), opset_imports=opsets, ir_version=10)
    picture = region_picture(from_onnx(model).graph.sorted_ops())
    assert max(len(line) for box in picture.boxes for line in box.lines) <= 28
    assert "and 3 more" in " ".join(words(picture))
    parse_xml(svg(picture, "strange"))


def test_weights_are_not_read(tmp_path: Path) -> None:
    model = load(
        "g (float[N,4] x) => (float[N,4] y) { h = MatMul(x, w) y = Add(h, b) }",
        weights={"w": np.ones((4, 4), np.float32), "b": np.ones(4, np.float32)},
    )
    path = tmp_path / "m.onnx"
    onnx.save(model, path, save_as_external_data=True, location="m.data", size_threshold=0)
    graph = model_source(path, inline=False).load().graph
    (tmp_path / "m.data").write_bytes(b"")
    assert {"w float[4,4]", "b float[4]"} <= set(words(region_picture(graph.sorted_ops())))


def test_boxes_do_not_overlap() -> None:
    picture = region_picture(ops_of(RESIDUAL))
    layout = picture_layout(picture)
    boxes = [(x, y, *box_size(box)) for box, (x, y) in zip(picture.boxes, layout.centres, strict=True)]
    for (x0, y0, w0, h0), (x1, y1, w1, h1) in combinations(boxes, 2):
        assert abs(x0 - x1) >= (w0 + w1) / 2 or abs(y0 - y1) >= (h0 + h1) / 2
    for x, y, w, h in boxes:
        assert 0 <= x - w / 2 <= x + w / 2 <= layout.width
        assert 0 <= y - h / 2 <= y + h / 2 <= layout.height


def test_lines_run_downwards() -> None:
    picture = region_picture(ops_of(RESIDUAL))
    layout = picture_layout(picture)
    for line, path in zip(picture.lines, layout.paths, strict=True):
        assert (path[0], path[-1]) == (layout.centres[line.source], layout.centres[line.target])
        assert all(upper[1] < lower[1] for upper, lower in pairwise(path))


def test_picture_without_lines() -> None:
    picture = Picture([Box(BoxKind.OP, ("A",)), Box(BoxKind.VALUE, ())])
    parse_xml(svg(picture, "no lines"))


def test_drawing_is_deterministic() -> None:
    assert len({svg(region_picture(ops_of(RESIDUAL)), "g") for _ in range(3)}) == 1


@rule(
    lambda g, x, c, p, conv, rest, b=None: g.Sum(
        g.one_of("Add", "Sub")(g.Conv(x, g.const(c), b) @ conv, ...), g.Transpose(x, perm=p), g.Pow(x, 0.5), ..., *rest
    ),
    contract=EXACT,
)
def everything(
    g: RewriteBuilder, x: Value, c: Value, p: list[int], conv: Op, rest: tuple[Value, ...], b: Value | None
) -> Value:
    """A pattern with every kind of part."""
    return x


def test_texts_of_pattern() -> None:
    picture = pattern_picture(*everything.patterns)
    want = [
        "...",
        "...",
        "0.5 constant",
        "Add or Sub",
        "Conv",
        "Pow",
        "Sum",
        "Transpose perm: p",
        "b or none",
        "c constant",
        "rest ...",
        "x",
    ]
    assert words(picture) == want


@pytest.mark.parametrize("built_in", RULES, ids=lambda r: r.name)
def test_every_pattern_can_be_drawn(built_in: Rule) -> None:
    for pattern in built_in.patterns:
        picture = pattern_picture(pattern)
        assert all(box.lines for box in picture.boxes)
        parse_xml(svg(picture, built_in.name))
