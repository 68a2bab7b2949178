"""How far a model's own results move when every step on the way to them rounds in another way."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from ..core.errors import CannotLoad, EvaluationError
from ..core.io.convert import from_onnx
from ..core.ort.backends import Arrays
from ..core.verify.noise import moved
from ..core.verify.seeded_session import ONE_THREAD
from ..core.verify.tolerance import base_of, wide

Array = np.ndarray[Any, Any]
RUNS = 6
BARELY, NEAR, FAR = 1, 8, 64  # ulps that every number moves, up or down
DROPOUT = 12  # since this opset it takes what it does from inputs
HALF, YES = "half of them", "training"
WEIGHED = frozenset({
    "Add", "BatchNormalization", "Conv", "ConvTranspose", "Div", "Einsum", "Gemm", "GroupNormalization",
    "InstanceNormalization", "LayerNormalization", "MatMul", "Mul", "RMSNormalization", "Sub", "Sum",
})  # fmt: skip
"""Operators whose weights are added and multiplied, and are no bounds, exponents or extents."""
GROWS = 2  # times as far as with fewer ulps, at least: a jump goes as far each time, and explains nothing
TYPES = {TensorProto.FLOAT16: np.float16, TensorProto.FLOAT: np.float32, TensorProto.DOUBLE: np.float64}
SHAKEN: dict[int, Any] = {int(kind): dtype for kind, dtype in TYPES.items()}


def is_rounding(before: bytes, after: bytes, feeds: Arrays) -> bool:
    """Whether the second model is as close to the first as the first is to itself, shaken.

    What is added and taken away again is rounded by its own size, not by that of what is left. Element by element; one
    that is NaN or infinite in one of the two alone has to become so when shaken, or cease to be.
    """
    model = onnx.load_from_string(before)
    names = [v.name for v in model.graph.output]
    try:
        want, got = (_run(m, names, feeds) for m in (before, after))
        runs = [
            [_run(shaken(model, far, seed), names, moved(feeds, seed, far)) for seed in range(RUNS)]
            for far in (BARELY, NEAR, FAR)
        ]
    except (CannotLoad, EvaluationError):
        return False
    return all(_is_near(want[n], got[n], *([r[n] for r in some] for some in runs)) for n in names)


def shaken(model: onnx.ModelProto, far: int, seed: int) -> bytes:
    """The model with every element of its weights, and of the floats that its nodes make, `far` ulps or so off."""
    out = onnx.ModelProto()
    out.CopyFrom(model)
    for kind, dtype in SHAKEN.items():
        numbers = {_share(kind): far * float(np.finfo(dtype).eps), _one(kind): 1}
        out.graph.initializer.extend(numpy_helper.from_array(np.array(n, dtype), name) for name, n in numbers.items())
    graphs = from_onnx(model).graph.with_subgraphs()
    types = {v.name: v.known_dtype for g in graphs for op in g.ops() for v in op.outputs}
    switches = {HALF: np.float32(0.5), YES: np.bool_(True)}
    out.graph.initializer.extend(numpy_helper.from_array(np.array(n), name) for name, n in switches.items())
    opset = max(o.version for o in model.opset_import if not o.domain)
    _shake(out.graph, types, opset, far, seed)
    return out.SerializeToString()


def _shake(graph: onnx.GraphProto, types: Mapping[str, int], opset: int, far: int, seed: int) -> None:
    nodes = list(graph.node)
    weights = {name for node in nodes if node.op_type in WEIGHED for name in node.input}
    for t in graph.initializer:
        if t.name in weights and t.data_type in SHAKEN:
            t.CopyFrom(numpy_helper.from_array(moved({t.name: numpy_helper.to_array(t)}, seed, far)[t.name], t.name))
    del graph.node[:]
    for node in nodes:
        for body in (b for a in node.attribute for b in (a.g, *a.graphs) if b.node):
            _shake(body, types, opset, far, seed)
        outputs = [name for name in node.output if types.get(name, 0) in SHAKEN and node.op_type != "Constant"]
        node.output[:] = [f"{name} unshaken" if name in outputs else name for name in node.output]
        graph.node.append(node)
        for name in outputs:
            seed += 1
            graph.node.extend(_mover(name, types[name], opset, seed))


def _mover(name: str, kind: int, opset: int, seed: int) -> Iterator[onnx.NodeProto]:
    """Nodes that make `name`, which is v * (1 + share * r) with r -1 or 1 for each element."""
    v, sides, r, part, factor = (f"{name} {suffix}" for suffix in ("unshaken", "sides", "r", "part", "factor"))
    yield from (_sides if opset >= DROPOUT else _early_sides)(v, sides, seed)
    yield helper.make_node("Cast", [sides], [r], to=kind)
    yield helper.make_node("Mul", [r, _share(kind)], [part])
    yield helper.make_node("Add", [part, _one(kind)], [factor])
    yield helper.make_node("Mul", [v, factor], [name])


def _sides(v: str, sides: str, seed: int) -> Iterator[onnx.NodeProto]:
    """-1 or 1 for each element, by a Dropout: of opset 22, onnxruntime has no other random kernel."""
    extents, ones, kept = (f"{sides} {suffix}" for suffix in ("extents", "ones", "kept"))
    one = numpy_helper.from_array(np.ones(1, np.float32))
    yield helper.make_node("Shape", [v], [extents])
    yield helper.make_node("ConstantOfShape", [extents], [ones], value=one)
    yield helper.make_node("Dropout", [ones, HALF, YES], [kept], seed=seed)
    yield helper.make_node("Sub", [kept, _one(TensorProto.FLOAT)], [sides])


def _early_sides(v: str, sides: str, seed: int) -> Iterator[onnx.NodeProto]:
    drawn = f"{sides} drawn"
    yield helper.make_node(
        "RandomUniformLike", [v], [drawn], dtype=TensorProto.FLOAT, low=-1.0, high=1.0, seed=float(seed)
    )
    yield helper.make_node("Sign", [drawn], [sides])


def _share(kind: int) -> str:
    return f"share of {kind}"


def _one(kind: int) -> str:
    return f"one of {kind}"


def _run(model: bytes, names: Sequence[str], feeds: Arrays) -> dict[str, Any]:
    return dict(zip(names, ONE_THREAD[0](model).run(names, feeds), strict=True))


def _is_near(want: Any, got: Any, barely: list[Any], near: list[Any], far: list[Any]) -> bool:
    if not isinstance(want, np.ndarray):
        return False
    array = cast("Array", want)
    if array.dtype not in SHAKEN.values() or array.size == 0:
        return np.array_equal(array, got)
    x, y = wide(array), wide(got)
    if x.shape != y.shape:
        return False
    numbers = np.isfinite(x) & np.isfinite(y)
    turned = [_is_alike(wide(r), y) for r in near if np.shape(r) == x.shape]
    if not np.logical_or.reduce([numbers, _is_alike(x, y), *turned]).all():
        return False
    least, some, most = (_farthest(x, runs) for runs in (barely, near, far))
    explained = np.where((some >= GROWS * least) | (most >= GROWS * some), some, 0.0)
    scale = float(np.abs(x[numbers]).max(initial=0.0))
    allowed = np.maximum(explained, base_of(array.dtype) * scale)
    return bool((_distances(x, y) <= allowed)[numbers].all())


def _is_alike(x: Array, y: Array) -> Array:
    """Where both are numbers, or both NaN, or the same infinity."""
    return (np.isfinite(x) & np.isfinite(y)) | (np.isnan(x) & np.isnan(y)) | (x == y)


def _farthest(x: Array, runs: list[Any]) -> Array:
    """How far each element goes in any of the runs; not at all where it is no number."""
    ways = [_distances(x, wide(r)) for r in runs if np.shape(r) == x.shape]
    return np.max(ways, axis=0, initial=0.0) if ways else np.zeros(x.shape)


def _distances(x: Array, y: Array) -> Array:
    with np.errstate(all="ignore"):
        return np.nan_to_num(np.abs(x - y), nan=0.0, posinf=0.0)
