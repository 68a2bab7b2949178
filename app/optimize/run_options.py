"""Options of a run."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import wraps
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

from ...core.errors import UsageError
from ..report.progress import Progress

if TYPE_CHECKING:  # these import onnx, which commands need only when they run
    from ...core.run.pipeline import Pass
    from ...core.run.report import Report
    from ...core.verify.given_inputs import GivenSamples, Inputs
    from ...core.verify.verification_spec import Effort
    from ..registry.pass_sources import PluginLike

P = ParamSpec("P")
Subject = TypeVar("Subject")
Options = TypeVar("Options")
Outcome = TypeVar("Outcome")


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedOptions:
    """The parameters that `optimize` and `explain` share, as documented at `optimize`."""

    shapes: Mapping[str, Sequence[int]] | None = None
    dims: Mapping[str, int] | None = None
    enable: Collection[str] = ()
    opset: int | None = None
    exact: bool = False
    keep_functions: bool = False
    report_to: str | Path | None = None
    progress: Progress = field(default=None, repr=False)

    @property
    def enabled(self) -> list[str]:
        """The passes to add, with the conversion to `opset`."""
        return with_conversion(self.enable, self.opset)


@dataclass(frozen=True, slots=True)
class RunOptions(SharedOptions):
    """The parameters of `optimize` except the model, as documented there."""

    pipeline: str | Pass = "basic"
    plugins: Sequence[PluginLike] = ()
    verify: bool | Effort = True
    inputs: Inputs | GivenSamples | None = None
    _: KW_ONLY
    outputs: Sequence[str] = ()
    cut_inputs: Sequence[str] = ()
    drop_unused_inputs: bool = False
    freeze_initializers: bool = False
    only: Collection[str] = ()
    skip: Collection[str] = ()
    strict: bool = False
    prove: bool = False
    seed: int = 0
    output: str | Path | None = None
    in_place: bool = False
    map_to: str | Path | None = None
    repro_to: str | Path | None = None
    page_to: str | Path | None = None
    plan: bool = False
    visualize: bool = False
    value_info: str | None = None
    external_data: str | int = "auto"
    check_speed: bool = False
    threads: int = 0
    min_time: float = 2.0
    memory: int | None = None
    time_limit: float | None = None

    @property
    def enabled(self) -> list[str]:
        """The passes to add, with the conversion to `opset`; without verification, onnxruntime need not run that."""
        return with_conversion(self.enable, self.opset, "" if self.verify else ",for_onnxruntime=false")

    def place_of_result(self, model: Path | None) -> str | Path | None:
        """The path for the result. Raises UsageError for two, and for a model in memory that is to be replaced."""
        if not self.in_place:
            return self.output
        if self.output is not None:
            raise UsageError("output and in_place exclude each other")
        if model is None:
            raise UsageError("in_place needs the path of a model")
        return model

    def wants(self, report: Report) -> bool:
        """Whether to write the result: a model that is to be replaced stays as it is if nothing changed it."""
        is_rewritten = report.has_changes or self.value_info is not None or self.external_data != "auto"
        return not self.in_place or is_rewritten

    @property
    def effort(self) -> Effort:
        """The effort of verification. Raises UsageError for an unknown one."""
        from ...core.verify.verification_spec import known_effort  # noqa: PLC0415 - imports onnx

        return known_effort(self.verify, "--verify") if isinstance(self.verify, str) else "default"

    @property
    def plugin_files(self) -> list[Path]:
        """The plugins that are files."""
        return plugin_files(self.plugins)

    @property
    def input_files(self) -> list[Path]:
        """The files that are read, except the model and those that a pipeline names."""
        from ..registry.python_data import data_files  # noqa: PLC0415 - imports onnx

        return data_files(self.inputs) + self.plugin_files


@dataclass(frozen=True, slots=True)
class ConversionOptions:
    """The parameters of `convert_opset` except the model, as documented there."""

    opset: int
    verify: bool | Effort = True
    inputs: Inputs | None = None
    _: KW_ONLY
    exact: bool = False
    keep_functions: bool = True
    seed: int = 0
    output: str | Path | None = None
    report_to: str | Path | None = None
    memory: int | None = None
    time_limit: float | None = None
    progress: Progress = field(default=None, repr=False)

    @property
    def run_options(self) -> RunOptions:
        """The options of a run of the conversion alone."""
        given = {name: getattr(self, name) for name in self.__slots__ if name != "_"}
        return RunOptions("none", **given)


def with_conversion(enable: Collection[str], opset: int | None, more: str = "") -> list[str]:
    """The passes to add, with the conversion to `opset`, if any, and `more` options of it. Raises UsageError for 0."""
    if opset is None:
        return list(enable)
    if opset == 0:
        raise UsageError("0 is not an opset")
    return [*enable, f"convert-opset{{to={opset}{more}}}"]


def plugin_files(plugins: Sequence[PluginLike]) -> list[Path]:
    """The plugins that are files."""
    return [Path(p) for p in plugins if isinstance(p, str | Path)]


def with_keywords(
    options: Callable[P, Options], name: str
) -> Callable[[Callable[[Subject, Options], Outcome]], Callable[Concatenate[Subject, P], Outcome]]:
    """Decorate a function of a subject and `options`: the result, called `name`, has the options as parameters."""

    def decorate(function: Callable[[Subject, Options], Outcome]) -> Callable[Concatenate[Subject, P], Outcome]:
        @wraps(function)
        def call(model: Subject, *args: P.args, **keywords: P.kwargs) -> Outcome:
            return function(model, options(*args, **keywords))

        subject, _ = signature(function).parameters.values()
        parameters = [subject, *signature(options).parameters.values()]
        vars(call)["__signature__"] = signature(function).replace(parameters=parameters)
        call.__name__ = call.__qualname__ = name
        return call

    return decorate
