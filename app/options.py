"""Options of commands.

A class of options is a frozen dataclass. A field made by `option` is an option of the command line. Each field is a
parameter of the Python function. The option classes of commands inherit the classes of this module.
"""

from __future__ import annotations

import os
import reprlib
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, field, fields
from functools import cache, partial, wraps
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast, dataclass_transform

from msgspec import Struct

from ..core.errors import UsageError
from ..core.ort.sessions import MAX_THREADS
from ..core.processes.custom_operators import with_custom_operators
from ..core.processes.process_limits import given_memory
from ..core.verify.effort import EFFORTS as EFFORT_NAMES
from ..core.verify.effort import Effort

if TYPE_CHECKING:  # these modules import onnx, which commands need only when they run
    from ..core.plugins.plugin import PluginLike
    from ..core.run.instrumentation import Instrumentation
    from ..core.run.pipeline import Pass
    from ..core.run.target import Target
    from ..core.verify.given_inputs import GivenSamples, Inputs


GENERAL, OUTPUT, SELECTION, MODEL, VERIFICATION, CRITERION, SEARCH, SPEED, REPORTS, SETTINGS = GROUPS = (
    "Options", "Output", "Selection", "Model", "Verification", "Accuracy", "Search", "Speed",
    "Reports", "Settings",
)  # fmt: skip
"""Groups of options in the help of a command, in this order."""
PASSES, RULES, PIPELINES, OPERATORS, EFFORTS, LEVELS, TOOLS, DUMPS, TARGETS, ENGINES = (
    "passes", "rules", "pipelines", "operators", "efforts", "levels", "tools", "dumps", "targets", "engines",
)  # fmt: skip
"""Kinds of names that a shell completes."""
TUNED = ("pipeline", "skip", "enable", "opset", "threads", "ep")
"""Options that the settings file of `passes tune` sets."""
METADATA = "option"
AnyOptions = TypeVar("AnyOptions")
Part = TypeVar("Part")
P = ParamSpec("P")
Outcome = TypeVar("Outcome")
Progress = Callable[[str], None] | bool | None
"""A function called with the name of each phase, or whether to show it; None shows it only in notebooks."""
MAX_DIGITS = 30
PIPELINES_FILE = Path("pipelines.toml")  # in the current folder; pipelines are looked up in it
WORDS = {bool: "true or false", int: "an integer", float: "a number", str: "a string", Path: "a path"}
"""Names of values of each type, in messages."""


class OptionError(UsageError):
    """An option has an invalid value."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"{name} {reason}")
        self.name, self.reason = name, reason


class Option(Struct, frozen=True):
    """An option of the command line.

    Attributes:
        help: the help text. An option without one is only a parameter of the Python function.
        kind: the type of the value, or of each value if the option may be `repeated`.
        parse: converts the text, the list of texts, or a value from Python; raises ValueError with the expected form.
        objects: whether a Python object is a valid value; `takes` describes the texts and objects in messages.
        flags: names on the command line that differ from the name of the field.
        off: a flag for the value False, and its help.
        completes: the kinds of names that a shell completes, in a list separated by commas if `is_list`.
        reads: the text is, or may begin with, the path of a file that is read.
        runs_code: the value may run code.
        is_typed: the option exists only on the command line.
        is_own: settings for `passes run` do not apply to this option.
        excludes: options whose settings are ignored if this option is typed.
        enables: options whose settings apply only together with this option.
    """

    help: str
    metavar: str = ""
    group: str = GENERAL
    kind: type = str
    least: float | None = None
    most: float | None = None
    repeated: bool = False
    parse: Callable[[Any], Any] | None = None
    objects: Callable[[Any], bool] | None = None
    takes: str = ""
    flags: tuple[str, ...] = ()
    off: tuple[str, str] = ("", "")
    completes: tuple[str, ...] = ()
    is_list: bool = False
    reads: bool = False
    runs_code: bool = False
    is_typed: bool = False
    is_own: bool = False
    excludes: tuple[str, ...] = ()
    enables: tuple[str, ...] = ()

    def number(self, value: Any) -> Any:
        """Convert a text or a number to the kind of this option. Raises ValueError for an invalid or excessive one."""
        is_right = not isinstance(value, bool)
        try:
            number = self.kind(value)
        except (TypeError, ValueError, OverflowError):
            number, is_right = 0, False
        self._check(value, is_right and (isinstance(value, str) or number == value))
        _check(self.least is None or number >= self.least, f"{value}: it must be {self.least} or more")
        _check(self.most is None or number <= self.most, f"{value}: it must be {self.most} or less")
        return number

    def converted(self, value: Any) -> Any:
        """Convert a text or a value from settings to the kind of this option. Raises ValueError."""
        return self.number(value) if self.kind in (int, float) else self.kind(value)

    def checked(self, value: Any) -> Any:
        """Validate a value from Python, converting texts. Raises ValueError."""
        if self.parse is not None:
            return self.parse(value)
        if self.kind in (int, float):
            return self.number(value)
        is_right = isinstance(value, bool) if self.kind is bool else self._is_single(value)
        if not is_right and self.repeated and isinstance(value, list | tuple | AbstractSet):
            is_right = all(map(self._is_single, cast("Iterable[object]", value)))
        self._check(value, is_right)
        return [value] if self.repeated and isinstance(value, str | Path) else cast("Any", value)

    def _is_single(self, value: object) -> bool:
        """Whether a value is a text, a path, or a valid object, rather than a list of them."""
        is_text = isinstance(value, (str, Path) if self.kind is Path else str)
        return is_text or (self.objects is not None and self.objects(value))

    def _check(self, value: object, is_right: bool) -> None:
        words = WORDS[self.kind] + ", or several" * self.repeated
        _check(is_right, f"{shown(value)}: it must be {self.takes or words}")


def shown(value: object) -> str:
    """A Python value as one line of a message."""
    if isinstance(value, str):
        return value
    is_plain = value is None or isinstance(value, bool | int | float | bytes | list | tuple | set | dict)
    return " ".join(reprlib.repr(value).split()) if is_plain else f"of type {type(value).__name__}"


def flag_of(name: str, about: Option) -> str:
    """The flag of an option on the command line."""
    return max(about.flags, key=len) if about.flags else f"--{name.replace('_', '-')}"


def _check(condition: object, reason: str) -> None:
    if not condition:
        raise ValueError(reason)


def option(default: Any, help: str = "", metavar: str = "", **given: Any) -> Any:  # noqa: A002 - as typer calls it
    """Define a field of a class of options. `kind` is by default the type of the default value, or text."""
    kind = type(default) if isinstance(default, bool | int | float) else str
    about = Option(help, metavar, **cast("dict[str, Any]", {"kind": kind, **given}))
    return field(default=default, metadata={METADATA: about})


output_option, selection_option, model_option, verification_option, criterion_option, search_option, speed_option = (
    partial(option, group=group) for group in (OUTPUT, SELECTION, MODEL, VERIFICATION, CRITERION, SEARCH, SPEED)
)
report_option = partial(option, group=REPORTS)


def _is_source(value: object) -> bool:
    """Whether a value may be samples or a source of samples."""
    from ..core.verify.given_inputs import DataReader, GivenSamples, NamedData  # noqa: PLC0415 - imports onnx

    return not isinstance(value, bytes) and isinstance(value, Path | Iterable | DataReader | NamedData | GivenSamples)


def _is_pass(value: object) -> bool:
    from ..core.run.pipeline import Pass  # noqa: PLC0415 - imports onnx

    return isinstance(value, Pass)


def _is_plugin(value: object) -> bool:
    """Whether a value is a plugin, or a class, about which the plugin loader has a message of its own."""
    from ..core.plugins.plugin import PluginLike  # noqa: PLC0415 - imports onnx

    return isinstance(value, PluginLike | type)


def _is_target(value: object) -> bool:
    from ..core.run.target import Target  # noqa: PLC0415 - imports onnx

    return isinstance(value, Target)


source_option = partial(
    option, repeated=True, reads=True, objects=_is_source, takes="files, arrays by name, or an iterable of them"
)
plugin_option = partial(
    option,
    (),
    metavar="FILE",
    group=SELECTION,
    help="A Python file with rules, passes or a Plugin; may be repeated.",
    kind=Path,
    repeated=True,
    reads=True,
    runs_code=True,
    objects=_is_plugin,
    takes="Python files, passes, rules or plugins, in a list",
)


target_option = partial(
    selection_option, None, metavar="NAME", completes=(TARGETS,), reads=True, objects=_is_target,
    takes="the name of a target, or a Target",
)  # fmt: skip
effort_option = partial(
    verification_option, help="How thoroughly to verify: quick, default or thorough.", metavar="CHOICE",
    completes=(EFFORTS,),
)  # fmt: skip


def options_of(options: type) -> dict[str, tuple[Any, Option]]:
    """The default and the option of each field of a class."""
    return {name: found for name, found in arguments_of(options).items() if found[1].help}


@cache
def arguments_of(options: type) -> dict[str, tuple[Any, Option]]:
    """Like `options_of`, including the parameters that exist only in Python. A field may override just a default."""
    above = [vars(c).get("__dataclass_fields__", {}) for c in options.__mro__]
    found = dict[str, tuple[Any, Option]]()
    for f in fields(options):
        about = next((a[f.name].metadata[METADATA] for a in above if f.name in a and a[f.name].metadata), None)
        if about is not None:
            found[f.name] = f.default, about
    return found


def _plain(value: Any) -> Any:
    """The value of an option for JSON; arrays and other Python objects become the names of their types."""
    if isinstance(value, Mapping):
        return {str(name): _plain(inner) for name, inner in cast("Mapping[Any, Any]", value).items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in cast("Sequence[Any]", value)]
    is_plain = value is None or isinstance(value, bool | int | float | str)
    return value if is_plain else str(value) if isinstance(value, Path) else type(value).__name__


def require(condition: object, reason: str) -> None:
    """Raise UsageError unless `condition` holds."""
    if not condition:
        raise UsageError(reason)


def is_count(text: str) -> bool:
    """Whether a text is a decimal number of at most `MAX_DIGITS` digits."""
    return text.isascii() and text.isdecimal() and len(text) <= MAX_DIGITS


def _size(text: str) -> int | None:
    return int(text) if is_count(text.strip()) else None


def sizes_in(text: str) -> tuple[int, ...]:
    """The distinct positive sizes in a text such as `1,32`, sorted; empty for an invalid text."""
    sizes = [size.strip() for size in text.split(",")]
    return tuple(sorted(set(map(int, sizes)))) if all(is_count(s) and 0 < int(s) < 1 << 31 for s in sizes) else ()


def _shape(text: str) -> tuple[int, ...] | None:
    """The sizes in a text such as `1,3`; the empty text is the shape of a scalar. None for an invalid text."""
    sizes = [_size(size) for size in text.split(",") if size.strip()]
    return None if None in sizes else cast("tuple[int, ...]", tuple(sizes))


def _integer(value: Any) -> int | None:
    return int(value) if isinstance(value, Integral) and value is not True and value is not False else None


def _integers(value: Any) -> tuple[int, ...] | None:
    is_several = isinstance(value, Sequence) and not isinstance(value, str | bytes)
    numbers = [_integer(number) for number in cast("Sequence[Any]", value)] if is_several else [None]
    return None if None in numbers else cast("tuple[int, ...]", tuple(numbers))


def _sizes(value: Any) -> tuple[int, ...] | None:
    """One or more positive sizes; None for other values."""
    numbers = _integers([value] if isinstance(value, Integral) else value)
    return numbers if numbers and min(numbers) > 0 else None


def parse_batch(given: str | Sequence[int]) -> tuple[int, ...]:
    """The sorted batch sizes in a text such as `1,32`, with 1; sizes from Python are kept. Raises ValueError."""
    sizes = (sizes_in(given) if isinstance(given, str) else _integers(given)) or (0,)
    _check(min(sizes) > 0, f"{shown(given)}: not of the form 1,32, with sizes of at least 1")
    return tuple(sorted({1, *sizes})) if isinstance(given, str) else sizes


def parse_batch_name(given: str | int) -> int | str:
    """A positive number of rows, or the name of a symbol. Raises ValueError."""
    number = _size(given) if isinstance(given, str) else _integer(given)
    is_name = number is None and isinstance(given, str) and given.isidentifier()
    _check(
        is_name or (number is not None and number > 0),
        f"{shown(given)}: not of the form 8 (a number of at least 1) or rows (a name)",
    )
    return given if number is None else number


def _by_name(
    form: str, in_text: Callable[[str], Any], in_python: str, value_of: Callable[[Any], Any]
) -> Callable[[Any], dict[str, Any]]:
    """Make a parser of texts such as `batch=1`, or of a mapping from Python, into a mapping of values by name.

    `in_text` and `value_of` convert a value, and return None for an invalid one. The parser raises ValueError.
    """
    separator = next(character for character in form if character in "=:")

    def parse(given: Any) -> dict[str, Any]:
        if isinstance(given, Mapping):
            found = {name: value_of(value) for name, value in cast("Mapping[Any, Any]", given).items()}
            is_right = all(isinstance(name, str) and value is not None for name, value in found.items())
            _check(is_right, f"{shown(given)}: not of the form {in_python}")
            return found
        found = dict[str, Any]()
        for text in _texts(given, f"{form}, or {in_python}"):
            name, _, rest = text.rpartition(separator)
            value = in_text(rest)
            _check(name and value is not None, f"{text}: not of the form {form}")
            _check(found.setdefault(name, value) == value, f"{name}: given twice")
        return found

    return parse


parse_dim = _by_name("batch=1", _size, "{'batch': 1}", _integer)
parse_dim_sizes = _by_name("batch=1,8", lambda text: sizes_in(text) or None, "{'batch': [1, 8]}", _sizes)
parse_shape = _by_name("name:1,3,224,224", _shape, "{'name': [1, 3, 224, 224]}", _integers)
"""Sizes of symbols, several sizes of each, and shapes of inputs, whose names may have colons."""


def _texts(given: Any, form: str) -> list[str]:
    """The text, or the texts in a sequence. Raises ValueError with the expected `form` for other values."""
    is_several = isinstance(given, list | tuple | AbstractSet)
    texts: list[Any] = [given] if isinstance(given, str) else list(cast("Any", given)) if is_several else [None]
    _check(all(isinstance(text, str) for text in texts), f"{shown(given)}: not of the form {form}")
    return texts


def parse_names(given: str | Sequence[str]) -> tuple[str, ...]:
    """The names in one or more texts such as `a,b`. Raises ValueError for an empty name."""
    texts = _texts(given, "a,b")
    names = tuple(name.strip() for text in texts for name in text.split(","))
    _check(all(names), f"{','.join(texts)}: a name is empty")
    return names


def parse_size(given: str | int) -> int:
    """The number of bytes in a text such as `2GB`. Raises ValueError for an invalid or zero size."""
    from ..core.plugins.pass_spec import parse_value  # noqa: PLC0415 - imports onnx

    try:
        size = parse_value(int, str(given))
    except ValueError:
        size = 0
    _check(size > 0, f"{shown(given)}: not of the form 2GB, 512MiB or 1000000")
    return size


def parse_external_data(given: str | int) -> str | int:
    """The number of bytes in a text such as `1MB`, or the text itself if it is no size. Raises ValueError."""
    try:
        return parse_size(given)
    except ValueError:
        if isinstance(given, str):
            return given
        raise


def parse_instrumentation(given: Any) -> tuple[Instrumentation, ...]:
    """One or more `Instrumentation` objects. Raises ValueError for other values."""
    from ..core.run.instrumentation import Instrumentation  # noqa: PLC0415 - imports onnx

    found = tuple(cast("Iterable[Any]", given)) if isinstance(given, list | tuple) else (given,)
    is_right = all(isinstance(item, Instrumentation) for item in found)
    _check(is_right, f"{shown(given)}: it must be an Instrumentation of passwright.core, or a list of them")
    return found


def parse_effort(given: Effort) -> Effort:
    """An effort of verification. Raises ValueError for other values."""
    _check(
        isinstance(cast("object", given), str) and given in EFFORT_NAMES,
        f"{shown(given)}: choose from {', '.join(EFFORT_NAMES)}",
    )
    return given


def parse_verification(given: bool | Effort) -> bool | Effort:
    """An effort of verification, or whether to verify at all. Raises ValueError for other values."""
    return given if isinstance(given, bool) else parse_effort(given)


INPUTS = "an .npz file, a folder of ONNX test data or .npz files, or file.py:function; may be repeated."


@dataclass_transform(kw_only_default=True, frozen_default=True, eq_default=False)
def mixed_in(part: type[Part]) -> type[Part]:
    """Make a frozen dataclass that only adds fields to subclasses. Generating its methods would take 0.3 ms."""
    return dataclass(frozen=True, kw_only=True, init=False, repr=False, eq=False)(part)


@mixed_in
class ReportOptions:
    """The report as JSON. `progress`: see `passwright.optimize`."""

    json: str | Path | None = report_option(
        None, "Write the report as JSON to this file; - for standard output.", "FILE", kind=Path
    )
    progress: Progress = field(default=None, repr=False)

    def __post_init__(self) -> None:
        """Convert texts, and raise OptionError for invalid values."""
        for name, (default, about) in arguments_of(type(self)).items():
            if (value := getattr(self, name)) is not default:
                try:
                    object.__setattr__(self, name, about.checked(value))
                except ValueError as e:
                    raise OptionError(name, str(e)) from e
        if not (self.progress is None or isinstance(self.progress, bool) or callable(self.progress)):
            raise OptionError("progress", f"{shown(self.progress)}: it must be a function, true or false")

    @property
    def chosen(self) -> dict[str, Any]:
        """The options that differ from their defaults, as JSON, without the paths of results."""
        defaults = {
            name: default
            for name, (default, about) in options_of(type(self)).items()
            if about.kind is not Path or about.reads
        }
        values = {name: _plain(getattr(self, name)) for name in defaults}
        return {name: v for name, v in values.items() if v not in (_plain(defaults[name]), None, [], {})}

    def among(self, options: type[AnyOptions]) -> AnyOptions:
        """Convert to another class of options: keep the shared options, and use defaults for the others."""
        shared = {f.name for f in fields(options)} & {f.name for f in fields(self)}  # pyright: ignore[reportArgumentType]
        return options(**{name: getattr(self, name) for name in shared})


@mixed_in
class PageOptions:
    """The report as a page."""

    html: str | Path | None = report_option(None, "Write the report as a page of HTML to this file.", "FILE", kind=Path)


@mixed_in
class InitializerOptions:
    """The treatment of initializers that are also inputs."""

    freeze_initializers: bool | None = model_option(
        None,
        "Turn initializers that are also inputs into constants; by default, only if nearly all initializers are "
        "inputs.",
        kind=bool,
        off=(
            "--keep-overridable",
            "Never turn initializers that are also inputs into constants, so that callers can override them.",
        ),
    )


@mixed_in
class SeedOptions:
    """The seed of generated inputs."""

    seed: int = verification_option(0, "Seed of the generated inputs.", "N", least=0)


@dataclass(frozen=True, init=False, repr=False, eq=False)
class InputOptions:
    """Inputs from the caller, to verify with."""

    inputs: Inputs | GivenSamples | None = source_option(
        None, f"Inputs to verify with: {INPUTS}", "FILE", group=VERIFICATION
    )


@dataclass(frozen=True, init=False, repr=False, eq=False)
class MeasuredInputOptions:
    """Inputs from the caller, to measure with."""

    inputs: Inputs | GivenSamples | None = source_option(
        None, f"Inputs to run (the first, if there are several): {INPUTS}", "FILE"
    )


@mixed_in
class ShapeOptions:
    """Shapes of inputs."""

    shape: Mapping[str, Sequence[int]] | None = model_option(
        None, "Shape of an input, such as x:1,3,224,224.", "NAME:N,...", repeated=True, parse=parse_shape
    )


@mixed_in
class DimOptions(ShapeOptions):
    """Shapes of inputs, and sizes of symbolic dims."""

    dim: Mapping[str, int] | None = model_option(
        None, "Size of a symbolic dim, such as batch=1.", "NAME=N", repeated=True, parse=parse_dim
    )


def _is_installed_name(kernels: object) -> bool:
    """Whether kernels are the name of a pass, pipeline or entry point of an installed package."""
    return isinstance(kernels, str | Path) and not {".", "/", os.sep} & set(str(kernels))


@mixed_in
class CustomOperatorOptions:
    """Custom operators, besides the operators of ONNX and onnxruntime."""

    custom_ops: Sequence[str | Path] = model_option(
        (),
        "A shared library of custom operators for onnxruntime; may be repeated.",
        "LIB",
        kind=Path,
        repeated=True,
        reads=True,
        runs_code=True,
    )
    kernels: Sequence[Any] = model_option(
        (),
        "A Python file with kernels of custom operators or onnxscript functions, or a name in an installed plugin; may "
        "be repeated.",
        "FILE",
        kind=Path,
        repeated=True,
        reads=True,
        runs_code=True,
        objects=lambda value: callable(value) or hasattr(value, "node"),
        takes="Python files, kernels or functions of onnxscript, in a list",
    )

    @property
    def _plugins(self) -> Sequence[PluginLike]:
        """The plugins, if the class has that option."""
        return getattr(self, "plugin", ())

    @property
    def custom_operator_files(self) -> list[Path]:
        """The libraries, and the Python files with kernels or plugins."""
        given = (*self.custom_ops, *self.kernels, *self._plugins)
        return [Path(item) for item in given if isinstance(item, str | Path) and not _is_installed_name(item)]

    @contextmanager
    def with_operators(self, plugins: Sequence[PluginLike] = ()) -> Generator[None]:
        """Make the custom operators available in the block. Raises PluginError and UsageError.

        These include the operators of `plugins`, and of installed packages whose passes the block looks up.
        """
        plugins = (*self._plugins, *plugins)
        if not (self.custom_ops or self.kernels or plugins):
            with with_custom_operators(None):
                yield
            return
        from ..core.ort.custom_operator_files import read_custom_operators  # noqa: PLC0415 - imports onnx
        from ..core.plugins.pass_registry import InstalledPlugins, kernels_of  # noqa: PLC0415 - as above
        from ..core.support.python_files import imported_once  # noqa: PLC0415 - seldom needed

        with imported_once():
            kernels = [*kernels_of(plugins), *(k for k in self.kernels if not _is_installed_name(k))]
            with with_custom_operators(read_custom_operators(self.custom_ops, kernels)):
                installed = InstalledPlugins()
                for name in filter(_is_installed_name, self.kernels):
                    if not installed.use_kernels_of(str(name)):
                        raise UsageError(
                            f"--kernels {name}: it is not a Python file, and no installed plugin has kernels of that "
                            "name"
                        )
                yield


@mixed_in
class KernelPluginOptions:
    """Plugins of which a command uses only the kernels of custom operators."""

    plugin: Sequence[PluginLike] = plugin_option(
        group=MODEL, help="A Python file with a Plugin, for its kernels; may be repeated."
    )


@mixed_in
class MemoryOptions(CustomOperatorOptions):
    """The memory limit and the custom operators of processes that run models."""

    memory: int | None = verification_option(
        None,
        "Memory limit of a process that runs a model, such as 2GB; depends on the size of the model by default.",
        "SIZE",
        parse=parse_size,
    )


def with_process_options(function: Callable[P, Outcome]) -> Callable[P, Outcome]:
    """Decorate a function of options so that its processes have their memory limit and custom operators."""

    @wraps(function)
    def with_options(*args: P.args, **keywords: P.kwargs) -> Outcome:
        given = next(o for o in (*args, *keywords.values()) if isinstance(o, CustomOperatorOptions))
        with given_memory(given.memory if isinstance(given, MemoryOptions) else None), given.with_operators():
            return function(*args, **keywords)

    return with_options


@mixed_in
class LimitOptions(MemoryOptions):
    """Limits of a verification."""

    time_limit: float | None = verification_option(
        None,
        "Time limit for the whole command; some inputs are skipped to meet it, and if that is not enough, nothing is "
        "written.",
        "SECONDS",
        kind=float,
        least=0.001,
    )


@mixed_in
class ThreadOptions:
    """Threads of a session."""

    threads: int = speed_option(0, "Threads that compute an op; 0 for one per core.", "N", least=0, most=MAX_THREADS)


@mixed_in
class ProviderOptions:
    """The execution provider of onnxruntime."""

    ep: str | None = speed_option(
        None,
        "Execution provider of onnxruntime, with options, such as cuda or openvino{device_type=CPU}.",
        "NAME",
        runs_code=True,
    )
    ep_library: str | Path | None = speed_option(
        None,
        "Shared library of an execution provider for onnxruntime; models run on the devices that it offers.",
        "LIB",
        kind=Path,
        reads=True,
        runs_code=True,
    )


@dataclass(frozen=True, kw_only=True)
class SessionOptions(ProviderOptions, ThreadOptions):
    """Threads and execution provider of onnxruntime."""

    ep: str = "cpu"


@mixed_in
class EnginesOptions(SessionOptions):
    """The engines that run models; the execution provider is an option of onnxruntime's."""

    engine: Sequence[str] = speed_option(
        ("onnxruntime",),
        "Engine that runs the models: onnxruntime, openvino, openvino:bf16, or an engine of a plugin; may be repeated.",
        "NAME",
        repeated=True,
        completes=(ENGINES,),
    )


@mixed_in
class TunedSessionOptions:
    """The session that `passes tune` found."""

    settings: str | Path | None = speed_option(
        None, "File of settings that `passes tune` wrote.", "FILE", kind=Path, is_typed=True, excludes=TUNED
    )

    def require_no_session(self, **given: object) -> None:
        """Raise UsageError if another option of the session is combined with settings."""
        for name, value in given.items():
            require(not (self.settings and value), f"--{name}: --settings {self.settings} sets it already")


@mixed_in
class LevelOptions:
    """The optimization level of onnxruntime."""

    level: str = speed_option(
        "all",
        "Optimization level of onnxruntime: disable, basic, extended, layout or all.",
        "LEVEL",
        completes=(LEVELS,),
    )


@mixed_in
class BatchSizeOptions:
    """Batch sizes of measurements."""

    batch: Sequence[int] = speed_option(
        (1, 32), "Batch sizes to measure in addition to a single sample, such as 8,32.", "N,...", parse=parse_batch
    )


@mixed_in
class TimingOptions(MemoryOptions):
    """The time and memory of a measurement."""

    min_time: float = speed_option(
        1.0, "Seconds to run each model at each batch size.", "SECONDS", kind=float, least=0.01
    )


@mixed_in
class MetricOptions:
    """Labelled data and a metric."""

    labelled: str | Path | None = criterion_option(
        None,
        "An .npz file with inputs and labels, to measure accuracy.",
        "FILE",
        kind=Path,
        reads=True,
        enables=("metric",),
    )
    metric: str = criterion_option(
        "",
        "Accuracy metric: top1, top5, r2, snr, tokens, perplexity, loss, wer, map, or file.py:function. By default "
        "top1, or r2 if the labels are not classes. `bench` takes several, such as top1,loss.",
        "NAME",
        reads=True,
    )


@mixed_in
class DataOptions(MetricOptions):
    """Data to calibrate and to measure accuracy with."""

    data: Any = source_option(
        None,
        "Inputs to calibrate with: an .npz file, a folder of ONNX test data, or file.py:reader; may be repeated.",
        "FILE",
    )


@mixed_in
class BudgetOptions(MetricOptions):
    """The accuracy loss allowed."""

    budget: str | None = criterion_option(
        None, "Accuracy loss allowed: a share of the original's accuracy, such as 1%, or points, such as 0.5pt.", "LOSS"
    )

    def require_budget_for(self, **others: object) -> None:
        """Raise UsageError if options of accuracy, or `others`, are set without a budget."""
        for name, value in {"labelled": self.labelled, "metric": self.metric, **others}.items():
            require(self.budget or not value, f"--{name} needs --budget")


@mixed_in
class CriterionOptions(DataOptions, BudgetOptions):
    """Data and the accuracy loss allowed."""

    budget: str = "1%"


@mixed_in
class SearchOptions:
    """Limits of a search and its journal."""

    trials: int = search_option(60, "Maximum number of trials.", "N", least=1)
    time: float = search_option(600.0, "Time limit for the whole command.", "SECONDS", kind=float, least=0)
    journal: str | Path | None = search_option(
        None, "Record the trials in this file, so that an interrupted search can be resumed.", "FILE", kind=Path
    )


@dataclass(frozen=True, init=False, repr=False, eq=False)
class PipelineOptions:
    """A pipeline, plugins, and further passes."""

    pipeline: str | Pass = selection_option(
        "basic",
        "Pipelines and passes to run, in this order, such as basic,mine{n=3,name=text}; or FILE.toml:NAME.",
        "NAMES",
        completes=(PIPELINES, PASSES),
        is_list=True,
        objects=_is_pass,
        takes="the names of pipelines and passes, or a pass",
    )
    plugin: Sequence[PluginLike] = plugin_option()
    _: KW_ONLY
    enable: Sequence[str] = selection_option(
        (),
        "Add passes to the pipeline, or set options of its passes, such as a,b{n=3,name=text}; may be repeated.",
        "NAMES",
        repeated=True,
        completes=(PASSES,),
        is_list=True,
    )


@mixed_in
class TargetOptions:
    """The engine to optimize for."""

    target: str | Target | None = target_option(
        help="Optimize for this engine, and fail if it does not support the result: ort, webgpu, openvino, FILE.toml, "
        "or a target of a plugin."
    )


@dataclass(frozen=True, kw_only=True)
class InfoOptions(ProviderOptions, DimOptions, ReportOptions):
    """Sizes of dims, and the target of a check, with plugins."""

    target: str | Target | None = target_option(
        help="List the ops that this engine does not support: ort, webgpu, openvino, FILE.toml, or a target of a "
        "plugin. For .ort files: FILE.config of a reduced build of onnxruntime.",
        is_own=True,
    )
    plugin: Sequence[PluginLike] = plugin_option()
    required_operators: str | Path | None = report_option(
        None, "Write the operators and types that a build of onnxruntime needs for these .ort files.", "FILE", kind=Path
    )
    analysis: Sequence[str] = selection_option(
        (),
        "Show the analysis of this name, which an installed package provides; may be repeated.",
        "NAME",
        repeated=True,
    )


@mixed_in
class NameOptions:
    """Passes and rules to run or to skip."""

    only: Sequence[str] = selection_option(
        (), "Run only this pass or rule; may be repeated.", "NAME", repeated=True, completes=(PASSES, RULES)
    )
    skip: Sequence[str] = selection_option(
        (), "Skip this pass or rule; may be repeated.", "NAME", repeated=True, completes=(PASSES, RULES)
    )


@mixed_in
class EffortOptions:
    """The effort of verification."""

    verify: Effort = effort_option("default", parse=parse_effort)


@dataclass(frozen=True, kw_only=True)
class QuietOptions:
    """Output of commands that write a model, only for the command line."""

    quiet: bool = report_option(False, "Print only warnings and errors.", flags=("-q", "--quiet"))


@dataclass(frozen=True, kw_only=True)
class FormatOptions:
    """Formats of the report, only for the command line."""

    format: Sequence[str] = report_option(
        (),
        "Format of standard output, or of a file: text, json, github (annotations), markdown or sarif. May be "
        "repeated.",
        "NAME[:FILE]",
        repeated=True,
        is_typed=True,
    )
