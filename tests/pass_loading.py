"""Passes of plugins and pipelines, loaded for tests in one call."""

from pathlib import Path
from typing import Any

from passwright.app.registry.resolved_pipeline import resolve_pipeline
from passwright.core import Pass
from passwright.core.plugins.pass_registry import InstalledPlugins, LoadErrors, PassEntry, registry_from_file


def passes_from_file(path: Path) -> dict[str, PassEntry]:
    """The passes of one Python file."""
    return registry_from_file(path).passes


def installed_passes(errors: LoadErrors | None = None) -> dict[str, PassEntry]:
    """The passes of all installed packages; load errors are added to `errors`, or the first one is raised."""
    found = InstalledPlugins()
    found.load_all()
    if errors is not None:
        errors |= found.load_errors
    elif found.load_errors:
        raise next(iter(found.load_errors.values()))
    return found.registry.passes


def make_pipeline(*given: Any, **options: Any) -> Pass:
    """The pipeline of these options, for any model."""
    return resolve_pipeline(*given, **options).pipeline
