"""Session settings of onnxruntime, in words and as JSON, and the settings files of `passes tune`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct, field, to_builtins

from ...core.errors import UsageError
from ...core.ort.engines import ONNXRUNTIME, SINGLE, parse_engine
from ...core.ort.sessions import ALL_LEVELS, CPU, ENABLE_ALL, MAX_THREADS, SessionConfig, short_name
from ...core.support.printable_text import json_text
from ...core.support.regular_files import read_text, unreadable
from ...passes.pipelines import PIPELINES
from ...passes.targets import TARGET_NAMES
from ...passes.trades import OPTIONAL, TRADING
from .execution_provider import ExecutionProvider, parse_provider

ORIGINAL = "none"  # the pipeline without passes
DEFAULT_SESSION = ExecutionProvider().session_config(ENABLE_ALL, 0)
"""A session with onnxruntime's defaults."""
MAX_BYTES = 1 << 20  # of a file
SWITCHES = {
    "parallel": ("ops one by one", "independent ops in parallel"),
    "allow_spinning": ("threads sleep", "threads spin"),
    "cpu_arena": ("no arena", "arena"),
    "shared_allocator": ("arena of the session", "arena that grows as needed"),
    "memory_patterns": ("no memory patterns", "memory patterns"),
    "denormals_as_zero": ("denormals kept", "denormals as zero"),
    "prepack_weights": ("weights not prepacked", "weights prepacked"),
}
"""Settings that are off or on, and the words for both states."""
NAMES_FILE = re.compile(r"[/\\]|\.(?:dll|dylib|so)\b", re.IGNORECASE)
Threads = Annotated[int, Meta(ge=0, le=MAX_THREADS)]
OptimizerName = Annotated[str, Meta(pattern=r"^[A-Za-z0-9_.-]{1,100}\Z")]


class SessionSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """The settings of a session as JSON, with names as on the command line and onnxruntime's defaults."""

    level: Literal["disable", "basic", "extended", "layout", "all"] = "all"
    disabled_optimizers: Annotated[tuple[OptimizerName, ...], Meta(max_length=1000)] = ()
    intra_op_threads: Threads = 0
    inter_op_threads: Threads = 0
    dynamic_block_base: Annotated[int, Meta(ge=0, le=1 << 16)] = 0
    parallel: bool = False
    allow_spinning: bool = True
    cpu_arena: bool = True
    shared_allocator: bool = False
    memory_patterns: bool = True
    denormals_as_zero: bool = False
    prepack_weights: bool = True
    provider: str = "cpu"
    provider_options: dict[str, str] = field(default_factory=dict[str, str])
    engine: Annotated[str, Meta(pattern=r"^[A-Za-z0-9_+-]{1,100}\Z")] = ONNXRUNTIME
    precision: Annotated[str, Meta(pattern=r"^[a-z0-9]{1,20}\Z")] = SINGLE
    streams: Threads = 0

    @classmethod
    def of(cls, config: SessionConfig) -> SessionSettings:
        """The settings in a config."""
        level: Any = next(name for name, own in ALL_LEVELS.items() if own == config.optimization_level)
        same = {name: getattr(config, name) for name in SAME_NAMES}
        return cls(level, provider=short_name(config.provider), provider_options=dict(config.provider_options), **same)

    def config(self) -> SessionConfig:
        """The session config with these settings.

        Raises UsageError for an unknown engine or provider, and for an option that names a file: providers load some as
        libraries.
        """
        parse_engine(f"{self.engine}:{self.precision}")
        if files := [name for name, text in self.provider_options.items() if NAMES_FILE.search(text)]:
            raise UsageError(f"the option {files[0]} of the provider names a file, which may be run as code")
        return SessionConfig(
            ALL_LEVELS[self.level],
            provider=parse_provider(self.provider).name,
            provider_options=tuple(self.provider_options.items()),
            **{name: getattr(self, name) for name in SAME_NAMES},
        )


SAME_NAMES = [n for n in SessionSettings.__struct_fields__ if n not in {"level", "provider", "provider_options"}]
"""The settings that are also fields of SessionConfig."""


def settings_words(config: SessionConfig, usual: SessionConfig = DEFAULT_SESSION) -> list[str]:
    """The differences from the usual settings, in words; empty if there are none."""
    return list(_differences(config, usual))


def _differences(config: SessionConfig, usual: SessionConfig) -> Iterator[str]:
    yield from _engine_words(config, usual)
    if config.optimization_level != usual.optimization_level:
        yield f"level {SessionSettings.of(config).level}"
    if config.disabled_optimizers:
        yield f"without {', '.join(config.disabled_optimizers)}"
    if config.intra_op_threads != usual.intra_op_threads:
        yield f"{config.intra_op_threads or 'all'} intra-op thread{'s' * (config.intra_op_threads != 1)}"
    for name, words in SWITCHES.items():
        if getattr(config, name) != getattr(usual, name):
            yield words[getattr(config, name)]
    if config.parallel and config.inter_op_threads:
        yield f"{config.inter_op_threads} inter-op thread{'s' * (config.inter_op_threads != 1)}"
    if config.dynamic_block_base != usual.dynamic_block_base:
        yield f"dynamic blocks of {config.dynamic_block_base}"


def _engine_words(config: SessionConfig, usual: SessionConfig) -> Iterator[str]:
    """The engine and onnxruntime's provider, if they are not the usual ones."""
    options = ",".join(f"{name}={text}" for name, text in config.provider_options)
    given = f"{{{options}}}" if options else ""
    if config.engine_name != usual.engine_name:
        yield f"engine {config.engine_name}{given}"
    elif config.provider != CPU or given:
        yield f"provider {short_name(config.provider)}{given}"
    if config.streams != usual.streams:
        yield f"{config.streams} stream{'s' * (config.streams != 1)}"


class Recipe(Struct, frozen=True, forbid_unknown_fields=True):
    """How to make a model from the original: a pipeline, skipped or added passes, and the opset.

    `opset` is None for the opset of the model or the pipeline. With a `scheme` of `passes quantize`, the other fields
    apply to that command.
    """

    pipeline: str = ORIGINAL
    skip: tuple[str, ...] = ()
    enable: tuple[str, ...] = ()
    opset: Annotated[int, Meta(ge=1, le=1000)] | None = None
    scheme: str = ""

    @property
    def is_original(self) -> bool:
        """Whether the model stays unchanged."""
        return self == Recipe()

    def require_known(self) -> None:
        """Raise UsageError for an unknown pipeline, or for passes that `passes tune` does not choose."""
        if self.pipeline not in (known := [*PIPELINES, *TARGET_NAMES]):
            raise UsageError(f"pipeline {self.pipeline} is unknown; choose from {', '.join(dict.fromkeys(known))}")
        for names, groups in ((self.skip, TRADING), (self.enable, OPTIONAL)):
            if unknown := set(names) - {p for passes in groups.values() for p in passes}:
                raise UsageError(f"{min(unknown)} is not a pass that `passes tune` chooses")


class Configuration(Struct, frozen=True):
    """A model and a session. `callers` is the number of threads that call the session at the same time."""

    recipe: Recipe = Recipe()
    session: SessionConfig = DEFAULT_SESSION
    callers: int = 1

    @property
    def key(self) -> str:
        """A text that identifies the configuration, also in other processes."""
        return repr(to_builtins(self))


class TunedSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """A result in a file: how to make and run its `model` (a file name), and figures with their conditions."""

    format: Literal[1]
    model: str = ""
    run: Recipe = Recipe()
    session: SessionSettings = SessionSettings()
    callers: Annotated[int, Meta(ge=1, le=1024)] = 1
    measured: dict[str, Any] = field(default_factory=dict[str, Any])

    @classmethod
    def of(cls, configuration: Configuration, model: str, measured: Mapping[str, Any]) -> TunedSettings:
        """The settings of a configuration."""
        session = SessionSettings.of(configuration.session)
        return cls(1, model, configuration.recipe, session, configuration.callers, dict(measured))

    @property
    def recipe(self) -> Recipe:
        """How to make the model. Raises UsageError for a quantized model, which is not verified like others."""
        if self.run.scheme:
            scheme = self.run.scheme
            engine = f" --engine {self.session.engine}" if scheme == self.session.precision else ""
            raise UsageError(
                f"--settings: the model is quantized: `passes quantize --scheme {scheme}{engine}` makes it"
            )
        return self.run

    def to_json(self) -> str:
        """The text of the file."""
        return json_text(to_builtins(self))


def read_tuned_settings(path: Path) -> TunedSettings:
    """Read a settings file. Raises UsageError for another file, and for invalid settings.

    Nothing in the file is run as code: pipelines and passes are from this package, optimizers and providers from
    onnxruntime, and engines from installed packages.
    """
    try:
        found = msgspec.json.decode(read_text(path, MAX_BYTES), type=TunedSettings)
        found.run.require_known()
        found.session.config()
    except OSError as e:
        raise UsageError(f"--settings: {unreadable(path, e)}") from e
    except (msgspec.DecodeError, ValueError, RecursionError, UsageError) as e:
        raise UsageError(f"--settings {path}: not a result of `passes tune`: {e}") from e
    return found
