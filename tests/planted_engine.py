"""An engine that is wrong: its Relu leaves negative numbers beyond a limit as they are.

With precision bf16, only the pair of Mul and Relu is wrong, as if it were fused.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import onnx
from onnx import helper
from passwright.core import Engine, EngineSession, EngineSettings, find_engine

LIMIT = -2.0


def load(model: bytes | Path, settings: EngineSettings) -> EngineSession:
    message = onnx.load_from_string(model) if isinstance(model, bytes) else onnx.load(model)
    made = {name: node.op_type for node in message.graph.node for name in node.output}
    is_wrong = {
        node.output[0]
        for node in message.graph.node
        if node.op_type == "Relu" and (settings.precision == "f32" or made.get(node.input[0]) == "Mul")
    }
    if settings.precision == "crash" and "Relu" in made.values():
        os.abort()
    nodes = [part for node in message.graph.node for part in parts(node, is_wrong)]
    del message.graph.node[:]
    message.graph.node.extend(nodes)
    message.graph.initializer.append(helper.make_tensor("planted_limit", onnx.TensorProto.FLOAT, [], [LIMIT]))
    return find_engine("onnxruntime").load(message.SerializeToString(), EngineSettings(threads=settings.threads))


def parts(node: onnx.NodeProto, is_wrong: set[str]) -> Iterator[onnx.NodeProto]:
    if node.output[0] not in is_wrong:
        yield node
        return
    x, y = node.input[0], node.output[0]
    yield helper.make_node("Relu", [x], [f"{y}_right"])
    yield helper.make_node("Less", [x, "planted_limit"], [f"{y}_beyond"])
    yield helper.make_node("Where", [f"{y}_beyond", x, f"{y}_right"], [y])


ENGINE = Engine("planted", load, version=lambda: "1.0", precisions=("f32", "bf16", "crash"))
