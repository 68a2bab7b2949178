"""Execution providers of onnxruntime."""

from __future__ import annotations

import importlib
import re
from typing import Any

from msgspec import Struct

from ...core.errors import UnknownNameError, UsageError
from ...core.ort.sessions import ALL_LEVELS, CPU, MAX_THREADS, SessionConfig
from ...core.plugins.pass_spec import parse_specs
from ...core.support.suggestions import did_you_mean

SUFFIX = "ExecutionProvider"
SYNTAX = "name{option=text}"
QUOTED = re.compile(r"\A(['\"])(.*)\1\Z", re.DOTALL)


class ExecutionProvider(Struct, frozen=True):
    """An execution provider: its full name, and its options as texts."""

    name: str = CPU
    options: tuple[tuple[str, str], ...] = ()

    def session_config(self, level: str, threads: int) -> SessionConfig:
        """The config of users' sessions at an optimization level, by onnxruntime's own name. Raises UsageError."""
        if not 0 <= threads <= MAX_THREADS:
            raise UsageError(f"{threads} threads: onnxruntime gets 0 to {MAX_THREADS}, 0 for one on each core")
        return SessionConfig(
            level,
            prepack_weights=True,
            allow_spinning=True,
            memory_patterns=True,
            intra_op_threads=threads,
            provider=self.name,
            provider_options=self.options,
        )


def parse_provider(text: str) -> ExecutionProvider:
    """The provider in a text: `cpu`, `CUDAExecutionProvider`, `openvino{device_type=CPU}`; case is ignored.

    Raises UsageError for another form, UnknownNameError for a provider that this onnxruntime does not have.
    """
    try:
        specs = parse_specs(text)
    except UsageError as e:
        raise UsageError(f"not of the form {SYNTAX}: {e}") from e
    if len(specs) != 1:
        raise UsageError(f"{text}: name one execution provider, not {len(specs)}")
    names = available_providers()
    wanted = specs[0].name.casefold().removesuffix(SUFFIX.casefold())
    full_name = next((n for n in names if short_name(n) == wanted), None)
    if full_name is None:
        known = [short_name(n) for n in names]
        near = f"it has {', '.join(known)}{did_you_mean(wanted, known)}"
        raise UnknownNameError(f"this onnxruntime has no execution provider {specs[0].name}; {near}")
    options = tuple((name, QUOTED.sub(r"\2", text)) for name, text in specs[0].options.items())
    return ExecutionProvider(full_name, options)


def optimization_level(level: str) -> str:
    """Onnxruntime's name for a level of the command line. Raises UsageError for an unknown one."""
    if level not in ALL_LEVELS:
        raise UsageError(f"--level {level}: unknown level; choose from {', '.join(ALL_LEVELS)}")
    return ALL_LEVELS[level]


def available_providers() -> list[str]:
    """The full names of the providers in this build of onnxruntime; their libraries may still fail to load."""
    ort: Any = importlib.import_module("onnxruntime")
    return list(ort.get_available_providers())


def short_name(name: str) -> str:
    """`CPUExecutionProvider` as cpu."""
    return name.removesuffix(SUFFIX).casefold()
