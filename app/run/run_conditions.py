"""Digest of all on which the result of a run depends: model, options, files, sources of passes, versions."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import fields
from functools import cache
from pathlib import Path

from ...core.pass_manager.pipeline import Pass, RulePass, leaves
from ..environment import versions
from ..jobs.finished_jobs import content_digest, file_content_digest, model_digest
from ..registry.resolved_pipeline import ResolvedPipeline, resolve_pipeline
from .run_exchange import options_from_text

WITHOUT_INFLUENCE = frozenset({
    "output", "in_place", "map_to", "repro_to", "page_to", "report_to", "plan", "visualize", "progress",
})  # fmt: skip
"""Options that change no result."""
PACKAGE = Path(__file__).parents[2]


def run_conditions(model: Path, text: str) -> str:
    """The digest for a model and the text of options. Raises PassesError if the model or a pass is unusable."""
    return content_digest([model_digest(model), _options_digest(text)])


@cache
def _options_digest(text: str) -> str:
    """A digest of options, of the files that they name, of the files with the passes and rules, and of versions."""
    options = options_from_text(text)
    choice = resolve_pipeline(options.pipeline, options.plugins, options.only, options.skip, options.enabled)
    files = [(str(file), file_content_digest(file)) for file in (*options.input_files, *pipeline_files(choice))]
    values = {f.name: getattr(options, f.name) for f in fields(options) if f.name not in WITHOUT_INFLUENCE}
    return content_digest([values, files, versions()])


def pipeline_files(choice: ResolvedPipeline) -> list[Path]:
    """The files that a pipeline names, and those of plugins in which its passes and rules are defined."""
    makers = {maker for p in (choice.pipeline, *choice.fallbacks) for maker in _makers(p)}
    return [*choice.read_files, *_source_files((*makers, *(type(edit.item) for edit in choice.edits)))]


def _makers(pipeline: Pass) -> Iterator[Callable[..., object]]:
    """The types of passes, and the functions of rules."""
    for p in leaves(pipeline):
        yield type(p)
        yield from (rule.build for rule in p.rules) if isinstance(p, RulePass) else ()


def _source_files(makers: Iterable[Callable[..., object]]) -> list[Path]:
    """The files of plugins in which passes and rules are defined, sorted."""
    files = set[Path]()
    for maker in makers:
        with suppress(TypeError, OSError):  # defined in no file
            files.add(Path(inspect.getfile(maker)))
    return sorted(file for file in files if not file.is_relative_to(PACKAGE))
