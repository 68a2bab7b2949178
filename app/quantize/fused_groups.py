"""Quantized groups that onnxruntime does not compute with integers."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import onnx

from ...core.ir.graph import FRESH_NAME_MARK
from ...core.rewriting.change_log import ChangeKey
from ...core.serialization.proto_queries import all_nodes
from ...core.support.scratch_folder import ScratchFolder
from ...passes.arithmetic.value_ranges import CLAMPS
from ...passes.quantization.static_groups import JOINS, UNARY_OPS
from ...passes.targets import QuantizationTarget
from ..registry.environment import quantization_target
from ..registry.timed_runs import run_timed

OPTIMIZER = "ort-extended"  # the level that fuses groups; the following layout level renames ops
GROUP_OPS = frozenset(("Conv", "MatMul", "Gemm", *JOINS, *UNARY_OPS))
INTEGER_OPS = frozenset({"QGemm", "MatMulIntegerToFloat"})  # and ops whose names start with QLinear
TAG = re.compile(r"<(\d+)>")


def fusion_check(target: QuantizationTarget) -> Callable[[Path, Collection[ChangeKey]], dict[ChangeKey, str]]:
    """`unfused_groups` for a target whose activations onnxruntime fuses on this machine, otherwise an empty check.

    onnxruntime fuses signed activations on ARM. Other engines fuse other groups.
    """
    machine = quantization_target()
    is_checked = target.engine == machine.engine and target.activations == machine.activations
    return unfused_groups if is_checked else lambda _, __: {}


def unfused_groups(model: Path, changes: Collection[ChangeKey]) -> dict[ChangeKey, str]:
    """The changes of a quantized model whose op onnxruntime still computes in float, with the reason.

    A change is identified by its place, the value that it quantized. Ops are tracked by tags in their names, which the
    fusions of onnxruntime keep. If onnxruntime does not load the model, no group is fused.
    """
    library: Any = onnx  # its argument has no types
    proto: onnx.ModelProto = library.load(model, load_external_data=False)
    places = _group_places(proto, frozenset(place for _, place in changes))
    for i, node in enumerate(all_nodes(proto.graph.node)):
        node.name = f"<{i}>"
    tagged = model.with_name(f"{model.stem}.tagged.onnx")  # next to the external weights
    try:
        onnx.save(proto, tagged)
        with ScratchFolder() as folder:
            optimized = folder / "optimized.onnx"
            reply = run_timed(OPTIMIZER, tagged, optimized, folder / "log", {})
            if "failure" in reply:
                return dict.fromkeys(changes, f"onnxruntime does not load the model: {reply['failure']}")
            made: onnx.ModelProto = library.load(optimized, load_external_data=False)
    finally:
        tagged.unlink(missing_ok=True)
    in_float = {
        places[int(tag)]: f"onnxruntime computes it in float, as {node.op_type}"
        for node in all_nodes(made.graph.node)
        for tag in TAG.findall(node.name)
        if int(tag) in places and not (node.op_type.startswith("QLinear") or node.op_type in INTEGER_OPS)
    }
    return {key: in_float[key[1]] for key in changes if key[1] in in_float}


def _group_places(model: onnx.ModelProto, wanted: Collection[str]) -> dict[int, str]:
    """The places of ops whose operands are all dequantized, by node number.

    Later passes may have replaced the value at a place; its stem is then part of other names.
    """
    nodes = list(all_nodes(model.graph.node))
    maker = {name: node.op_type for node in nodes for name in node.output}
    readers: defaultdict[str, list[onnx.NodeProto]] = defaultdict(list)
    for node in nodes:
        for name in node.input:
            readers[name].append(node)
    absent = {place.partition(FRESH_NAME_MARK)[0]: place for place in sorted(wanted) if place not in maker}
    found: dict[int, str] = {}
    for i, node in enumerate(nodes):
        if node.op_type in GROUP_OPS and {maker.get(name) for name in node.input if name} == {"DequantizeLinear"}:
            names = list(_names(node, readers))
            stems = (absent.get(name.partition(FRESH_NAME_MARK)[0]) for name in names)
            place = next((name for name in names if name in wanted), next(filter(None, stems), None))
            found |= {} if place is None else {i: place}
    return found


def _names(node: onnx.NodeProto, readers: defaultdict[str, list[onnx.NodeProto]]) -> Iterator[str]:
    """Yield the names under which the result of an op is known, including after its bias, clamp and quantization."""
    current: Sequence[onnx.NodeProto] = [node]
    follow = {"Add", *CLAMPS} if node.op_type == "MatMul" else {*CLAMPS}
    while current:
        yield from (name for n in current for name in n.output)
        behind = [r for n in current for name in n.output for r in readers[name]]
        is_alone = len(behind) == 1 and behind[0].op_type in follow
        quantizers = [r for r in behind if r.op_type in {"QuantizeLinear", "DequantizeLinear"}]
        if current[0].op_type == "DequantizeLinear":
            return
        current = behind if is_alone else quantizers
