"""Input sizes fixed before rewriting."""

import re

import onnx
import pytest
from passwright.core import from_onnx, to_onnx
from passwright.core.errors import ModelError
from passwright.core.transform.specialize import specialize
from rewriting import each, load

TEXT = """g (float[N,3,H,W] x, float[N,?] z, float[] w) => (float[N,3,H,W] y, float[K] v) <float[N,3] t> {
    y = Relu(x) t = Identity(z) v = Reshape(w, s) }"""


def fixed(shapes: dict[str, tuple[int, ...]], dims: dict[str, int]) -> onnx.ModelProto:
    model = from_onnx(load(TEXT, weights={"s": [-1]}))
    specialize(model, shapes, dims)
    model.graph.validate()
    return to_onnx(model)


def declared(model: onnx.ModelProto) -> dict[str, list[int | str]]:
    infos = [*model.graph.input, *model.graph.output, *model.graph.value_info]
    return {i.name: [d.dim_param or d.dim_value for d in i.type.tensor_type.shape.dim] for i in infos}


@each(
    ("shapes", "dims", "expected"),
    {
        "a symbol": ({}, {"N": 2}, {"x": [2, 3, "H", "W"], "z": [2, 0], "y": [2, 3, "H", "W"], "t": [2, 3]}),
        "a shape": ({"x": (1, 3, 8, 9)}, {}, {"x": [1, 3, 8, 9], "z": [1, 0], "y": [1, 3, 8, 9], "t": [1, 3]}),
        "a dim without a name": ({"z": (4, 5)}, {}, {"x": [4, 3, "H", "W"], "z": [4, 5]}),
        "a rank": ({"w": (2, 2)}, {}, {"w": [2, 2], "v": ["K"]}),
        "both": ({"x": (1, 3, 8, 9)}, {"N": 1}, {"x": [1, 3, 8, 9]}),
        "nothing": ({}, {}, {"x": ["N", 3, "H", "W"]}),
    },
)
def test_declared_shapes(
    shapes: dict[str, tuple[int, ...]], dims: dict[str, int], expected: dict[str, list[int | str]]
) -> None:
    found = declared(fixed(shapes, dims))
    assert {name: found[name] for name in expected} == expected


@each(
    ("shapes", "dims", "message"),
    {
        "no such input": ({"q": (1,)}, {}, "--shape q: the model has no such input (it has x, z, w)"),
        "another rank": ({"x": (1, 3)}, {}, "--shape x: 2 dims given, the input has 4"),
        "a fixed dim": ({"x": (1, 4, 8, 9)}, {}, "--shape x: a dim fixed at 3 cannot be 4"),
        "a contradiction": ({"x": (1, 3, 8, 9)}, {"N": 2}, "--shape x: N cannot be both 2 and 1"),
        "between inputs": ({"x": (1, 3, 8, 9), "z": (2, 5)}, {}, "--shape z: N cannot be both 1 and 2"),
        "a negative size": ({"x": (1, 3, -8, 9)}, {}, "--shape x: -8 is not a size"),
        "a negative symbol": ({}, {"N": -1}, "--dim N: -1 is not a size"),
        "a negative size, of no declared rank": ({"w": (-1,)}, {}, "--shape w: -1 is not a size"),
        "more than a dim holds": ({"w": (1 << 63,)}, {}, f"--shape w: {1 << 63} is not a size"),
        "a symbol of more than that": ({}, {"N": 1 << 63}, f"--dim N: {1 << 63} is not a size"),
        "no such symbol": ({}, {"B": 1}, "--dim B: the model has no such symbol (it has H, N, W)"),
    },
)
def test_bad_sizes_are_rejected(shapes: dict[str, tuple[int, ...]], dims: dict[str, int], message: str) -> None:
    with pytest.raises(ModelError) as e:
        fixed(shapes, dims)
    assert str(e.value) == message


@each(
    "text",
    {
        "elements of a sequence": "g (seq(float[N,4]) s) => (float[M,4] y) { y = ConcatFromSequence<axis=0>(s) }",
        "element of an optional": "g (optional(float[N,4]) o) => (float[M,4] y) { y = OptionalGetElement(o) }",
        "a number that is wrong now": "g (float[N,4] x) => (float[N,4] y) <float[3,4] t> { t = Relu(x) y = Neg(t) }",
        "an output by a wrong name": "g (float[N,4] x) => (float[N,N] y) { y = Relu(x) }",
    },
)
def test_output_declarations_are_updated(text: str) -> None:
    model = from_onnx(load(text))
    specialize(model, {}, {"N": 2})
    model.graph.validate()
    assert to_onnx(model) == load(re.sub(r"\[N,4\]|\[N,N\]|\[3,4\]", "[2,4]", text))


@pytest.mark.parametrize(("shapes", "dims"), [({"x": (2, 4)}, {}), ({}, {"N": 2})])
def test_a_fixed_output_stays(shapes: dict[str, tuple[int, ...]], dims: dict[str, int]) -> None:
    model = from_onnx(load("g (float[N,4] x) => (float[3,4] y) { y = Relu(x) }"))
    with pytest.raises(ModelError, match=r"output y is declared \[3,4\], and with these sizes is \[2,4\]"):
        specialize(model, shapes, dims)


def test_shape_of_a_sequence_is_that_of_its_elements() -> None:
    model = from_onnx(load("g (seq(float[N,4]) s) => (float[M,4] y) { y = ConcatFromSequence<axis=0>(s) }"))
    specialize(model, {"s": (2, 4)}, {})
    assert to_onnx(model).graph.input[0].type.sequence_type.elem_type.tensor_type.shape.dim[0].dim_value == 2


def test_inner_shapes_are_updated() -> None:
    model = from_onnx(load("g (float[N,3,H,W] x) => (float[a,b,c,d] y) { t = Relu(x) y = Transpose(t) }"))
    specialize(model, {"x": (1, 3, 8, 9)}, {})
    assert model.graph.outputs[0].known_shape == (9, 8, 3, 1)
