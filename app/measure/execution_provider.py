"""Engines and execution providers, by the names that users give, and their session configs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from ...core.errors import UnknownNameError, UsageError
from ...core.ort.engines import ONNXRUNTIME, SINGLE, EngineChoice, engine_label, find_engine, parse_engine
from ...core.ort.onnxruntime_engine import available_providers
from ...core.ort.sessions import ALL_LEVELS, CPU, ENABLE_ALL, MAX_THREADS, PROVIDER_SUFFIX, SessionConfig, short_name
from ...core.plugins.pass_spec import parse_specs
from ...core.support.regular_files import open_regular
from ...core.support.suggestions import did_you_mean
from ..options import SessionOptions
from ..registry.environment import versions

SYNTAX = "name{option=text}"
QUOTED = re.compile(r"\A(['\"])(.*)\1\Z", re.DOTALL)


class ExecutionProvider(Struct, frozen=True):
    """An execution provider: its full name, its options as strings, and its library if it is not built in."""

    name: str = CPU
    options: tuple[tuple[str, str], ...] = ()
    library: str = ""

    def session_config(self, level: str, threads: int) -> SessionConfig:
        """The config for users' sessions at an optimization level, given by onnxruntime's name. Raises UsageError."""
        if not 0 <= threads <= MAX_THREADS:
            raise UsageError(f"{threads} threads: give 0 to {MAX_THREADS}, 0 for one per core")
        return SessionConfig(
            level,
            prepack_weights=True,
            allow_spinning=True,
            memory_patterns=True,
            intra_op_threads=threads,
            provider=self.name,
            provider_options=self.options,
            provider_library=self.library,
        )


def session_configs(options: SessionOptions, engines: Sequence[str], level: str | None = None) -> list[SessionConfig]:
    """The configs for users' sessions in each engine, with the provider and the level for onnxruntime.

    Raises UsageError for unknown engines and providers, and for options that no chosen engine has.
    """
    chosen = [parse_engine(text) for text in engines]
    if ONNXRUNTIME not in {c.name for c in chosen}:
        given = {"--ep": options.ep != "cpu", "--ep-library": options.ep_library, "--level": level not in {None, "all"}}
        for flag, value in given.items():
            if value:
                raise UsageError(f"{flag} applies only to onnxruntime: leave it out, or also give --engine onnxruntime")
    return [_session_config(options, c, level) for c in chosen]


def engine_versions(configs: Sequence[SessionConfig]) -> dict[str, str]:
    """The versions of this package and its libraries, and of the engines in the configs that report theirs."""
    found = {engine_label(c.engine, SINGLE): find_engine(c.engine).installed_version() for c in configs}
    return versions() | {name: version for name, version in found.items() if version}


def compared_config(engine: str) -> SessionConfig:
    """The config in which an engine is compared with the reference. Raises UsageError."""
    return session_configs(SessionOptions(), [engine])[0]


def _session_config(options: SessionOptions, choice: EngineChoice, level: str | None) -> SessionConfig:
    if choice.name == ONNXRUNTIME:
        if choice.options:
            raise UsageError("--engine onnxruntime: give its options with --ep")
        level_name = ENABLE_ALL if level is None else optimization_level(level)
        provider = ExecutionProvider() if options.ep_library else parse_provider(options.ep)
        if options.ep_library:
            provider = library_provider(Path(options.ep_library), options.ep)
        return provider.session_config(level_name, options.threads)
    return SessionConfig(
        intra_op_threads=options.threads,
        engine=choice.name,
        precision=choice.precision,
        provider_options=choice.options,
    )


def parse_provider(text: str) -> ExecutionProvider:
    """Parse a provider such as `cpu`, `CUDAExecutionProvider` or `openvino{device_type=CPU}`; case is ignored.

    Raises UsageError for a malformed text, and UnknownNameError for a provider that this onnxruntime does not have.
    """
    try:
        specs = parse_specs(text)
    except UsageError as e:
        raise UsageError(f"not of the form {SYNTAX}: {e}") from e
    if len(specs) != 1:
        raise UsageError(f"{text}: name one execution provider, not {len(specs)}")
    names = available_providers()
    wanted = specs[0].name.casefold().removesuffix(PROVIDER_SUFFIX.casefold())
    full_name = next((n for n in names if short_name(n) == wanted), None)
    if full_name is None:
        known = [short_name(n) for n in names]
        near = f"it has {', '.join(known)}{did_you_mean(wanted, known)}"
        raise UnknownNameError(f"this onnxruntime has no execution provider {specs[0].name}; {near}")
    options = tuple((name, QUOTED.sub(r"\2", text)) for name, text in specs[0].options.items())
    return ExecutionProvider(full_name, options)


def library_provider(library: Path, text: str) -> ExecutionProvider:
    """The provider in a library, with the name and options in a text; `cpu` is no name. Raises UsageError."""
    try:
        spec = parse_specs(text)[0]
        open_regular(library).close()
    except UsageError as e:
        raise UsageError(f"not of the form {SYNTAX}: {e}") from e
    except OSError as e:
        raise UsageError(f"--ep-library {library}: {e.strerror}") from e
    options = tuple((name, QUOTED.sub(r"\2", value)) for name, value in spec.options.items())
    return ExecutionProvider("" if spec.name.casefold() == "cpu" else spec.name, options, str(library.absolute()))


def optimization_level(level: str) -> str:
    """Convert a level from the command line to onnxruntime's name for it. Raises UsageError for an unknown one."""
    if level not in ALL_LEVELS:
        raise UsageError(f"--level {level}: unknown level; choose from {', '.join(ALL_LEVELS)}")
    return ALL_LEVELS[level]
