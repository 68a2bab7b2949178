"""Custom operators, for this process and its workers."""

from __future__ import annotations

from contextlib import AbstractContextManager
from contextvars import ContextVar
from pathlib import PurePath

from msgspec import Struct

from ..support.context_values import set_within_block


class KernelPlace(Struct, frozen=True):
    """The operator of a kernel in Python, and the kernel's location: a name in a module, or in a file.

    `module` is empty for a file that is not a module on the search path. `like` is the index of the input with the type
    and shape of the outputs; None if not declared.
    """

    domain: str
    op_type: str
    module: str
    file: str
    name: str
    like: int | None = None


class CustomOperators(Struct, frozen=True):
    """The absolute paths of libraries for onnxruntime, kernels in Python, and serialized local functions."""

    libraries: tuple[str, ...] = ()
    kernels: tuple[KernelPlace, ...] = ()
    functions: tuple[bytes, ...] = ()


_CURRENT: ContextVar[CustomOperators | None] = ContextVar("_CURRENT", default=None)


def custom_operators() -> CustomOperators | None:
    """The operators added in this process; None if there are none."""
    return _CURRENT.get()


def set_custom_operators(added: CustomOperators | None) -> None:
    """Set the operators from now on; a worker does this for each request."""
    _CURRENT.set(added)


def with_custom_operators(added: CustomOperators | None) -> AbstractContextManager[None]:
    """Set the operators within the block, here and in workers; None keeps the current ones."""
    return set_within_block(_CURRENT, _CURRENT.get() if added is None else added)


def add_custom_operators(added: CustomOperators | None) -> None:
    """Add operators until the innermost block of `with_custom_operators` ends; existing ones take precedence."""
    if added is None:
        return
    old = _CURRENT.get() or CustomOperators()
    kernels = {(k.domain, k.op_type): k for k in (*added.kernels, *old.kernels)}
    functions = dict.fromkeys((*added.functions, *old.functions))  # the last function for an operator takes precedence
    _CURRENT.set(CustomOperators(old.libraries, tuple(kernels.values()), tuple(functions)))


def runtime_name(engine: str = "onnxruntime") -> str:
    """The name of an engine for messages about a run, with the files of custom operators."""
    added = custom_operators()
    if added is None:
        return engine
    paths = (*added.libraries, *(k.file or k.module for k in added.kernels))
    files = dict.fromkeys(PurePath(path).name for path in paths)
    return f"{engine} with {', '.join(files)}" if files else engine
