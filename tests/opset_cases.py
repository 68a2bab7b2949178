"""Node cases of the ONNX backend suite at older opsets, before and after conversion."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import onnx
from node_cases import RANDOM, BackendCase, model_outputs
from onnx import defs, helper
from passwright.core import from_onnx, to_onnx
from passwright.core.errors import Declined
from passwright.core.ir import op_schemas
from passwright.core.ort.kernels import highest_opset_of_onnxruntime, runs_on_cpu
from passwright.core.transform.opset_conversion import plan_conversion
from passwright.core.verify.output_comparison import compare_outputs

VARIADIC = defs.OpSchema.FormalParameterOption.Variadic


@cache
def versions_of(op_type: str) -> list[int]:
    """The opsets with which the versions of a standard operator came."""
    return sorted(s.since_version for s in defs.get_all_schemas_with_history() if not s.domain and s.name == op_type)


def opset_of(model: onnx.ModelProto) -> int:
    """The standard opset of a model; 0 if it imports none."""
    return next((e.version for e in model.opset_import if not e.domain), 0)


def at_opset(model: onnx.ModelProto, version: int) -> onnx.ModelProto:
    """A model with another opset import, and the IR version of that opset; its nodes are the same."""
    found = onnx.ModelProto()
    found.CopyFrom(model)
    standard = next(e for e in found.opset_import if not e.domain)
    standard.version = version
    found.ir_version = max(8, helper.find_min_ir_version_for([standard], ignore_unknown=True))
    return found


def at_older_opsets(case: BackendCase) -> Iterator[BackendCase]:
    """A case of one node with each older version of its operator, which may compute something else.

    Inputs that were attributes become these, and attributes, inputs and outputs that did not exist are left out.
    """
    model = case.model
    node = model.graph.node[0] if len(model.graph.node) == 1 else onnx.NodeProto()
    if not node.op_type or node.domain or model.functions:
        return
    new = defs.get_schema(node.op_type, opset_of(model), "")
    for version in versions_of(node.op_type):
        if version < new.since_version:
            old = defs.get_schema(node.op_type, version, "")
            yield _with_node(case, _older_node(case, node, new, old), version)


def _older_node(case: BackendCase, node: onnx.NodeProto, new: defs.OpSchema, old: defs.OpSchema) -> onnx.NodeProto:
    found = onnx.NodeProto(op_type=node.op_type, name="the node", doc_string="its documentation")
    names = [f.name for f in new.inputs]
    given = dict(zip(names, node.input, strict=False))
    if any(f.option == VARIADIC for f in new.inputs) or len(old.inputs) == len(new.inputs):
        found.input.extend(node.input)  # some were only renamed
    else:
        found.input.extend(given.get(f.name, "") for f in old.inputs)
    while found.input and not found.input[-1]:
        found.input.pop()
    is_variadic = any(f.option == VARIADIC for f in old.outputs)
    found.output.extend(node.output if is_variadic else node.output[: len(old.outputs)])
    found.attribute.extend(a for a in node.attribute if a.name in old.attributes)
    for name in set(old.attributes) & set(given) - {a.name for a in found.attribute}:
        if given[name] in case.feeds and given[name] not in found.input:
            found.attribute.append(_as_attribute(name, case.feeds[given[name]], old))
    return found


def _as_attribute(name: str, content: Any, spec: defs.OpSchema) -> onnx.AttributeProto:
    elements = np.asarray(content).reshape(-1).tolist()
    is_list = spec.attributes[name].type.name.endswith("S")
    return op_schemas.make_attribute(name, elements if is_list else elements[0], spec)


def _with_node(case: BackendCase, node: onnx.NodeProto, version: int) -> BackendCase:
    model = at_opset(case.model, version)
    graph = model.graph
    inputs, outputs = (
        [i for i in graph.input if i.name in node.input],
        [o for o in graph.output if o.name in node.output],
    )
    del graph.node[:], graph.input[:], graph.output[:]
    graph.node.append(node)
    graph.input.extend(inputs)
    graph.output.extend(outputs)
    feeds = {name: value for name, value in case.feeds.items() if name in node.input}
    return BackendCase(f"{case.name} at opset {version}", model, feeds)


def conversion_outcome(case: BackendCase) -> str:
    """The outcome of a conversion to the highest opset: "equal", "rounded", "refused", "not run", or what is wrong."""
    want = model_outputs(case.model, case.feeds)
    if want is None:
        return "not run"
    loaded = from_onnx(case.model)
    try:
        plan = plan_conversion(loaded.graph, highest_opset_of_onnxruntime(), runs_on_cpu)
    except Declined:
        return "refused"
    plan.apply(loaded.graph, "raise-opset")
    loaded.graph.validate()
    converted = to_onnx(loaded)
    if not case.name.startswith(("test_if_opt", "test_sequence_map")):
        onnx.checker.check_model(converted)
    got = model_outputs(converted, case.feeds)
    if got is None:
        return "it does not run any more"
    compared = not case.name.startswith(RANDOM)
    for exact in (True, False):
        reasons = [compare_outputs(want[n], got[n], exact=exact, compare_values=compared).reason for n in want]
        if not any(reasons):
            return "equal" if exact else "rounded"
        if plan.is_exact:
            break
    return f"it is wrong: {next(filter(None, reasons))}"
