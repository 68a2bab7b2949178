"""Settings of onnxruntime's sessions as JSON and in words."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, cast

from msgspec.structs import replace

from ...core.errors import UsageError
from ...core.ort.sessions import ALL_LEVELS, CPU, MAX_THREADS, SessionConfig
from .execution_provider import ExecutionProvider, optimization_level, parse_provider, short_name

USUAL = ExecutionProvider().session_config(ALL_LEVELS["all"], 0)
THREADS = ("intra_op_threads", "inter_op_threads")
SWITCHES = {
    "parallel": ("ops one by one", "independent ops in parallel"),
    "allow_spinning": ("threads sleep", "threads spin"),
    "cpu_arena": ("no arena", "arena"),
    "shared_allocator": ("arena of the session", "arena that grows by need"),
    "memory_patterns": ("no memory patterns", "memory patterns"),
    "denormals_as_zero": ("denormals kept", "denormals as zero"),
    "prepack_weights": ("weights not prepacked", "weights prepacked"),
}
"""Settings that are off or on, and the words for both."""
NAME = re.compile(r"[\w.-]{1,100}", re.ASCII)
MAX_BLOCK_BASE = 1 << 16
MAX_NAMES = 1000


def settings_data(config: SessionConfig) -> dict[str, Any]:
    """The settings of a session as JSON data."""
    level = next(name for name, own in ALL_LEVELS.items() if own == config.optimization_level)
    return {
        "level": level,
        "disabled_optimizers": list(config.disabled_optimizers),
        **{name: getattr(config, name) for name in (*THREADS, "dynamic_block_base", *SWITCHES)},
        "provider": short_name(config.provider),
        "provider_options": dict(config.provider_options),
    }


def settings_from_data(data: object) -> SessionConfig:
    """The session of settings in JSON data, with onnxruntime's defaults for those that are missing.

    Raises UsageError for unknown settings, and for values that no session takes.
    """
    known = settings_data(USUAL)
    if not isinstance(data, dict):
        raise UsageError("session: not an object")
    given = cast("dict[str, Any]", data)
    if unknown := [name for name in given if name not in known]:
        raise UsageError(f"session: {unknown[0]} is no setting; there are {', '.join(known)}")
    for name, value in given.items():
        if type(value) is not type(known[name]):
            raise UsageError(f"session: {name} is not {_type_words(known[name])}")
    chosen = known | given
    bounds = {**dict.fromkeys(THREADS, MAX_THREADS), "dynamic_block_base": MAX_BLOCK_BASE}
    for name, most in bounds.items():
        if not 0 <= chosen[name] <= most:
            raise UsageError(f"session: {name} {chosen[name]}: from 0 to {most}")
    names = cast("list[object]", chosen["disabled_optimizers"])
    if len(names) > MAX_NAMES or not all(isinstance(n, str) and NAME.fullmatch(n) for n in names):
        raise UsageError("session: disabled_optimizers has other things than names of optimizers")
    try:
        level, provider = optimization_level(chosen["level"]), parse_provider(chosen["provider"])
    except UsageError as e:
        raise UsageError(f"session: {e}") from e
    return replace(
        USUAL,
        optimization_level=level,
        disabled_optimizers=tuple(map(str, names)),
        **{name: chosen[name] for name in (*THREADS, "dynamic_block_base", *SWITCHES)},
        provider=provider.name,
        provider_options=_option_pairs(chosen["provider_options"]),
    )


def _option_pairs(options: Mapping[object, object]) -> tuple[tuple[str, str], ...]:
    if not all(isinstance(text, str) for pair in options.items() for text in pair):
        raise UsageError("session: provider_options has other things than texts")
    return tuple((str(name), str(text)) for name, text in options.items())


def _type_words(value: object) -> str:
    words = {"bool": "true or false", "int": "an integer", "str": "a text", "list": "a list", "dict": "an object"}
    return words[type(value).__name__]


def settings_words(config: SessionConfig, usual: SessionConfig = USUAL) -> list[str]:
    """The differences from the usual settings, in words; empty if there are none."""
    return list(_differences(config, usual))


def _differences(config: SessionConfig, usual: SessionConfig) -> Iterator[str]:
    data, other = settings_data(config), settings_data(usual)
    if data["level"] != other["level"]:
        yield f"level {data['level']}"
    if disabled := data["disabled_optimizers"]:
        yield f"without {', '.join(disabled)}"
    if config.intra_op_threads != usual.intra_op_threads:
        yield f"{config.intra_op_threads or 'all'} intra-op thread{'s' * (config.intra_op_threads != 1)}"
    for name, words in SWITCHES.items():
        if data[name] != other[name]:
            yield words[data[name]]
    if config.parallel and config.inter_op_threads:
        yield f"{config.inter_op_threads} inter-op thread{'s' * (config.inter_op_threads != 1)}"
    if config.dynamic_block_base != usual.dynamic_block_base:
        yield f"dynamic blocks of {config.dynamic_block_base}"
    if config.provider != CPU or config.provider_options:
        options = ",".join(f"{name}={text}" for name, text in config.provider_options)
        yield f"provider {data['provider']}{f'{{{options}}}' if options else ''}"
