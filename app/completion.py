"""Names and models that a shell completes."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..core.errors import PassesError
from ..core.support.printable_text import json_text
from ..core.support.regular_files import read_text

if TYPE_CHECKING:
    from ..core.plugins.installed_names import PluginSource

Names = dict[str, list[str]]
PASSES, RULES, PIPELINES, OPERATORS, EFFORTS, LEVELS, TOOLS = KINDS = (
    "passes", "rules", "pipelines", "operators", "efforts", "levels", "tools",
)  # fmt: skip
CACHE_FILE = Path("passwright", "completion.json")
MAX_BYTES = 1 << 20  # of that file
ROOT = Path(__file__).parent.parent
SUFFIX = ".onnx"
PLAIN = re.compile(r"[\w./+@%-]+", re.ASCII)
"""File names that mean themselves in any shell. All others are left to the shell, which quotes them."""


def complete_names(*kinds: str) -> Callable[[str], list[str]]:
    """The names of these kinds that begin as the word to complete."""

    def complete(incomplete: str) -> list[str]:
        return [name for kind in kinds for name in known_names()[kind] if name.startswith(incomplete)]

    return complete


def complete_lists(*kinds: str) -> Callable[[str], list[str]]:
    """The names of these kinds that begin as the last one of a comma-separated list, each behind the others."""

    def complete(incomplete: str) -> list[str]:
        before, comma, last = incomplete.rpartition(",")
        taken = before.split(",")
        return [f"{before}{comma}{name}" for name in complete_names(*kinds)(last) if name not in taken]

    return complete


def complete_models(incomplete: str) -> list[str]:
    """The models of a folder; nothing where a folder may be meant, which the shell completes as any file."""
    folder, slash, start = incomplete.rpartition("/")
    try:
        with os.scandir(f"{folder}{slash}" or ".") as entries:
            found = [(entry.name, entry.is_dir()) for entry in entries if entry.name.startswith(start)]
    except OSError:
        return []
    if any(is_folder for name, is_folder in found if start or not name.startswith(".")):
        return []
    names = [f"{folder}{slash}{name}" for name, _ in found if name.endswith(SUFFIX)]
    return sorted(names) if all(map(PLAIN.fullmatch, names)) else []


def known_names() -> Names:
    """The names of passes, rules and others, built in and installed, by kind.

    To collect them takes longer than a user waits, so that they are kept in the user's folder for caches until the
    installed files change.
    """
    from ..core.plugins.installed_names import installed_sources  # noqa: PLC0415 - used seldom

    plugins = installed_sources()
    key = _installed_state(plugins)
    path = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / CACHE_FILE
    with suppress(OSError, ValueError, KeyError, TypeError):  # no such file, or none of this version
        kept: dict[str, Any] = json.loads(read_text(path, MAX_BYTES))
        if kept["key"] == key:
            return {kind: list(map(str, kept[kind])) for kind in KINDS}
    names = collect_names(plugins)
    with suppress(OSError, PassesError):
        _write(path, json_text({"key": key, **names}))
    return names


def collect_names(plugins: Iterable[PluginSource]) -> Names:
    """The names of all kinds, with those of installed `plugins`, whose code is read, and not run."""
    from ..core.ort.sessions import LEVELS as levels_of_ort  # noqa: N811, PLC0415 - imports onnx
    from ..core.plugins.installed_names import names_in_source  # noqa: PLC0415 - as above
    from ..core.rewriting.rules import Rule  # noqa: PLC0415 - as above
    from ..core.run.pipeline import rules_in  # noqa: PLC0415 - as above
    from ..core.verify.verification_spec import EFFORTS as efforts  # noqa: N811, PLC0415 - as above
    from .adapters.adapter_names import PACKAGES  # noqa: PLC0415 - as above
    from .registry.pass_sources import caller_registry  # noqa: PLC0415 - as above

    own = list(map(names_in_source, plugins))
    registry = caller_registry(())
    rules = [r for entry in registry.passes.values() for p in entry.passes for r in rules_in(p)]
    operators = {op for r in rules if isinstance(r, Rule) for pattern in r.patterns for op in pattern.operators()}
    return {
        PASSES: sorted({*registry.passes, *(name for found in own for name in found.passes)}),
        RULES: sorted({*(r.name for r in rules), *(name for found in own for name in found.rules)}),
        PIPELINES: sorted({*registry.pipelines, *(name for found in own for name in found.pipelines)}),
        OPERATORS: sorted(operators),
        EFFORTS: list(efforts),
        LEVELS: list(levels_of_ort),
        TOOLS: list(PACKAGES),
    }


def _installed_state(plugins: Iterable[PluginSource]) -> str:
    """A text that changes with the files of passes, and with those of plugins."""
    states = [entry.stat() for entry in _files(str(ROOT / "passes"))]
    others = [str(plugin.file) for plugin in plugins]
    with suppress(OSError):
        states += map(os.stat, others)
    newest, size = max((s.st_mtime_ns for s in states), default=0), sum(s.st_size for s in states)
    return f"{ROOT} {others} {len(states)} {newest} {size}"


def _files(folder: str) -> Iterator[os.DirEntry[str]]:
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir():
                yield from _files(entry.path)
            elif entry.name.endswith(".py"):
                yield entry


def _write(path: Path, text: str) -> None:
    """Write a file with its folder. Raises OSError and ModelError."""
    from ..core.io.output_paths import OutputPaths  # noqa: PLC0415 - imports onnx
    from ..core.io.publishing import publish_text  # noqa: PLC0415 - as above

    path.parent.mkdir(parents=True, exist_ok=True)
    publish_text(OutputPaths.of(report=path).report, lambda: text)
