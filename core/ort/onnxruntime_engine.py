"""onnxruntime as an engine."""

from __future__ import annotations

import importlib
from importlib.metadata import version
from pathlib import Path
from typing import Any

from .engines import ONNXRUNTIME, Engine, EngineSession, EngineSettings
from .sessions import ENABLE_ALL, OrtSession, SessionConfig, inference_session


def load(model: bytes | Path, settings: EngineSettings) -> EngineSession:
    """A session with all optimizations, as users run it; raises onnxruntime's errors."""
    config = SessionConfig(ENABLE_ALL, prepack_weights=True, memory_patterns=True, intra_op_threads=settings.threads)
    return OrtSession(inference_session(model, config))


def available_providers() -> list[str]:
    """The full names of the execution providers in this build; their libraries may still fail to load."""
    ort: Any = importlib.import_module("onnxruntime")
    return list(ort.get_available_providers())


ENGINE = Engine(ONNXRUNTIME, load, version=lambda: version("onnxruntime"), devices=available_providers)
