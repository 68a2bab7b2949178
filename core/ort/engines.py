"""Engines that run models, built in or provided by plugins."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, PackageNotFoundError, entry_points
from pathlib import Path
from types import FunctionType, MappingProxyType, MethodType
from typing import Any, Protocol, cast

from msgspec import Struct

from ..errors import EvaluationError, PluginError, UnknownNameError, UsageError, plugin_failures
from ..support.python_files import import_file, plugin_errors
from ..support.suggestions import did_you_mean

ENGINE_GROUP = "passwright.engines"
"""The group of entry points for engines."""
ONNXRUNTIME = "onnxruntime"
SPLIT = "openvino+onnxruntime"
BUILT_IN = MappingProxyType(
    {
        ONNXRUNTIME: ".onnxruntime_engine:ENGINE",
        "openvino": ".openvino_engine:ENGINE",
        SPLIT: ".split_engine:ENGINE",
        "web": ".web_engine:ENGINE",
        "webgpu": ".web_engine:WEBGPU_ENGINE",
    }
)
"""The engines of this package, in modules that are imported on use."""
SINGLE = "f32"
"""The precision in which a float32 model is computed as specified."""
SYNTAX = "name, name:precision or name:precision{option=text}"
CHOICE = re.compile(r"(?P<name>.*?[^:{}])(:(?P<precision>[a-z0-9]+))?(\{(?P<options>[^{}]*)\})?", re.DOTALL)

TYPE = re.compile(r"((tensor|seq|map|optional|sparse_tensor)\(.+\))?")
"""Formats a type in onnxruntime's notation."""


class ValueFacts(Struct, frozen=True):
    """An input or output of a session: its name, its type in onnxruntime's notation ("" if unknown), and its shape.

    A dim is a number, a symbol, or None if unknown.

    Examples:
        >>> ValueFacts("x", "tensor(float)", (1, 4))
        ValueFacts(name='x', type='tensor(float)', shape=(1, 4))
    """

    name: str
    type: str
    shape: tuple[int | str | None, ...] = ()


class EngineSettings(Struct, frozen=True):
    """The settings of a session: precision, threads that compute an op, and streams for concurrent calls.

    If `threads` or `streams` is 0, the engine chooses; threads are then one per core. `options` are strings for the
    engine. With `profiles`, the session records the time of each op.

    Examples:
        >>> EngineSettings("bf16", threads=1).precision
        'bf16'
    """

    precision: str = SINGLE
    threads: int = 0
    streams: int = 0
    options: Mapping[str, str] = MappingProxyType({})
    profiles: bool = False


class OpTime(Struct, frozen=True):
    """The time of an op in one run: the engine's `name` and `kernel`, and the nodes that it computes, `originals`.

    Examples:
        >>> OpTime("conv_1", "Conv", "brgconv_avx512", 1e-3, ("conv_1", "relu_1")).originals
        ('conv_1', 'relu_1')
    """

    name: str
    op_type: str
    kernel: str
    seconds: float
    originals: tuple[str, ...] = ()


class EngineSession(Protocol):
    """A model loaded by an engine: any object with `run`, `inputs` and `outputs`; the rest has defaults.

    `precision` is the precision in which it computes; if there are several engines, followed by a colon and what runs
    where. `threads` is the number that compute an op, 0 if unknown. Only one thread at a time calls a session, but
    several may call what `bind` returns. A session in another process, which measures time there, has the
    `load_seconds` that loading took, and what it binds returns the seconds of a call.

    Examples:
        >>> session = find_engine("onnxruntime").load(model.SerializeToString(), EngineSettings(threads=1))
        >>> session.run(["y"], {"x": np.full((1, 4), -2, np.float32)})[0]
        array([[3., 4., 5., 6.]], dtype=float32)
    """

    inputs: Sequence[ValueFacts]
    outputs: Sequence[ValueFacts]
    precision: str = SINGLE
    threads: int = 0
    load_seconds: float = 0.0

    def run(self, outputs: Sequence[str] | None, feeds: Mapping[str, Any]) -> list[Any]:
        """Run once; return the named outputs, or all. The caller owns the arrays; ml_dtypes extend NumPy's types.

        Raises EvaluationError, whose message names neither the engine nor source locations.
        """
        ...

    def bind(self, feeds: Mapping[str, Any]) -> Callable[[], object]:
        """Return a function that runs once on these inputs, as users of the engine do; concurrent calls are allowed."""
        return lambda: self.run(None, feeds)

    def cancel(self) -> None:
        """End the current run soon; called from another thread. If this is missing, the process is ended."""

    def op_times(self) -> list[OpTime]:
        """The time of each op in the last run of a profiling session; empty if the engine does not report times."""
        return []


class Unsupported(Struct, frozen=True):
    """An op that an engine cannot run: its type, its place (the name of its first output), and the reason.

    Examples:
        >>> Unsupported("Det", "d", "openvino has no such operator").place
        'd'
    """

    op_type: str
    place: str
    reason: str


class Engine(Struct, frozen=True):
    """A runtime that runs models, with a `name` for `--engine`. Packages provide engines through entry points.

    `load` makes a session of a model, which is serialized, or a file with external weights beside it; it raises
    EvaluationError with a reason in one line. `version` may raise ImportError; `install` then says what to install. Of
    the `precisions`, which are f32, bf16, f16 and others, the first is the default; any but f32 is measured as a lossy
    one. `unsupported` lists the ops of a model that do not run. `devices`: on this machine. `start` starts other
    processes that sessions of some settings share, if there are any. `script` has lines of Python that make
    `session` of `model`, a path, without this package; None if there are none. `weight_schemes` has the precisions that
    are only for quantized weights, with the scheme of `quantize` that makes these.

    Examples:
        >>> ENGINE = Engine("mine", lambda model, settings: find_engine("onnxruntime").load(model, settings))
        >>> ENGINE.precisions
        ('f32',)
    """

    name: str
    load: Callable[[bytes | Path, EngineSettings], EngineSession]
    version: Callable[[], str] = lambda: ""
    precisions: tuple[str, ...] = (SINGLE,)
    unsupported: Callable[[bytes | Path], Sequence[Unsupported]] = lambda _: ()
    devices: Callable[[], Sequence[str]] = lambda: ("CPU",)
    install: str = ""
    start: Callable[[EngineSettings], object] = lambda _: None
    script: Callable[[EngineSettings], Sequence[str]] | None = None
    weight_schemes: Mapping[str, str] = MappingProxyType({})

    def __post_init__(self) -> None:
        """Check arguments, because plugins may not be type-checked."""
        name, precisions = cast("Any", self.name), cast("Any", self.precisions)
        if not isinstance(name, str) or CHOICE.fullmatch(name) is None or not callable(self.load):
            raise PluginError(f"engine {name!r}: it needs a name without braces, and a function to load a model")
        for what in ("version", "unsupported", "devices", "start"):
            if not callable(given := getattr(self, what)):
                raise PluginError(f"engine {name}: {what}={given!r} is not a function, as lambda: {given!r}")
        if not isinstance(precisions, tuple) or not precisions:
            raise PluginError(f"engine {name}: precisions={precisions!r} is not a tuple such as ('f32', 'bf16')")

    def installed_version(self) -> str:
        """The version of its package. Raises UsageError if it is not installed, and PluginError for other failures."""
        try:
            with plugin_failures(f"engine {self.name}: its version is not known", ImportError, PackageNotFoundError):
                found: Any = self.version()
        except (ImportError, PackageNotFoundError) as e:
            raise UsageError(f"engine {self.name} is not installed here: {self.install or e}") from e
        if not isinstance(found, str):
            raise PluginError(f"engine {self.name}: its version is {found!r}, not a string")
        return found


class EngineChoice(Struct, frozen=True):
    """An engine as named by a user, the precision, and options as strings."""

    name: str = ONNXRUNTIME
    precision: str = SINGLE
    options: tuple[tuple[str, str], ...] = ()

    @property
    def is_lossy(self) -> bool:
        """Whether the precision differs from the model's."""
        return self.precision != SINGLE

    def __str__(self) -> str:
        return engine_label(self.name, self.precision)


class _CompletedSession:
    """A session of a class that does not derive from `EngineSession`, completed with the defaults of that class."""

    def __init__(self, session: Any) -> None:
        self._session = session

    def __getattr__(self, name: str) -> Any:
        if hasattr(self._session, name):
            return getattr(self._session, name)
        default = getattr(EngineSession, name)
        return MethodType(default, self) if isinstance(default, FunctionType) else default


def completed_session(session: Any) -> EngineSession:
    """Complete a session that an engine loaded. Raises EvaluationError if it lacks run, inputs or outputs."""
    if session is None or not callable(getattr(session, "run", None)):
        raise EvaluationError("it returned None" if session is None else f"it returned {session!r}, which has no run")
    for name in ("inputs", "outputs"):
        found: Any = getattr(session, name, None)
        if not isinstance(found, Sequence) or not all(isinstance(v, ValueFacts) for v in cast("Sequence[Any]", found)):
            raise EvaluationError(f"the {name} of its session are {found!r}, not a list of ValueFacts")
        for value in cast("Sequence[ValueFacts]", found):
            if TYPE.fullmatch(value.type) is None:
                raise EvaluationError(f"the type of {value.name} is {value.type!r}, not one such as 'tensor(float)'")
    return session if EngineSession in type(session).__mro__ else cast("EngineSession", _CompletedSession(session))


def checked_results(found: Any, outputs: Sequence[str]) -> list[Any]:
    """The results of a session of a plugin's engine. Raises EvaluationError unless there is a value for each output."""
    if not isinstance(found, list | tuple):
        raise EvaluationError(f"its run returned {type(found).__name__}, not a list of arrays")
    values = list(cast("Sequence[Any]", found))
    if len(values) != len(outputs):
        raise EvaluationError(f"its run returned {len(values)} values for {len(outputs)} outputs")
    return values


def engine_label(name: str, precision: str) -> str:
    """An engine and its precision, such as `openvino:bf16`; f32 is omitted."""
    short = Path(name).name if name.endswith(".py") else name
    return short if precision == SINGLE else f"{short}:{precision}"


def parse_engine(text: str) -> EngineChoice:
    """Parse an engine: `openvino`, `openvino:bf16`, `file.py:f16{option=text}`.

    Raises UsageError for a malformed text, an engine that is not installed, or a precision that it lacks.
    """
    found = CHOICE.fullmatch(text)
    if found is None:
        raise UsageError(f"{text}: not of the form {SYNTAX}")
    options = [part.partition("=") for part in (found["options"] or "").split(",") if part.strip()]
    if not all(name.strip() and sign for name, sign, _ in options):
        raise UsageError(f"{text}: not of the form {SYNTAX}")
    name = str(Path(found["name"]).absolute()) if found["name"].endswith(".py") else found["name"].casefold()
    engine = find_engine(name)
    engine.installed_version()
    precision = found["precision"] or engine.precisions[0]
    if precision not in engine.precisions:
        known = ", ".join(engine.precisions)
        raise UsageError(f"engine {engine.name} has no precision {precision}; it has {known}")
    return EngineChoice(name, precision, tuple((key.strip(), value.strip()) for key, _, value in options))


def find_engine(name: str) -> Engine:
    """The engine by name, or from a Python file. Raises UnknownNameError and PluginError.

    Examples:
        >>> find_engine("onnxruntime").precisions
        ('f32',)
    """
    return _find_engine(name)


@cache
def _find_engine(name: str) -> Engine:
    if name in BUILT_IN:
        module, _, attribute = BUILT_IN[name].partition(":")
        return getattr(import_module(module, __package__), attribute)
    if name.endswith(".py"):
        return _engine_in(import_file(Path(name)), name)
    point = _entry_point(name)
    if point is None:
        known = engine_names()
        raise UnknownNameError(f"there is no engine {name}; choose from {', '.join(known)}{did_you_mean(name, known)}")
    source = _source_of(point)
    with plugin_errors(source, f"entry point {point.name} = {point.value} of {source}"):
        return _engine_in(point.load(), source)


def _engine_in(thing: Any, source: str) -> Engine:
    """An engine, or the only engine in a module."""
    things: list[Any] = [thing] if isinstance(thing, Engine) else [*cast("dict[str, Any]", vars(thing)).values()]
    held = [t for t in things if isinstance(t, Engine)]
    found = list({id(t): t for t in held}.values())
    if len(found) != 1:
        raise PluginError(f"{source} defines {len(found) or 'no'} engines; it needs one Engine of passwright.core")
    return found[0]


def _entry_point(name: str) -> EntryPoint | None:
    return next((p for p in entry_points(group=ENGINE_GROUP) if p.name.casefold() == name), None)


def _source_of(point: EntryPoint) -> str:
    return f"{point.dist.name} {point.dist.version}" if point.dist is not None else point.value


def engine_source(name: str) -> str:
    """The package of an installed plugin's engine, with its version; "" for engines of this package."""
    point = None if name in BUILT_IN else _entry_point(name)
    return "" if point is None else _source_of(point)


def engine_names() -> list[str]:
    """The names of built-in engines and of installed plugins' engines, without importing them."""
    return list(dict.fromkeys([*BUILT_IN, *sorted(p.name.casefold() for p in entry_points(group=ENGINE_GROUP))]))
