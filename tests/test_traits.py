"""Traits of operators, compared with the schemas of onnx and with runs of onnxruntime."""

from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np
import onnx
import onnx.shape_inference
import onnxruntime as ort
import pytest
from onnx import defs, helper
from passwright.core.operators.declaration import Trait
from passwright.core.operators.table import OPERATORS, ops_with
from rewriting import cases

Array = np.ndarray[Any, Any]
NEWEST_OPSET = 28  # the opset described by the rows
RUN_OPSET = min(24, defs.onnx_opset_version())
DTYPES = {"tensor(float)": np.float32, "tensor(bool)": np.bool_, "tensor(uint8)": np.uint8, "tensor(int32)": np.int32}
LAYOUT_SIZE = 67  # elements: several vectors of any width, and a few more
SCHEMAS = [s for s in defs.get_all_schemas_with_history() if s.domain == "" and not s.deprecated]
NEWEST = {
    name: defs.get_schema(name) for name in sorted({s.name for s in SCHEMAS}) if not defs.get_schema(name).deprecated
}


def versions(op_type: str) -> list[defs.OpSchema]:
    return [s for s in SCHEMAS if s.name == op_type]


def known(trait: Trait) -> list[str]:
    """The operators with a trait that the installed onnx defines."""
    return sorted(ops_with(trait) & NEWEST.keys())


def run(op_type: str, *inputs: Array, outputs: int = 1, **attributes: Any) -> list[Array]:
    kinds = [helper.np_dtype_to_tensor_dtype(a.dtype) for a in inputs]
    names, results = [f"x{i}" for i in range(len(inputs))], [f"y{i}" for i in range(outputs)]
    graph = helper.make_graph(
        [helper.make_node(op_type, names, results, **attributes)],
        "g",
        [helper.make_tensor_value_info(n, k, [None] * a.ndim) for n, k, a in zip(names, kinds, inputs, strict=True)],
        [onnx.ValueInfoProto(name=n) for n in results],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", RUN_OPSET)], ir_version=10)
    options = ort.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return [np.asarray(a) for a in session.run(None, dict(zip(names, inputs, strict=True)))]


def dtype_of(op_type: str) -> np.dtype[Any]:
    """A type that the first input of an operator may have: float where it can be."""
    schema = defs.get_schema(op_type, RUN_OPSET)
    formal = schema.inputs[-1]
    allowed = {t for c in schema.type_constraints if c.type_param_str == formal.type_str for t in c.allowed_type_strs}
    return np.dtype(next(dtype for name, dtype in DTYPES.items() if name in allowed))


def sample(op_type: str, shape: tuple[int, ...] = (2, 3, 4), seed: int = 0) -> Array:
    rng = np.random.default_rng(seed)
    dtype = dtype_of(op_type)
    return (rng.normal(size=shape) if dtype == np.float32 else rng.integers(0, 5, shape)).astype(dtype)


ATTRIBUTES: Mapping[str, Mapping[str, Any]] = {
    "BitCast": {"to": onnx.TensorProto.INT32}, "BitShift": {"direction": "LEFT"},
    "Cast": {"to": onnx.TensorProto.DOUBLE}, "Mod": {"fmod": 1},
}  # fmt: skip
LAST_INPUTS: Mapping[str, tuple[Array, ...]] = {"CastLike": (np.zeros(1),)}
NOT_IN_ONNXRUNTIME = {"BitCast"} if RUN_OPSET < 26 else set[str]()
ELEMENTWISE = [name for name in known(Trait.ELEMENTWISE) if name not in NOT_IN_ONNXRUNTIME]


def unary(op_type: str, x: Array) -> Array:
    return run(op_type, x, *LAST_INPUTS.get(op_type, ()), **ATTRIBUTES.get(op_type, {}))[0]


def operands(op_type: str, *shapes: tuple[int, ...]) -> list[Array]:
    found = [sample(op_type, shape, seed) for seed, shape in enumerate(shapes)]
    return [found[0] > 0, *found[1:]] if op_type == "Where" else found


def binary(op_type: str, *shapes: tuple[int, ...]) -> tuple[list[Array], Array]:
    inputs = operands(op_type, *shapes)
    return inputs, run(op_type, *inputs, **ATTRIBUTES.get(op_type, {}))[0]


def test_each_operator_has_a_row() -> None:
    assert NEWEST.keys() - OPERATORS.keys() == set()


@pytest.mark.skipif(defs.onnx_opset_version() < NEWEST_OPSET, reason="the installed onnx knows fewer operators")
def test_each_row_is_of_an_operator() -> None:
    assert set(OPERATORS) <= {s.name for s in defs.get_all_schemas_with_history() if s.domain == ""}


def names_inputs_only(op_type: str) -> bool:
    """Whether the roles and the data of a row are those of inputs, and of different ones."""
    row, schema = OPERATORS[op_type], NEWEST[op_type]
    variadic = bool(schema.inputs) and "Variadic" in str(schema.inputs[-1].option)
    count = max(len(s.inputs) for s in versions(op_type))
    within = all(i < count for i in row.roles) and not any(i in row.data for i in range(count, 100))
    return (variadic or within) and not any(i in row.data for i in row.roles if i > 0)


def test_subgraphs() -> None:
    found = {n for n, s in NEWEST.items() if defs.OpSchema.AttrType.GRAPH in {a.type for a in s.attributes.values()}}
    assert found == ops_with(Trait.HAS_SUBGRAPHS) & NEWEST.keys()


# AffineGrid is defined by a body that has an If, Dropout is random in training form alone.
NOT_RANDOM = {"AffineGrid", "Dropout"}


def test_random() -> None:
    stated = {n: getattr(getattr(s, "node_determinism", None), "name", "") for n, s in NEWEST.items()}
    random = {n for n, determinism in stated.items() if determinism == "NonDeterministic"}
    assert random - ops_with(Trait.HAS_SUBGRAPHS) - NOT_RANDOM == ops_with(Trait.RANDOM) & NEWEST.keys()


# The axis of OneHot and ConcatFromSequence is one of the output; DFT and TensorScatter do not take every axis.
OTHER_AXIS = {"ConcatFromSequence", "DFT", "OneHot", "TensorScatter"}


def test_axis() -> None:
    declared = {
        n for n in NEWEST if any("axis" in s.attributes and "broadcast" not in s.attributes for s in versions(n))
    }
    assert declared - OTHER_AXIS == ops_with(Trait.HAS_AXIS) & NEWEST.keys()


# Of these the first input or output is a sequence or an optional, or something else than a tensor.
NOT_A_TENSOR = {
    "If", "Loop", "Scan", "Optional", "OptionalGetElement", "SequenceErase", "SequenceInsert", "SequenceMap"
}  # fmt: skip
# Both type parameters allow one type only.
ONE_TYPE = {"And", "Or", "StringSplit", "Xor"}


def keeps_dtype(schema: defs.OpSchema) -> bool:
    """Whether the first output has the type parameter of the first input."""
    return bool(schema.inputs and schema.outputs) and schema.inputs[0].type_str == schema.outputs[0].type_str


def test_same_dtype() -> None:
    same = {n for n in NEWEST if all(map(keeps_dtype, versions(n)))}
    assert same - NOT_A_TENSOR | ONE_TYPE == ops_with(Trait.SAME_DTYPE) & NEWEST.keys()


def test_composite_traits() -> None:
    assert ops_with(Trait.LAYOUT_INVARIANT) <= ops_with(Trait.ELEMENTWISE) | ops_with(Trait.BROADCASTING) | {"PRelu"}
    assert ops_with(Trait.ELEMENTWISE) <= ops_with(Trait.SAME_SHAPE)
    assert ops_with(Trait.COMPARISON) <= ops_with(Trait.BROADCASTING) & ops_with(Trait.QUERIES)
    assert ops_with(Trait.COMMUTATIVE) <= ops_with(Trait.BROADCASTING)
    assert all(0 in OPERATORS[op_type].data for op_type in ops_with(Trait.MOVES_DATA))
    assert not ops_with(Trait.ELEMENTWISE) & ops_with(Trait.BROADCASTING)


def permutes(op_type: str) -> bool:
    """Whether an elementwise operator gives the same elements in any order, to the bit if its trait says so."""
    x = sample(op_type, (LAYOUT_SIZE,))
    order = np.random.default_rng(1).permutation(LAYOUT_SIZE)
    there, back = unary(op_type, x[order]), unary(op_type, x)[order]
    if op_type in ops_with(Trait.LAYOUT_INVARIANT):
        return there.tobytes() == back.tobytes()
    return np.allclose(there, back, rtol=1e-5, atol=0, equal_nan=True)


def broadcasts(op_type: str) -> bool:
    """Whether an operator gives what it gives on operands that are broadcast already, in any order."""
    shapes = [(2, 1, 4), (3, 1), (2, 3, 4)][: 3 if op_type == "Where" else 2]
    inputs, result = binary(op_type, *shapes)
    spread = [np.ascontiguousarray(np.broadcast_to(a, (2, 3, 4))).reshape(-1) for a in inputs]
    order = np.random.default_rng(1).permutation(result.size)
    there = run(op_type, *(a[order] for a in spread), **ATTRIBUTES.get(op_type, {}))[0]
    is_same = np.allclose(there, result.reshape(-1)[order], rtol=1e-5, atol=0, equal_nan=True)
    return result.shape == (2, 3, 4) and is_same


def commutes(op_type: str) -> bool:
    inputs, result = binary(op_type, (2, 3), (2, 3))
    return result.tobytes() == run(op_type, *inputs[::-1])[0].tobytes()


SAME_SHAPE_INPUTS: Mapping[str, tuple[tuple[Array, ...], Mapping[str, Any]]] = {
    "InstanceNormalization": ((np.ones(3, np.float32),) * 2, {}),
    "GroupNormalization": ((np.ones(3, np.float32),) * 2, {"num_groups": 1}),
    "BatchNormalization": ((np.ones(3, np.float32),) * 4, {}),
    "LayerNormalization": ((np.ones(4, np.float32),), {}),
    "RMSNormalization": ((np.ones(4, np.float32),), {}),
    "PRelu": ((np.ones((3, 1), np.float32),), {}),
    "QuantizeLinear": ((np.ones((), np.float32),), {}),
    "CumSum": ((np.array(1),), {}),
    "ReverseSequence": ((np.array([1, 2, 1]),), {}),
    "ScatterElements": ((np.zeros((1, 3, 4), np.int64), np.ones((1, 3, 4), np.float32)), {}),
    "ScatterND": ((np.zeros((1, 1), np.int64), np.ones((1, 3, 4), np.float32)), {}),
    "LRN": ((), {"size": 3}),
    "MeanVarianceNormalization": ((), {"axes": [0, 2]}),
}
# onnxruntime has no kernel for some; of others the first input is not a float of three dims.
SAME_SHAPE_BY_SCHEMA = {
    "Bernoulli", "BitCast", "CausalConvWithState", "CumProd", "DequantizeLinear", "DynamicQuantizeLinear", "EyeLike",
    "LRN", "RandomNormalLike", "RandomUniformLike", "RegexFullMatch", "RotaryEmbedding", "SwiGLU", "TensorScatter",
}  # fmt: skip


def keeps_shape(op_type: str) -> bool:
    x = sample(op_type) if op_type in ELEMENTWISE else np.linspace(0.1, 0.9, 24, dtype=np.float32).reshape(2, 3, 4)
    more, attributes = SAME_SHAPE_INPUTS.get(op_type, (LAST_INPUTS.get(op_type, ()), ATTRIBUTES.get(op_type, {})))
    return run(op_type, x, *more, **attributes)[0].shape == x.shape


# Stated by their documentation only, or inferred for other ranks.
NOT_INFERRED = {"CausalConvWithState", "RotaryEmbedding", "TensorScatter"}


def infers_same_shape(op_type: str) -> bool:
    schema, dims = NEWEST[op_type], (3, 4)
    needed = schema.inputs[: schema.min_input]
    kinds = {c.type_param_str: sorted(c.allowed_type_strs) for c in schema.type_constraints}
    kind_of = {name: "float" if "tensor(float)" in kinds[name] else kinds[name][0][7:-1] for name in kinds}
    types = [getattr(onnx.TensorProto, kind_of.get(i.type_str, i.type_str[7:-1]).upper()) for i in needed]
    attributes: dict[str, Any] = {"to": onnx.TensorProto.INT32} if op_type == "BitCast" else {}
    attributes |= {"size": 3} if op_type == "LRN" else {}
    results = [f"y{i}" for i in range(schema.min_output)]
    graph = helper.make_graph(
        [helper.make_node(op_type, [i.name for i in needed], results, **attributes)],
        "g",
        [helper.make_tensor_value_info(i.name, kind, dims) for i, kind in zip(needed, types, strict=True)],
        [onnx.ValueInfoProto(name=n) for n in results],
    )
    found, *_ = onnx.shape_inference.infer_shapes(helper.make_model(graph)).graph.output
    return tuple(d.dim_value for d in found.type.tensor_type.shape.dim) == dims


MOVES: Mapping[str, tuple[tuple[Array, ...], Mapping[str, Any]]] = {
    "Compress": ((np.array([True, False]),), {"axis": 0}),
    "DepthToSpace": ((), {"blocksize": 2}),
    "Expand": ((np.array([2, 1, 4, 2, 2]),), {}),
    "Flatten": ((), {}),
    "Gather": ((np.array([1, 1]),), {}),
    "GatherElements": ((np.zeros((1, 4, 2, 2), np.int64),), {}),
    "GatherND": ((np.array([[1, 2]]),), {}),
    "Identity": ((), {}),
    "Reshape": ((np.array([4, -1]),), {}),
    "ReverseSequence": ((np.array([1, 2, 1, 2]),), {}),
    "Slice": ((np.array([3]), np.array([-5]), np.array([1]), np.array([-2])), {}),
    "SpaceToDepth": ((), {"blocksize": 2}),
    "Split": ((), {"num_outputs": 2, "outputs": 2}),
    "Squeeze": ((), {}),
    "Tile": ((np.array([1, 2, 1, 2]),), {}),
    "Transpose": ((), {}),
    "Unsqueeze": ((np.array([0]),), {}),
}


def test_moves_data() -> None:
    x = np.random.default_rng(0).permutation(32).astype(np.float32).reshape(2, 4, 2, 2)
    results = {op_type: run(op_type, x, *more, **attributes) for op_type, (more, attributes) in MOVES.items()}
    assert set(MOVES) == ops_with(Trait.MOVES_DATA)
    assert [
        op_type for op_type, found in results.items() if not all(a.size and np.isin(a, x).all() for a in found)
    ] == []


def keeps_bounds(op_type: str) -> bool:
    """Whether the outputs are bounded, or finite, as the traits say."""
    moderate, wide = np.array([-1e4, -30, -1, 0, 1, 30, 1e4], np.float32), np.array([-np.inf, np.inf], np.float32)
    with np.errstate(all="ignore"):
        if op_type in ops_with(Trait.BOUNDED):
            return not (np.abs(unary(op_type, np.concatenate([moderate, wide]))) > 1e4).any()
        return op_type not in ops_with(Trait.KEEPS_FINITE) or not np.isinf(unary(op_type, moderate)).any()


def compares(op_type: str) -> bool:
    (kinds,) = (c.allowed_type_strs for c in NEWEST[op_type].type_constraints if c.type_param_str == "T1")
    return list(kinds) == ["tensor(bool)"]


def is_total(op_type: str) -> bool:
    """Whether an operator runs on all values; onnxruntime raises otherwise."""
    dtype = dtype_of(op_type)
    hard = np.array([0, -0.0, 1, -1, 0.5, 1e38, -1e38, 1e-45, np.inf, -np.inf, np.nan], np.float32)
    if dtype != np.float32:
        hard = np.array([0, 1], bool) if dtype == np.bool_ else np.array([0, 1, np.iinfo(dtype).max], dtype)
    if op_type in ops_with(Trait.ELEMENTWISE):
        return unary(op_type, hard).shape == hard.shape
    left, right = np.repeat(hard, hard.size), np.tile(hard, hard.size)
    return run(op_type, *([left > 0] if op_type == "Where" else []), left, right)[0].shape == left.shape


@cases(
    ("holds", "names"),
    {
        "data and roles": (names_inputs_only, NEWEST),
        "comparison": (compares, known(Trait.COMPARISON)),
        "elementwise": (permutes, ELEMENTWISE),
        "broadcasting": (broadcasts, known(Trait.BROADCASTING)),
        "commutative": (commutes, known(Trait.COMMUTATIVE)),
        "total": (is_total, {*ELEMENTWISE, *known(Trait.BROADCASTING)} & ops_with(Trait.TOTAL)),
        "same shape": (keeps_shape, set(known(Trait.SAME_SHAPE)) - SAME_SHAPE_BY_SCHEMA),
        "same shape by schema": (infers_same_shape, SAME_SHAPE_BY_SCHEMA & NEWEST.keys() - NOT_INFERRED),
        "finiteness": (keeps_bounds, [*(n for n in ELEMENTWISE if dtype_of(n) == np.float32), "Softmax", "Hardmax"]),
    },
)
def test_holds(holds: Callable[[str], bool], names: Collection[str]) -> None:
    assert names
    assert [op_type for op_type in sorted(names) if not holds(op_type)] == []


@pytest.mark.parametrize("op_type", ["EyeLike", "Shape", "Size"])
def test_reads_shape(op_type: str) -> None:
    zeros, ones = np.zeros((2, 3), np.float32), np.ones((2, 3), np.float32)
    assert op_type in ops_with(Trait.READS_SHAPE)
    assert (run(op_type, zeros)[0] == run(op_type, ones)[0]).all()


@pytest.mark.parametrize("shape", [(0,), (0, 3), (2, 0, 3)])
def test_runs_on_empty_tensors(shape: tuple[int, ...]) -> None:
    shapes = {op_type: unary(op_type, sample(op_type, shape)).shape for op_type in ELEMENTWISE}
    for op_type in known(Trait.BROADCASTING):
        shapes[op_type] = binary(op_type, *(shape,) * (3 if op_type == "Where" else 2))[1].shape
    assert shapes.keys() <= ops_with(Trait.EMPTY_SAFE)
    assert {op_type: found for op_type, found in shapes.items() if found != shape} == {}
