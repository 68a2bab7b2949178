"""Operators that a user adds to ONNX and onnxruntime, for this process and the workers that it asks."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import PurePath

from msgspec import Struct


class KernelPlace(Struct, frozen=True):
    """The operator of a kernel in Python, and the place of the kernel: a name in a module, or in the file of one.

    `module` is empty for a file that is no module of the search path. `like`: the number of an input of whose type and
    shape the outputs are; None if nothing is declared.
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
    """The operators that were added here; None for none."""
    return _CURRENT.get()


def set_custom_operators(added: CustomOperators | None) -> None:
    """Have these operators from now on, as a worker does for each request of its parent."""
    _CURRENT.set(added)


@contextmanager
def with_custom_operators(added: CustomOperators | None) -> Generator[None]:
    """Have these operators in the block, here and in workers that are asked; None for the operators from before."""
    token = _CURRENT.set(_CURRENT.get() if added is None else added)
    try:
        yield
    finally:
        _CURRENT.reset(token)


def add_custom_operators(added: CustomOperators | None) -> None:
    """Have these operators, too, until the innermost block of `with_custom_operators` ends; those from before win."""
    if added is None:
        return
    old = _CURRENT.get() or CustomOperators()
    kernels = {(k.domain, k.op_type): k for k in (*added.kernels, *old.kernels)}
    functions = dict.fromkeys((*added.functions, *old.functions))  # the last of an operator wins
    _CURRENT.set(CustomOperators(old.libraries, tuple(kernels.values()), tuple(functions)))


def runtime_name(engine: str = "onnxruntime") -> str:
    """The name of an engine with the files of operators that were added, for messages about a run."""
    added = custom_operators()
    if added is None:
        return engine
    paths = (*added.libraries, *(k.file or k.module for k in added.kernels))
    files = dict.fromkeys(PurePath(path).name for path in paths)
    return f"{engine} with {', '.join(files)}" if files else engine
