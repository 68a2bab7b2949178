"""Targets: the engines for which models are made, as lists of supported operators."""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import groupby, starmap
from pathlib import Path
from textwrap import shorten
from typing import Any, Literal, cast

import msgspec
import numpy as np
from msgspec import Struct, field, structs

from ..errors import MatchFailure, TargetError, UsageError
from ..ir.cost_model import CPU, CostModel
from ..ir.graph import Graph, Runs, is_counted
from ..ir.op import Op
from ..ir.op_schemas import (
    ONNX_DOMAIN,
    VARIADIC,
    input_names,
    latest_opset_version,
    misuse,
    qualified_op_type,
    split_op_type,
)
from ..ir.tensor import KNOWN_DTYPES, element_type
from ..ir.values import Value
from ..rewriting.rules import Rule
from ..support.author_errors import describe_exception
from ..support.regular_files import read_text
from ..support.suggestions import did_you_mean
from ..support.toml_tables import read_tables
from .pipeline import Pass

MAX_BYTES = 1 << 20  # of a file with a target
AXIS_OF_RESULT = frozenset({"ConcatFromSequence", "OneHot"})  # their `axis` is an axis of the output
MIN_PLACES = 40  # letters for the places of a kind, if a reason is long
MAX_SHOWN, MAX_LENGTH = 5, 120  # the kinds of misfits in a message, and the letters of each
BY_INPUT = ("dtypes", "ranks")
DTYPES = frozenset(map(element_type, KNOWN_DTYPES))
DTYPE_ATTRIBUTES = frozenset({"dtype", "to"})  # the numbers of element types in these attributes are listed by name
Facts = Collection[Any] | Mapping[str, Collection[Any]]


class Support(Struct, frozen=True, forbid_unknown_fields=True):
    """A form of an operator that a target supports; all its conditions must hold.

    Attributes:
        first, last: opset versions.
        dtypes: element types in ONNX's notation (float, float16, int64); `ranks`: numbers of dims. Both are of the
            first input or, in a mapping, of inputs by their names in the specification.
        constant: names of inputs that must be constant if present; `omitted`: of inputs that must be absent.
        attributes: the allowed values of attributes, including defaults; for `to` and `dtype`, names of types.
        outputs: the maximum number of used outputs.
        condition: a function of the op, which declines by `require`, like a rule, or by returning False.

    Raises UsageError for arguments of other types, and for a condition that raises.

    Examples:
        >>> relu = next(graph.ops("Relu"))
        >>> list(Support(dtypes=("float16",), ranks=(4,)).obstacles(relu))
        ['type float of X', 'rank 2 of X']
        >>> list(Support(first=13, attributes={"axis": (1,)}).obstacles(relu))
        []
    """

    first: int = 1
    last: int | None = None
    dtypes: Collection[str] | Mapping[str, Collection[str]] = ()
    ranks: Collection[int] | Mapping[str, Collection[int]] = ()
    attributes: Mapping[str, Collection[Any]] = field(default_factory=dict[str, "Collection[Any]"])
    constant: Collection[str] = ()
    omitted: Collection[str] = ()
    outputs: int | None = None
    condition: Callable[[Op], object] | None = None

    def __post_init__(self) -> None:
        """Raise UsageError for arguments of other types."""
        by_input = "a list, or lists by the names of inputs"
        for name, kind, wanted in (
            ("dtypes", str, f"element types such as ('float', 'int64'): {by_input}"),
            ("ranks", int, f"ranks such as (2, 4): {by_input}"),
            ("constant", str, "names of inputs such as ('axes',)"),
            ("omitted", str, "names of inputs such as ('axes',)"),
        ):
            given: Any = getattr(self, name)
            lists: Any = given.values() if name in BY_INPUT and hasattr(given, "values") else [given]
            _require(all(_is_list(found, kind) for found in lists), f"{name} takes {wanted}", given)
        values = self.attributes.values() if isinstance(self.attributes, Mapping) else (0,)  # pyright: ignore[reportUnnecessaryIsInstance] - authors may not check types
        is_right = all(_is_list(found, object) for found in values)
        _require(is_right, "attributes takes lists of values by name, such as {'group': (1,)}", self.attributes)
        _require(self.condition is None or callable(self.condition), "condition takes a function", self.condition)
        for name, kinds, wanted in (
            ("first", int, "an opset such as 13"),
            ("last", int | None, "an opset such as 17"),
            ("outputs", int | None, "a number of outputs such as 1"),
        ):
            number: Any = getattr(self, name)
            _require(isinstance(number, kinds), f"{name} takes {wanted}", number)

    def covers(self, op_type: str, domain: str, version: int, dtypes: Sequence[int]) -> bool:
        """Whether it may apply to an op with inputs of these types; 0 is unknown."""
        if not self.has_opset(version):
            return False
        names = input_names(op_type, domain, version)
        allowed = _by_input(self.dtypes, names)
        return all(
            not dtype or (wanted := allowed.get(_at(names, i))) is None or element_type(dtype) in wanted
            for i, dtype in enumerate(dtypes)
        )

    def obstacles(self, op: Op) -> Iterator[str]:
        """Yield descriptions of the conditions that an op does not satisfy."""
        if not self.has_opset(op.version):
            yield f"opset {op.version}, it takes {_range(self.first, self.last)}"
            return
        names = input_names(op.type, op.domain, op.version)
        given = [(_at(names, i) or str(i), v) for i, v in enumerate(op.inputs) if v is not None]
        yield from _unlike(given, _by_input(self.dtypes, names), lambda v: element_type(v.dtype), "type")
        yield from _unlike(given, _by_input(self.ranks, names), lambda v: v.rank, "rank")
        for name, allowed in self.attributes.items():
            value = op.attr(name)
            if name in DTYPE_ATTRIBUTES and value in KNOWN_DTYPES:
                value = element_type(value)
            is_axis = name == "axis" and op.type not in AXIS_OF_RESULT
            forms = [(value, a) if not is_axis else (_from_front(op, value), _from_front(op, a)) for a in allowed]
            if value is not None and not any(starmap(_is_same, forms)):
                yield f"{name} {value}"
        yield from (f"{name} is not constant" for name, v in given if name in self.constant and not v.is_const)
        yield from (f"{name} is present" for name, _ in given if name in self.omitted)
        used = sum(not op.graph.is_unused(v) for v in op.outputs)
        if self.outputs is not None and used > self.outputs:
            yield f"{used} outputs"
        if self.condition is not None:
            try:
                if self.condition(op) is False:
                    name = getattr(self.condition, "__name__", "<lambda>")
                    yield "its condition is false" if name == "<lambda>" else f"its condition {name} is false"
            except MatchFailure as e:
                yield str(e)
            except Exception as e:
                what = describe_exception(e, getattr(self.condition, "__code__", None))
                raise UsageError(f"the condition of a target on {op.label} fails: {what}") from e

    def has_opset(self, version: int) -> bool:
        """Whether it applies to that opset."""
        return self.first <= version and (self.last is None or version <= self.last)

    @property
    def names(self) -> frozenset[str]:
        """The attributes and inputs that it restricts."""
        by_input = {*_by_input(self.dtypes, ()), *_by_input(self.ranks, ())} - {""}
        return frozenset((*by_input, *self.attributes, *self.constant, *self.omitted))


def _is_list(given: object, kind: type) -> bool:
    is_collection = isinstance(given, Collection) and not isinstance(given, str | bytes | Mapping)
    return is_collection and all(isinstance(item, kind) for item in cast("Collection[object]", given))


def _require(is_right: object, what: str, given: object) -> None:
    if not is_right:
        raise UsageError(f"{what}, not {reprlib.repr(given)}")


def _range(first: int, last: int | None) -> str:
    if last is None:
        return f"{first} and later"
    return f"{first} to {last}" if first <= last else "none"


def _by_input(facts: Facts, names: Sequence[str]) -> Mapping[str, Collection[Any]]:
    """The facts about inputs by name; the first input of an unknown operator has the number 0."""
    if isinstance(facts, Mapping):
        return cast("Mapping[str, Collection[Any]]", facts)
    return {names[0] if names else "": facts} if facts else {}


def _at(names: Sequence[str], index: int) -> str:
    """The name of an input; the last one may be variadic."""
    return names[min(index, len(names) - 1)] if names else "" if index == 0 else str(index)


def _unlike(
    given: Sequence[tuple[str, Value]], allowed: Mapping[str, Collection[Any]], fact: Callable[[Value], Any], what: str
) -> Iterator[str]:
    """Yield the inputs whose type or rank is not among those allowed."""
    for name, value in given:
        if (wanted := allowed.get(name, allowed.get("") if name == "0" else None)) is None:
            continue
        try:
            found = fact(value)
        except MatchFailure:
            found = "unknown"
        if found not in wanted:
            yield f"{what} {found} of {name}"


def _from_front(op: Op, axis: Any) -> Any:
    """An axis of the first input, as a nonnegative number if the rank is known: -1 of two dims is 1."""
    data = op.input(0)
    shape = None if data is None else data.known_shape
    return axis + len(shape) if isinstance(axis, int) and axis < 0 and shape is not None else axis


def _is_same(value: Any, allowed: Any) -> bool:
    if isinstance(value, float) and isinstance(allowed, int | float):
        return np.float32(value) == np.float32(allowed)  # as in the file
    return value == (list(cast("tuple[Any, ...]", allowed)) if isinstance(allowed, tuple) else allowed)


NEVER = Support(last=0)
"""An operator that a target does not support.

Examples:
    >>> Target("old", operators={"Gelu": NEVER}, others="standard").takes("Gelu", "", 20, [])
    False
"""


class Misfit(Struct, frozen=True):
    """An op that a target does not support, the `reason`, and what its `tried` decompositions would still need.

    `op` is the operator with its domain; `place` is the name of the node, or of its first output. Both are empty for
    problems of the whole model.

    Examples:
        >>> Target("small", operators={"Add Abs": Support()}).fit(graph).misfits
        [Misfit(op='Relu', place='r', reason='no Relu', tried=())]
    """

    op: str
    place: str
    reason: str
    tried: Sequence[str] = ()


class TargetFit(Struct, frozen=True):
    """Whether a model is on a target: it is if there are no `misfits`. Its text is short; `lines` has all.

    Examples:
        >>> fit = Target("small", operators={"Add": Support()}).fit(graph)
        >>> print(fit)
        2 ops left that small does not support: Abs at 'a' (no Abs), Relu at 'r' (no Relu)
        >>> fit.lines()
        ["Abs at 'a' (no Abs)", "Relu at 'r' (no Relu)"]
    """

    target: str
    misfits: Sequence[Misfit] = ()

    def lines(self, max_length: int | None = None) -> list[str]:
        """Describe the misfits, combining equal ones. Places, but not reasons, are cut if a line is too long."""
        found: list[str] = []
        kinds = sorted(self.misfits, key=lambda m: (m.op, m.reason, m.tried))
        for (op, reason, tried), alike in groupby(kinds, lambda m: (m.op, m.reason, m.tried)):
            places = [f"'{m.place}'" for m in alike]
            count = f"{len(places)} " if len(places) > 1 else ""
            more = ", ..." if len(places) > 2 else ""
            where, what = ", ".join(places[:2]) + more, f"{count}{op} at "
            room = len(where) if max_length is None else max(max_length - len(f"{what} ({reason})"), MIN_PLACES)
            if len(where) > room:
                where = f"'...{places[0][10 - room :]}" + (", ..." if len(places) > 1 else "")
            text = f"{what}{where} ({reason})" if op else reason
            found.append("; ".join((text, *tried)))
        return found

    def __str__(self) -> str:
        if not self.misfits:
            return f"supported by target {self.target}"
        lines, count = self.lines(MAX_LENGTH), sum(bool(m.op) for m in self.misfits)
        left = [f"and {len(lines) - MAX_SHOWN} more kinds"] if len(lines) > MAX_SHOWN else []
        shown = [shorten(line, MAX_LENGTH, placeholder=" ...") for line in lines[:MAX_SHOWN]]
        start = (
            f"{count} op{'s' * (count != 1)} left that {self.target} does not support"
            if count
            else f"not supported by {self.target}"
        )
        return f"{start}: {', '.join([*shown, *left])}"

    def require(self) -> None:
        """Raise TargetError with the misfits, if there are any."""
        if self.misfits:
            raise TargetError(str(self))


class Target(Struct, frozen=True, dict=True):
    """An engine: the operators that it supports, its opset, and its costs of ops and data movement.

    Attributes:
        operators: by name, such as `Conv`, `com.microsoft.Gelu` or, for several, `Add Sub Mul`, the supported form, or
            several alternative forms.
        others: whether unlisted operators are supported: "none", "standard" for all of the standard domain, or a
            function of type, domain, opset and element types of inputs.
        opset: the highest standard opset that it reads, to which models are converted if all their ops can be; 0: the
            highest that the installed onnxruntime runs.
        source: where the list is from, with the version.
        avoided: operators, or forms of them, that it supports but rewrites must not add. Of other domains, unlisted
            ones are never added.
        costs: used by rewrites that trade ops for data movement, or for one op with a slow kernel.
        decompositions: additional rules for ops that it lacks, which precede others.
        last: passes after the passes of `basic`.
        fallback: the pipeline to use if the result is slower than the original (`passes run --check-speed`).

    Examples:
        >>> small = Target("small", operators={"Abs Add Max": Support(dtypes=("float",))}, opset=17)
        >>> small.obstacle(next(graph.ops("Relu")))
        'no Relu'
        >>> webgpu = optimize(model, target="webgpu")
        >>> print(webgpu.report.target)
        supported by target webgpu
    """

    name: str
    description: str = ""
    operators: Mapping[str, Support | Sequence[Support]] = field(
        default_factory=dict[str, "Support | Sequence[Support]"]
    )
    opset: int = 0
    source: str = ""
    others: Literal["none", "standard"] | Runs = "none"
    avoided: Mapping[str, Support] = field(default_factory=dict[str, Support])
    costs: CostModel = CPU
    decompositions: Sequence[Rule] = ()
    last: Sequence[Pass] = ()
    fallback: str = "basic"

    def __post_init__(self) -> None:
        """Raise UsageError for arguments of other types, unknown names, and decompositions of several ops."""
        for name, listed in (("operators", self.operators), ("avoided", self.avoided)):
            table: Any = listed if isinstance(listed, Mapping) else {"": None}  # pyright: ignore[reportUnnecessaryIsInstance] - authors may not check types
            for operators, forms in table.items():
                is_right = isinstance(forms, Support) or (name == "operators" and _is_list(forms, Support))
                wanted = "forms by operator, such as {'Add': Support()}"
                given: Any = {operators: forms} if operators else listed
                _require(is_right, f"target {self.name}: {name} takes {wanted}", given)
        is_right = callable(self.others) or self.others in {"none", "standard"}
        _require(is_right, f"target {self.name}: others takes 'none', 'standard' or a function", self.others)
        for name, kind, wanted in (
            ("opset", int, "a number such as 17"),
            ("costs", CostModel, "a CostModel"),
            ("fallback", str, "the name of a pipeline"),
        ):
            given = getattr(self, name)
            _require(isinstance(given, kind), f"target {self.name}: {name} takes {wanted}", given)
        newest = latest_opset_version(ONNX_DOMAIN)
        _require(0 <= self.opset <= newest, f"target {self.name}: opset takes 1 to {newest}, or 0 for any", self.opset)
        if self.name == self.fallback:
            raise UsageError(f"target {self.name}: its fallback pipeline has the same name: rename the target")
        for name, items, kind, wanted in (
            ("decompositions", self.decompositions, Rule, "rules made by @rule"),
            ("last", self.last, Pass, "passes, as RulePass(...)"),
        ):
            _require(_is_list(items, kind), f"target {self.name}: {name} takes a list of {wanted}", items)
        for r in self.decompositions:
            for ops in (tuple(p.walk()) for p in r.patterns):
                if len(ops) > 1:
                    found = " and ".join("|".join(p.types) for p in ops)
                    raise UsageError(
                        f"target {self.name}: the decomposition {r.name} has {len(ops)} ops in its pattern, {found}; "
                        "a decomposition replaces a single op: use a pass in last= for several"
                    )
        self._require_known()

    @cached_property
    def forms(self) -> Mapping[str, Sequence[Support]]:
        """The forms of each listed operator."""
        listed = ((names, (f,) if isinstance(f, Support) else tuple(f)) for names, f in self.operators.items())
        return {name: forms for names, forms in listed for name in names.split()}

    def takes(self, op_type: str, domain: str, version: int, dtypes: Sequence[int]) -> bool:
        """Whether it supports an op with that operator, opset and element types of inputs, in some form."""
        forms = self.forms.get(qualified_op_type(domain, op_type))
        if forms is not None:
            return any(f.covers(op_type, domain, version, dtypes) for f in forms)
        return self.takes_other(op_type, domain, version, dtypes)

    def takes_other(self, op_type: str, domain: str, version: int, dtypes: Sequence[int]) -> bool:
        """Whether it supports an op whose operator is not listed."""
        if callable(self.others):
            try:
                return self.others(op_type, domain, version, dtypes)
            except Exception as e:
                what = describe_exception(e, getattr(self.others, "__code__", None))
                raise UsageError(f"target {self.name}: others fails on {op_type}: {what}") from e
        return self.others == "standard" and not domain

    def may_add(self, op_type: str, domain: str, version: int, dtypes: Sequence[int]) -> bool:
        """Whether rewrites may add such an op."""
        name = qualified_op_type(domain, op_type)
        if domain and name not in self.forms:
            return False
        avoided = self.avoided.get(name)
        is_avoided = avoided is not None and any(dtypes) and avoided.covers(op_type, domain, version, dtypes)
        return not is_avoided and self.takes(op_type, domain, version, dtypes)

    def obstacle(self, op: Op) -> str:
        """Why it does not support an op; "" if it does."""
        forms = self.forms.get(name := qualified_op_type(op.domain, op.type))
        if forms is not None:
            near = [f for f in forms if f.has_opset(op.version)] or forms
            found = [list(dict.fromkeys(f.obstacles(op))) for f in near]
            return "" if not all(found) else " or ".join(dict.fromkeys(", ".join(reasons) for reasons in found))
        dtypes = [0 if v is None else v.known_dtype for v in op.inputs]
        if not is_counted(op) or self.takes_other(op.type, op.domain, op.version, dtypes):
            return ""
        is_typed = callable(self.others) and self.others(op.type, op.domain, op.version, [0] * len(dtypes))
        types = ", ".join(dict.fromkeys(element_type(d) for d in dtypes if d))
        return f"no {name} of {types}" if is_typed and types else f"no {name}"

    def fit(self, graph: Graph, tried: Mapping[Op, Sequence[str]] | None = None) -> TargetFit:
        """Find the ops of a graph, and of bodies, that the target lacks; `tried` are decompositions of ops. O(ops)."""
        version = graph.opsets.get(ONNX_DOMAIN, 0)
        found = [Misfit("", "", f"opset {version} is above {self.opset}")] if 0 < self.opset < version else []
        for op in (op for g in graph.with_subgraphs() for op in g.sorted_ops()):
            if reason := self.obstacle(op):
                place = op.name or next((v.name for v in op.outputs), "")
                found.append(Misfit(qualified_op_type(op.domain, op.type), place, reason, (tried or {}).get(op, ())))
        return TargetFit(self.name, found)

    def _require_known(self) -> None:
        """Raise UsageError for a listed name that exists at no opset, if onnx knows the domain."""
        for name, forms in (*self.forms.items(), *((n, (f,)) for n, f in self.avoided.items())):
            domain, op_type = split_op_type(name)
            for f in forms:
                if why := misuse(op_type, domain, (0, VARIADIC), f.names):
                    raise UsageError(f"target {self.name}: {why.replace(' attribute ', ' attribute or input ', 1)}")
                facts = _by_input(f.dtypes, ()).values()
                for dtype in (d for dtypes in facts for d in dtypes if d not in DTYPES):
                    raise UsageError(
                        f"target {self.name}: {name}: there is no element type {dtype}{did_you_mean(dtype, DTYPES)}"
                    )


class _TargetTable(Struct, frozen=True, forbid_unknown_fields=True):
    """A target in a file."""

    name: str
    description: str = ""
    opset: int = 0
    source: str = ""
    others: Literal["none", "standard"] = "none"
    operators: dict[str, Support | list[Support]] = field(default_factory=dict[str, "Support | list[Support]"])
    avoided: dict[str, Support] = field(default_factory=dict[str, Support])


def read_target(path: Path) -> Target:
    """The target in a TOML file, whose keys are fields of Target. Raises UsageError for errors in it."""
    tables: Mapping[str, Any] = {}
    try:
        tables = read_tables(path, read_text(path, MAX_BYTES))
        table = msgspec.convert(tables, _TargetTable)
    except msgspec.ValidationError as e:
        fields = (*_TargetTable.__struct_fields__, *Support.__struct_fields__)
        text = f"{e}{did_you_mean(str(e).partition('`')[2].partition('`')[0], fields)}"
        raise UsageError(f"{path}: {text.replace('[...]', f'[{_wrong_entry(tables)}]', 1)}") from e
    except UnicodeDecodeError as e:
        raise UsageError(f"{path}:1: not UTF-8 text") from e
    except OSError as e:
        raise UsageError(f"cannot read {path}: {e.strerror}") from e
    except ValueError as e:
        raise UsageError(str(e)) from e
    try:
        return Target(**structs.asdict(table))
    except UsageError as e:
        raise UsageError(f"{path}: {e}") from e


def _wrong_entry(tables: Mapping[str, Any]) -> str:
    """The operators whose form in a file is the first invalid one, because msgspec does not name them."""
    for key in ("operators", "avoided"):
        for names, form in tables.get(key, {}).items() if isinstance(tables.get(key), dict) else ():
            try:
                msgspec.convert(form, Support | list[Support])
            except msgspec.ValidationError:
                return f'"{names}"'
    return "..."
