"""Digest of all on which the result of a command depends: model, options, files, sources of passes, versions."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from ...core.errors import ModelError
from ..cli.settings import all_texts
from ..optimize.content_digests import content_digest, file_content_digest, model_digest
from ..registry.resolved_pipeline import ResolvedPipeline, resolve_pipeline
from .model_files import SUFFIX
from .run_conditions import pipeline_sources, surroundings

WITHOUT_INFLUENCE = frozenset({"show_settings", "trust_settings", "no_settings"})
"""Options that change no result, or whose effect is in the values of others."""
SEPARATORS = re.compile(r"[:,]")  # of a file and a name in it, or of several files


def action_conditions(model: Path, text: str) -> str:
    """The digest for a model and the text of options. Raises PassesError if the model or a pass is unusable."""
    return content_digest([model_digest(model), _options_digest(text)])


@cache
def _options_digest(text: str) -> str:
    """A digest of options, of the files that they name, of the files with the passes and rules, and of versions."""
    name, values = json.loads(text)
    given = {option: value for option, value in values.items() if option not in WITHOUT_INFLUENCE}
    files = [(str(file), _file_digest(file)) for file in _named_files(given)]
    return content_digest([name, given, files, pipeline_sources(_pipeline(given)), *surroundings()])


def _pipeline(given: Mapping[str, Any]) -> ResolvedPipeline:
    """The pipeline of options; a command without a choice of one may still have plugins."""
    names = ("plugin", "only", "skip", "enable")
    return resolve_pipeline(given.get("pipeline", "basic"), *(given.get(name) or () for name in names))


def _named_files(value: Any) -> Iterator[Path]:
    """The files and folders that texts in options name, such as those in `a.npz` and `file.py:function`."""
    for text in all_texts(value):
        for name in dict.fromkeys((text, *SEPARATORS.split(text))):
            with suppress(OSError, ValueError):  # such as a name that is too long
                if name and Path(name).exists():
                    yield Path(name)


def _file_digest(file: Path) -> str:
    """A digest of a file, of a model with its external data."""
    if file.suffix.casefold() == SUFFIX:
        with suppress(ModelError):
            return model_digest(file)
    return file_content_digest(file)
