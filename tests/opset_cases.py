"""Node cases of the ONNX backend suite before and after conversion: `python tests/opset_cases.py` writes the table.

The table is in docs/opset.md, and takes some ten minutes.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from node_cases import RANDOM, BackendCase, backend_cases, model_outputs
from onnx import defs, helper
from passwright.core import from_onnx, to_onnx
from passwright.core.errors import MatchFailure
from passwright.core.ir import op_schemas
from passwright.core.ort.kernels import highest_opset_of_onnxruntime, runs_on_cpu
from passwright.core.transform.opset_conversion import plan_conversion
from passwright.core.verify.output_comparison import compare_outputs

TABLE = Path(__file__).parent.parent / "docs" / "opset.md"
OUTCOMES = ("equal", "rounded", "refused", "no operator", "wrong")
LOWEST = 11
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


def conversion_outcome(case: BackendCase, version: int | None = None) -> str:
    """The outcome of a conversion: "equal", "rounded", "refused", "not run", "no operator", or what is wrong.

    "no operator": an op has none of its name at that opset. "not run": onnxruntime does not run the original.
    `version`: the opset; None for the highest that onnxruntime runs.
    """
    want = model_outputs(case.model, case.feeds)
    if want is None:
        return "not run"
    loaded = from_onnx(case.model)
    try:
        plan = plan_conversion(loaded.graph, version or highest_opset_of_onnxruntime(), runs_on_cpu)
    except MatchFailure as e:
        return "no operator" if "has no such operator" in str(e) else "refused"
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


def raised_cases(case: BackendCase) -> list[tuple[int, BackendCase]]:
    """A case at each opset with which a version of its operator came, to raise to the highest that onnxruntime runs."""
    own = [case] * (0 < opset_of(case.model) < highest_opset_of_onnxruntime())
    return [(opset_of(c.model), c) for c in (*own, *at_older_opsets(case))]


def lower_opsets(case: BackendCase) -> list[int]:
    """The opsets below that of a case with which versions of its operators came, and the lowest at which they are."""
    own = opset_of(case.model)
    if not LOWEST < own <= highest_opset_of_onnxruntime():
        return []
    kinds = {n.op_type for n in case.model.graph.node if not n.domain}
    return sorted({max(v, LOWEST) for kind in kinds for v in versions_of(kind) if max(v, LOWEST) < own})


def table(found: Mapping[int, Counter[str]]) -> str:
    """A row for each opset, and the sums; without the cases that onnxruntime does not run."""
    columns = [o for o in OUTCOMES if o != "no operator" or any(c[o] for c in found.values())]
    lines = ["| opset | cases | " + " | ".join(columns) + " |", "|---|" + "---|" * (len(columns) + 1)]
    total = sum(found.values(), Counter[str]())
    for name, counts in [*((str(opset), found[opset]) for opset in sorted(found)), ("all", total)]:
        numbers = [sum(n for o, n in counts.items() if o != "not run"), *(counts[o] for o in columns)]
        if numbers[0]:
            lines.append(f"| {name} | " + " | ".join(map(str, numbers)) + " |")
    return "\n".join(lines)


def counted(outcomes: Iterable[tuple[int, str]]) -> dict[int, Counter[str]]:
    """Outcomes by opset; those with a text of their own are wrong."""
    found: dict[int, Counter[str]] = {}
    for opset, outcome in outcomes:
        found.setdefault(opset, Counter())[outcome if outcome in {*OUTCOMES, "not run"} else "wrong"] += 1
    return found


def write_tables() -> None:
    """Replace the tables in the document by those of all cases."""
    every = backend_cases().values()
    raised = counted((opset, conversion_outcome(each)) for c in every for opset, each in raised_cases(c))
    lowered = counted((opset, conversion_outcome(c, opset)) for c in every for opset in lower_opsets(c))
    text = TABLE.read_text(encoding="utf-8")
    for name, rows in (("raised", raised), ("lowered", lowered)):
        head, _, rest = text.partition(f"<!-- {name} -->\n")
        text = f"{head}<!-- {name} -->\n{table(rows)}\n<!-- end -->{rest.partition('<!-- end -->')[2]}"
    TABLE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write_tables()
