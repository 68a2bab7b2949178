"""Perturbation of all intermediate results of a model, to measure the effect of other roundings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from ..core.errors import EvaluationError, ModelLoadError
from ..core.io.convert import from_onnx
from ..core.operators.declaration import Trait
from ..core.operators.table import ops_with
from ..core.ort.backends import Arrays
from ..core.serialization.proto_queries import opset_versions, subgraphs
from ..core.verify.noise import perturb
from ..core.verify.output_comparison import distances, has_same_finiteness, min_tolerance, to_64_bit
from ..core.verify.seeded_session import SINGLE_THREADED

Array = np.ndarray[Any, Any]
RUNS_PER_SCALE = 6
SMALL_ULPS, MEDIUM_ULPS, LARGE_ULPS = 1, 8, 64  # ulps that every number moves, up or down
DROPOUT_INPUTS_OPSET = 12  # since this opset its ratio and mode are inputs
DROPOUT_RATIO, DROPOUT_TRAINING = "half of them", "training"
PERTURBED_WEIGHT_OPS = ops_with(Trait.NORMALIZATION) | {
    "Add", "BatchNormalization", "Conv", "ConvTranspose", "Div", "Einsum", "Gemm", "MatMul", "Mul", "Sub", "Sum",
}  # fmt: skip
"""Operators whose weights are added and multiplied, and are not bounds, exponents or extents."""
MIN_GROWTH = 2  # of the distance with more ulps, at least: a jump is as large each time, and explains nothing
FLOAT_DTYPES = {TensorProto.FLOAT16: np.float16, TensorProto.FLOAT: np.float32, TensorProto.DOUBLE: np.float64}
PERTURBED_DTYPES: dict[int, Any] = {int(kind): dtype for kind, dtype in FLOAT_DTYPES.items()}


def is_explained_by_rounding(before: bytes, after: bytes, feeds: Arrays) -> bool:
    """Whether the second model is as close to the first as the perturbed first model is, element by element.

    Terms that cancel are rounded by their own size, not by that of the result, so noise of the inputs is not enough. An
    element that is NaN or infinite in only one of the models must turn into or from a number under perturbation.
    """
    model = onnx.load_from_string(before)
    names = [v.name for v in model.graph.output]
    try:
        want, got = (_run(m, names, feeds) for m in (before, after))
        runs = [
            [
                _run(perturbed_model(model, far, seed), names, perturb(feeds, seed, far))
                for seed in range(RUNS_PER_SCALE)
            ]
            for far in (SMALL_ULPS, MEDIUM_ULPS, LARGE_ULPS)
        ]
    except (ModelLoadError, EvaluationError):
        return False
    return all(_is_within_noise(want[n], got[n], *([r[n] for r in some] for some in runs)) for n in names)


def perturbed_model(model: onnx.ModelProto, ulps: int, seed: int) -> bytes:
    """The model with every element of its weights, and of its intermediate floats, perturbed by about `ulps`."""
    out = onnx.ModelProto()
    out.CopyFrom(model)
    for kind, dtype in PERTURBED_DTYPES.items():
        numbers = {f"share of {kind}": ulps * float(np.finfo(dtype).eps), f"one of {kind}": 1}
        out.graph.initializer.extend(numpy_helper.from_array(np.array(n, dtype), name) for name, n in numbers.items())
    graphs = from_onnx(model).graph.with_subgraphs()
    types = {v.name: v.known_dtype for g in graphs for op in g.ops() for v in op.outputs}
    switches = {DROPOUT_RATIO: np.float32(0.5), DROPOUT_TRAINING: np.bool_(True)}
    out.graph.initializer.extend(numpy_helper.from_array(np.array(n), name) for name, n in switches.items())
    opset = opset_versions(model)[""]
    _perturb_graph(out.graph, types, opset, ulps, seed)
    return out.SerializeToString()


def _perturb_graph(graph: onnx.GraphProto, types: Mapping[str, int], opset: int, ulps: int, seed: int) -> None:
    nodes = list(graph.node)
    weights = {name for node in nodes if node.op_type in PERTURBED_WEIGHT_OPS for name in node.input}
    for t in graph.initializer:
        if t.name in weights and t.data_type in PERTURBED_DTYPES:
            t.CopyFrom(numpy_helper.from_array(perturb({t.name: numpy_helper.to_array(t)}, seed, ulps)[t.name], t.name))
    del graph.node[:]
    for node in nodes:
        for body in subgraphs(node):
            _perturb_graph(body, types, opset, ulps, seed)
        outputs = [
            name for name in node.output if types.get(name, 0) in PERTURBED_DTYPES and node.op_type != "Constant"
        ]
        node.output[:] = [f"{name} unperturbed" if name in outputs else name for name in node.output]
        graph.node.append(node)
        for name in outputs:
            seed += 1
            graph.node.extend(_perturbing_nodes(name, types[name], opset, seed))


def _perturbing_nodes(name: str, kind: int, opset: int, seed: int) -> Iterator[onnx.NodeProto]:
    """Nodes that compute `name` = v * (1 + share * r), with r -1 or 1 for each element."""
    v, sides, r, part, factor = (f"{name} {suffix}" for suffix in ("unperturbed", "sides", "r", "part", "factor"))
    yield from _random_signs(v, sides, opset, seed)
    yield helper.make_node("Cast", [sides], [r], to=kind)
    yield helper.make_node("Mul", [r, f"share of {kind}"], [part])
    yield helper.make_node("Add", [part, f"one of {kind}"], [factor])
    yield helper.make_node("Mul", [v, factor], [name])


def _random_signs(value: str, signs: str, opset: int, seed: int) -> Iterator[onnx.NodeProto]:
    """-1 or 1 for each element; as of opset 22, onnxruntime's only random kernel is that of Dropout."""
    extents, ones, kept, drawn = (f"{signs} {suffix}" for suffix in ("extents", "ones", "kept", "drawn"))
    if opset < DROPOUT_INPUTS_OPSET:
        attributes: dict[str, Any] = {"dtype": TensorProto.FLOAT, "low": -1.0, "high": 1.0, "seed": float(seed)}
        yield helper.make_node("RandomUniformLike", [value], [drawn], **attributes)
        yield helper.make_node("Abs", [drawn], [kept])
        yield helper.make_node("Div", [drawn, kept], [signs])  # Sign came with opset 9
        return
    one = numpy_helper.from_array(np.ones(1, np.float32))
    yield helper.make_node("Shape", [value], [extents])
    yield helper.make_node("ConstantOfShape", [extents], [ones], value=one)
    yield helper.make_node("Dropout", [ones, DROPOUT_RATIO, DROPOUT_TRAINING], [kept], seed=seed)
    yield helper.make_node("Sub", [kept, f"one of {int(TensorProto.FLOAT)}"], [signs])


def _run(model: bytes, names: Sequence[str], feeds: Arrays) -> dict[str, Any]:
    return dict(zip(names, SINGLE_THREADED(model).run(names, feeds), strict=True))


def _is_within_noise(want: Any, got: Any, small_runs: list[Any], medium_runs: list[Any], large_runs: list[Any]) -> bool:
    if not isinstance(want, np.ndarray):
        return False
    array = cast("Array", want)
    if array.dtype not in PERTURBED_DTYPES.values() or array.size == 0:
        return np.array_equal(array, got)
    x, y = to_64_bit(array), to_64_bit(got)
    if x.shape != y.shape:
        return False
    numbers = np.isfinite(x) & np.isfinite(y)
    turned = [has_same_finiteness(to_64_bit(r), y) for r in medium_runs if np.shape(r) == x.shape]
    if not np.logical_or.reduce([numbers, has_same_finiteness(x, y), *turned]).all():
        return False
    least, some, most = (_max_distances(x, runs) for runs in (small_runs, medium_runs, large_runs))
    explained = np.where((some >= MIN_GROWTH * least) | (most >= MIN_GROWTH * some), some, 0.0)
    scale = float(np.abs(x[numbers]).max(initial=0.0))
    allowed = np.maximum(explained, min_tolerance(array.dtype) * scale)
    return bool((distances(x, y) <= allowed)[numbers].all())


def _max_distances(x: Array, runs: list[Any]) -> Array:
    """The largest distance of each element over the runs, 0 where it is not finite."""
    ways = [distances(x, to_64_bit(r)) for r in runs if np.shape(r) == x.shape]
    return np.max(ways, axis=0, initial=0.0) if ways else np.zeros(x.shape)
