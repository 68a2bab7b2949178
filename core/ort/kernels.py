"""Operators and opsets that the installed onnxruntime runs on the CPU."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, TensorProto, defs, helper

from ..errors import ModelLoadError
from ..ir import op_schemas
from ..ir.tensor import element_type
from ..processes.onnx_calls import OnnxError, function_body
from .backends import LoadedModel
from .sessions import CPU

UNBOUNDED = (1 << 31) - 1
"""The end of a kernel's version range if it is registered only for the operator version at the beginning."""


@cache
def highest_opset_of_onnxruntime() -> int:
    """The newest standard opset that the installed onnx knows and the installed onnxruntime can load.

    Found by loading models, newest opset first, because onnxruntime has schemas of opsets that it does not support yet.
    """
    newest = op_schemas.latest_opset_version(op_schemas.ONNX_DOMAIN)
    return next((version for version in range(newest, 1, -1) if _loads(version)), 1)


def _loads(version: int) -> bool:
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in "xy")
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "probe", [x], [y])
    imports = [helper.make_opsetid(op_schemas.ONNX_DOMAIN, version)]
    model = helper.make_model(graph, opset_imports=imports, ir_version=helper.find_min_ir_version_for(imports))
    try:
        LoadedModel(model.SerializeToString())
    except ModelLoadError:
        return False
    return True


PRODUCTS_OF_BYTES = frozenset(
    {"ConvInteger", "DynamicQuantizeMatMul", "MatMulInteger", "MatMulIntegerToFloat", "QLinearConv", "QLinearMatMul"}
)
"""Operators that add products of 8-bit integers."""


@cache
def saturates_sums_of_bytes() -> bool:
    """Whether onnxruntime adds products of unsigned and signed bytes in 16 bits: on x86 without VNNI."""
    shapes = {"x": (TensorProto.UINT8, [1, 2]), "w": (TensorProto.INT8, [2, 1]), "y": (TensorProto.INT32, [1, 1])}
    x, w, y = (helper.make_tensor_value_info(name, *type_and_shape) for name, type_and_shape in shapes.items())
    graph = helper.make_graph([helper.make_node("MatMulInteger", ["x", "w"], ["y"])], "probe", [x, w], [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid(op_schemas.ONNX_DOMAIN, 10)], ir_version=8)
    feeds = {"x": np.full((1, 2), 255, np.uint8), "w": np.full((2, 1), 127, np.int8)}
    found = LoadedModel(model.SerializeToString()).run(["y"], feeds)[0]
    return int(found.item()) != 2 * 255 * 127


def runs_on_cpu(op_type: str, domain: str, version: int, dtypes: Sequence[int] = ()) -> bool:
    """Whether the CPU provider runs an operator at opset `version` on inputs with these element types.

    `dtypes` are numbers of TensorProto.DataType, 0 if unknown or omitted. An operator without kernel runs if the
    operators of its function do; in half precision, also with a kernel of single precision between casts. Always true
    if onnxruntime was built without the list of its kernels.
    """
    return _runs(op_type, op_schemas.canonical_domain(domain), version, tuple(dtypes))


@cache
def _runs(op_type: str, domain: str, version: int, dtypes: tuple[int, ...]) -> bool:
    known = _registry()
    if known is None or op_type == "Constant":  # it needs no kernel
        return True
    if not known.accepts(op_type, domain, version, dtypes):
        return False
    if known.has_kernel(op_type, domain, version, dtypes):
        return True
    if TensorProto.FLOAT16 in dtypes:
        widened = (TensorProto.FLOAT if d == TensorProto.FLOAT16 else d for d in dtypes)
        if known.has_kernel(op_type, domain, version, tuple(widened)):
            return True
    return _runs_as_function(known, op_type, domain, version, dtypes)


def _runs_as_function(known: _Registry, op_type: str, domain: str, version: int, dtypes: tuple[int, ...]) -> bool:
    """Whether ONNX defines the operator as a function of operators that run.

    If a function does not depend on types or attributes, onnxruntime requires that none of its operators changed since.
    """
    spec: Any = op_schemas.schema(op_type, domain, version)  # onnx's types lack the functions of schemas
    if spec is None:
        return False
    plain: list[int] = [v for v in spec.function_opset_versions if v <= version]
    typed: list[int] = [v for v in spec.context_dependent_function_opset_versions if v <= version]
    if plain:
        body = onnx.FunctionProto.FromString(spec.get_function_with_opset_version(max(plain)))
        if any(known.has_changed(node, max(plain), version) for node in body.node):
            return False
    elif typed:
        body = _typed_function(spec, max(typed), dtypes)
    else:
        return False
    return all(_runs(node.op_type, node.domain, version, ()) for node in body.node)


def _typed_function(spec: Any, version: int, dtypes: tuple[int, ...]) -> onnx.FunctionProto:
    """The function of an operator for input types; empty if it depends on attributes other than integers."""
    inputs = [f"i{i}" for i in range(max(len(dtypes), spec.min_input))]
    node = helper.make_node(spec.name, inputs, [f"o{i}" for i in range(spec.min_output)], domain=spec.domain)
    node.attribute.extend(
        AttributeProto(name=a.name, type=AttributeProto.INT, i=1)
        for a in spec.attributes.values()
        if a.required and a.type == defs.OpSchema.AttrType.INT
    )
    given = (*dtypes, *(TensorProto.FLOAT,) * len(inputs))
    types = [helper.make_tensor_type_proto(d or TensorProto.FLOAT, None) for d in given[: len(inputs)]]
    try:
        found = function_body(spec, version, node, [t.SerializeToString() for t in types])
    except OnnxError:  # for example, for SequenceMap without its body
        found = b""
    return onnx.FunctionProto.FromString(found)


class _Registry:
    """The operator schemas and the kernels of the CPU provider of the installed onnxruntime."""

    def __init__(self, schemas: Sequence[Any], kernels: Sequence[Any]) -> None:
        self._schemas: dict[tuple[str, str], dict[int, Any]] = {}
        self._kernels: dict[tuple[str, str], list[Any]] = {}
        for spec in schemas:
            self._schemas.setdefault((spec.domain, spec.name), {})[spec.since_version] = spec
        for kernel in kernels:
            if kernel.provider == CPU:
                self._kernels.setdefault((kernel.domain, kernel.op_name), []).append(kernel)

    def version_of(self, op_type: str, domain: str, version: int) -> int:
        """The opset in which the operator in force at opset `version` was added; 0 if there is none."""
        return max((v for v in self._schemas.get((domain, op_type), ()) if v <= version), default=0)

    def has_changed(self, node: onnx.NodeProto, before: int, after: int) -> bool:
        """Whether a node's operator has another version at opset `after` than at `before`."""
        return len({self.version_of(node.op_type, node.domain, version) for version in (before, after)}) > 1

    def accepts(self, op_type: str, domain: str, version: int, dtypes: tuple[int, ...]) -> bool:
        """Whether an operator is defined for these input types."""
        since = self.version_of(op_type, domain, version)
        spec = self._schemas[domain, op_type][since] if since else None
        if spec is None or spec.deprecated or len(dtypes) > spec.max_input:
            return False
        return all(text in formal.types for formal, text in _with_formals(spec, dtypes))

    def has_kernel(self, op_type: str, domain: str, version: int, dtypes: tuple[int, ...]) -> bool:
        """Whether there is a kernel for an operator with these input types."""
        since = self.version_of(op_type, domain, version)
        inputs = _with_formals(self._schemas[domain, op_type][since], dtypes)
        given = {name: text for formal, text in inputs for name in (formal.typeStr, formal.name)}
        return any(
            _covers(kernel.version_range, since)
            and all(name not in given or given[name] in allowed for name, allowed in kernel.type_constraints.items())
            for kernel in self._kernels.get((domain, op_type), ())
        )


@cache
def _registry() -> _Registry | None:
    library: Any = importlib.import_module("onnxruntime.capi.onnxruntime_pybind11_state")
    if not (hasattr(library, "get_all_operator_schema") and hasattr(library, "get_all_opkernel_def")):
        return None  # a build without this list
    return _Registry(library.get_all_operator_schema(), library.get_all_opkernel_def())


def _with_formals(spec: Any, dtypes: Sequence[int]) -> Iterator[tuple[Any, str]]:
    """Yield the formal inputs whose types are known, with the types."""
    formals = list(spec.inputs)
    for i, dtype in enumerate(dtypes):
        if dtype and formals:
            yield formals[min(i, len(formals) - 1)], f"tensor({element_type(dtype)})"  # the last one may be variadic


def _covers(versions: tuple[int, int], since: int) -> bool:
    """Whether a kernel with a version range runs the operator version added in opset `since`.

    If the range is open, only its first version is covered, because later ones may have another meaning.
    """
    first, last = versions
    return first == since or (last != UNBOUNDED and first <= since <= last)
