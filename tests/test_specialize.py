"""Input sizes fixed before rewriting."""

from __future__ import annotations

import onnx
import pytest
from passwright.core import from_onnx, to_onnx
from passwright.core.errors import ModelError
from passwright.core.transform.specialize import specialize
from rewriting import load

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


@pytest.mark.parametrize(
    ("shapes", "dims", "expected"),
    [
        pytest.param(
            {}, {"N": 2}, {"x": [2, 3, "H", "W"], "z": [2, 0], "y": [2, 3, "H", "W"], "t": [2, 3]}, id="a symbol"
        ),
        pytest.param(
            {"x": (1, 3, 8, 9)}, {}, {"x": [1, 3, 8, 9], "z": [1, 0], "y": [1, 3, 8, 9], "t": [1, 3]}, id="a shape"
        ),
        pytest.param({"z": (4, 5)}, {}, {"x": [4, 3, "H", "W"], "z": [4, 5]}, id="a dim without a name"),
        pytest.param({"w": (2, 2)}, {}, {"w": [2, 2], "v": ["K"]}, id="a rank"),
        pytest.param({"x": (1, 3, 8, 9)}, {"N": 1}, {"x": [1, 3, 8, 9]}, id="both"),
        pytest.param({}, {}, {"x": ["N", 3, "H", "W"]}, id="nothing"),
    ],
)
def test_declared_shapes(
    shapes: dict[str, tuple[int, ...]], dims: dict[str, int], expected: dict[str, list[int | str]]
) -> None:
    found = declared(fixed(shapes, dims))
    assert {name: found[name] for name in expected} == expected


@pytest.mark.parametrize(
    ("shapes", "dims", "message"),
    [
        pytest.param({"q": (1,)}, {}, "--shape q: the model has no such input (it has x, z, w)", id="no such input"),
        pytest.param({"x": (1, 3)}, {}, "--shape x: 2 dims given, the input has 4", id="another rank"),
        pytest.param({"x": (1, 4, 8, 9)}, {}, "--shape x: a dim fixed at 3 cannot be 4", id="a fixed dim"),
        pytest.param({"x": (1, 3, 8, 9)}, {"N": 2}, "--shape x: N cannot be both 2 and 1", id="a contradiction"),
        pytest.param({"x": (1, 3, 8, 9), "z": (2, 5)}, {}, "--shape z: N cannot be both 1 and 2", id="between inputs"),
        pytest.param({"x": (1, 3, -8, 9)}, {}, "--shape x: -8 is not a size", id="a negative size"),
        pytest.param({}, {"N": -1}, "--dim N: -1 is not a size", id="a negative symbol"),
        pytest.param({"w": (-1,)}, {}, "--shape w: -1 is not a size", id="a negative size, of no declared rank"),
        pytest.param({"w": (1 << 63,)}, {}, f"--shape w: {1 << 63} is not a size", id="more than a dim holds"),
        pytest.param({}, {"N": 1 << 63}, f"--dim N: {1 << 63} is not a size", id="a symbol of more than that"),
        pytest.param({}, {"B": 1}, "--dim B: the model has no such symbol (it has H, N, W)", id="no such symbol"),
    ],
)
def test_bad_sizes_are_rejected(shapes: dict[str, tuple[int, ...]], dims: dict[str, int], message: str) -> None:
    with pytest.raises(ModelError) as e:
        fixed(shapes, dims)
    assert str(e.value) == message


@pytest.mark.parametrize(
    ("text", "dims", "after"),
    [
        pytest.param(
            "g (seq(float[N,4]) s) => (float[M,4] y) { y = ConcatFromSequence<axis=0>(s) }",
            {"N": 2},
            "g (seq(float[2,4]) s) => (float[M,4] y) { y = ConcatFromSequence<axis=0>(s) }",
            id="elements of a sequence",
        ),
        pytest.param(
            "g (optional(float[N,4]) o) => (float[M,4] y) { y = OptionalGetElement(o) }",
            {"N": 2},
            "g (optional(float[2,4]) o) => (float[M,4] y) { y = OptionalGetElement(o) }",
            id="element of an optional",
        ),
        pytest.param(
            "g (float[N,4] x) => (float[N,4] y) <float[3,4] t> { t = Relu(x) y = Neg(t) }",
            {"N": 2},
            "g (float[2,4] x) => (float[2,4] y) <float[2,4] t> { t = Relu(x) y = Neg(t) }",
            id="a number in between that is wrong now",
        ),
        pytest.param(
            "g (float[N,4] x) => (float[N,N] y) { y = Relu(x) }",
            {"N": 2},
            "g (float[2,4] x) => (float[2,4] y) { y = Relu(x) }",
            id="an output by a wrong name",
        ),
    ],
)
def test_output_declarations_are_updated(text: str, dims: dict[str, int], after: str) -> None:
    model = from_onnx(load(text))
    specialize(model, {}, dims)
    model.graph.validate()
    assert to_onnx(model) == load(after)


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
