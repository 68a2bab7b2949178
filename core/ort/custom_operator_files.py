"""Custom operators from users: libraries for onnxruntime, and kernels in Python files or as objects."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import onnx
from onnx import TensorProto, helper

from ..errors import EvaluationError, PluginError, TimeLimitError, UsageError
from ..ir.op_schemas import latest_opset_version, qualified_op_type, split_op_type
from ..processes.custom_operators import CustomOperators, KernelPlace, with_custom_operators
from ..processes.watchdog import TimeLimitReached
from ..support.python_files import FILE_MODULE_PREFIX, import_file, plugin_errors
from .evaluation import EvaluationProcess
from .evaluation_worker import EvaluationLimits
from .python_kernels import Kernel, Operator, format_type, is_kernel, is_operator_class, operator_of

FORMS = (
    "a function decorated with @kernel, a class derived from onnx.reference.op_run.OpRun with its op_domain, or a "
    "function of onnxscript"
)
LOADING = EvaluationLimits(seconds=30.0)
"""Limits of the memory and time for loading a library."""


@dataclass(frozen=True)
class _Given:
    """A kernel object, with its file and name if it is from a file."""

    thing: Any
    file: Path | None = None
    name: str = ""


def read_custom_operators(libraries: Iterable[str | Path], kernels: Iterable[Any]) -> CustomOperators | None:
    """Read the operators of libraries, of Python files with kernels, and of kernel objects; None if there are none.

    Raises PluginError for a file that is missing or has no kernels, and UsageError for an object that is not a kernel.
    """
    places, functions = dict[Operator, KernelPlace](), dict[Operator, onnx.FunctionProto]()
    for given in (g for k in kernels for g in (_kernels_in(Path(k)) if isinstance(k, str | Path) else [_Given(k)])):
        if (called := _functions_of(given)) is not None:
            functions |= {operator_of(f): f for f in called}
        else:
            place = _place_of(given)
            other = places.setdefault((place.domain, place.op_type), place)
            if other.file == place.file and other.name != place.name:
                name = qualified_op_type(place.domain, place.op_type)
                raise UsageError(f"{name} has two kernels in {place.file}: {other.name} and {place.name}")
            places[place.domain, place.op_type] = place
    for domain, op_type in (*places, *functions):
        if not domain or latest_opset_version(domain):
            raise UsageError(f"a kernel for {qualified_op_type(domain, op_type)}: ONNX defines the operators there")
    if twice := next(iter(places.keys() & functions.keys()), None):
        raise UsageError(
            f"{qualified_op_type(*twice)} has a kernel in Python and a local function: keep only one of them"
        )
    found = CustomOperators(
        tuple(dict.fromkeys(map(_library, libraries))),
        tuple(places.values()),
        tuple(f.SerializeToString(deterministic=True) for f in functions.values()),
    )
    _require_loadable(found.libraries)
    return found if found != CustomOperators() else None


def _library(path: str | Path) -> str:
    if not Path(path).is_file():
        raise PluginError(f"{path}: no such library of custom operators")
    return str(Path(path).absolute())


def _require_loadable(libraries: tuple[str, ...]) -> None:
    """Raise PluginError for a library that onnxruntime cannot load, alone or with the others, in a separate process.

    Raises TimeLimitError if the command's time limit is reached meanwhile.
    """
    y = helper.make_tensor_value_info("y", TensorProto.INT64, [])
    graph = helper.make_graph([helper.make_node("Constant", [], ["y"], value_int=0)], "probe", [], [y])
    probe = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=7).SerializeToString()
    for loaded in (*((one,) for one in libraries), *([libraries] if len(libraries) > 1 else ())):
        try:
            with with_custom_operators(CustomOperators(loaded)), EvaluationProcess(LOADING) as process:
                process.run(probe, ["y"], {}, by_reference=False)
        except EvaluationError as e:
            reason = str(e).removeprefix("onnxruntime cannot load it: ")
            raise PluginError(f"{', '.join(loaded)}: its operators cannot be loaded: {reason}") from e
        except TimeLimitReached as e:
            raise TimeLimitError(f"{', '.join(loaded)}: loading its operators took too long") from e


def _kernels_in(file: Path) -> list[_Given]:
    """The kernels that a Python file defines. Raises PluginError if there are none."""
    module = import_file(file)
    found = [_Given(t, file, name) for name, t in vars(module).items() if _is_kernel(t, module.__name__)]
    if not found:
        raise PluginError(f"{file} defines no kernel: {FORMS}")
    return found


def _is_kernel(thing: object, module: str) -> bool:
    is_function = isinstance(thing, onnx.FunctionProto) or hasattr(thing, "to_function_proto")
    return is_kernel(thing, module) or (is_function and not isinstance(thing, type))


def _functions_of(given: _Given) -> list[onnx.FunctionProto] | None:
    """The local function of onnxscript, with the functions that it calls; None for a kernel in Python."""
    if isinstance(given.thing, onnx.FunctionProto):
        return [given.thing]
    if isinstance(given.thing, type) or not hasattr(given.thing, "to_function_proto"):
        return None
    found, waiting = dict[Operator, onnx.FunctionProto](), [given.thing]
    label = str(given.file or format_type(given.thing))
    with plugin_errors(label, label):
        while waiting:
            function = waiting.pop()
            proto: onnx.FunctionProto = function.to_function_proto()
            if operator_of(proto) not in found:
                found[operator_of(proto)] = proto
                called = getattr(getattr(function, "function_ir", None), "get_called_functions", dict)
                waiting += called().values()
    return list(found.values())


def _place_of(given: _Given) -> KernelPlace:
    """The location at which a worker finds a kernel. Raises UsageError for an object in no module or file."""
    thing: Any = given.thing
    like = thing.like if isinstance(thing, Kernel) else None
    if isinstance(thing, Kernel):
        made, operator = cast("Any", thing.function), split_op_type(thing.op)
    elif is_operator_class(thing):
        made, operator = thing, (thing.op_domain, thing.__name__)
    else:
        raise UsageError(f"{format_type(thing)} is not a kernel: it must be {FORMS}")
    if given.file is not None:
        return KernelPlace(*operator, "", str(given.file.absolute()), given.name, like)
    module, path = cast("str", made.__module__), cast("str", made.__qualname__)
    file = str(getattr(sys.modules.get(module), "__file__", None) or "")
    is_imported = module != "__main__" and not module.startswith(FILE_MODULE_PREFIX)
    if "<" in path or not (is_imported or file):
        raise UsageError(
            f"the kernel {qualified_op_type(*operator)} must be at the top level of a module or file, because the "
            "process that runs models imports it"
        )
    return KernelPlace(*operator, module if is_imported else "", str(Path(file).absolute()) if file else "", path, like)
