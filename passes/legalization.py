"""Legalization: ops that a target does not take are replaced by ops that it takes.

Decompositions are rules with one op in their pattern: rules of the target, rules of this package, and one for each
operator that the specification defines as a function (`function_rules`). One op is planned in depth: a
decomposition is built in the graph, its ops that the target lacks are planned in the same way, and all are removed
again. The cheapest chain to ops that the target takes is then applied, each step as a change of its own. Rules of the
target come before rules of this package, and these before functions.

ONNX defines the bodies of functions in versions for opsets and, for some operators, for attributes and types of inputs.
A body is written by the builder, which moves inputs and attributes to the opset of the model.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, cached_property
from math import inf
from typing import Any

import numpy as np
import onnx
from msgspec import Struct, structs
from onnx import helper

from ..core import ChangeLog, Graph, MatchFailure, Op, RewriteBuilder, Rule, Target, Value, require
from ..core.errors import RuleError
from ..core.ir.expressions import as_integers
from ..core.ir.graph import is_counted
from ..core.ir.op import attribute_value
from ..core.ir.op_schemas import ONNX_DOMAIN, latest_opset_version, qualified_op_type, schema, since_versions
from ..core.ir.tensor import SMALL_TENSOR_BYTES, Tensor, first_line
from ..core.processes.onnx_calls import OnnxError, function_body
from ..core.rewriting.driver import RuleIndex, Worklist, apply_rule, is_live, tentative_build
from ..core.rewriting.pattern import ANY_INPUTS, OpPattern
from ..core.rewriting.rules import ROUNDING
from ..core.run.target import TargetFit
from ..core.transform.node_conversion import bare_copy, type_of
from ..core.transform.opset_conversion import Unconvertible, plan_conversion
from ..core.transform.opset_lowering import FIRST_WITH_SOFTMAX_OF_ONE_AXIS, LOWEST, SOFTMAX_LIKE
from .decompositions import DECOMPOSITIONS

MAX_CONVERTED = 64  # elements of a constant
NUMBERS = {"value_float": "float32", "value_floats": "float32", "value_int": "int64", "value_ints": "int64"}
"""The attributes of Constant for numbers, with their NumPy types."""


@cache
def function_rules() -> tuple[Rule, ...]:
    """The rules that replace standard operators by their functions."""
    return tuple(_function_rule(op_type) for op_type in sorted(since_versions(ONNX_DOMAIN)) if _has_function(op_type))


def _function_rule(op_type: str) -> Rule:
    pattern = OpPattern((op_type,), ONNX_DOMAIN, ANY_INPUTS, (), "op")
    equation = f"{op_type} => the function by which the specification defines it"
    return Rule(f"expand_{op_type}", equation, (pattern,), expand, False, ROUNDING, parameters=("op",))


def _has_function(op_type: str) -> bool:
    """Whether an opset defines the operator as a function."""
    version = latest_opset_version(ONNX_DOMAIN)
    while version >= since_versions(ONNX_DOMAIN)[op_type]:
        spec: Any = onnx.defs.get_schema(op_type, version, ONNX_DOMAIN)  # the types of onnx lack its functions
        if spec.function_opset_versions or spec.context_dependent_function_opset_versions:
            return True
        version = spec.since_version - 1
    return False


def expand(g: RewriteBuilder, op: Op) -> tuple[Value | None, ...]:
    """The outputs of an op, computed by the body of its function.

    An attribute that is an input of the function, which came later, is passed as such.
    """
    body = _body_of(op)
    given = {name: v for name, v in zip(body.input, op.inputs, strict=False) if v is not None}
    later = {name: g.const(op.attrs[name]) for name in body.input if name in op.attrs}
    values: dict[str, Value | None] = {"": None, **dict.fromkeys(body.input), **given, **later}
    for node in body.node:
        made = _written(g, op, node, [values[name] for name in node.input])
        values.update(zip(node.output, made, strict=True))
    return tuple(values.get(name) for name in body.output)[: len(op.outputs)]


def _body_of(op: Op) -> onnx.FunctionProto:
    """The function of an op: for the opset of the model, or else for the first one after it."""
    spec = _with_function(op)
    plain: list[int] = list(spec.function_opset_versions)
    if plain:
        return onnx.FunctionProto.FromString(spec.get_function_with_opset_version(_nearest(plain, op.version)))
    node, hidden = bare_copy(op)
    require(not hidden, "it holds a tensor or a subgraph")
    types = [type_of(v) for v in op.inputs]
    require(all(t or v is None for t, v in zip(types, op.inputs, strict=True)), "the types of its inputs are unknown")
    try:
        found = function_body(
            spec, _nearest(list(spec.context_dependent_function_opset_versions), op.version), node, types
        )
    except OnnxError as e:
        raise MatchFailure(f"its function is not known: {first_line(e)}") from e
    require(found, "its function is not defined for these inputs")
    return onnx.FunctionProto.FromString(found)


def _with_function(op: Op) -> Any:
    """The schema of an op, or the first one after it that has a function; an operator may have got one later."""
    known = op.version >= LOWEST and (op.type not in SOFTMAX_LIKE or op.version >= FIRST_WITH_SOFTMAX_OF_ONE_AXIS)
    require(known, f"{op.type} of opset {op.version} means something else than its function")
    found: Any = op.schema
    require(found is not None, "onnx does not know the operator")
    for version in range(op.version, latest_opset_version(op.domain) + 1):
        spec: Any = onnx.defs.get_schema(op.type, version, op.domain)
        if spec.function_opset_versions or spec.context_dependent_function_opset_versions:
            return spec
    raise MatchFailure("no opset defines it as a function")


def _nearest(versions: list[int], version: int) -> int:
    return max((v for v in versions if v <= version), default=min(versions))


def _written(
    g: RewriteBuilder, op: Op, node: onnx.NodeProto, inputs: Sequence[Value | None]
) -> tuple[Value | None, ...]:
    """The values of a node in the body of the function of an op."""
    attributes: dict[str, Any] = {}
    for a in node.attribute:
        require(not a.HasField("g"), f"its function has a body in {node.op_type}")
        value = op.attr(a.ref_attr_name) if a.ref_attr_name else attribute_value(a)
        if value is not None:
            attributes[a.name] = value
    if node.op_type == "Constant":
        ((kind, value),) = attributes.items()
        return (g.const(value.array if isinstance(value, Tensor) else np.asarray(value, NUMBERS.get(kind))),)
    x, like = (*inputs, None, None)[:2]
    if node.op_type in {"Cast", "CastLike"} and x is not None:
        dtype = attributes["to"] if like is None else like.dtype
        return (_cast(g, x, dtype),)
    operator = getattr(g.domain(node.domain), node.op_type)
    return operator(*inputs, outputs=len(node.output), **attributes)


def _cast(g: RewriteBuilder, x: Value, dtype: int) -> Value:
    """A value in another type; a constant is converted at once."""
    if x.known_dtype == dtype:
        return x
    if x.is_const and x.const.size <= MAX_CONVERTED:
        return g.const(x.const.astype(helper.tensor_dtype_to_np_dtype(dtype)))
    return g.Cast(x, to=dtype)


MAX_DEPTH = 8  # of decompositions of what decompositions make
OWN, BUILT_IN, FUNCTION = range(3)  # the sources of decompositions, in the order in which they are taken
Lacks = Callable[[Op], str]
"""Why an op is to be replaced, in words; "" for one that may stay."""


class Chain(Struct, frozen=True):
    """A decomposition of an op into ops that the target takes, at that cost: the number of ops that it leaves.

    `source` is OWN for a rule of the target, then come rules of this package and functions of the specification.
    """

    rule: Rule
    source: int
    cost: float

    def advantage(self, other: Chain) -> str:
        """Why it comes before another."""
        if self.source < other.source:
            return "as it is of the target" if self.source == OWN else "as functions may overflow or round more"
        is_equal = self.cost == other.cost
        return "as it is listed first" if is_equal else f"with {self.cost:g} ops in place of {other.cost:g}"


class Plan(Struct, frozen=True):
    """The decompositions of an op that end on the target, and what others would need.

    They are in the order of their sources, the cheapest of each first. `tried` is by rule; by "" if there is none.
    """

    chains: tuple[Chain, ...] = ()
    tried: Mapping[str, str] = {}

    @property
    def cost(self) -> float:
        """The cost of the first chain; infinite without one."""
        return self.chains[0].cost if self.chains else inf


@dataclass(frozen=True)
class Legalize:
    """Ops that the target does not take are replaced by ops that it takes, as far as decompositions of them do.

    A model of a later opset than the target reads is lowered to that, after ops which that does not have are replaced.
    """

    target: Target
    name: str = "legalize"
    rules: tuple[Rule, ...] = ()

    def __post_init__(self) -> None:
        """Take the decompositions of the target, of this package and of the specification, unless some are given."""
        if not self.rules:
            named = {r.name: r for r in (*self.target.decompositions, *DECOMPOSITIONS, *function_rules())}
            object.__setattr__(self, "rules", tuple(named.values()))

    @cached_property
    def _index(self) -> RuleIndex:
        return RuleIndex(self.rules)

    def run(self, graph: Graph, change_log: ChangeLog) -> int:
        """Replace them until none is left that can be. O(ops)."""
        with _free(graph):  # what a decomposition makes may be decomposed in turn
            made = self._lower_opset(graph, change_log) if 0 < self.target.opset < _opset(graph) else 0
            return made + self._replace(graph, change_log, self.target.obstacle)

    def fit(self, graph: Graph) -> TargetFit:
        """Whether a graph is on the target, with what decompositions of the ops that are not would still need."""
        found = self.target.fit(graph)
        if not found.misfits:
            return found
        with _free(graph):
            planner = _Planner(self, self.target.obstacle)
            lacking = [op for g in graph.with_subgraphs() for op in g.ops() if self.target.obstacle(op)]
            plans = {op: planner.plan(op) for op in lacking if is_live(op)}
            tried = {op: tuple((_left_out(p.chains) or p.tried).values()) for op, p in plans.items()}
        fit = self.target.fit(graph, tried)
        if not 0 < self.target.opset < _opset(graph):
            return fit
        try:
            plan_conversion(graph, self.target.opset)
        except MatchFailure as e:
            first = structs.replace(fit.misfits[0], tried=(f"to lower it is not possible: {e}",))
            return TargetFit(fit.target, [first, *fit.misfits[1:]])
        return fit

    def candidates(self, op: Op) -> Iterator[Rule]:
        """The decompositions that may apply to an op."""
        own = self._index.by_root_type.get(op.type, ())
        yield from (r for r in own if any(p.domain == op.domain for p in r.patterns))

    def _lower_opset(self, graph: Graph, change_log: ChangeLog) -> int:
        """Lower the opset; ops that hinder it are replaced first."""
        version, hindering, made = self.target.opset, dict[Op, str](), 0

        def lacks(op: Op) -> str:
            is_unknown = op.domain == ONNX_DOMAIN and schema(op.type, ONNX_DOMAIN, version) is None
            return f"opset {version} has no {op.type}" if is_unknown else hindering.get(op, "")

        while True:
            made += self._replace(graph, change_log, lacks)
            try:
                plan = plan_conversion(graph, version, same_kernels=change_log.exact_only)
            except Unconvertible as e:
                if e.op in hindering:
                    change_log.note(f"opset {version} is not possible: {e}")
                    return made
                hindering[e.op] = str(e)
                continue
            except MatchFailure as e:
                change_log.note(f"opset {version} is not possible: {e}")
                return made
            if change_log.request_change(self.name, "", tuple(plan.replacements), exact=plan.is_exact):
                plan.apply(graph, self.name)
                made += 1
            return made

    def _replace(self, graph: Graph, change_log: ChangeLog, lacks: Lacks) -> int:
        """Replace the ops that are lacking, as far as decompositions do; returns how many were."""
        planner, made = _Planner(self, lacks), 0
        work = Worklist()
        work.add(op for g in graph.with_subgraphs() for op in g.sorted_ops() if planner.reason(op))
        for op in work:
            if op not in op.graph or not is_live(op):
                continue
            if change_log.stopped:
                break
            plan, place = planner.plan(op), op.outputs[0].name
            declined = {**plan.tried, **_left_out(plan.chains)}
            for i, chain in enumerate(plan.chains):
                if (touched := apply_rule(chain.rule, op, change_log)) is not None:
                    made += 1
                    for c in plan.chains[i + 1 :]:
                        reason = f"{c.rule.name}: {chain.rule.name} was taken, {chain.advantage(c)}"
                        declined[c.rule.name] = reason
                    del declined[chain.rule.name]
                    change_log.declines.get(chain.rule.name, {}).pop(place, None)
                    graph.prune([t for t in touched if t in t.graph])
                    work.add(t for t in touched if t in t.graph and planner.reason(t))
                    break
            for name, reason in declined.items():
                change_log.record_decline(name or self.name, place, reason)
        for error in planner.errors:
            change_log.note(error)
        return made


def _left_out(chains: Sequence[Chain]) -> dict[str, str]:
    """The notes, by rule, on decompositions that were possible and were not applied."""
    return {c.rule.name: f"{c.rule.name} was left out: skipped, wrong or not exact" for c in chains}


@contextmanager
def _free(graph: Graph) -> Generator[None]:
    """Let rules add ops that the target lacks until the context ends."""
    context = graph.context
    outer = context.runs, context.obstacle
    context.runs = context.obstacle = None
    try:
        yield
    finally:
        context.runs, context.obstacle = outer


def _opset(graph: Graph) -> int:
    return graph.opsets.get(ONNX_DOMAIN, 0)


@dataclass
class _Planner:
    """The plans of ops, which those that are alike share."""

    legalize: Legalize
    lacks: Lacks
    _plans: dict[object, Plan] = field(default_factory=dict[object, Plan])
    _pending: list[object] = field(default_factory=list[object])
    errors: dict[str, None] = field(default_factory=dict[str, None])  # of decompositions that raise, in words

    def reason(self, op: Op) -> str:
        """Why an op is to be replaced; "" for one that may stay, or that is computed before the model runs."""
        return "" if not is_counted(op) or is_foldable(op) else self.lacks(op)

    def plan(self, op: Op) -> Plan:
        """The plan of an op that is lacking."""
        facts = _identity(op)  # no output of an op that is being built is used yet
        key = (facts, *(op.graph.is_unused(v) for v in op.outputs))
        if key not in self._plans:
            if facts in self._pending or len(self._pending) >= MAX_DEPTH:
                return Plan(tried={"": "its decompositions lead back to it"})
            self._pending.append(facts)
            try:
                self._plans[key] = self._planned(op)
            finally:
                self._pending.pop()
        return self._plans[key]

    def _planned(self, op: Op) -> Plan:
        chains: list[Chain] = []
        tried: dict[str, str] = {}
        for r in self.legalize.candidates(op):
            try:
                cost, missing = self._cost(r, op)
            except (MatchFailure, RuleError) as e:
                tried[r.name] = f"{r.name}: {e}"
                if isinstance(e, RuleError):
                    self.errors[f"a decomposition was left out: {e}"] = None
                continue
            if missing:
                tried[r.name] = f"{r.name} would need {', '.join(missing)}"
            else:
                is_own = r in self.legalize.target.decompositions
                chains.append(Chain(r, OWN if is_own else FUNCTION if r.build is expand else BUILT_IN, cost))
        chains.sort(key=lambda c: (c.source, c.cost))
        if not chains and not tried:
            tried[""] = "no decomposition of it is known"
        return Plan(tuple(chains), tried)

    def _cost(self, r: Rule, op: Op) -> tuple[float, list[str]]:
        """The cost of a decomposition, and the ops in it that the target lacks. Declines if it does not apply."""
        match = next(iter(r.matches(op)), None)
        if match is None:
            raise MatchFailure("its pattern does not match")
        with tentative_build(r, match) as added:
            cost, missing = 0.0, dict[str, None]()
            for new in added:
                if not (reason := self.reason(new)):
                    cost += not is_foldable(new)
                    continue
                plan = self.plan(new)
                cost += plan.cost
                if not plan.chains:
                    missing[f"{qualified_op_type(new.domain, new.type)} ({reason})"] = None
            return cost, list(missing)


def is_foldable(op: Op) -> bool:
    """Whether the values of an op are known before the model runs: from constants and fixed shapes."""
    return bool(op.outputs) and all(map(_is_foldable_value, op.outputs))


def _is_foldable_value(value: Value, depth: int = 0) -> bool:
    if value.is_const:
        return True
    elements = value.known_elements
    if elements is not None and as_integers(elements) is not None:
        return True
    maker = value.producer
    if maker is None or not maker.inputs or depth > 2 * MAX_DEPTH or maker.subgraphs:
        return False
    return all(v is None or _is_foldable_value(v, depth + 1) for v in maker.inputs)


def _identity(op: Op) -> object:
    """The facts that decide how an op is decomposed."""
    known = [None if v is None else (v.known_dtype, v.known_shape, _content(v)) for v in op.inputs]
    attributes = sorted((name, repr(value)) for name, value in op.attrs.items())
    return op.type, op.domain, op.version, tuple(attributes), tuple(known)


def _content(value: Value) -> object:
    """The elements of a small constant; whether another value is constant."""
    tensor = value.tensor
    if tensor is None or tensor.nbytes > SMALL_TENSOR_BYTES or tensor.is_external:
        return tensor is not None
    return tensor.array.tobytes()
