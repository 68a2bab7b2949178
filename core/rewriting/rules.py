"""Rules: a pattern to match and a function that builds its replacement.

@rule(lambda g, x: g.Neg(g.Neg(x)), contract=EXACT)
def cancel_negations(g, x):
    "Neg(Neg(x)) => x"
    return x
"""

from __future__ import annotations

import inspect
import re
import reprlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Concatenate, cast

from msgspec import Struct
from numpy.typing import DTypeLike
from onnx import helper

from ..errors import RuleError, UsageError
from ..ir import op_schemas
from ..ir.dtypes import DataType
from ..ir.op import Op
from ..ir.tensor import element_type
from ..ir.values import Value
from ..support.author_errors import describe_in, is_each, require_argument, require_type
from .assumptions import Assumption, trace_assumption
from .builder import RewriteBuilder
from .pattern import ROOTS, UNBOUND, OpPattern, Pattern, match_op, parameters_of, trace_pattern

Replacement = Value | tuple[Value | tuple[Value | None, ...] | None, ...]
"""The value that replaces the output of the root, or one for each of its outputs; None for an unused one.

For several roots, a tuple with such an element for each.
"""
Build = Callable[Concatenate[RewriteBuilder, ...], Replacement]
"""The function of a rule, which takes the builder, and variables of the pattern by name."""


class Contract(Struct, frozen=True):
    """The contract of a rule on numbers: `kind` is exact, rounding, conditional or lossy.

    For the element types in `dtypes`, if any, the contract is `for_dtypes` instead. An `assumption` is the `condition`
    as an expression of the values of a match. `max_error` is the largest error of a lossy rule on ordinary inputs, as a
    fraction of the largest number in an output.

    Examples:
        >>> print(by_dtype(INTEGERS, EXACT, otherwise=conditional("no length is 0")))
        exact for integers, else conditional: no length is 0
    """

    kind: str
    condition: str = ""
    dtypes: frozenset[int] = frozenset()
    for_dtypes: Contract | None = None
    assumption: Assumption | None = None
    max_error: float = 0.0

    @property
    def is_lossy(self) -> bool:
        """Whether such a rule is applied only by a pipeline that quantizes."""
        return self.kind == "lossy"

    def at(self, dtype: int) -> Contract:
        """The contract for an element type; for an unknown type, 0, the contract for types that are not named."""
        if self.for_dtypes is None:
            return self
        if dtype in self.dtypes:
            return self.for_dtypes
        return Contract(self.kind, self.condition, assumption=self.assumption)

    @property
    def assumptions(self) -> tuple[Assumption, ...]:
        """The assumptions for all element types."""
        return tuple(c.assumption for c in (self, self.for_dtypes) if c is not None and c.assumption is not None)

    def __str__(self) -> str:
        if self.is_lossy and self != LOSSY:
            return f"lossy: off by up to {self.max_error:g} of the largest number"
        general = f"{self.kind}: {self.condition}" if self.condition else self.kind
        if self.assumption is not None and (text := str(self.assumption)) != self.condition:
            general += f" ({text})"
        return f"{self.for_dtypes} for {_dtype_words(self.dtypes)}, else {general}" if self.for_dtypes else general


EXACT = Contract("exact")
"""Results are the same bit for bit.

Examples:
    >>> @rule(lambda g, x: g.Neg(g.Neg(x)), contract=EXACT)
    ... def cancel_negations(g: RewriteBuilder, x: Value) -> Value:
    ...     "Neg(Neg(x)) => x"
    ...     return x
    >>> print(cancel_negations.contract)
    exact
"""
ROUNDING = Contract("rounding")
"""Results are the same in real arithmetic; floating-point operations have another order.

Examples:
    >>> @rule(lambda g, x: g.Div(g.Sin(x), g.Cos(x)), contract=ROUNDING)
    ... def quotient_to_tan(g: RewriteBuilder, x: Value) -> Value:
    ...     "Sin(x) / Cos(x) => Tan(x)"
    ...     return g.Tan(x)
    >>> print(quotient_to_tan.contract)
    rounding
"""
LOSSY = Contract("lossy", max_error=0.1)
"""Numbers have fewer bits; a measure of accuracy decides whether that is acceptable.

Examples:
    >>> @rule(lambda g, x, c: g.Add(x, g.const(c)), contract=LOSSY)
    ... def add_halves(g: RewriteBuilder, x: Value, c: Value) -> Value:
    ...     "x + c => x + c in half precision"
    ...     require(x.dtype == np.float32, "it is not in single precision")
    ...     half = g.Add(g.Cast(x, to=TensorProto.FLOAT16), g.const(c.const.astype(np.float16)))
    ...     return g.Cast(half, to=TensorProto.FLOAT)
    >>> halves = RulePass("halves", (add_halves,))
    >>> halves.run(graph, ChangeLog())  # such rules decline outside of a pipeline that quantizes
    0
    >>> Pipeline("quantized", [halves], quantization=QuantizationSpec()).run(graph, ChangeLog())
    1
"""
CONDITIONAL = "conditional"
"""The kind of contracts with a condition."""


def conditional(condition: str = "", *, assume: Pattern | None = None, each: Pattern | None = None) -> Contract:
    """Results are the same only if a condition on the numbers holds, which cannot be read from the graph.

    `assume` states the condition as an expression of variables of the pattern, so that inputs can be tried and proofs
    can assume it: `conditional("no length is 0", assume=lambda g, length: g.Greater(length, 0))`. A variable for an op
    means the op's first output. `each` states it for each float of the match, including the results:
    `each=lambda g, v: g.Less(g.Abs(v), inf)`. Without a text, the expression is shown. Raises RuleError.

    Examples:
        >>> print(conditional("no length is 0", assume=lambda g, length: g.Greater(length, 0)))
        conditional: no length is 0 (length > 0)
        >>> print(conditional(each=lambda g, v: g.Less(g.Abs(v), 1000)))
        conditional: |v| < 1000 for each float v
    """
    require_type(condition, str, "conditional", "a text first, and an expression as assume= or each=")
    for given in (assume, each):
        require_argument(given is None or callable(given), "conditional", "a lambda as assume= or each=", given)
    if assume is not None and each is not None:
        raise RuleError("a condition takes assume= or each=, not both")
    found = None
    if assume is not None:
        found = trace_assumption(assume)
    elif each is not None:
        found = trace_assumption(each, each=True)
    elif not condition:
        raise RuleError("a condition needs a text, assume= or each=")
    return Contract(CONDITIONAL, condition or str(found), assumption=found)


def lossy(max_error: float) -> Contract:
    """LOSSY with a limit that is checked: the largest error on ordinary inputs, relative to the largest number.

    Ordinary inputs are floats from normal distributions around 0 and -3, and small integers, with finite results.
    Raises UsageError unless it is a number between 0 and 1.

    Examples:
        >>> print(lossy(0.02))
        lossy: off by up to 0.02 of the largest number
    """
    is_right = isinstance(max_error, int | float) and 0 < max_error <= 1  # pyright: ignore[reportUnnecessaryIsInstance] - authors may not check types
    require_argument(is_right, "lossy", "a fraction of the largest number, such as lossy(0.02)", max_error)
    return Contract(LOSSY.kind, max_error=float(max_error))


def by_dtype(dtypes: Iterable[int | DTypeLike], contract: Contract, *, otherwise: Contract = ROUNDING) -> Contract:
    """A contract that depends on the element type of the root's first output: `by_dtype(INTEGERS, EXACT)`.

    Examples:
        >>> print(by_dtype([np.int32, np.int64], EXACT))
        exact for int32, int64, else rounding
    """
    _require_contract("by_dtype", contract)
    _require_contract("by_dtype", otherwise)
    are_several = isinstance(dtypes, Iterable) and not isinstance(dtypes, str)  # pyright: ignore[reportUnnecessaryIsInstance] - authors may not check types
    require_argument(are_several, "by_dtype", "element types such as [np.float32]", dtypes)
    try:
        numbers = frozenset(int(DataType(t)) for t in dtypes)
    except (TypeError, ValueError) as e:
        raise UsageError(f"by_dtype takes element types such as [np.float32]: {e}") from e
    return Contract(otherwise.kind, otherwise.condition, numbers, contract, otherwise.assumption)


def _require_contract(name: str, contract: object) -> None:
    if not isinstance(contract, Contract):
        known = "EXACT, ROUNDING, LOSSY, lossy(...), conditional(...) or by_dtype(...)"
        raise RuleError(f"the contract of {name} must be {known} of passwright.core, not {reprlib.repr(contract)}")


_DTYPE_WORDS = {"i": "integers", "u": "integers", "f": "floats"}
_MAX_LISTED_DTYPES = 3  # of more, only the kinds are listed


def _dtype_words(dtypes: Collection[int]) -> str:
    names = {t: element_type(t) for t in sorted(dtypes)}
    if len(names) > _MAX_LISTED_DTYPES:
        kinds = {t: helper.tensor_dtype_to_np_dtype(t).kind for t in names}
        names = {t: _DTYPE_WORDS.get(kinds[t], name) for t, name in names.items()}
    return ", ".join(dict.fromkeys(names.values()))


class Match(Struct, frozen=True):
    """A match of a rule: the bindings of its variables, the ops covered, starting with a root, and all roots."""

    bindings: dict[str, Any]
    ops: tuple[Op, ...]
    roots: tuple[Op, ...]

    @property
    def outputs(self) -> list[Value]:
        """The outputs of all roots, which will be replaced."""
        return [v for root in self.roots for v in root.outputs]

    def in_words_of_author(self, text: str, added: Iterable[Op], mark: str = "") -> str:
        """Replace names of values with `mark` in `text` by variables of the pattern and descriptions of new ops."""
        words: dict[str, str] = {}
        for op in added:
            count = len(op.outputs)
            words.update((v.name, f"output {i} of {op.type}" if count > 1 else f"the result of {op.type}")
                         for i, v in enumerate(op.outputs))  # fmt: skip
        for variable, bound in self.bindings.items():
            values = cast("tuple[Any, ...]", bound if isinstance(bound, tuple) else (bound,))
            words.update((v.name, variable) for v in values if isinstance(v, Value))
        chosen = sorted((name for name in words if name and mark in name), key=len, reverse=True)
        if not chosen:
            return text
        return re.sub(rf"(?<!\w)({'|'.join(map(re.escape, chosen))})(?!\w)", lambda found: words[found[1]], text)


class Rule(Struct, frozen=True):
    """A stateless rewrite of a matched root; inputs for tests are generated at and around its `critical_values`.

    `patterns` are alternatives, tried in order. `parameters` are the variables passed to `build`; None means all.
    `group` is the name of the pass that contains it; "" for a separate rule.

    Examples:
        >>> @rule(lambda g, x, b=None: g.Clip(x, b), lambda g, x: g.Relu(x), group="clamps")
        ... def clamp_by_max(g: RewriteBuilder, x: Value, b: Value | None = None) -> Value:
        ...     "Clip(x, b) => Max(x, b)"
        ...     return g.Max(x, 0.0 if b is None else b)
        >>> clamp_by_max.name, clamp_by_max.root_types, clamp_by_max.group
        ('clamp_by_max', ('Clip', 'Relu'), 'clamps')
    """

    name: str
    equation: str
    patterns: tuple[OpPattern, ...]
    build: Build
    allow_other_uses: bool
    contract: Contract
    critical_values: tuple[float, ...] = ()
    parameters: tuple[str, ...] | None = None
    group: str = ""

    @property
    def root_types(self) -> tuple[str, ...]:
        """The operators at the roots of the patterns."""
        return tuple(dict.fromkeys(t for p in self.patterns for t in p.types))

    def contract_at(self, root: Op) -> Contract:
        """The contract for a match with that root."""
        is_uniform = self.contract.for_dtypes is None
        return self.contract if is_uniform else self.contract.at(root.outputs[0].known_dtype)

    def is_exact_at(self, root: Op) -> bool:
        """Whether results stay the same bit for bit if `root` is rewritten."""
        return self.contract_at(root) == EXACT

    def arguments(self, match: Match) -> dict[str, Any]:
        """The variables of a match that are passed to `build`."""
        taken = match.bindings if self.parameters is None else self.parameters
        return {name: match.bindings[name] for name in taken if name in match.bindings}

    def replacement(self, g: RewriteBuilder, match: Match) -> Replacement:
        """The replacement of a match."""
        return self.build(g, **self.arguments(match))

    def matches(self, root: Op) -> Iterator[Match]:
        """Yield every way in which a pattern matches at `root`, with operands of commutative ops in either order."""
        for pattern in self.patterns:
            for bound, ops, _ in match_op(pattern, root):
                roots: tuple[Op, ...] = bound.get(ROOTS, (root,))
                if self.allow_other_uses or _inner_values_are_private(bound, ops, roots):
                    yield Match({name: b for name, b in bound.items() if name not in NO_VARIABLES}, ops, roots)


def rule(
    *patterns: Pattern,
    contract: Contract = ROUNDING,
    allow_other_uses: bool = False,
    critical_values: Sequence[float] = (),
    group: str = "",
) -> Callable[[Build], Rule]:
    """Make a rule from a function `(g, **variables) -> Value`, or `-> tuple` with one value per output of the root.

    The function takes the variables of the pattern's lambda that it uses. In the lambda, `b=None` marks an optional
    input, `g.const(c)` a constant input, `*xs` matches any number of inputs, and `...` does so without binding them. A
    number is a constant that adds no dims, as in `g.Mul(x, 2)`. Several patterns are variants of one idea, tried in
    order; a variable that one of them lacks is a parameter with a default.

    Inner values may be used elsewhere only if `allow_other_uses`. The contract is `ROUNDING` unless given.
    `critical_values` are numbers at which the rule might be wrong, such as the knees of an activation: inputs for tests
    are generated at and near them. The rules of a module with the same `group` form the pass of that name, and are
    tried in the order of their definition. Raises RuleError for a parameter that is not a variable of a pattern, and
    for an operator with attributes or a number of inputs that exist at no opset; UsageError for arguments of other
    types.

    Examples:
        >>> @rule(lambda g, x, c: g.Mul(x, g.const(c)), contract=EXACT)
        ... def drop_unit_scale(g: RewriteBuilder, x: Value, c: Value) -> Value:
        ...     "x * 1 => x"
        ...     require(c.const.size == 1 and c.const.item() == 1, f"{c.name} is not 1")
        ...     require(c.rank <= x.rank, f"{c.name} adds dims")
        ...     return x
        >>> drop_unit_scale.equation
        'x * 1 => x'
        >>> text = TEXT.replace("Relu(a)", "Mul(a, one)").replace("<float[4]", "<float one = {1}, float[4]")
        >>> scaled = onnx.parser.parse_model(text)
        >>> [node.op_type for node in optimize(scaled, plugin=[drop_unit_scale]).model.graph.node]
        ['Abs', 'Add']
    """
    for pattern in patterns:
        require_argument(callable(pattern), "rule", "lambdas, such as lambda g, x: g.Relu(x)", pattern)
    require_type(group, str, "rule", "the name of a pass as its group")
    are_numbers = is_each(critical_values, (int, float))
    require_argument(are_numbers, "rule", "critical_values as numbers, such as (-3, 3)", critical_values)

    def wrap(build: Build) -> Rule:
        is_function = callable(build) and hasattr(build, "__code__") and build.__code__.co_argcount > 0
        require_argument(is_function, "rule", "a function of g and variables of the pattern", build)
        _require_new_name(build)
        roots: list[OpPattern] = []
        for pattern in patterns:
            try:
                roots += trace_pattern(pattern)[0]
            except (RuleError, UsageError) as e:
                raise RuleError(f"the pattern of {build.__name__}: {describe_in(pattern, e)}") from e
        equation, taken = (build.__doc__ or "").strip().partition("\n")[0].rstrip(), parameters_of(build)
        try:
            _require_contract(build.__name__, contract)
            _require_variables(build.__name__, taken, roots, contract)
            _require_same_operators(build.__name__, equation, roots)
        except RuleError as e:
            raise RuleError(describe_in(build, e)) from e
        numbers, parameters = tuple(map(float, critical_values)), tuple(taken)
        return Rule(
            build.__name__, equation, tuple(roots), build, allow_other_uses, contract, numbers, parameters, group
        )

    return wrap


def _require_new_name(build: Build) -> None:
    """Raise RuleError for a rule with the name of another rule in its module, which it would replace."""
    old, frame = build.__globals__.get(build.__name__), inspect.currentframe()
    if not isinstance(old, Rule) or old.build.__code__ == build.__code__:
        return
    caller = frame.f_back.f_back if frame is not None and frame.f_back is not None else None
    defined = caller.f_code.co_consts if caller is not None else ()
    if old.build.__code__ in defined and build.__code__ in defined:  # not the same module, reloaded
        codes = [b.__code__ for b in (old.build, build)]
        places = " and ".join(f"{Path(c.co_filename).name}:{c.co_firstlineno}" for c in codes)
        raise RuleError(f"two rules are named {build.__name__}, in {places}")


SIGNS: Mapping[str, tuple[str, ...]] = {"+": ("Add", "Sum"), "-": ("Sub", "Neg"), "*": ("Mul",), "/": ("Div",)}
"""The operators that arithmetic signs in equations mean."""
CALL = re.compile(r"\b[A-Z]\w*(?=\()")


def _require_same_operators(name: str, equation: str, patterns: Sequence[OpPattern]) -> None:
    """Raise RuleError if the left side of an equation has none of the pattern's operators, as when it is reversed."""
    left = equation.partition("=>")[0] if "=>" in equation else ""
    called = set(CALL.findall(left))
    fitting = called.union(*(types for sign, types in SIGNS.items() if sign in left))
    found = (t for p in patterns for part in p.walk() for t in part.types)
    if called and fitting.isdisjoint(found) and not called.isdisjoint(op_schemas.since_versions("")):
        has = {t for p in patterns for part in p.walk() for t in part.types}
        named, has = (", ".join(sorted(types)) for types in (called, has))
        raise RuleError(f"the equation of {name} begins with {named}, but its pattern has {has}")


def _require_variables(name: str, taken: Mapping[str, bool], patterns: Sequence[OpPattern], contract: Contract) -> None:
    """Raise RuleError if a rule's function or contract takes variables that its patterns do not bind."""
    if not patterns:
        raise RuleError(f"{name} has no pattern")
    bound = [dict.fromkeys(p.variables()) for p in patterns]
    known = list(dict.fromkeys(chain.from_iterable(bound)))
    assumed = [v for a in contract.assumptions for v in a.variables]
    for who, names in ((name, taken), (f"the contract of {name}", assumed)):
        if unknown := [v for v in names if v not in known]:
            raise RuleError(f"{who} takes {', '.join(unknown)}, but the pattern binds only {known}")
    for v, has_default in taken.items():
        if not has_default and not all(v in names for names in bound):
            raise RuleError(f"one of the patterns of {name} does not bind {v}, so it needs a default, such as {v}=None")


NO_VARIABLES = frozenset({UNBOUND, ROOTS})


def _inner_values_are_private(bound: dict[str, Any], ops: tuple[Op, ...], roots: tuple[Op, ...]) -> bool:
    """Whether no other op uses the values between the matched ops."""
    if len(ops) == 1:
        return True
    given = bound_values(bound)
    for op in ops:
        for v in op.outputs if op not in roots else ():
            if op.graph.is_output(v) or v in op.graph.pinned or any(v is x for x in given):
                return False
            if any(user not in ops for user in v.consumers):
                return False
    return True


def bound_values(bound: dict[str, Any]) -> list[Any]:
    """The values bound to variables; for `*xs`, each value."""
    bindings: list[tuple[Any, ...]] = [b if isinstance(b, tuple) else (b,) for k, b in bound.items() if k != ROOTS]
    return list(chain.from_iterable(bindings))
