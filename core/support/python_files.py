"""Python files of users, imported as modules, and errors in them."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager, redirect_stdout
from contextvars import ContextVar
from pathlib import Path
from types import CodeType, ModuleType

from ..errors import PluginError
from .author_errors import describe_exception
from .context_values import set_within_block
from .regular_files import open_regular, unreadable

FILE_MODULE_PREFIX = "passwright_local_"
_IMPORTED: ContextVar[dict[Path, ModuleType] | None] = ContextVar("_IMPORTED", default=None)


@contextmanager
def plugin_errors(source: str, what: str, code: CodeType | None = None) -> Generator[None]:
    """Convert exceptions of plugin code to PluginErrors with their `source`; redirect its output to standard error.

    The message has the line in the file of `code`.
    """
    try:
        with redirect_stdout(sys.stderr):
            yield
    except KeyboardInterrupt:
        raise
    except BaseException as e:
        if isinstance(e, PluginError) and source in str(e):
            raise
        raise PluginError(f"{what}: {describe_exception(e, code)}") from e


@contextmanager
def _without_bytecode() -> Generator[None]:
    """Prevent imports from writing bytecode, such as into the folder of an imported file, until the context ends."""
    before, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        yield
    finally:
        sys.dont_write_bytecode = before


def imported_once() -> AbstractContextManager[None]:
    """Import a file only once in the block, because a command may read it for its passes and for its kernels."""
    return set_within_block(_IMPORTED, _IMPORTED.get() or {})


def import_file(path: Path) -> ModuleType:
    """Import a Python file. Raises PluginError."""
    known = _IMPORTED.get()
    if known is None:
        return _import(path)
    if (place := path.absolute()) not in known:
        known[place] = _import(path)
    return known[place]


def _import(path: Path) -> ModuleType:
    if path.suffix != ".py":
        hint = (
            "" if path.suffix else f"; passes of an installed package are named with --enable, such as --enable {path}"
        )
        raise PluginError(f"{path} is not a Python file{hint}")
    try:
        open_regular(path).close()
    except OSError as e:
        raise PluginError(unreadable(path, e, "Python file")) from e
    name = FILE_MODULE_PREFIX + path.stem
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise PluginError(f"{path} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    code = compile("", str(spec.origin), "exec")  # of the absolute path, which the frames of the module have
    with plugin_errors(str(path), str(path), code), _without_bytecode():
        spec.loader.exec_module(module)
    return module
