"""Sessions of onnxruntime, their configuration, and its optimization levels."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

Loadable = bytes | Path
"""A serialized model, or the file it is in; weights in other files are found beside that."""

CPU = "CPUExecutionProvider"
DISABLE_ALL, ENABLE_ALL = "DISABLE_ALL", "ENABLE_ALL"
LEVELS = MappingProxyType({
    "basic": "ENABLE_BASIC", "extended": "ENABLE_EXTENDED", "layout": "ENABLE_LAYOUT", "all": ENABLE_ALL,
})  # fmt: skip
"""The levels at which onnxruntime optimizes, from least to most, with its own names for them."""
ALL_LEVELS = MappingProxyType({"disable": DISABLE_ALL, **LEVELS})


@dataclass(frozen=True, slots=True)
class SessionConfig:
    """The configuration of a session: the `optimization_level` by onnxruntime's name, and `disabled_optimizers`.

    `prepack_weights`: for its kernels, as it does by default; `verbose`: it logs to standard
    error. `intra_op_threads` for one op: 0 stands for as many as there are cores. `provider` by its full name, with
    options; what it does not take, the CPU does. `optimized_model_path` is the file that the optimized model is written
    to, `profile_prefix` the beginning of the name of the file that the times of each run are written to: "" for none.
    With `save_external_data`, weights go to a file of their own beside the one saved, as they have to beyond 2 GB.
    """

    optimization_level: str = DISABLE_ALL
    disabled_optimizers: tuple[str, ...] = ()
    prepack_weights: bool = False
    verbose: bool = False
    intra_op_threads: int = 0
    provider: str = CPU
    provider_options: tuple[tuple[str, str], ...] = ()
    optimized_model_path: str = ""
    profile_prefix: str = ""
    save_external_data: bool = False


UNOPTIMIZED = SessionConfig()


def create_session(model: Loadable, config: SessionConfig = UNOPTIMIZED, folder: Path | None = None) -> Any:
    """An InferenceSession. `folder` is where the external weights of a model given as bytes are.

    Raises what onnxruntime raises.
    """
    ort: Any = importlib.import_module("onnxruntime")
    options = ort.SessionOptions()
    options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, f"ORT_{config.optimization_level}")
    options.log_severity_level = 0 if config.verbose else 4
    options.intra_op_num_threads = config.intra_op_threads
    if not config.prepack_weights:
        options.add_session_config_entry("session.disable_prepacking", "1")
    if folder is not None:
        options.add_session_config_entry("session.model_external_initializers_file_folder_path", str(folder))
    if config.optimized_model_path:
        options.optimized_model_filepath = config.optimized_model_path
    if config.save_external_data:
        apart = f"{Path(config.optimized_model_path).name}.data"
        options.add_session_config_entry("session.optimized_model_external_initializers_file_name", apart)
        options.add_session_config_entry("session.optimized_model_external_initializers_min_size_in_bytes", "1024")
    if config.profile_prefix:
        options.enable_profiling = True
        options.profile_file_prefix = config.profile_prefix
    source = model if isinstance(model, bytes) else str(model)
    disabled = {"disabled_optimizers": list(config.disabled_optimizers)} if config.disabled_optimizers else {}
    return ort.InferenceSession(source, options, providers=_providers(config), **disabled)


def _providers(config: SessionConfig) -> list[Any]:
    wanted: Any = (config.provider, dict(config.provider_options)) if config.provider_options else config.provider
    return [wanted] if config.provider == CPU else [wanted, CPU]
