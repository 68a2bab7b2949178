"""Source files of passes and rules that are not built in."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from ...core.run.pipeline import RulePass, leaves
from .adapter_names import ONNXSCRIPT
from .environment import SOURCE_FOLDERS
from .resolved_pipeline import ResolvedPipeline

INSTALLED = frozenset({"site-packages", "dist-packages"})


def plugin_sources(choice: ResolvedPipeline) -> set[Path]:
    """The Python files of all passes and transforms of a run that are not built in.

    Beside each file count the modules of this process in its package, or in its folder if it is in none.
    """
    passes = [p for pipeline in (choice.pipeline, *choice.fallbacks) for p in leaves(pipeline)]
    makers = [type(item) for item in (*passes, *(transform.item for transform in choice.transforms))]
    functions = [rule.build for p in passes if isinstance(p, RulePass) for rule in p.rules]
    files = set[Path]()
    for maker in (*makers, *functions):
        with suppress(TypeError, OSError):  # defined in no file
            files.add(Path(inspect.getfile(maker)))
    for tool, _, reference in (p.name.partition(":") for p in passes):
        if tool == ONNXSCRIPT:
            where = reference.rpartition(":")[0]
            file = where if where.endswith(".py") else getattr(sys.modules.get(where), "__file__", None)
            files |= {Path(file)} if file else set()
    plugins = [file for file in files if not any(file.is_relative_to(folder) for folder in SOURCE_FOLDERS)]
    return {path for file in plugins for path in (file, *_modules_beside(file))}


def _modules_beside(file: Path) -> Iterator[Path]:
    """The files of modules of this process in the outermost package around a file, or in its folder."""
    folder = file.absolute().parent
    while (folder.parent / "__init__.py").exists():
        folder = folder.parent
    is_package = (folder / "__init__.py").exists()
    if not is_package and folder.name in INSTALLED:
        return  # modules of strangers
    for module in list(sys.modules.values()):
        path = Path(getattr(module, "__file__", None) or "")
        is_near = path.is_relative_to(folder) if is_package else path.parent == folder
        if is_near and path.suffix == ".py" and INSTALLED.isdisjoint(path.relative_to(folder).parts):
            yield path
