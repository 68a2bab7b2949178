"""The builder of replacements: numbers of outputs, inputs by name, and constants of numbers and lists."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from passwright.core import MatchFailure, RewriteBuilder, Value, from_onnx
from passwright.core.errors import RuleError


def builder(opset: int = 18, dtype: str = "float") -> tuple[RewriteBuilder, Value]:
    """A builder of a graph with one Relu, and the input of the graph."""
    text = f'<ir_version: 8, opset_import: ["": {opset}]> g ({dtype}[N,4] x) => ({dtype}[N,4] y) {{ y = Relu(x) }}'
    graph = from_onnx(onnx.parser.parse_model(text)).graph
    return RewriteBuilder(graph, next(graph.ops())), graph.inputs[0]


def test_an_operator_gives_the_outputs_that_it_must_have() -> None:
    g, x = builder()
    values, indices = g.TopK(x, [2])
    assert (values.dtype, indices.dtype) == (np.float32, np.int64)
    assert isinstance(g.MaxPool(x, kernel_shape=[1]), Value)


def test_outputs_gives_a_tuple() -> None:
    g, x = builder()
    assert [len(g.Split(x, axis=1, outputs=n)) for n in (1, 2)] == [1, 2]
    with pytest.raises(RuleError, match="Relu has 1 output, not 2"):
        getattr(g, "Relu")(x, outputs=2)  # noqa: B009 - a type checker refuses it


@pytest.mark.parametrize("dtype", ["float", "string", "bool"])
@pytest.mark.parametrize("opset", [12, 18])
def test_a_list_has_the_type_of_its_input_at_a_later_opset(opset: int, dtype: str) -> None:
    """At opset 12, the sizes of Split are an attribute, and at opset 13 an input."""
    g, x = builder(opset, dtype)
    assert [v.shape for v in g.Split(x, [1, 3], axis=1, outputs=2)] == [("N", 1), ("N", 3)]


@pytest.mark.parametrize("opset", [12, 18])
def test_inputs_and_attributes_by_name(opset: int) -> None:
    g, x = builder(opset)
    axes = g.const(np.array([0]))
    for made in (g.Unsqueeze(x, axes), g.Unsqueeze(x, axes=axes), g.Unsqueeze(data=x, axes=[0]), g.Unsqueeze(x, [0])):
        assert made.shape == (1, "N", 4)
    assert len(g.added_ops[-1].inputs) == (1 if opset == 12 else 2)


@pytest.mark.parametrize(
    ("dtype", "number", "made"),
    [
        ("float16", 2, np.float16(2)),
        ("int8", [1, 2, 3, 4], np.array([1, 2, 3, 4], np.int8)),
        ("float", np.full((4,), 0.5), np.full((4,), 0.5, np.float32)),
    ],
)
def test_numbers_have_the_type_of_the_other_operands(dtype: str, number: Any, made: np.ndarray[Any, Any]) -> None:
    g, x = builder(dtype=dtype)
    g.Add(x, number)
    found = g.added_ops[-1].inputs[1]
    assert found is not None
    assert found.const.dtype == made.dtype == found.dtype == x.dtype
    np.testing.assert_array_equal(found.const, made)


@pytest.mark.parametrize("opset", [12, 17])
def test_a_number_has_one_dim_where_the_operator_takes_a_list(opset: int) -> None:
    g, x = builder(opset)
    assert g.Unsqueeze(x, 0).shape == (1, "N", 4)
    assert g.TopK(x, 2)[0].shape == ("N", 2)
    assert g.Gather(x, 0, axis=1).shape == ("N",)
    assert [v.const.ndim for v in g.constants if v.consumers] == [1] * (opset > 12) + [1, 0]


@pytest.mark.parametrize(("dtype", "number"), [("int8", [1, 300]), ("int8", 0.5), ("float16", [1.0, 1e9])])
def test_numbers_that_the_type_has_not_decline(dtype: str, number: Any) -> None:
    g, x = builder(dtype=dtype)
    with pytest.raises(MatchFailure, match="is no"):
        g.Add(x, number)


def test_a_value_by_name_becomes_an_attribute_of_an_older_opset() -> None:
    g, x = builder(10)
    g.Clip(x, min=g.const(np.float32(0)), max=g.const(np.float32(6)))
    assert g.added_ops[-1].attrs == {"min": 0.0, "max": 6.0}
