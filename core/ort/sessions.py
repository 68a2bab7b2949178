"""How onnxruntime is asked to treat a model, and the sessions it makes of one."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Loadable = bytes | Path
"""A serialized model, or the file it is in; weights in other files are found beside that."""

CPU = "CPUExecutionProvider"


@dataclass(frozen=True, slots=True)
class Setting:
    """How onnxruntime is to treat a model: its `level` of optimization, by its own word, without `disabled` optimizers.

    `repacks` weights for its kernels, as it does unless told otherwise; `logs` all that it does to standard error.
    `threads` for one op: 0 stands for as many as there are cores. `provider` by its full name, with options; what it
    does not take, the CPU does. `saves` is the file that the optimized model is written to, `profiles` the beginning
    of the name of the file that the times of each run are written to: "" for none. With `saves_apart`, weights go to
    a file of their own beside the one saved, as they have to beyond 2 GB.
    """

    level: str = "DISABLE_ALL"
    disabled: tuple[str, ...] = ()
    repacks: bool = False
    logs: bool = False
    threads: int = 0
    provider: str = CPU
    provider_options: tuple[tuple[str, str], ...] = ()
    saves: str = ""
    profiles: str = ""
    saves_apart: bool = False


AS_WRITTEN = Setting()


def session(model: Loadable, setting: Setting = AS_WRITTEN, folder: Path | None = None) -> Any:
    """An InferenceSession. `folder` is where the external weights of a model given as bytes are.

    Raises what onnxruntime raises.
    """
    ort: Any = importlib.import_module("onnxruntime")
    options = ort.SessionOptions()
    options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, f"ORT_{setting.level}")
    options.log_severity_level = 0 if setting.logs else 4
    options.intra_op_num_threads = setting.threads
    if not setting.repacks:
        options.add_session_config_entry("session.disable_prepacking", "1")
    if folder is not None:
        options.add_session_config_entry("session.model_external_initializers_file_folder_path", str(folder))
    if setting.saves:
        options.optimized_model_filepath = setting.saves
    if setting.saves_apart:
        apart = f"{Path(setting.saves).name}.data"
        options.add_session_config_entry("session.optimized_model_external_initializers_file_name", apart)
        options.add_session_config_entry("session.optimized_model_external_initializers_min_size_in_bytes", "1024")
    if setting.profiles:
        options.enable_profiling = True
        options.profile_file_prefix = setting.profiles
    source = model if isinstance(model, bytes) else str(model)
    disabled = {"disabled_optimizers": list(setting.disabled)} if setting.disabled else {}
    return ort.InferenceSession(source, options, providers=_providers(setting), **disabled)


def _providers(setting: Setting) -> list[Any]:
    wanted: Any = (setting.provider, dict(setting.provider_options)) if setting.provider_options else setting.provider
    return [wanted] if setting.provider == CPU else [wanted, CPU]


LEVELS = ("basic", "extended", "layout", "all")
