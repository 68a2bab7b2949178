"""An engine that is wrong: its Relu leaves negative numbers beyond a limit as they are."""

from __future__ import annotations

from pathlib import Path

import onnx
from onnx import helper
from passwright.core import Engine, EngineSession, EngineSettings, find_engine

LIMIT = -2.0


def load(model: bytes | Path, settings: EngineSettings) -> EngineSession:
    message = onnx.load_from_string(model) if isinstance(model, bytes) else onnx.load(model)
    nodes = [part for node in message.graph.node for part in (wrong(node) if node.op_type == "Relu" else [node])]
    del message.graph.node[:]
    message.graph.node.extend(nodes)
    message.graph.initializer.append(helper.make_tensor("planted_limit", onnx.TensorProto.FLOAT, [], [LIMIT]))
    return find_engine("onnxruntime").load(message.SerializeToString(), settings)


def wrong(relu: onnx.NodeProto) -> list[onnx.NodeProto]:
    x, y = relu.input[0], relu.output[0]
    return [
        helper.make_node("Relu", [x], [f"{y}_right"]),
        helper.make_node("Less", [x, "planted_limit"], [f"{y}_beyond"]),
        helper.make_node("Where", [f"{y}_beyond", x, f"{y}_right"], [y]),
    ]


ENGINE = Engine("planted", load, version=lambda: "1.0", precisions=("f32", "bf16"))
