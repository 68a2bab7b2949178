"""Generators for If, Loop and Scan, with small bodies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import onnx
from onnx import TensorProto, helper

from .generator import OpGenerator, OpSite
from .model_builder import GenerationError, TypedValue

STEPS: Mapping[str, Sequence[str]] = MappingProxyType(
    {"Add": ("v", "v"), "Neg": ("v",), "Identity": ("v",), "Mul": ("v", "v"), "Relu": ("v",)}
)
"""Operators that compute the next state from the one before, `v`, with their inputs."""
TRIPS = (2, 0, 1, 3)


def _named(site: OpSite, name: str) -> str:
    """A name that no other body has."""
    return f"{name} {len(site.generator.builder.nodes)}"


def _step(site: OpSite, state: str, made: str) -> onnx.NodeProto:
    """A node of any of the operators or, with probability 1/2, of those that the rule's code names."""
    own = [op_type for op_type in STEPS if op_type in site.generator.dictionary.operators]
    op_type = site.choices.pick(site.choices.pick((tuple(STEPS), own or tuple(STEPS))))
    return helper.make_node(op_type, [state for _ in STEPS[op_type]], [made])


def _open_type(value: TypedValue, rank: int) -> onnx.TypeProto:
    """The type of a value of that rank in a body, where its extents are unknown, since one may be made symbolic."""
    return helper.make_tensor_type_proto(value.dtype, [None] * rank)


def _state(site: OpSite, index: int) -> TypedValue:
    """The operand at `index`, of the type of the model, which is a number."""
    formal = site.formal_parameter(index).type_str
    if site.existing_operand(index) is None and site.generator.dtype not in {TensorProto.BOOL, TensorProto.STRING}:
        site.bound_types.setdefault(formal, site.generator.dtype)
    made = site.operand(index, site.hint.shape)
    site.bound_types.pop(formal, None)  # each state has its own type
    return made


def _if(site: OpSite) -> None:
    """If, whose branches compute something from a value of the outer graph."""
    site.operand(0, ())
    x = site.generator.builder.input(site.generator.dtype, site.hint.shape)
    for branch in ("then_branch", "else_branch"):
        made = _named(site, branch)
        output = helper.make_value_info(made, _open_type(x, len(x.shape)))
        site.attrs[branch] = helper.make_graph([_step(site, x.name, made)], branch, [], [output])


def _loop(site: OpSite) -> None:
    """Loop of few trips or none over states, with an output for each trip or without one."""
    present = site.operand_order()
    if 0 in present and not site.existing_operand(0):
        site.parameter("M", lambda: site.choices.pick(TRIPS))
    if 1 in present and not site.existing_operand(1):
        site.parameter("cond", lambda: not site.choices.one_in(4))
    states = [_state(site, i) for i in present if i > 1]
    trip, before, after = (_named(site, name) for name in ("trip", "condition", "next condition"))
    inputs = [
        helper.make_tensor_value_info(trip, TensorProto.INT64, []),
        helper.make_tensor_value_info(before, TensorProto.BOOL, []),
    ]
    nodes = [helper.make_node("Identity", [before], [after])]
    outputs = [helper.make_tensor_value_info(after, TensorProto.BOOL, [])]
    if 0 not in present:
        limit, one = (_named(site, name) for name in ("limit", "number of trips"))
        number = helper.make_tensor(one, TensorProto.INT64, [], [site.choices.pick((1, 3))])
        nodes = [
            helper.make_node("Constant", [], [limit], value=number),
            helper.make_node("Less", [trip, limit], [after]),
        ]
    for n, state in enumerate(states):
        held, made = _named(site, f"state {n}"), _named(site, f"next state {n}")
        type_ = _open_type(state, len(state.shape))
        inputs.append(helper.make_value_info(held, type_))
        nodes.append(_step(site, held, made))
        outputs.append(helper.make_value_info(made, type_))
    if site.choices.draw_below(2) or not states:
        seen = _named(site, "seen")
        nodes.append(helper.make_node("Identity", [trip], [seen]))
        outputs.append(helper.make_tensor_value_info(seen, TensorProto.INT64, []))
    site.attrs["body"] = helper.make_graph(nodes, "body", inputs, outputs)
    site.output_count = len(outputs) - 1


def _scan(site: OpSite) -> None:
    """Scan over the first axis of its last operand, with the others as states."""
    count = len(site.input_patterns)
    if site.spec.since_version < SCAN_WITHOUT_BATCH_OPSET or count < 1:
        raise GenerationError("a Scan of opset 8 has a batch")
    *states, scanned = (_state(site, i) for i in range(count))
    if not scanned.shape:
        raise GenerationError("there is no axis to scan")
    inputs, outputs, nodes = list[onnx.ValueInfoProto](), list[onnx.ValueInfoProto](), list[onnx.NodeProto]()
    for n, value in enumerate([*states, scanned]):
        held, made = _named(site, f"in {n}"), _named(site, f"out {n}")
        type_ = _open_type(value, len(value.shape) - (value is scanned))
        inputs.append(helper.make_value_info(held, type_))
        outputs.append(helper.make_value_info(made, type_))
        nodes.append(_step(site, held, made))
        if value.dtype in {TensorProto.BOOL, TensorProto.STRING}:
            raise GenerationError("the state is not a number")
    site.attrs["body"] = helper.make_graph(nodes, "body", inputs, outputs)
    site.attrs["num_scan_inputs"] = 1
    site.pick("scan_input_directions", [0], [1])
    site.pick("scan_output_directions", [0], [1])
    site.output_count = len(outputs)


SCAN_WITHOUT_BATCH_OPSET = 9
OP_GENERATORS: Mapping[str, OpGenerator] = MappingProxyType({"If": _if, "Loop": _loop, "Scan": _scan})
