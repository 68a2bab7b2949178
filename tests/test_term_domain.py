"""Kernels of operators on terms of z3: the same numbers as in float64, and loud failures outside NumPy's protocols."""

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from typing import Any

import numpy as np
import onnx
import pytest
from msgspec.structs import replace
from node_cases import BackendCase, backend_cases
from passwright.core.operators.object_array import NotSupported, ObjectArray
from passwright.core.proof.obligation import Fragment, NotApplicable
from passwright.core.proof.smt_evaluation import TermEvaluation, TermTensor
from passwright.core.proof.smt_functions import Functions
from passwright.core.proof.smt_terms import FLOAT_SORTS, Arithmetic, Element, z3
from passwright.core.proof.term_domain import TermDomain
from passwright.core.verify.reference.float64_evaluation import evaluate_in_float64
from rewriting import cases

MAX_SIZE = 150  # elements of the inputs of a case
CASES_PER_OPERATOR = 2
NAMES_ONLY = ("DFT", "STFT")  # functions of all elements, of which nothing but the name is known
LEAST_OPERATORS = 130
FORMULAS = frozenset({
    "AveragePool", "Conv", "ConvTranspose", "CumProd", "CumSum", "Gelu", "GlobalAveragePool",
    "GroupNormalization", "InstanceNormalization", "LayerNormalization", "LogSoftmax", "LpNormalization", "LpPool",
    "MaxPool", "RMSNormalization", "ReduceLogSum", "ReduceLogSumExp", "ReduceMean", "Selu", "Softmax",
})  # fmt: skip
"""Operators that are unknown functions unless they are computed by their formula, and a mean over all axes."""
REALS = Arithmetic(over_reals=True)
TERMS = TermDomain(REALS, Functions(), REALS.kind(onnx.TensorProto.DOUBLE))
FUNCTIONS: Mapping[str, Callable[..., float]] = {
    "arccos": math.acos, "arccosh": math.acosh, "arcsin": math.asin, "arcsinh": math.asinh, "arctan": math.atan,
    "arctanh": math.atanh, "cos": math.cos, "cosh": math.cosh, "erf": math.erf, "exp": math.exp, "log": math.log,
    "power": math.pow, "sigmoid": lambda x: 1 / (1 + math.exp(-x)), "sin": math.sin, "sinh": math.sinh,
    "softplus": lambda x: math.log1p(math.exp(x)), "sqrt": math.sqrt, "tan": math.tan, "tanh": math.tanh,
}  # fmt: skip
OPERATIONS: Mapping[int, Callable[..., Any]] = {
    z3.Z3_OP_ADD: lambda *x: sum(x), z3.Z3_OP_SUB: lambda a, b: a - b, z3.Z3_OP_MUL: lambda *x: math.prod(x),
    z3.Z3_OP_DIV: lambda a, b: a / b if b else math.nan, z3.Z3_OP_UMINUS: lambda x: -x,
    z3.Z3_OP_LE: lambda a, b: a <= b, z3.Z3_OP_LT: lambda a, b: a < b, z3.Z3_OP_GE: lambda a, b: a >= b,
    z3.Z3_OP_GT: lambda a, b: a > b, z3.Z3_OP_EQ: lambda a, b: a == b, z3.Z3_OP_AND: lambda *x: all(x),
    z3.Z3_OP_OR: lambda *x: any(x), z3.Z3_OP_NOT: lambda x: not x, z3.Z3_OP_XOR: lambda a, b: a != b,
    z3.Z3_OP_ITE: lambda test, a, b: a if test else b, z3.Z3_OP_TO_REAL: float, z3.Z3_OP_TO_INT: math.floor,
    z3.Z3_OP_MOD: lambda a, b: a % b, z3.Z3_OP_BADD: lambda *x: sum(x), z3.Z3_OP_BMUL: lambda *x: math.prod(x),
    z3.Z3_OP_BSUB: lambda a, b: a - b, z3.Z3_OP_BV2INT: lambda x: x, z3.Z3_OP_INT2BV: lambda x: x,
    z3.Z3_OP_SIGN_EXT: lambda x: x, z3.Z3_OP_ZERO_EXT: lambda x: x,
}  # fmt: skip


class Unknown(Exception):
    """Raised for a term that has no number here, such as a function of which only the name is known."""


def number(term: Any, known: dict[int, Any]) -> Any:
    """The number of a term without variables, in float64; `known` has numbers of terms by id."""
    queue = [] if term.get_id() in known else [term]
    while queue:
        missing = [c for c in queue[-1].children() if c.get_id() not in known]
        queue += missing
        if not missing:
            t = queue.pop()
            known[t.get_id()] = applied(t, [known[c.get_id()] for c in t.children()])
    return known[term.get_id()]


def applied(term: Any, values: list[Any]) -> Any:
    """The number of a term whose operands have these numbers."""
    if z3.is_rational_value(term):
        return float(term.as_fraction())
    if z3.is_int_value(term) or z3.is_bv_value(term):
        return term.as_long() if z3.is_int_value(term) else term.as_signed_long()
    if z3.is_true(term) or z3.is_false(term):
        return z3.is_true(term)
    if term.decl().kind() != z3.Z3_OP_UNINTERPRETED:
        if term.decl().kind() not in OPERATIONS:
            raise Unknown(term.decl().name())
        return OPERATIONS[term.decl().kind()](*values)
    name, argument, *_ = term.decl().name().split(" ")
    if name not in FUNCTIONS:
        raise Unknown(name)
    exponent = [float(Fraction(argument))] if name == "power" and argument != "Real" else []
    try:
        return FUNCTIONS[name](*values, *exponent)
    except (ValueError, OverflowError):
        return math.nan


def small_cases() -> Iterator[BackendCase]:
    """The smallest cases of each operator whose inputs are numbers."""
    found: dict[tuple[str, str], list[tuple[int, str]]] = defaultdict(list)
    for case in backend_cases().values():
        feeds = case.feeds.values()
        are_numbers = all(isinstance(v, np.ndarray | np.generic) and v.dtype.kind in "biuf" for v in feeds)
        if are_numbers and len(case.model.graph.node) == 1 and (size := sum(v.size for v in feeds)) <= MAX_SIZE:
            node = case.model.graph.node[0]
            found[node.domain, node.op_type].append((size, case.name))
    for name in NAMES_ONLY:
        del found["", name]
    yield from (backend_cases()[name] for sized in found.values() for _, name in sorted(sized)[:CASES_PER_OPERATOR])


def terms_of(case: BackendCase) -> Mapping[str, TermTensor] | None:
    """The outputs over the reals, of which the floats are terms without numbers beside; None where there are none."""
    evaluation = TermEvaluation(REALS, by_formula=True)
    try:
        feeds = {n: evaluation.constant(np.asarray(v)) for n, v in case.feeds.items()}
        given = {n: replace(t, known=None) if t.dtype in FLOAT_SORTS else t for n, t in feeds.items()}
        found = evaluation.run(Fragment(case.model), given)
    except NotApplicable:
        return None
    return {n: v for n, v in found.items() if isinstance(v, TermTensor)}


def difference(case: BackendCase) -> str | None:
    """The difference between terms and float64 numbers; None where only the name of the function is known."""
    found = terms_of(case)
    if not found:
        return None
    known: dict[int, Any] = {}
    try:
        numbers = {n: [number(e.term, known) for e in v.elements.reshape(-1)] for n, v in found.items()}
    except Unknown:
        return None
    wanted = evaluate_in_float64(case.model, case.feeds, list(found))
    for name, value in found.items():
        want = wanted[name].value
        if value.elements.shape != want.shape:
            return f"{name}: {value.elements.shape} in place of {want.shape}"
        got = np.array(numbers[name], np.float64 if want.dtype.kind == "f" else object).reshape(want.shape)
        if want.dtype.kind in "iu":
            unsigned = np.asarray(got % 2 ** (8 * want.dtype.itemsize)).astype(f"u{want.dtype.itemsize}")
            got = unsigned.view(want.dtype)
        is_real = np.isfinite(want.astype(np.float64))
        if not np.allclose(got[is_real].astype(np.float64), want[is_real].astype(np.float64), 1e-5, 1e-6):
            return f"{name}: {got.ravel()[:4]} in place of {want.ravel()[:4]}"
    return ""


def test_kernels_on_terms_agree_with_float64() -> None:
    found = {case.name: (case.model.graph.node[0].op_type, difference(case)) for case in small_cases()}
    assert {name: text for name, (_, text) in found.items() if text} == {}
    assert len({op for op, text in found.values() if text == ""}) >= LEAST_OPERATORS
    assert {op for op, text in found.values() if text == ""} >= FORMULAS


def variable(*shape: int) -> Any:
    evaluation = TermEvaluation(REALS, TERMS.functions)
    return ObjectArray(evaluation.variable("x", onnx.TensorProto.FLOAT, shape).elements, np.float64, TERMS)


@cases(
    "leave",
    {
        "array": np.asarray,
        "number": lambda x: float(x[0]),
        "decision": lambda x: bool(x[0] > 0),
        "index": lambda x: np.arange(3)[x],
        "unknown-function": np.sort,
        "unknown-ufunc": lambda x: np.gcd(x, x),
        "array-of-numbers": lambda x: np.add(x, 1, out=np.zeros(2)),
    },
)
def test_a_kernel_that_leaves_the_protocols_fails(leave: Callable[[Any], Any]) -> None:
    with pytest.raises(NotSupported):
        leave(variable(2))


@cases(
    "compute",
    {
        "neutral-infinity": lambda x: np.maximum(x, -np.inf),
        "neutral-start": lambda x: np.max(x, initial=-np.inf),
        "known-choice": lambda x: np.where(np.array([True]), x, 1.0),
        "decided-choice": lambda x: np.where((x > 0) | np.array([True]), x, 1.0),
        "pad": lambda x: np.pad(x, (1, 0))[1],
        "same-type": lambda x: x.astype(np.float64),
    },
)
def test_known_parts_are_computed(compute: Callable[[Any], Any]) -> None:
    found = compute(variable(1))
    (cell,) = found.cells.reshape(-1)
    assert isinstance(cell, Element)
    assert str(cell.term) == "x#0"


def test_an_infinity_is_no_real_number() -> None:
    with pytest.raises(NotSupported):
        variable(1) + np.inf
