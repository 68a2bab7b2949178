"""Exceptions of the framework."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from enum import StrEnum


class PassesError(Exception):
    """Base class: `except PassesError` catches every expected failure; `exit_code` is the exit code of the commands.

    Examples:
        >>> try:
        ...     optimize(model, skip=["fuse-gelo"])
        ... except PassesError as error:
        ...     print(type(error).__name__, error.exit_code)
        UnknownNameError 2
    """

    exit_code = 1


class ModelError(PassesError):
    """The model, or an input given with it, is unusable; the message is one line.

    Examples:
        >>> try:
        ...     optimize("no-such-file.onnx")
        ... except ModelError as error:
        ...     print(error)
        no-such-file.onnx does not exist
    """


class UsageError(PassesError):
    """An argument or option is invalid for any model.

    Examples:
        >>> try:
        ...     optimize(model, opset=99)
        ... except UsageError as error:
        ...     print(error.exit_code)
        2
    """

    exit_code = 2


class UnknownNameError(UsageError):
    """No pass or rule has the given name.

    Examples:
        >>> try:
        ...     optimize(model, only=["fuse-gelo"])
        ... except UnknownNameError as error:
        ...     print("fuse-gelu" in str(error))
        True
    """


class GraphError(PassesError):
    """A mutation would break an invariant of the graph, or an invariant is already broken.

    Examples:
        >>> try:
        ...     graph.remove_op(next(graph.ops("Abs")))
        ... except GraphError as error:
        ...     print(error)
        cannot remove Abs a: a is still used
    """


class RuleError(PassesError):
    """A rule has an invalid pattern, signature or return value.

    `rule` and `place` name the rule and the matched value if the error occurred at a match.

    Examples:
        >>> try:
        ...     rule(lambda g, x: g.Rleu(x))(lambda g, x: x)
        ... except RuleError as error:
        ...     print("did you mean Relu" in str(error))
        True
    """

    def __init__(self, message: str, rule: str = "", place: str = "") -> None:
        super().__init__(message)
        self.rule, self.place = rule, place


class NoFixpoint(PassesError):
    """A pass, or a group of passes or rules, exceeded its limit of changes to the graph.

    `suspects` are the names of the passes or rules that caused this, most likely first.

    Examples:
        >>> @rule(lambda g, x: g.Abs(x))
        ... def add_abs(g: RewriteBuilder, x: Value) -> Value:
        ...     "Abs(x) => Abs(Abs(x))"
        ...     return g.Abs(g.Abs(x))
        >>> try:
        ...     RulePass("endless", (add_abs,)).run(graph, ChangeLog())
        ... except NoFixpoint as error:
        ...     print(error.suspects)
        ('add_abs',)
    """

    def __init__(self, message: str, suspects: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.suspects = tuple(suspects)


class FailureKind(StrEnum):
    """Kinds of failure: wrong values, refused by backends, exception, invalid graph, no termination, interface."""

    WRONG = "wrong"
    REFUSED = "refused"
    RAISED = "raised"
    INVALID = "invalid"
    ENDLESS = "endless"
    INTERFACE = "interface"


class PassFailed(PassesError):
    """A pass raised, left an invalid graph, or did not terminate; `__cause__` is the underlying exception, if any."""

    def __init__(self, pass_name: str, kind: FailureKind, message: str) -> None:
        super().__init__(message)
        self.pass_name, self.kind = pass_name, kind


class InterfaceError(PassesError):
    """A part of the model's interface changed: a name, type, default or doc string."""


class EvaluationError(PassesError):
    """A backend cannot load or run a model or a part of it. Engines raise it with a one-line reason.

    Examples:
        >>> def load(model, settings):
        ...     raise EvaluationError("it needs a device")
        >>> try:
        ...     Engine("mine", load).load(model.SerializeToString(), EngineSettings())
        ... except EvaluationError as reason:
        ...     print(reason)
        it needs a device
    """


OUT_OF_MEMORY = "ran out of memory"
"""The end of messages about a backend or process that ran out of memory."""


MORE_MEMORY = "--memory SIZE raises the limit"


class MemoryExhausted(EvaluationError):
    """A backend needs more memory than its limit."""


class ModelLoadError(EvaluationError):
    """A backend cannot load a model."""


class VerificationError(PassesError):
    """The outputs of the rewritten model differ from the original's.

    Examples:
        >>> @rule(lambda g, x: g.Abs(x))
        ... def drop_abs(g: RewriteBuilder, x: Value) -> Value:
        ...     "Abs(x) => x"
        ...     return x
        >>> try:
        ...     optimize(model, plugin=[drop_abs], strict=True)
        ... except VerificationError as error:
        ...     print("drop_abs" in str(error))
        True
    """

    exit_code = 3


class TargetError(PassesError):
    """The model, or the result of a run, has ops that a target does not support.

    Examples:
        >>> try:
        ...     optimize(model, target=Target("adder", "an engine that adds", operators={"Add": Support()}))
        ... except TargetError as error:
        ...     print(error.exit_code)
        3
    """

    exit_code = 3


class UnverifiableError(PassesError):
    """The original fails on all inputs that were tried, so the rewritten model cannot be verified.

    Examples:
        >>> unknown = onnx.parser.parse_model(TEXT.replace("Relu", "acme.Relu").replace("17]", '17, "acme": 1]'))
        >>> try:
        ...     optimize(unknown)
        ... except UnverifiableError as error:
        ...     print(error.exit_code)
        4
    """

    exit_code = 4


class TimeLimitError(UnverifiableError):
    """The time limit of a command was reached, and nothing was written.

    Examples:
        >>> try:
        ...     optimize(model, time_limit=0.001)
        ... except TimeLimitError as error:
        ...     print(error.exit_code)
        4
    """


class PluginError(PassesError):
    """A pass could not be loaded, or two passes share a name. `names` are the passes that are therefore unavailable.

    Examples:
        >>> try:
        ...     optimize(model, plugin=["no-such-file.py"])
        ... except PluginError as error:
        ...     print(error.exit_code)
        1
    """

    def __init__(self, message: str, names: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.names = tuple(names)


class InstrumentationError(PassesError):
    """A hook of a run raised, changed the graph, or could not do its work.

    Examples:
        >>> class Raises(Instrumentation):
        ...     def start(self, model: Model) -> None:
        ...         raise ValueError("no")
        >>> optimize(model, Pipeline("none", ()), instrumentation=[Raises()])
        Traceback (most recent call last):
        ...
        passwright.core.errors.InstrumentationError: hook start of Raises raised ValueError: no (...)
    """


class MatchFailure(Exception):
    """A rule declined a match; the message is the reason.

    Examples:
        >>> try:
        ...     graph.inputs[0].const
        ... except MatchFailure as reason:
        ...     print(reason)
        x is not a constant
    """


class MissingOperator(MatchFailure):
    """A rule needs an operator that the model's opset does not have yet."""

    def __init__(self, op_type: str, opset: int, since: int) -> None:
        super().__init__(f"{op_type} does not exist at opset {opset}; it was added in opset {since}")
        self.op_type, self.since = op_type, since


def format_error(error: BaseException) -> str:
    """The text of an exception, with its type unless it is a PassesError; errors in its `__str__` are ignored."""
    try:
        text = " ".join(str(error).split())
    except Exception:  # noqa: BLE001 - a plugin's own exception
        text = ""
    if isinstance(error, PassesError) and text:
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


@contextmanager
def plugin_failures(what: str, *passed: type[BaseException]) -> Generator[None]:
    """Convert exceptions of a plugin's code to PluginError about `what`, except Ctrl-C and the types `passed`."""
    try:
        yield
    except (KeyboardInterrupt, *passed):
        raise
    except BaseException as e:
        raise PluginError(f"{what}: {format_error(e)}") from e


def require(condition: object, reason: str) -> None:
    """Raise `MatchFailure` unless `condition` holds: the one way for a rule to decline a match.

    Examples:
        >>> try:
        ...     require(graph.inputs[0].rank == 3, "x is no batch of matrices")
        ... except MatchFailure as reason:
        ...     print(reason)
        x is no batch of matrices
    """
    if not condition:
        raise MatchFailure(reason)
