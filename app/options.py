"""Options of commands: each is a field of a class, with all that the command line, Python and settings need.

A class of options is a frozen dataclass. A field made by `option` is an option of the command line; all fields are
parameters of the function in Python. Classes in this module are mixed into the classes of commands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, fields
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from msgspec import Struct

from ..core.errors import UsageError
from ..core.ort.sessions import MAX_THREADS
from ..core.verify.effort import Effort, checked_effort

if TYPE_CHECKING:  # these import onnx, which commands need only when they run
    from ..core.plugins.plugin import PluginLike
    from ..core.run.pipeline import Pass
    from ..core.verify.given_inputs import GivenSamples, Inputs


GENERAL, OUTPUT, SELECTION, MODEL, VERIFICATION, CRITERION, SEARCH, SPEED, REPORTS, SETTINGS = GROUPS = (
    "Options", "Output", "Selection", "Model", "Verification", "Accuracy", "Search", "Speed",
    "Reports", "Settings",
)  # fmt: skip
"""Groups of options in the help of a command, in this order."""
PASSES, RULES, PIPELINES, OPERATORS, EFFORTS, LEVELS, TOOLS = (
    "passes", "rules", "pipelines", "operators", "efforts", "levels", "tools",
)  # fmt: skip
"""Kinds of names that a shell completes."""
TUNED = ("pipeline", "skip", "enable", "opset", "threads", "ep")
"""Options that the file of settings of `passes tune` says."""
METADATA = "option"
AnyOptions = TypeVar("AnyOptions")
Progress = Callable[[str], None] | bool | None
"""A function that is called with the name of each phase; True to show it, False not to; None: in a notebook alone."""
MAX_DIGITS = 30


class Option(Struct, frozen=True):
    """An option of the command line.

    `kind` is the type of its value, or of one of its values if it may be `repeated`. `parse` turns the text, or the
    list of texts, into the value for Python, and raises ValueError with the form that is expected. `flags` are its
    names on the command line, if the name of the field is none; `off` is a flag for the value False. `completes`: the
    kinds of names that a shell completes, in a list with commas if `is_list`.

    For settings: `reads` says that the text names a file to read, or may begin with one; `runs_code` that it may run
    code; `is_typed`: it is for the command line alone; `is_own`: a setting for `passes run` does not count for it.
    `excludes`: the options whose settings do not count if it is typed.
    """

    help: str
    metavar: str = ""
    group: str = GENERAL
    kind: type = str
    least: float | None = None
    most: float | None = None
    repeated: bool = False
    parse: Callable[[Any], Any] | None = None
    flags: tuple[str, ...] = ()
    off: tuple[str, str] = ("", "")
    completes: tuple[str, ...] = ()
    is_list: bool = False
    reads: bool = False
    runs_code: bool = False
    is_typed: bool = False
    is_own: bool = False
    excludes: tuple[str, ...] = ()

    def number(self, value: Any) -> Any:
        """The number of this kind in a text, or equal to a number. Raises ValueError for others and out of limits."""
        is_right, word = not isinstance(value, bool), "an integer" if self.kind is int else "a number"
        try:
            number = self.kind(value)
        except (TypeError, ValueError, OverflowError):
            number, is_right = 0, False
        _check(is_right and (isinstance(value, str) or number == value), f"{value}: it has to be {word}")
        _check(self.least is None or number >= self.least, f"{value}: it has to be {self.least} or more")
        _check(self.most is None or number <= self.most, f"{value}: it has to be {self.most} or less")
        return number

    def converted(self, value: Any) -> Any:
        """The value of this kind in a text, or in a value of settings. Raises ValueError."""
        return self.number(value) if self.kind in (int, float) else self.kind(value)

    def checked(self, value: Any) -> Any:
        """The value for a function from one that Python gives; a text may stand for it. Raises ValueError."""
        if self.repeated:
            return value if not isinstance(value, str) else [value] if self.parse is None else self.parse([value])
        if self.parse is not None:
            return self.parse(value)
        if self.kind is bool:
            _check(value in (True, False), f"{value}: it has to be true or false")
        return self.number(value) if self.kind in (int, float) else value


def flag_of(name: str, about: Option) -> str:
    """The name of an option on the command line."""
    return max(about.flags, key=len) if about.flags else f"--{name.replace('_', '-')}"


def _check(condition: object, reason: str) -> None:
    if not condition:
        raise ValueError(reason)


def option(default: Any, help: str, metavar: str = "", **given: Any) -> Any:  # noqa: A002 - as typer calls it
    """A field of a class of options. `kind` is the type of the default, or text."""
    kind = type(default) if isinstance(default, bool | int | float) else str
    about = Option(help, metavar, **cast("dict[str, Any]", {"kind": kind, **given}))
    return field(default=default, metadata={METADATA: about})


output_option, selection_option, model_option, verification_option, criterion_option, search_option, speed_option = (
    partial(option, group=group) for group in (OUTPUT, SELECTION, MODEL, VERIFICATION, CRITERION, SEARCH, SPEED)
)
report_option = partial(option, group=REPORTS)
plugin_option = partial(
    selection_option,
    (),
    "A Python file with rules, passes or a Plugin; may be repeated.",
    "FILE",
    kind=Path,
    repeated=True,
    reads=True,
    runs_code=True,
)


@cache
def options_of(options: type) -> dict[str, tuple[Any, Option]]:
    """The defaults and options of a class by field; a field that only says a default is the option of a class above."""
    above = [vars(c).get("__dataclass_fields__", {}) for c in options.__mro__]
    found = dict[str, tuple[Any, Option]]()
    for f in fields(options):
        about = next((a[f.name].metadata[METADATA] for a in above if f.name in a and a[f.name].metadata), None)
        if about is not None:
            found[f.name] = f.default, about
    return found


def _plain(value: Any) -> Any:
    """The value of an option in JSON: arrays and other objects of Python are their types in words."""
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
    """Whether a text is a number in decimal digits; Python refuses thousands of them."""
    return text.isascii() and text.isdecimal() and len(text) <= MAX_DIGITS


def sizes_in(text: str) -> tuple[int, ...]:
    """The sizes from 1 on in a text such as `1,32`, sorted, each once; none for another text."""
    sizes = [size.strip() for size in text.split(",")]
    return tuple(sorted(set(map(int, sizes)))) if all(is_count(s) and 0 < int(s) < 1 << 31 for s in sizes) else ()


def parse_batch(given: str | Sequence[int]) -> tuple[int, ...]:
    """The batch sizes in a text such as `1,32`, sorted, and 1; sizes from Python as they are. Raises ValueError."""
    if isinstance(given, str):
        sizes = sizes_in(given)
        numbers = tuple(sorted({1, *sizes})) if sizes else ()
    else:
        numbers = tuple(given) if isinstance(cast("object", given), Sequence) else ()
    _check(numbers and all(size > 0 for size in numbers), f"{given}: not of the form 1,32, sizes from 1 on")
    return numbers


def parse_dim(texts: Iterable[str]) -> dict[str, int]:
    """Sizes by symbol, in texts such as `batch=1`. Raises ValueError for another form, or two sizes of a symbol."""
    dims: dict[str, int] = {}
    for text in texts:
        symbol, _, size = text.rpartition("=")
        _check(symbol and is_count(size.strip()), f"{text}: not of the form batch=1")
        _check(dims.setdefault(symbol, int(size)) == int(size), f"{symbol}: given twice")
    return dims


def parse_dim_sizes(texts: Iterable[str]) -> dict[str, tuple[int, ...]]:
    """Several sizes by symbol, in texts such as `batch=1,8`. Raises ValueError."""
    sizes: dict[str, tuple[int, ...]] = {}
    for text in texts:
        symbol, _, numbers = text.rpartition("=")
        _check(symbol and sizes_in(numbers), f"{text}: not of the form batch=1,8")
        _check(symbol not in sizes, f"{symbol}: given twice")
        sizes[symbol] = sizes_in(numbers)
    return sizes


def parse_shape(texts: Iterable[str]) -> dict[str, tuple[int, ...]]:
    """Shapes by input name, in texts such as `x:1,3,224,224`; a name may have colons. Raises ValueError."""
    shapes: dict[str, tuple[int, ...]] = {}
    for text in texts:
        name, _, dims = text.rpartition(":")
        try:
            shape = tuple(int(d) for d in dims.split(",") if d.strip())
        except ValueError:
            shape = (-1,)
        _check(name and all(d >= 0 for d in shape), f"{text}: not of the form name:1,3,224,224")
        _check(shapes.setdefault(name, shape) == shape, f"{name}: given twice")
    return shapes


def parse_names(texts: str | Iterable[str]) -> tuple[str, ...]:
    """The names in a text, or in several, such as `a,b`. Raises ValueError for an empty one."""
    given = [texts] if isinstance(texts, str) else [*texts]
    names = tuple(name.strip() for text in given for name in text.split(","))
    _check(all(names), f"{','.join(given)}: a name is empty")
    return names


def parse_size(given: str | int) -> int:
    """The bytes in a text such as `2GB`. Raises ValueError for another text, and for none."""
    from ..core.plugins.pass_spec import parse_value  # noqa: PLC0415 - imports onnx

    try:
        size = parse_value(int, str(given))
    except ValueError:
        size = 0
    _check(size > 0, f"{given}: not of the form 2GB, 512MiB or 1000000")
    return size


def parse_external_data(given: str | int) -> str | int:
    """The bytes in a text such as `1MB`, or another text itself. Raises ValueError."""
    try:
        return parse_size(given)
    except ValueError:
        if isinstance(given, str):
            return given
        raise


INPUTS = "an .npz, a folder of ONNX test data or of .npz, or file.py:function; may be repeated."


@dataclass(frozen=True, kw_only=True)
class ReportOptions:
    """The report as JSON. `progress`: see `passwright.optimize`."""

    json: str | Path | None = report_option(
        None, "Write the report as JSON to this file; - for standard output.", "FILE", kind=Path
    )
    progress: Progress = field(default=None, repr=False)

    def __post_init__(self) -> None:
        """Convert texts, and raise UsageError for values that an option does not take."""
        for name, (default, about) in options_of(type(self)).items():
            if (value := getattr(self, name)) is not default:
                try:
                    object.__setattr__(self, name, about.checked(value))
                except ValueError as e:
                    raise UsageError(f"{name} {e}") from e

    @property
    def chosen(self) -> dict[str, Any]:
        """The options that differ from their defaults, as JSON has them, without the places of results."""
        shown = {
            name: default
            for name, (default, about) in options_of(type(self)).items()
            if about.kind is not Path or about.reads
        }
        values = {name: _plain(getattr(self, name)) for name in shown}
        return {name: v for name, v in values.items() if v not in (_plain(shown[name]), None, [], {})}

    def among(self, options: type[AnyOptions]) -> AnyOptions:
        """The options of another class that this one has too; the others have their defaults."""
        shared = {f.name for f in fields(options)} & {f.name for f in fields(self)}  # pyright: ignore[reportArgumentType]
        return options(**{name: getattr(self, name) for name in shared})


@dataclass(frozen=True, kw_only=True)
class PageOptions:
    """The report as a page."""

    html: str | Path | None = report_option(None, "Write the report as a page of HTML to this file.", "FILE", kind=Path)


@dataclass(frozen=True, kw_only=True)
class SeedOptions:
    """The seed of generated inputs."""

    seed: int = verification_option(0, "Seed of generated inputs.", "N", least=0)


@dataclass(frozen=True)
class InputOptions:
    """Inputs of the caller to verify with."""

    inputs: Inputs | GivenSamples | None = verification_option(
        None, f"Inputs to verify with: {INPUTS}", "FILE", repeated=True, reads=True
    )


@dataclass(frozen=True)
class MeasuredInputOptions:
    """Inputs of the caller to measure with."""

    inputs: Inputs | GivenSamples | None = option(
        None, f"Inputs to run, of several the first: {INPUTS}", "FILE", repeated=True, reads=True
    )


@dataclass(frozen=True, kw_only=True)
class ShapeOptions:
    """Shapes of inputs."""

    shape: Mapping[str, Sequence[int]] | None = model_option(
        None, "Shape of an input, such as x:1,3,224,224.", "NAME:N,...", repeated=True, parse=parse_shape
    )


@dataclass(frozen=True, kw_only=True)
class DimOptions(ShapeOptions):
    """Shapes of inputs, and sizes of symbolic dims."""

    dim: Mapping[str, int] | None = model_option(
        None, "Size of a symbolic dim, such as batch=1.", "NAME=N", repeated=True, parse=parse_dim
    )


@dataclass(frozen=True, kw_only=True)
class LimitOptions:
    """Limits of a verification."""

    memory: int | None = verification_option(
        None, "Memory of the process that runs the models, such as 2GB.", "SIZE", parse=parse_size
    )
    time_limit: float | None = verification_option(
        None,
        "Time for everything; some inputs are left out to keep it, or nothing is written.",
        "SECONDS",
        kind=float,
        least=0.001,
    )


@dataclass(frozen=True, kw_only=True)
class ThreadOptions:
    """Threads of onnxruntime."""

    threads: int = speed_option(
        0, "Threads that compute an op; 0 for one on each core.", "N", least=0, most=MAX_THREADS
    )


@dataclass(frozen=True, kw_only=True)
class SessionOptions(ThreadOptions):
    """Threads and execution provider of onnxruntime."""

    ep: str = speed_option(
        "cpu",
        "Execution provider of onnxruntime, with options: cuda, or openvino{device_type=CPU}.",
        "NAME",
        runs_code=True,
    )


@dataclass(frozen=True, kw_only=True)
class LevelOptions:
    """The optimization level of onnxruntime."""

    level: str = speed_option(
        "all",
        "Optimization level of onnxruntime: disable, basic, extended, layout or all.",
        "LEVEL",
        completes=(LEVELS,),
    )


@dataclass(frozen=True, kw_only=True)
class BatchSizeOptions:
    """Batch sizes of measurements."""

    batch: Sequence[int] = speed_option(
        (1, 32), "Batch sizes to measure beside a single sample, such as 8,32.", "N,...", parse=parse_batch
    )


@dataclass(frozen=True, kw_only=True)
class TimingOptions:
    """The time of a measurement."""

    min_time: float = speed_option(
        1.0, "Seconds of calls for each model and batch size.", "SECONDS", kind=float, least=0.01
    )


@dataclass(frozen=True, kw_only=True)
class MetricOptions:
    """Labelled data, and a metric."""

    labelled: str | Path | None = criterion_option(
        None, "An .npz with inputs and labels, for an accuracy.", "FILE", kind=Path, reads=True
    )
    metric: str = criterion_option(
        "", "Accuracy of outputs and labels, as file.py:function; without it, top-1.", "FILE:NAME", reads=True
    )


@dataclass(frozen=True, kw_only=True)
class DataOptions(MetricOptions):
    """Data to calibrate and to measure accuracy with."""

    data: Any = option(
        None,
        "Inputs to calibrate with: an .npz, a folder of ONNX test data, or file.py:reader; may be repeated.",
        "FILE",
        repeated=True,
        reads=True,
    )


@dataclass(frozen=True, kw_only=True)
class CriterionOptions(DataOptions):
    """Data, and the loss of accuracy that is allowed."""

    budget: str = criterion_option("1%", "The loss allowed: 1% of the original's figure, or 0.5pt.", "LOSS")


@dataclass(frozen=True, kw_only=True)
class SearchOptions:
    """Limits of a search, and its journal."""

    trials: int = search_option(60, "Trials at most.", "N", least=1)
    time: float = search_option(600.0, "Seconds after which no trial is begun.", "SECONDS", kind=float, least=0)
    journal: str | Path | None = search_option(
        None, "Keep results of trials here; an interrupted search goes on.", "FILE", kind=Path
    )


@dataclass(frozen=True)
class PipelineOptions:
    """A pipeline, plugins, and further passes."""

    pipeline: str | Pass = selection_option(
        "basic",
        "Pipelines and passes, run in this order, as in basic,mine{n=3,name=text}; or FILE.toml:NAME.",
        "NAMES",
        completes=(PIPELINES, PASSES),
        is_list=True,
    )
    plugin: Sequence[PluginLike] = plugin_option()
    _: KW_ONLY
    enable: Sequence[str] = selection_option(
        (),
        "Add passes, or set options of passes of the pipeline, as in a,b{n=3,name=text}; may be repeated.",
        "NAMES",
        repeated=True,
        completes=(PASSES,),
        is_list=True,
    )


@dataclass(frozen=True, kw_only=True)
class NameOptions:
    """Passes and rules to run, or to leave out."""

    only: Sequence[str] = selection_option(
        (), "Run only this pass or rule; may be repeated.", "NAME", repeated=True, completes=(PASSES, RULES)
    )
    skip: Sequence[str] = selection_option(
        (), "Leave out this pass or rule; may be repeated.", "NAME", repeated=True, completes=(PASSES, RULES)
    )


@dataclass(frozen=True, kw_only=True)
class EffortOptions:
    """The effort of verification."""

    verify: Effort = verification_option(
        "default",
        "Effort of verification: quick, default or thorough.",
        "CHOICE",
        parse=checked_effort,
        completes=(EFFORTS,),
    )


@dataclass(frozen=True, kw_only=True)
class FormatOptions:
    """Formats beside the text, for the command line alone."""

    format: Sequence[str] = report_option(
        (),
        "Format of standard output, or of a file: text, json, github (annotations), markdown or sarif. May be "
        "repeated.",
        "NAME[:FILE]",
        repeated=True,
        is_typed=True,
    )
