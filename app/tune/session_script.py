"""Python scripts that create a session with the settings of a result."""

from __future__ import annotations

from collections.abc import Iterator

from ...core.ort.engines import find_engine
from ...core.ort.sessions import (
    ALLOCATOR,
    SessionConfig,
    engine_settings,
    session_attributes,
    session_entries,
    session_providers,
)
from ...core.processes.custom_operators import custom_operators
from ...core.support.printable_text import printable_line
from ..measure.tuned_settings import DEFAULT_SESSION, Configuration


def session_script(configuration: Configuration, model: str, comment: str) -> str:
    """The text of a script that creates `session` for a model, whose path is relative to the script."""
    config, callers = configuration.session, configuration.callers
    path = f"model = Path(__file__).parent / {model!a}"
    lines = [
        f"# {printable_line(comment)}",
        *([f"# Call it from {callers} threads at the same time."] if callers > 1 else []),
        *(_onnxruntime_lines(config, path) if config.is_onnxruntime else _engine_lines(config, path)),
    ]
    return "\n".join(lines)


def _engine_lines(config: SessionConfig, path: str) -> list[str]:
    """The lines for another engine, from the engine itself or using this package."""
    engine, settings = find_engine(config.engine), engine_settings(config)
    given = f"{settings.precision!r}, {settings.threads}, {settings.streams}, {dict(settings.options)!r}"
    own = [
        "from passwright.core import EngineSettings, find_engine",
        "",
        f"settings = EngineSettings({given})",
        f"session = find_engine({config.engine!a}).load(model, settings)",
    ]
    return ["from pathlib import Path", "", path, *(own if engine.script is None else engine.script(settings))]


def _onnxruntime_lines(config: SessionConfig, path: str) -> list[str]:
    disabled = f", disabled_optimizers={list(config.disabled_optimizers)!r}" if config.disabled_optimizers else ""
    added = custom_operators()
    libraries = added.libraries if added is not None else ()
    return [
        "import os",
        "from pathlib import Path",
        "",
        'os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # read when onnxruntime is imported',
        "import onnxruntime as ort",
        "",
        "options = ort.SessionOptions()",
        *_option_lines(config),
        *(f"options.register_custom_ops_library({library!a})" for library in libraries),
        path,
        f"session = ort.InferenceSession(model, options, providers={session_providers(config)!r}{disabled})",
    ]


def _option_lines(config: SessionConfig) -> Iterator[str]:
    """Yield the lines for settings other than onnxruntime's defaults."""
    usual = session_attributes(DEFAULT_SESSION)
    if config.optimization_level != DEFAULT_SESSION.optimization_level:
        yield f"options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_{config.optimization_level}"
    if config.parallel:
        yield "options.execution_mode = ort.ExecutionMode.ORT_PARALLEL"
    for name, value in session_attributes(config).items():
        if value != usual[name]:
            yield f"options.{name} = {value!r}"
    for key, value in session_entries(config).items():
        yield f"options.add_session_config_entry({key!r}, {value!r})"
    if config.shared_allocator:
        yield 'memory = ort.OrtMemoryInfo("Cpu", ort.OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0, ort.OrtMemType.DEFAULT)'
        yield f"ort.create_and_register_allocator(memory, ort.OrtArenaCfg({dict(ALLOCATOR)!r}))"
