"""Rewrite rules of onnxscript as a pass: each rewrite asks the ledger, under the name of its rule and at its place."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from typing import Any, cast

import onnx

from ...core import Declined, Graph, Ledger, Op, Tensor
from ...core.errors import FailureKind, ModelError, NoFixpoint, PassFailed, RuleError, format_error
from ...core.io.interchange import is_placeholder, proto_without_weights
from ...core.serialization.exporter import written_initializers
from ...core.support.watchdog import NoProgress
from .tool_pass import plan_merge


@dataclass(frozen=True, slots=True)
class OnnxscriptRule:
    """A RewriteRule, and what it is called here."""

    name: str
    rule: Any = field(compare=False)


@dataclass(frozen=True, slots=True)
class OnnxscriptPass:
    """The rules of a RewriteRuleSet, applied as onnxscript does: once to each node and to what rewrites make, in order.

    Local functions do not go out, so calls of them are opaque.
    """

    name: str
    rules: tuple[OnnxscriptRule, ...]

    def run(self, graph: Graph, ledger: Ledger) -> int:
        """Apply them. Raises RuleError for a rule that raises, PassFailed for a result that cannot be taken."""
        if ledger.stopped or not self.rules:
            return 0
        ir: Any = import_module("onnx_ir")
        rewriter: Any = import_module("onnxscript.rewriter")
        made = ledger.change_count
        sent = proto_without_weights(graph)
        model = self._to_onnx_ir(ir, sent)
        weights = _attach_lazy_weights(ir, model, sent, {v.name: t for v, t in written_initializers(graph)})
        names = {v: v.name for v in (*model.graph.inputs, *model.graph.initializers.values())}
        makers = {v.name: op for op in graph.ops() for v in op.outputs if v.name}
        rewriter.RewriteRuleSet([_with_ledger(r, ledger, makers) for r in self.rules]).apply_to_model(model)
        if ledger.change_count == made:
            return 0
        _restore_names(names)
        _restore_placeholders(model, weights)
        found = plan_merge(self.name, graph, ir.serde.serialize_model(model), None)
        if found.is_no_op:
            return 0
        found.apply(self.name)
        return ledger.change_count - made

    def _to_onnx_ir(self, ir: Any, sent: onnx.ModelProto) -> Any:
        """The model as onnxscript holds it; of what it says to one that it cannot, the innermost is of use."""
        try:
            return ir.serde.deserialize_model(sent)
        except ir.serde.SerdeError as e:
            cause: BaseException = e
            while cause.__cause__ is not None:
                cause = cause.__cause__
            raise PassFailed(
                self.name, FailureKind.RAISED, f"{self.name}: onnx_ir cannot hold it: {format_error(cause)}"
            ) from e


def _attach_lazy_weights(
    ir: Any, model: Any, sent: onnx.ModelProto, tensors: dict[str, Tensor]
) -> dict[str, tuple[Any, Any]]:
    """Let large initializers be read by those who ask for them; what stood for each, and what does now, by name."""
    lent: dict[str, tuple[Any, Any]] = {}
    for name in (t.name for t in sent.graph.initializer if is_placeholder(t)):
        value, tensor = model.graph.initializers[name], tensors[name]
        read = partial(_read_tensor, ir, tensor, name)
        lazy = ir.LazyTensor(read, dtype=ir.DataType(tensor.dtype), shape=ir.Shape(tensor.dims), name=name)
        lent[name] = (value.const_value, lazy)
        value.const_value = lazy
    return lent


def _read_tensor(ir: Any, tensor: Tensor, name: str) -> Any:
    return ir.serde.deserialize_tensor(tensor.to_proto(name))


def _restore_names(names: dict[Any, str]) -> None:
    """An input or initializer that came to stand for another value was given the name of that."""
    for value, name in names.items():
        if value.name != name:
            value.name = name


def _restore_placeholders(model: Any, attached: dict[str, tuple[Any, Any]]) -> None:
    """Let what nobody replaced be written as what stood for it."""
    for name, value in model.graph.initializers.items():
        placeholder, lazy = attached.get(name, (None, None))
        if lazy is not None and value.const_value is lazy:
            value.const_value = placeholder


def _with_ledger(r: OnnxscriptRule, ledger: Ledger, makers: dict[str, Op]) -> Any:
    """The rule, made to ask the ledger before each rewrite."""
    asking = copy(r.rule)
    asking.try_rewrite = partial(_try_rewrite, r, ledger, makers)
    return asking


def _try_rewrite(
    r: OnnxscriptRule, ledger: Ledger, makers: dict[str, Op], model: Any, graph: Any, node: Any, **options: Any
) -> Any:
    place = next((v.name for v in node.outputs if v.name), "")
    if not ledger.may_change(r.name, place, exact=False):
        return None
    try:
        delta = r.rule.try_rewrite(model, graph, node, **options)
    except (ModelError, NoFixpoint, KeyboardInterrupt, NoProgress):
        raise
    except Declined:
        return None
    except BaseException as e:
        raise RuleError(f"rule {r.name} failed at {node.op_type} {place}: {format_error(e)}", r.name, place) from e
    if delta is None or _merges_named_values(delta):
        return None
    replaced = {makers[v.name]: None for n in delta.match.nodes for v in n.outputs if v.name in makers}
    return delta if ledger.request_change(r.name, place, replaced, exact=False) else None


def _merges_named_values(delta: Any) -> bool:
    """Whether an output of the graph would be a value that has a name to keep, as an input or as another output."""
    pairs = zip(delta.match.outputs, delta.new_outputs, strict=True)
    return any(o.is_graph_output() and (v.producer() is None or v.is_graph_output()) for o, v in pairs)


def collect_rules(thing: object) -> tuple[OnnxscriptRule, ...]:
    """The rules of a RewriteRuleSet, of a list of rules or of a single one. Raises TypeError for anything else."""
    found: list[OnnxscriptRule] = []
    for rule in _flatten_rules(thing):
        if rule.as_function:
            raise TypeError(f"rule {rule} makes local functions (as_function), which have no place in a graph")
        found.append(OnnxscriptRule(rule.name or f"rule-{len(found)}", rule))
    if not found:
        raise TypeError("it has no rules")
    return tuple(found)


def _flatten_rules(thing: Any) -> Iterator[Any]:
    rewriter: Any = import_module("onnxscript.rewriter")
    if isinstance(thing, rewriter.RewriteRule):
        yield thing
    elif isinstance(thing, rewriter.RewriteRuleSet):
        yield from thing.rules
    elif isinstance(thing, rewriter.RewriteRuleClassBase):
        yield _rule_from_instance(rewriter.RewriteRule, thing)
    elif isinstance(thing, type) and issubclass(thing, rewriter.RewriteRuleClassBase):
        yield thing.rule()
    elif isinstance(thing, list | tuple):
        for part in cast("Sequence[object]", thing):
            yield from _flatten_rules(part)
    else:
        raise TypeError(f"a {type(thing).__name__} is no rule of onnxscript")


def _rule_from_instance(make: Callable[..., Any], rule: Any) -> Any:
    """What `rule()` of its class makes of a new instance, of this one."""
    return make(
        rule.pattern,
        rule.rewrite,
        rule.check,
        name=rule.name,
        remove_nodes=rule.remove_nodes,
        graph_pre_visitor=rule.setup,
        graph_post_visitor=rule.cleanup,
        as_function=rule.as_function,
    )


def default_rules() -> object:
    """The rules that onnxscript applies where none are named."""
    return list(import_module("onnxscript.rewriter")._DEFAULT_REWRITE_RULES)  # noqa: SLF001 - it has no public name
