"""Sessions of engines, their configuration, and the sessions of onnxruntime."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from ..errors import ModelLoadError
from ..processes.custom_operators import custom_operators
from ..support.printable_text import is_utf8
from .engines import (
    ONNXRUNTIME,
    SINGLE,
    EngineSession,
    EngineSettings,
    ValueFacts,
    completed_session,
    engine_label,
    find_engine,
)

if TYPE_CHECKING:
    from ..io.split_models import Loadable

CPU = "CPUExecutionProvider"
PROVIDER_SUFFIX = "ExecutionProvider"
DISABLE_ALL, ENABLE_ALL = "DISABLE_ALL", "ENABLE_ALL"
LEVELS = MappingProxyType({
    "basic": "ENABLE_BASIC", "extended": "ENABLE_EXTENDED", "layout": "ENABLE_LAYOUT", "all": ENABLE_ALL,
})  # fmt: skip
"""The optimization levels of onnxruntime, from least to most, with onnxruntime's names."""
ALL_LEVELS = MappingProxyType({"disable": DISABLE_ALL, **LEVELS})


ALLOCATOR = MappingProxyType({"arena_extend_strategy": 1})
"""The configuration of the arena shared by sessions: kSameAsRequested."""
MAX_THREADS = 1024  # in a session; onnxruntime starts all of them
MANY_ENDS = 4000  # inputs and outputs of a session; with more, finding the type of each array takes long


class SessionConfig(Struct, frozen=True):
    """The configuration of a session: its `engine`, a name for `find_engine`, and how the engine runs a model.

    All engines have the `precision`, the `streams` that run concurrent calls (0: the engine's choice), the
    `intra_op_threads`, and `provider_options`, which are options of the engine unless it is onnxruntime. All other
    fields are for onnxruntime, and have its defaults unless noted.

    Attributes:
        optimization_level: onnxruntime's name of the level; `disabled_optimizers` are switched off.
        prepack_weights: weights are prepacked for kernels.
        allow_spinning: threads that wait for work keep their cores busy.
        memory_patterns: runs plan the memory of later ones, in quadratic time in the number of values.
        verbose: log to standard error.
        records_assignment: the session can report which provider runs each node.
        intra_op_threads: the threads that compute an op; 0 for one per core.
        parallel: run independent ops in `inter_op_threads` threads; 0 for one per core.
        dynamic_block_base: divide an op for each thread into blocks of decreasing sizes; 0 for equal sizes.
        cpu_arena: keep freed memory for later runs. With `shared_allocator`, all sessions share an arena that grows
            only as needed.
        denormals_as_zero: numbers too small to be normalized are 0.
        provider: the full name of the execution provider; ops that it does not support run on the CPU. With a
            `provider_library`, it is the provider of that library, on the devices that it offers.
        optimized_model_path: the path for the optimized model; "" for none.
        profile_prefix: the prefix of a file for the times of each run; "" for none.
        save_external_data: save weights in a separate file, which is necessary over 2 GB.
        model_file: a file that is loaded instead of the model.
    """

    optimization_level: str = DISABLE_ALL
    disabled_optimizers: tuple[str, ...] = ()
    prepack_weights: bool = False
    allow_spinning: bool = False
    memory_patterns: bool = False
    verbose: bool = False
    records_assignment: bool = False
    intra_op_threads: int = 0
    inter_op_threads: int = 0
    parallel: bool = False
    dynamic_block_base: int = 0
    cpu_arena: bool = True
    shared_allocator: bool = False
    denormals_as_zero: bool = False
    provider: str = CPU
    provider_options: tuple[tuple[str, str], ...] = ()
    optimized_model_path: str = ""
    profile_prefix: str = ""
    save_external_data: bool = False
    engine: str = ONNXRUNTIME
    precision: str = SINGLE
    streams: int = 0
    provider_library: str = ""
    model_file: str = ""

    @property
    def engine_name(self) -> str:
        """The engine and its precision, for messages, such as `openvino:bf16`."""
        return engine_label(self.engine, self.precision)

    @property
    def is_lossy(self) -> bool:
        """Whether the precision differs from the model's."""
        return self.precision != SINGLE

    @property
    def is_onnxruntime(self) -> bool:
        """Whether the engine is onnxruntime."""
        return self.engine == ONNXRUNTIME


UNOPTIMIZED = SessionConfig()
AS_USERS_RUN = SessionConfig(ENABLE_ALL, prepack_weights=True, memory_patterns=True)
"""A session with all optimizations of onnxruntime, as users run it, so that the same integer kernels are used."""


def create_session(model: Loadable, config: SessionConfig = UNOPTIMIZED, folder: Path | None = None) -> EngineSession:
    """Create a session of an engine. `folder` has the external weights of a model given as bytes.

    Raises the errors of the engine, and PluginError for a library of custom operators.
    """
    if config.model_file:
        model, folder = Path(config.model_file), None
    added = custom_operators()
    if added is not None and (added.kernels or added.functions):
        from .kernel_session import KernelSession, with_kernels  # noqa: PLC0415 - imports onnx, which takes memory

        found = with_kernels(model, folder, added, config, _create_session)
        return found if isinstance(found, KernelSession) else _create_session(found, config, folder)
    return _create_session(model, config, folder)


def _create_session(model: Loadable, config: SessionConfig, folder: Path | None = None) -> EngineSession:
    if config.is_onnxruntime:
        return OrtSession(inference_session(model, config, folder))
    added = custom_operators()
    if added is not None and added.libraries:
        raise ModelLoadError(f"--custom-ops works only with onnxruntime, not with {config.engine_name}")
    with ExitStack() as exits:
        from .session_source import whole_model, with_output_types  # noqa: PLC0415 - imports onnx, which takes memory

        model = with_output_types(model)
        if not isinstance(model, bytes | Path) or folder is not None:
            model = whole_model(model, folder, exits)
        return completed_session(find_engine(config.engine).load(model, engine_settings(config)))


def engine_settings(config: SessionConfig) -> EngineSettings:
    """The settings for an engine other than onnxruntime."""
    return EngineSettings(
        config.precision,
        config.intra_op_threads,
        config.streams,
        dict(config.provider_options),
        bool(config.profile_prefix),
    )


class OrtSession(EngineSession):
    """A `session` of onnxruntime. ml_dtypes are used for element types that NumPy lacks.

    Raises ModelLoadError for inputs that Python cannot provide.
    """

    def __init__(self, session: Any) -> None:
        from .ort_values import is_exchangeable, lacks_numpy_dtype  # noqa: PLC0415 - imports onnx

        self.session = session
        self.inputs = _value_facts([*session.get_inputs(), *session.get_overridable_initializers()])
        self.outputs = _value_facts(session.get_outputs())
        self._names = [v.name for v in self.outputs]
        kinds = [v.type for v in (*self.inputs, *self.outputs)]
        self._lacks_dtypes = any(map(lacks_numpy_dtype, kinds))
        if self._lacks_dtypes and not is_exchangeable(kinds):
            raise ModelLoadError(f"onnxruntime cannot exchange {', '.join(dict.fromkeys(kinds))} with Python")
        has_many = len(kinds) > MANY_ENDS and is_exchangeable(kinds)
        self._needs_ortvalues = self._lacks_dtypes or has_many
        self._new_options: Any = importlib.import_module("onnxruntime").RunOptions
        self._options: Any = None

    def run(self, outputs: Sequence[str] | None, feeds: Mapping[str, Any]) -> list[Any]:
        """Run once; raises onnxruntime's errors."""
        options = self._options = self._new_options()
        if not self._needs_ortvalues:
            return list(self.session.run(None if outputs is None else list(outputs), dict(feeds), options))
        from .ort_values import run_bound, to_ortvalue  # noqa: PLC0415 - as above

        made = {name: to_ortvalue(array) for name, array in feeds.items()}
        values = {name: value for name, (value, _) in made.items()}  # `made` owns the memory of the values
        return run_bound(self.session, self._names if outputs is None else outputs, values, options)

    def bind(self, feeds: Mapping[str, Any]) -> Callable[[], object]:
        """Make a call like users do."""
        session, given = self.session, dict(feeds)
        if not self._lacks_dtypes:
            return lambda: session.run(None, given)
        from .ort_values import to_ortvalue  # noqa: PLC0415 - as above

        made = {name: to_ortvalue(array) for name, array in given.items()}
        return lambda: session.run_with_ort_values(self._names, {name: value for name, (value, _) in made.items()})

    def cancel(self) -> None:
        """Make onnxruntime end the run after the current op."""
        if self._options is not None:
            self._options.terminate = True

    def end_profile(self) -> Path:
        """End profiling; return the profile file."""
        return Path(self.session.end_profiling())


def _value_facts(found: Sequence[Any]) -> list[ValueFacts]:
    return [ValueFacts(v.name, v.type, tuple(v.shape or ())) for v in found]


def inference_session(model: Loadable, config: SessionConfig = UNOPTIMIZED, folder: Path | None = None) -> Any:
    """Create an InferenceSession of onnxruntime; see `create_session`."""
    values: Mapping[str, tuple[Any, Any]] = {}
    if not isinstance(model, bytes | Path):
        from .session_source import session_source  # noqa: PLC0415 - imports onnx, which takes memory

        split = session_source(model)
        model, folder, values = split.data, split.folder, split.values
    elif isinstance(model, Path) and not is_utf8(str(model)):  # onnxruntime cannot open such a path
        model, folder = model.read_bytes(), model.parent if is_utf8(str(model.parent)) else None
    ort: Any = importlib.import_module("onnxruntime")
    options = session_options(ort, config)
    added = custom_operators()
    for library in added.libraries if added is not None else ():
        options.register_custom_ops_library(library)
    if folder is not None:
        options.add_session_config_entry("session.model_external_initializers_file_folder_path", str(folder))
    if values:
        options.add_external_initializers(list(values), [value for value, _ in values.values()])
    if config.shared_allocator:
        register_allocator(ort)
    source = model if isinstance(model, bytes) else str(model)
    disabled = {"disabled_optimizers": list(config.disabled_optimizers)} if config.disabled_optimizers else {}
    if config.provider_library:
        options.add_provider_for_devices(library_devices(ort, config), dict(config.provider_options))
        return ort.InferenceSession(source, options, **disabled)
    return ort.InferenceSession(source, options, providers=session_providers(config), **disabled)


def library_devices(ort: Any, config: SessionConfig) -> list[Any]:
    """The devices of a library's provider, filtered by the config's provider name if set. Raises ModelLoadError."""
    added = _register_library(ort, config.provider_library)
    wanted, file = config.provider.casefold(), Path(config.provider_library).name
    offered = [d for d in ort.get_ep_devices() if d.ep_name in added]
    found = [d for d in offered if wanted in {"", d.ep_name.casefold(), short_name(d.ep_name)}]
    if not found:
        names = ", ".join(dict.fromkeys(d.ep_name for d in offered))
        others = f"has no provider {config.provider}; it has {names}" if names else "offers no device on this machine"
        raise ModelLoadError(f"{file}: it {others}")
    return [d for d in found if d.ep_name == found[0].ep_name]


@cache
def _register_library(ort: Any, library: str) -> frozenset[str]:
    """Load a library into onnxruntime, once per process; return the added providers. Raises ModelLoadError."""
    before = {d.ep_name for d in ort.get_ep_devices()}
    try:
        ort.register_execution_provider_library(Path(library).stem, library)
    except Exception as e:
        raise ModelLoadError(f"{Path(library).name} is not a library of an execution provider: {e}") from e
    return frozenset(d.ep_name for d in ort.get_ep_devices()) - before


def short_name(provider: str) -> str:
    """The short name of a provider: cpu for `CPUExecutionProvider`."""
    return provider.removesuffix(PROVIDER_SUFFIX).casefold()


def session_options(ort: Any, config: SessionConfig) -> Any:
    """The SessionOptions of the module `ort`."""
    options = ort.SessionOptions()
    for name, value in session_attributes(config).items():
        setattr(options, name, value)
    options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, f"ORT_{config.optimization_level}")
    if config.parallel:
        options.execution_mode = ort.ExecutionMode.ORT_PARALLEL
    options.log_severity_level = 0 if config.verbose else 4
    for key, value in session_entries(config).items():
        options.add_session_config_entry(key, value)
    if config.optimized_model_path:
        options.optimized_model_filepath = config.optimized_model_path
    if config.save_external_data:
        apart = f"{Path(config.optimized_model_path).name}.data"
        options.add_session_config_entry("session.optimized_model_external_initializers_file_name", apart)
        options.add_session_config_entry("session.optimized_model_external_initializers_min_size_in_bytes", "1024")
    if config.profile_prefix:
        options.enable_profiling = True
        options.profile_file_prefix = config.profile_prefix
    return options


def session_attributes(config: SessionConfig) -> dict[str, int | bool]:
    """The attributes of SessionOptions with simple types."""
    return {
        "intra_op_num_threads": config.intra_op_threads,
        "inter_op_num_threads": config.inter_op_threads,
        "enable_cpu_mem_arena": config.cpu_arena,
        "enable_mem_pattern": config.memory_patterns,
    }


def session_entries(config: SessionConfig) -> dict[str, str]:
    """The entries of the session configuration that differ from onnxruntime's defaults, by key."""
    wanted = {
        "session.disable_prepacking": "" if config.prepack_weights else "1",
        "session.intra_op.allow_spinning": "" if config.allow_spinning else "0",
        "session.inter_op.allow_spinning": "" if config.allow_spinning else "0",
        "session.set_denormal_as_zero": "1" if config.denormals_as_zero else "",
        "session.dynamic_block_base": str(config.dynamic_block_base) if config.dynamic_block_base else "",
        "session.use_env_allocators": "1" if config.shared_allocator else "",
        "session.record_ep_graph_assignment_info": "1" if config.records_assignment else "",
    }
    return {key: value for key, value in wanted.items() if value}


def session_providers(config: SessionConfig) -> list[Any]:
    """The execution providers in order of preference: names, or pairs of name and options."""
    provider: Any = (config.provider, dict(config.provider_options)) if config.provider_options else config.provider
    return [provider] if config.provider == CPU else [provider, CPU]


@cache
def register_allocator(ort: Any) -> None:
    """Create an arena for all sessions of the process that grows as needed instead of by powers of two; once only."""
    memory = ort.OrtMemoryInfo("Cpu", ort.OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0, ort.OrtMemType.DEFAULT)
    ort.create_and_register_allocator(memory, ort.OrtArenaCfg(dict(ALLOCATOR)))
