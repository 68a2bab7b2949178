"""Rewrite rules of onnxscript as a pass, which records each rewrite under the name of its rule."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from typing import Any, cast

import onnx

from ...core import EXACT, ROUNDING, ChangeLog, Contract, Graph, MatchFailure, Op, Tensor
from ...core.errors import FailureKind, ModelError, NoFixpoint, PassFailed, RuleError, format_error
from ...core.io.foreign_models import is_placeholder, plan_merge, proto_without_weights
from ...core.serialization.exporter import written_initializers


@dataclass(frozen=True, slots=True)
class OnnxscriptRule:
    """A RewriteRule, its name in our reports, and the contract set by its author: `RULE.contract = EXACT`."""

    name: str
    rule: Any = field(compare=False)
    contract: Contract = ROUNDING


@dataclass(frozen=True, slots=True)
class OnnxscriptPass:
    """The rules of a RewriteRuleSet, applied like onnxscript does: once to each node and to new nodes, in order.

    Local functions are not passed to it, so calls of them are opaque.
    """

    name: str
    rules: tuple[OnnxscriptRule, ...]

    def run(self, graph: Graph, change_log: ChangeLog) -> int:
        """Apply the rules. Raises RuleError for a rule that raises, PassFailed for a result that cannot be merged."""
        if change_log.stopped or not self.rules:
            return 0
        ir: Any = import_module("onnx_ir")
        rewriter: Any = import_module("onnxscript.rewriter")
        made = change_log.change_count
        sent = proto_without_weights(graph)
        try:
            model = ir.serde.deserialize_model(sent)
        except ir.serde.SerdeError as e:
            cause: BaseException = e
            while cause.__cause__ is not None:
                cause = cause.__cause__
            message = f"{self.name}: onnx_ir cannot hold it: {format_error(cause)}"
            raise PassFailed(self.name, FailureKind.RAISED, message) from e
        weights = _attach_lazy_weights(ir, model, sent, {v.name: t for v, t in written_initializers(graph)})
        names = {v: v.name for v in (*model.graph.inputs, *model.graph.initializers.values())}
        makers = {v.name: op for op in graph.ops() for v in op.outputs if v.name}
        rewriter.RewriteRuleSet([_with_ledger(r, change_log, makers) for r in self.rules]).apply_to_model(model)
        if change_log.change_count == made:
            return 0
        for value, name in names.items():  # a rewrite may give an input the name of the value that it replaces
            if value.name != name:
                value.name = name
        for name, value in model.graph.initializers.items():
            placeholder, lazy = weights.get(name, (None, None))
            if lazy is not None and value.const_value is lazy:
                value.const_value = placeholder
        found = plan_merge(self.name, graph, ir.serde.serialize_model(model), None)
        if found.is_no_op:
            return 0
        found.apply(self.name)
        return change_log.change_count - made


def _attach_lazy_weights(
    ir: Any, model: Any, sent: onnx.ModelProto, tensors: dict[str, Tensor]
) -> dict[str, tuple[Any, Any]]:
    """Replace the placeholders of large initializers by lazy tensors; both are by name."""
    attached: dict[str, tuple[Any, Any]] = {}
    for name in (t.name for t in sent.graph.initializer if is_placeholder(t)):
        value, tensor = model.graph.initializers[name], tensors[name]
        read = partial(lambda tensor, name: ir.serde.deserialize_tensor(tensor.to_proto(name)), tensor, name)
        lazy = ir.LazyTensor(read, dtype=ir.DataType(tensor.dtype), shape=ir.Shape(tensor.dims), name=name)
        attached[name] = (value.const_value, lazy)
        value.const_value = lazy
    return attached


def _with_ledger(r: OnnxscriptRule, change_log: ChangeLog, makers: dict[str, Op]) -> Any:
    """The rule with rewrites that first ask the change log."""
    rule = copy(r.rule)
    rule.try_rewrite = partial(_try_rewrite, r, change_log, makers)
    return rule


def _try_rewrite(
    r: OnnxscriptRule, change_log: ChangeLog, makers: dict[str, Op], model: Any, graph: Any, node: Any, **options: Any
) -> Any:
    place = next((v.name for v in node.outputs if v.name), "")
    exact = r.contract == EXACT
    if not change_log.may_change(r.name, place, exact=exact):
        return None
    try:
        delta = r.rule.try_rewrite(model, graph, node, **options)
    except (ModelError, NoFixpoint, KeyboardInterrupt):
        raise
    except MatchFailure:
        return None
    except BaseException as e:
        raise RuleError(f"rule {r.name} failed at {node.op_type} {place}: {format_error(e)}", r.name, place) from e
    if delta is None:
        return None
    for old, new in zip(delta.match.outputs, delta.new_outputs, strict=True):
        if old.is_graph_output() and (new.producer() is None or new.is_graph_output()):
            return None  # an output of the graph would become an input or another output, which must keep their names
    replaced = {makers[v.name]: None for n in delta.match.nodes for v in n.outputs if v.name in makers}
    return delta if change_log.request_change(r.name, place, replaced, exact=exact) else None


def collect_rules(thing: object) -> tuple[OnnxscriptRule, ...]:
    """The rules of a RewriteRuleSet, a list of rules, or a single rule. Raises TypeError for other objects."""
    found: list[OnnxscriptRule] = []
    for rule in _flatten_rules(thing):
        if rule.as_function:
            raise TypeError(f"rule {rule} makes local functions (as_function), which cannot be in a graph")
        name, contract = rule.name or f"rule-{len(found)}", getattr(rule, "contract", ROUNDING)
        if contract not in {EXACT, ROUNDING}:
            raise TypeError(f"the contract of {name} must be EXACT or ROUNDING of passwright.core, not {contract!r}")
        found.append(OnnxscriptRule(name, rule, contract))
    if not found:
        raise TypeError("it has no rules")
    return tuple(found)


def _flatten_rules(thing: Any) -> Iterator[Any]:
    rewriter: Any = import_module("onnxscript.rewriter")
    if isinstance(thing, rewriter.RewriteRule):
        yield thing
    elif isinstance(thing, rewriter.RewriteRuleSet):
        yield from thing.rules
    elif isinstance(thing, rewriter.RewriteRuleClassBase):  # like `rule()` of a new instance of the class
        functions = {"graph_pre_visitor": thing.setup, "graph_post_visitor": thing.cleanup}
        settings = {name: getattr(thing, name) for name in ("name", "remove_nodes", "as_function")}
        made: Any = rewriter.RewriteRule(thing.pattern, thing.rewrite, thing.check, **settings, **functions)
        made.contract = getattr(thing, "contract", ROUNDING)
        yield made
    elif isinstance(thing, type) and issubclass(thing, rewriter.RewriteRuleClassBase):
        yield from _flatten_rules(cast("Any", thing)())
    elif isinstance(thing, list | tuple):
        for part in cast("Sequence[object]", thing):
            yield from _flatten_rules(part)
    else:
        raise TypeError(f"an object of type {type(thing).__name__} is not a rule of onnxscript")


def default_rules() -> object:
    """The rules that onnxscript applies by default."""
    return list(import_module("onnxscript.rewriter")._DEFAULT_REWRITE_RULES)  # noqa: SLF001 - it has no public name
