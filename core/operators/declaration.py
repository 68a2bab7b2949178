"""Declarations of operators: their traits, the roles of their inputs, and their meaning as functions of arrays.

A meaning takes the inputs (None for omitted ones), and the attributes as keywords, with the defaults of the schema.
It is written in NumPy, and works on float64 and any array type of NumPy's protocols. A tuple means several outputs.
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
"""The kinds of all array types whose elements are moved unchanged."""
ALL_INPUTS = range(VARIADIC + 1)
LOOP_CONDITION = -1  # the "input" of a Loop for the condition that its body computes


class Trait(Flag):
    """A property of an operator in all its versions. "Output" means the first one, "dtype" its element type."""

    ELEMENTWISE = auto()
    """Each element is computed alike from the first input's element at its position; other inputs are one number."""
    BROADCASTING = auto()
    """Each element is computed in the same way from one element of each input, after multidirectional broadcasting."""
    TOTAL = auto()
    """Never fails because of the numbers in its inputs, if their types are allowed and their shapes broadcast."""
    LAYOUT_INVARIANT = auto()
    """Elementwise, and onnxruntime computes the same bits for an element wherever it is in the tensor.

    For others, such as Exp and Tanh, it uses vector instructions, and a different formula for the last few elements.
    """
    SAME_SHAPE = auto()
    """The output has the shape of the first input."""
    SAME_DTYPE = auto()
    """The output has the dtype of the first input."""
    COMMUTATIVE = auto()
    """Swapping the inputs does not change the result."""
    COMPARISON = auto()
    """Compares two inputs; the outputs are truth values."""
    MOVES_DATA = auto()
    """Every element of every output is an element of the first input, unchanged."""
    PERMUTES = auto()
    """The output has each element of the first input once."""
    PLACES = auto()
    """Every element of every output is an unchanged element of an input in `data`, or a constant.

    This ignores the attribute `reduction`, with which an operator computes. Not repeated for ops that move data.
    """
    SELECTS = auto()
    """Results are given numbers, possibly negated or rounded to integers, or constants.

    Nothing is computed that might overflow or round. Not repeated for ops that have data inputs, nor for queries.
    """
    QUERIES = auto()
    """Results are truth values, integers or indices that describe the inputs."""
    READS_SHAPE = auto()
    """The outputs depend on the shape of the input, or how many elements a sequence or optional has, not on these."""
    DATA_DEPENDENT = auto()
    """Extents or indices in the outputs depend on the elements of the inputs."""
    RANDOM = auto()
    """Returns random numbers for any inputs and attributes."""
    HAS_SUBGRAPHS = auto()
    """Has attributes that are graphs."""
    CAPTURES = auto()
    """Its graphs may capture values of the enclosing graph. The graphs of operators that a function defines may not."""
    EMPTY_SAFE = auto()
    """onnxruntime was tested with empty tensors of all kinds, and the process survived.

    It did not for Attention, ConvTranspose, Einsum, GRU, LSTM, STFT and Unique.
    """
    REDUCTION = auto()
    """Reduces the axes in its second input (an attribute in older versions), or all axes."""
    CONVOLUTION = auto()
    """Sums products with a filter of shape (outputs, inputs, *kernel), or (inputs, outputs, *kernel)."""
    NORMALIZATION = auto()
    """Normalizes its first input, then multiplies by a scale and adds a bias, which are the next inputs, if present."""
    HAS_AXIS = auto()
    """The attribute `axis` is an axis of the first input, in some version."""
    BOUNDED = auto()
    """Results are NaN or moderate numbers, even for infinities."""
    KEEPS_FINITE = auto()
    """Results are NaN or moderate for moderate inputs. Not repeated for bounded operators and normalizations."""

    APPROXIMATED = auto()
    """onnxruntime approximates it, or functions in it, with an absolute error, which is large beside tiny results."""
    STEPWISE = auto()
    """Computes in steps that depend on each other, over which rounding errors accumulate."""
    SMOOTH = auto()
    """Is a single formula for all numbers, or chooses between equivalent forms."""
    DECIDES = auto()
    """Compares numbers of its inputs; random numbers do not test the differing results on both sides."""
    RING = auto()
    """Only adds and multiplies elements of the inputs without a role."""
    ROUNDS_ONCE = auto()
    """onnxruntime rounds each operation of the meaning once, or not at all; only these meanings are bit-exact."""
    INTEGER_BITS = auto()
    """For integers and booleans, the meaning is what onnxruntime computes. Not repeated for ROUNDS_ONCE."""
    LINEAR_TIME = auto()
    """Takes a few operations, or log(n), for each of the n elements that it reads or writes.

    Not repeated for elementwise operators, reductions, normalizations, queries, and those that move data.
    """
    JUMPS = auto()
    """Results may be discontinuous when elements of the inputs change by an ulp, if their types allow such a change."""

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
    """A node at opset `version` of its domain. `attributes` includes the defaults of the schema.

    Tensors in attributes are arrays, with floats as float64. `input_types` are the element types
    (`onnx.TensorProto.DataType`) of the inputs in the model, because floats are always float64 here; 0 if unknown.
    `run_body` evaluates a graph in an attribute on its inputs. With `own_types`, floats have their types in the model.
    """

    node: onnx.NodeProto
    version: int
    attributes: Mapping[str, Any]
    input_types: Sequence[int]
    run_body: BodyRunner
    own_types: bool = False

    @property
    def output_count(self) -> int:
        """The number of declared outputs, including omitted ones before the last."""
        return len(self.node.output)


class Operator(Struct, frozen=True):
    """The facts of an operator.

    Attributes:
        data: the inputs whose elements are in the outputs almost unchanged: cast, clipped or joined.
        roles: the roles of other inputs that do not accept all numbers (`core.verify.input_specs`).
        meanings: functions with the opset version since which they apply, newest first; empty for an operator that is
            not evaluated.
        exact: the kinds of operands (for floats, float32 and float64) for which the meaning, on arrays with their types
            in the model, computes the bits of onnxruntime's results, except NaN, unless `is_exact` is False for the
            same arguments.
        elements: computes the number of elements from the same arguments, for results that may be larger than the
            inputs.
        shapes: computes the shapes of an op's outputs, with symbolic dims, if onnx does not. It raises MatchFailure for
            unknown ones, or one of INVALID_OPERAND_ERRORS.
        symbols: computes in the same way the elements of outputs that are few integers or booleans, as symbolic
            expressions.
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
        """The function for an opset; None if there is none."""
        return next((function for since, function in self.meanings if since <= version), None)

    def run(self, call: OperatorCall, *inputs: Any) -> Any:
        """Compute the outputs of a call. Raises NotImplementedError if its opset has no meaning."""
        function = self.meaning(call.version)
        if function is None:
            raise NotImplementedError(f"without a meaning at opset {call.version}")
        return apply(function, call, *inputs)


def apply(function: Meaning, call: OperatorCall, *inputs: Any) -> Any:
    """Call a function with the inputs of a call, and with the attributes and facts that are its parameters.

    An attribute that became an input in a later opset is passed as that input.
    """
    positional, named, context = _parameters(function)
    given = {name: getattr(call, name) for name in context}
    if call.attributes:
        names = call.attributes if named is None else (*positional[len(inputs) :], *named)
        given |= {name: call.attributes[name] for name in names if name in call.attributes}
    return function(*inputs, **given)


@cache
def _parameters(function: Meaning) -> tuple[tuple[str, ...], tuple[str, ...] | None, tuple[str, ...]]:
    """The names of the parameters for inputs, attributes, and facts of the call; empty for NumPy's functions.

    The names of attributes are None for a function that takes all attributes.
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
        """Declare operators with the same facts; the meaning applies since opset `since`."""
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
        """Add the meaning of a declared operator since opset `since`, which precedes those added so far."""
        return self._adding(name, lambda function: {"meanings": (*self.operators[name].meanings, (since, function))})

    def is_exact(self, names: str) -> Callable[[AnyMeaning], AnyMeaning]:
        """Add the condition for which the meaning of declared operators is exact."""
        return self._adding(names, lambda function: {"is_exact": function})

    def elements(self, name: str) -> Callable[[AnyMeaning], AnyMeaning]:
        """Add the number of elements in the result of a declared operator."""
        return self._adding(name, lambda function: {"elements": function})

    def shapes(self, names: str) -> Callable[[ShapeFunction], ShapeFunction]:
        """Add the shape function of declared operators."""
        return self._adding(names, lambda function: {"shapes": function})

    def symbols(self, names: str) -> Callable[[ElementFunction], ElementFunction]:
        """Add the function for symbolic elements of declared operators."""
        return self._adding(names, lambda function: {"symbols": function})

    def _adding(self, names: str, facts: Callable[[Any], Mapping[str, Any]]) -> Callable[[AnyMeaning], AnyMeaning]:
        def decorate(function: AnyMeaning) -> AnyMeaning:
            for name in names.split():
                self.operators[name] = replace(self.operators[name], **facts(function))
            return function

        return decorate
