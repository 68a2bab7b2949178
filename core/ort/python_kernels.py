"""Kernels in Python: functions of NumPy arrays, operator classes of `onnx.reference`, and local functions."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import NoneType
from typing import Any, cast

import numpy as np
import onnx

from ..errors import EvaluationError, UsageError
from ..ir.op_schemas import qualified_op_type, split_op_type
from ..processes.custom_operators import CustomOperators, KernelPlace
from ..serialization.proto_queries import all_nodes, local_functions, opset_versions
from ..support.author_errors import describe_exception, require_type
from ..support.python_files import import_file, plugin_errors

KernelFunction = Callable[..., Any]
Operator = tuple[str, str]
"""The domain and the type of an operator."""


class KernelFailed(EvaluationError):
    """A kernel in Python raised an exception, or returned invalid outputs."""


class BrokenKernel(KernelFailed):
    """A kernel in Python violated its declaration, on which rewrites rely; it did not just reject its inputs."""


@dataclass(frozen=True)
class Kernel:
    """A function that computes an operator from arrays, and attributes as keywords; it returns an array or a tuple.

    Examples:
        >>> @kernel("com.acme.Scale")
        ... def scale(x, factor=1.0):
        ...     return x * np.float32(factor)
        >>> scale.op, scale(np.ones(2, np.float32), factor=3.0)
        ('com.acme.Scale', array([3., 3.], dtype=float32))
    """

    function: KernelFunction
    op: str
    like: int | None = None

    def __call__(self, *inputs: Any, **attributes: Any) -> Any:
        """The outputs of the function."""
        return self.function(*inputs, **attributes)


def kernel(op: str, *, like: int | None = None) -> Callable[[KernelFunction], Kernel]:
    """Declare a function as the kernel of an operator, given with its domain, such as `com.acme.Scale`.

    The function is called with the inputs as NumPy arrays, which it must not modify (None for omitted ones), and with
    the node's attributes as keywords. It returns an array, or a tuple of arrays for several outputs. `like` is the
    index of an input that has the type and shape of all outputs, so that passes know them. Raises UsageError for a name
    without a domain, and for arguments of other types.

    Examples:
        >>> @kernel("com.acme.Scale", like=0)
        ... def scale(x: np.ndarray, factor: float = 1.0) -> np.ndarray:
        ...     return x * np.float32(factor)
        >>> scale(np.float32([1, 2]), factor=2.0)
        array([2., 4.], dtype=float32)
    """
    require_type(op, str, "kernel", "the name of an operator, such as @kernel('com.acme.Scale')")
    require_type(like, (int, NoneType), "kernel", "the index of an input as like, such as like=0")
    domain, op_type = split_op_type(op)
    if not domain or not op_type:
        raise UsageError(f"@kernel({op!r}): not of the form com.acme.Scale, a domain and an operator")
    return lambda function: Kernel(function, op, like)


def is_operator_class(thing: object) -> bool:
    """Whether an object is an operator class for `onnx.reference`."""
    return isinstance(thing, type) and hasattr(thing, "op_domain") and hasattr(thing, "_run")


def is_kernel(thing: object, module: str) -> bool:
    """Whether an object in a module is a kernel in Python: made by @kernel, or a class that the module defines."""
    return isinstance(thing, Kernel) or (is_operator_class(thing) and getattr(thing, "__module__", "") == module)


def format_type(thing: object) -> str:
    """An object, described by its type."""
    return f"an object of type {type(thing).__name__}"


@cache
def kernel_classes(places: tuple[KernelPlace, ...]) -> Mapping[Operator, type]:
    """Operator classes for `onnx.reference`, from kernels at these locations. Raises PluginError."""
    return {(p.domain, p.op_type): _operator_class(p) for p in places}


def _operator_class(place: KernelPlace) -> type:
    """A class for a kernel that names it in errors, and passes inputs read-only."""
    from onnx.reference.op_run import OpRun  # noqa: PLC0415 - seldom needed and slow to import

    label = f"the kernel {qualified_op_type(place.domain, place.op_type)} of {Path(place.file).name or place.module}"
    found = _thing_at(place)
    is_class = isinstance(found, type)
    base: Any = found if is_class else OpRun

    def _run(self: Any, *inputs: Any, **attributes: Any) -> tuple[Any, ...]:
        lent = [_read_only(x) for x in inputs]
        try:
            given = base._run(self, *lent, **attributes) if is_class else found(*lent, **attributes)  # noqa: SLF001
        except MemoryError:
            raise
        except (Exception, SystemExit) as e:
            code = found._run.__code__ if is_class else getattr(found.function, "__code__", None)  # noqa: SLF001
            raise KernelFailed(f"{label} failed: {describe_exception(e, code)}") from e
        found_here = _outputs(label, given, list(self.onnx_node.output))
        if place.like is not None:
            _require_like(label, found_here, lent[place.like : place.like + 1], place.like)
        return found_here

    own = {"op_domain": place.domain, "op_schema": getattr(found, "op_schema", None), "_run": _run}
    return type(place.op_type, (base,), own)


def _thing_at(place: KernelPlace) -> Any:
    """The kernel at a location. Raises PluginError."""
    where = place.module or place.file
    with plugin_errors(where, where):
        main, file = sys.modules["__main__"], Path(place.file)
        if _can_import(place.module):
            found: Any = import_module(place.module)
        else:  # a running script is not run again
            found = main if place.file and getattr(main, "__file__", None) == place.file else import_file(file)
        for name in place.name.split("."):
            found = getattr(found, name)
        return found


def _can_import(module: str) -> bool:
    try:
        return bool(module) and (module in sys.modules or find_spec(module) is not None)
    except ModuleNotFoundError:  # the package that contains the module
        return False


def _read_only(value: Any) -> Any:
    """A read-only view of an array; other values are unchanged."""
    if not isinstance(value, np.ndarray):
        return value
    lent = cast("np.ndarray[Any, Any]", value).view()
    lent.flags.writeable = False
    return lent


def _outputs(label: str, given: Any, names: list[str]) -> tuple[Any, ...]:
    """A kernel's outputs as arrays, sequences or maps, at least as many as have names. Raises KernelFailed."""
    several = cast("tuple[Any, ...]", given) if isinstance(given, tuple) else (given,)
    values = [np.asarray(v) if isinstance(v, np.generic | bool | int | float) else v for v in several]
    needed = max((i for i, name in enumerate(names, 1) if name), default=0)
    if len(values) < needed:
        raise KernelFailed(f"{label} returned {len(values)} of the {needed} outputs of the node")
    for i, value in enumerate(values):
        if not isinstance(value, np.ndarray | list | dict):
            raise KernelFailed(f"{label} returned {format_type(value)} instead of an array for output {i}")
    return tuple(values)


def _require_like(label: str, outputs: tuple[Any, ...], source: list[Any], number: int) -> None:
    """Raise BrokenKernel for an output whose type or shape differs from the input with the given index."""
    if not source:
        raise BrokenKernel(f"{label} declares like={number}, an input that the node does not have")
    kinds = [(getattr(v, "dtype", None), getattr(v, "shape", None)) for v in (*source, *outputs)]
    for dtype, shape in kinds[1:]:
        if (dtype, shape) != kinds[0]:
            wanted = f"like={number}, so {kinds[0][0]}{list(kinds[0][1] or ())}"
            raise BrokenKernel(f"{label} gave {dtype}{list(shape or ())}, and declares {wanted}")


def with_functions(model: onnx.ModelProto, added: CustomOperators) -> onnx.ModelProto:
    """The model with the local functions of custom operators that it calls, directly or indirectly.

    The domains of kernels in Python are imported, because onnxruntime accepts custom operators of domains that are not.
    """
    defined, found = local_functions(model), onnx.ModelProto()
    known = {operator_of(f): f for f in map(onnx.FunctionProto.FromString, added.functions)}

    def add_called(nodes: Iterable[onnx.NodeProto]) -> None:
        for key in sorted({(node.domain, node.op_type) for node in all_nodes(nodes)} & known.keys()):
            if key not in defined:
                defined.add(key)
                add_called(known[key].node)  # `onnx.reference` requires functions before those that call them
                found.functions.append(known[key])

    for nodes in (model.graph.node, *(f.node for f in model.functions)):
        add_called(nodes)
    wanted = {function.domain: 1 for function in found.functions} | {place.domain: 1 for place in added.kernels}
    for function in found.functions:
        wanted = opset_versions(function) | wanted
    missing = wanted.keys() - opset_versions(model).keys()
    if not found.functions and not missing:
        return model
    found.opset_import.extend(onnx.OperatorSetIdProto(domain=d, version=wanted[d]) for d in sorted(missing))
    found.MergeFrom(model)
    return found


def operator_of(function: onnx.FunctionProto) -> Operator:
    """The operator that a local function defines."""
    return function.domain, function.name
