"""The execution provider that onnxruntime is to run a model with."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any

from ...core.ort.sessions import CPU, SessionConfig
from ...core.pass_manager.pass_selection import UnknownNameError, UsageError
from ...core.plugins.pass_spec import parse_specs
from ...core.support.suggestions import did_you_mean

SUFFIX = "ExecutionProvider"
SYNTAX = "name{option=text}"


@dataclass(frozen=True, slots=True)
class ExecutionProvider:
    """By its full name, with its options as texts, which are its own."""

    name: str = CPU
    options: tuple[tuple[str, str], ...] = ()

    def session_config(self, level: str, threads: int) -> SessionConfig:
        """As users have it, apart from the level of optimization, by onnxruntime's own word."""
        return SessionConfig(
            level, prepack_weights=True, intra_op_threads=threads, provider=self.name, provider_options=self.options
        )


def parse_provider(text: str) -> ExecutionProvider:
    """The provider that a text names: `cpu`, `CUDAExecutionProvider`, `openvino{device_type=CPU}`; case does not count.

    Raises UsageError for another form, UnknownNameError for one that this onnxruntime does not have, with those it has.
    """
    try:
        specs = parse_specs(text)
    except UsageError as e:
        raise UsageError(f"not of the form {SYNTAX}: {e}") from e
    if len(specs) != 1:
        raise UsageError(f"{text}: one execution provider is wanted, {len(specs)} are named")
    options = tuple((name, _unquoted(value)) for name, value in specs[0].options.items())
    return ExecutionProvider(_full_name(specs[0].name), options)


def available_providers() -> list[str]:
    """The full names of what this onnxruntime was built with; whether their libraries load is seen in a session."""
    ort: Any = importlib.import_module("onnxruntime")
    return list(ort.get_available_providers())


def short_name(name: str) -> str:
    """`CPUExecutionProvider` as cpu."""
    return name.removesuffix(SUFFIX).casefold()


def _full_name(name: str) -> str:
    names = available_providers()
    wanted = name.casefold().removesuffix(SUFFIX.casefold())
    found = next((n for n in names if short_name(n) == wanted), None)
    if found is None:
        known = [short_name(n) for n in names]
        has = f"it has {', '.join(known)}"
        raise UnknownNameError(f"this onnxruntime has no execution provider {name}; {has}{did_you_mean(wanted, known)}")
    return found


def _unquoted(text: str) -> str:
    """A value as it is meant: quotes around it keep what is in them together."""
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'" else text
