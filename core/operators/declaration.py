"""Declarations of operators: their traits, the roles of their inputs, and their meaning as functions of arrays.

A meaning takes the inputs (None for omitted ones) and, by keyword, the attributes, with the defaults of the schema.
NumPy is its language: it works on float64 and on any array type of NumPy's protocols. A tuple is several outputs.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from enum import Flag, auto
from functools import cache
from inspect import CO_VARKEYWORDS
from types import MappingProxyType
from typing import Any, TypeVar

import onnx
from msgspec import Struct, field
from msgspec.structs import replace

from ..ir.expressions import Shape, SymInt
from ..ir.op import Op
from ..ir.op_schemas import VARIADIC

ANY_KIND = "biufcOSUV"
"""The kinds of all types of arrays, of which elements are moved unchanged."""
ALL_INPUTS = range(VARIADIC + 1)
LOOP_CONDITION = -1  # the "input" of a Loop for the condition that its body computes


class Trait(Flag):
    """A property of an operator in all its versions. "Output" means the first one, "dtype" its element type."""

    ELEMENTWISE = auto()
    """Each element is computed alike from the element of the first input at its place; other inputs hold one number."""
    BROADCASTING = auto()
    """Each element is computed alike from one element of each input, after multidirectional broadcasting."""
    TOTAL = auto()
    """Fails for no numbers in its inputs, if their types are allowed and their shapes broadcast."""
    LAYOUT_INVARIANT = auto()
    """Elementwise, and onnxruntime gives an element the same bits wherever in the tensor it is.

    For others, such as Exp and Tanh, it has vector instructions, and another formula for the last few elements.
    """
    SAME_SHAPE = auto()
    """The output has the shape of the first input."""
    SAME_DTYPE = auto()
    """The output has the dtype of the first input."""
    COMMUTATIVE = auto()
    """Swapped inputs give the same numbers."""
    COMPARISON = auto()
    """Compares two inputs; the outputs are truth values."""
    MOVES_DATA = auto()
    """Every element of every output is an element of the first input, unchanged."""
    PERMUTES = auto()
    """The output has each element of the first input once."""
    PLACES = auto()
    """Every element of every output is an element of an input in `data`, unchanged, or a constant.

    The attribute `reduction` aside, with which an operator computes. Not repeated for ops that move data.
    """
    SELECTS = auto()
    """Results are numbers that were given or have been rounded to integers, perhaps negated, or constants.

    Nothing is computed that might overflow or round. Not repeated for ops that have data inputs, nor for queries.
    """
    QUERIES = auto()
    """Results are truth values, integers or indices that describe the inputs."""
    READS_SHAPE = auto()
    """The outputs depend on the shape of the input, not on its elements."""
    DATA_DEPENDENT = auto()
    """Extents or indices in the outputs are decided by the elements of the inputs."""
    RANDOM = auto()
    """Draws random numbers for any inputs and attributes."""
    HAS_SUBGRAPHS = auto()
    """Has attributes that are graphs."""
    CAPTURES = auto()
    """Its graphs may read values of the graph around it. The graphs of operators that a function defines may not."""
    EMPTY_SAFE = auto()
    """onnxruntime ran it on empty tensors of all sorts, and the process survived.

    It did not for Attention, ConvTranspose, Einsum, GRU, LSTM, STFT and Unique.
    """
    REDUCTION = auto()
    """Reduces the axes that its second input names (an attribute in older versions), or all."""
    CONVOLUTION = auto()
    """Sums products with a filter of shape (outputs, inputs, *kernel), or (inputs, outputs, *kernel)."""
    NORMALIZATION = auto()
    """Normalizes its first input, then multiplies by a scale and adds a bias, if any: the inputs that follow."""
    HAS_AXIS = auto()
    """The attribute `axis` counts axes of the first input, in some version."""
    BOUNDED = auto()
    """Gives NaN or moderate numbers, even for infinities."""
    KEEPS_FINITE = auto()
    """Gives NaN or moderate numbers for moderate numbers. Not repeated for bounded ones and normalizations."""

    APPROXIMATED = auto()
    """onnxruntime approximates it, or functions in it, with an absolute error, which is large beside tiny results."""
    STEPWISE = auto()
    """Computes in steps, each from the result of the one before, over which rounding accumulates."""
    SMOOTH = auto()
    """Is one formula for all numbers, or chooses between forms of one that are equal."""
    DECIDES = auto()
    """Compares numbers of its inputs: results are others on either side, of which random numbers say nothing."""
    RING = auto()
    """Adds and multiplies elements of the inputs without a role, and does nothing else with them."""
    ROUNDS_ONCE = auto()
    """onnxruntime rounds each operation of the meaning once, or none: only these say what it computes bit by bit."""
    INTEGER_BITS = auto()
    """Of integers and truth values, the meaning is what onnxruntime computes. Not repeated for ROUNDS_ONCE."""
    LINEAR_TIME = auto()
    """Does a few operations, or log(n), for each of n elements that it reads or writes.

    Not repeated for elementwise operators, reductions, normalizations, queries, and those that move data.
    """
    JUMPS = auto()
    """Results may jump where elements of the inputs move by an ulp, unless their types allow no such move."""

    UNARY = ELEMENTWISE | TOTAL | SAME_SHAPE | SAME_DTYPE | EMPTY_SAFE
    BINARY = BROADCASTING | TOTAL | SAME_DTYPE | EMPTY_SAFE | LAYOUT_INVARIANT
    COMPARES = BROADCASTING | TOTAL | EMPTY_SAFE | LAYOUT_INVARIANT | COMPARISON | QUERIES | JUMPS
    MOVES = MOVES_DATA | SAME_DTYPE | KEEPS_FINITE
    REDUCES = REDUCTION | SAME_DTYPE | EMPTY_SAFE


NO_TRAITS = Trait(0)
T = Trait
"""The name of traits in declarations."""
Meaning = Callable[..., Any]
ShapeFunction = Callable[[Op], list[Shape]]
ElementFunction = Callable[[Op], list[Sequence[SymInt | None]]]
AnyMeaning = TypeVar("AnyMeaning", bound=Meaning)
BodyRunner = Callable[[onnx.GraphProto, Sequence[Any]], list[Any]]
CONTEXT = ("node", "version", "output_count", "input_types", "run_body", "own_types")
"""Parameters of meanings that are facts of an `OperatorCall` other than attributes."""


class OperatorCall(Struct, frozen=True):
    """A node of the opset `version` of its domain. `attributes` has the defaults of the schema too.

    Tensors in attributes are arrays, their floats float64. `input_types` are the element types
    (`onnx.TensorProto.DataType`) that the model has for the inputs, whose floats are all float64 here; 0 where unknown.
    `run_body` evaluates a graph in an attribute on its inputs. With `own_types`, floats have the types in the model.
    """

    node: onnx.NodeProto
    version: int
    attributes: Mapping[str, Any]
    input_types: Sequence[int]
    run_body: BodyRunner
    own_types: bool = False

    @property
    def output_count(self) -> int:
        """How many outputs are declared, the omitted ones before the last included."""
        return len(self.node.output)


class Operator(Struct, frozen=True):
    """The facts of an operator.

    Elements of the inputs in `data` appear among those of the outputs nearly unchanged: cast, clipped or beside others.
    `roles` are those of other inputs that do not take all numbers (`core.verify.input_specs`). `meanings` are
    functions, each behind the opset version from which on it holds, the newest first; none for an operator that is not
    evaluated.

    On arrays of their types in the model, the meaning has the bits of onnxruntime's results, NaN aside, for operands of
    one of the kinds `exact` (of floats, float32 and float64), if `is_exact` is not False for the same arguments.
    `elements` gives from them how many elements there are in results that may have more than the inputs.

    `shapes` gives the shapes of the outputs of an op, with symbolic dims, where not `onnx` gives it. It raises
    MatchFailure for unknown ones, or one of INVALID_OPERAND_ERRORS; `symbols` gives so the elements of outputs that are
    few integers or booleans, as expressions of symbols.
    """

    traits: Trait = NO_TRAITS
    data: Container[int] = ()
    roles: Mapping[int, str] = field(default_factory=dict[int, str])
    meanings: Sequence[tuple[int, Meaning]] = ()
    exact: str = ""
    is_exact: Meaning | None = None
    elements: Meaning | None = None
    shapes: ShapeFunction | None = None
    symbols: ElementFunction | None = None

    def meaning(self, version: int) -> Meaning | None:
        """The function that holds at an opset; None if there is none."""
        return next((function for since, function in self.meanings if since <= version), None)

    def run(self, call: OperatorCall, *inputs: Any) -> Any:
        """The outputs of a call. Raises NotImplementedError if its opset has no meaning."""
        function = self.meaning(call.version)
        if function is None:
            raise NotImplementedError(f"without a meaning at opset {call.version}")
        return apply(function, call, *inputs)


def apply(function: Meaning, call: OperatorCall, *inputs: Any) -> Any:
    """The result of a function of the inputs of a call, and of the attributes and facts that the function names.

    An attribute whose place an input took in a later opset is passed as that input.
    """
    positional, named, context = _parameters(function)
    given = {name: getattr(call, name) for name in context}
    if call.attributes:
        names = call.attributes if named is None else (*positional[len(inputs) :], *named)
        given |= {name: call.attributes[name] for name in names if name in call.attributes}
    return function(*inputs, **given)


@cache
def _parameters(function: Meaning) -> tuple[tuple[str, ...], tuple[str, ...] | None, tuple[str, ...]]:
    """The names of the parameters for inputs, for attributes, and for facts of the call; none of NumPy's functions.

    Those for attributes are None for a function that takes all of them.
    """
    code = getattr(function, "__code__", None)
    if code is None:
        return (), (), ()
    names: tuple[str, ...] = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    own = names[code.co_argcount :]
    named = None if code.co_flags & CO_VARKEYWORDS else tuple(n for n in own if n not in CONTEXT)
    return names[: code.co_argcount], named, tuple(n for n in own if n in CONTEXT)


class Family:
    """The operators that a module declares, by name."""

    def __init__(self) -> None:
        self.operators: dict[str, Operator] = {}

    def declare(
        self,
        names: str,
        traits: Trait = NO_TRAITS,
        meaning: Meaning | None = None,
        *,
        data: Container[int] = (),
        roles: Mapping[int, str] = MappingProxyType({}),
        since: int = 1,
        exact: str = "",
    ) -> None:
        """Declare operators with the same facts; the meaning holds from the opset `since` on."""
        meanings = () if meaning is None else ((since, meaning),)
        self.operators.update(dict.fromkeys(names.split(), Operator(traits, data, roles, meanings, exact)))

    def operator(
        self,
        names: str,
        traits: Trait = NO_TRAITS,
        *,
        data: Container[int] = (),
        roles: Mapping[int, str] = MappingProxyType({}),
        since: int = 1,
        exact: str = "",
    ) -> Callable[[AnyMeaning], AnyMeaning]:
        """Declare operators whose meaning is the decorated function."""

        def decorate(function: AnyMeaning) -> AnyMeaning:
            self.declare(names, traits, function, data=data, roles=roles, since=since, exact=exact)
            return function

        return decorate

    def older(self, name: str, since: int = 1) -> Callable[[AnyMeaning], AnyMeaning]:
        """Add the meaning that a declared operator has from the opset `since` on, before those added so far."""
        return self._adding(name, lambda function: {"meanings": (*self.operators[name].meanings, (since, function))})

    def is_exact(self, names: str) -> Callable[[AnyMeaning], AnyMeaning]:
        """Add the condition under which the meaning of declared operators is exact."""
        return self._adding(names, lambda function: {"is_exact": function})

    def elements(self, name: str) -> Callable[[AnyMeaning], AnyMeaning]:
        """Add the number of elements of the result of a declared operator."""
        return self._adding(name, lambda function: {"elements": function})

    def shapes(self, names: str) -> Callable[[ShapeFunction], ShapeFunction]:
        """Add the shape function of declared operators."""
        return self._adding(names, lambda function: {"shapes": function})

    def symbols(self, names: str) -> Callable[[ElementFunction], ElementFunction]:
        """Add the function of symbolic elements of declared operators."""
        return self._adding(names, lambda function: {"symbols": function})

    def _adding(self, names: str, facts: Callable[[Any], Mapping[str, Any]]) -> Callable[[AnyMeaning], AnyMeaning]:
        def decorate(function: AnyMeaning) -> AnyMeaning:
            for name in names.split():
                self.operators[name] = replace(self.operators[name], **facts(function))
            return function

        return decorate
