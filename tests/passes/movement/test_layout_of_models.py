"""Layout propagation in whole NHWC models, as TensorFlow's exporter writes them."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper
from passwright.core import Fixpoint, Graph, from_onnx, rule_pass
from passwright.core.rewriting.change_log import ChangeLog
from passwright.passes.movement.layout_propagation import move_transposes
from passwright.passes.movement.layout_propagation.move_transposes import MoveTransposes
from rewriting import apply_passes, each, load, require_equivalent, to_onnx

MERGE_TRANSPOSES = rule_pass(move_transposes, "merge-transposes")

MOVE = MoveTransposes()


class Net:
    """A model builder; each method adds ops and returns the name of their result."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.weights: dict[str, np.ndarray] = {}
        self.draw = np.random.default_rng(0)

    def op(self, text: str) -> str:
        name = f"v{len(self.lines)}"
        self.lines.append(f"{name} = {text}")
        return name

    def const(self, *shape: int) -> str:
        return self.array(self.draw.normal(0, 0.5, shape).astype(np.float32))

    def array(self, data: object) -> str:
        name = f"w{len(self.weights)}"
        self.weights[name] = np.asarray(data)
        return name

    def channels_first(self, x: str, work: str) -> str:
        """An operator for NCHW only, between two Transposes."""
        first = self.op(f"Transpose<perm=[0,3,1,2]>({x})")
        return self.op(f"Transpose<perm=[0,2,3,1]>({self.op(work.format(first))})")

    def conv(self, x: str, old: int, new: int, size: int = 3, *, pad: bool = True, stride: int = 1) -> str:
        edge = size // 2 if pad else 0
        attrs = f"pads=[{edge},{edge},{edge},{edge}],strides=[{stride},{stride}]"
        y = self.channels_first(x, f"Conv<{attrs}>({{}}, {self.const(new, old, size, size)})")
        return self.op(f"Add({y}, {self.const(new)})")

    def norm(self, x: str, count: int) -> str:
        return self.op(f"Add({self.op(f'Mul({x}, {self.const(1, 1, 1, count)})')}, {self.const(1, 1, 1, count)})")

    def model(self, given: str, last: str, opset: int = 17) -> onnx.ModelProto:
        return load(f"g (float[{given}] x) => (float[] y) {{ {' '.join(self.lines)} y = {last} }}", opset, self.weights)


def resnet() -> onnx.ModelProto:
    n = Net()
    x = n.op(f"Relu({n.norm(n.conv('x', 3, 4), 4)})")
    for _ in range(3):
        branch = n.op(f"Relu({n.norm(n.conv(x, 4, 4), 4)})")
        x = n.op(f"Relu({n.op(f'Add({n.norm(n.conv(branch, 4, 4), 4)}, {x})')})")
    return n.model("batch,8,8,3", f"Identity({x})")


def unet() -> onnx.ModelProto:
    n = Net()
    kept = n.op(f"Relu({n.conv('x', 3, 4)})")
    small = n.channels_first(kept, "MaxPool<kernel_shape=[2,2],strides=[2,2]>({})")
    deep = n.op(f"LeakyRelu({n.conv(small, 4, 4)})")
    large = n.op(f"Resize({deep}, , {n.array(np.array([1, 2, 2, 1], np.float32))})")
    both = n.op(f"Concat<axis=3>({large}, {kept})")
    return n.model("1,8,8,3", f"Softmax({n.conv(both, 8, 2, 1)})")


def mobilenet() -> onnx.ModelProto:
    n = Net()
    x = n.conv("x", 3, 4)
    for _ in range(2):
        padded = n.op(f"Pad({x}, {n.array(np.array([0, 0, 0, 0, 0, 1, 1, 0]))})")
        deep = n.channels_first(padded, f"Conv<group=4,strides=[2,2]>({{}}, {n.const(4, 1, 3, 3)})")
        limits = n.array(np.float32(0)), n.array(np.float32(6))
        x = n.conv(n.op(f"Clip({n.norm(deep, 4)}, {limits[0]}, {limits[1]})"), 4, 4, 1)
    return n.model("batch,16,16,3", f"Relu({x})")


def squeeze_excite() -> onnx.ModelProto:
    n = Net()
    x = n.conv("x", 3, 4)
    mean = n.op(f"ReduceMean<axes=[1,2]>({x})")
    gate = n.op(f"Sigmoid({n.conv(n.op(f'Relu({n.conv(mean, 4, 2, 1)})'), 2, 4, 1)})")
    return n.model("batch,6,6,3", f"Relu({n.conv(n.op(f'Mul({gate}, {x})'), 4, 3)})")


def gated_by_a_vector() -> onnx.ModelProto:
    n = Net()
    x = n.conv("x", 3, 4)
    mean = n.op(f"ReduceMean<axes=[1,2],keepdims=0>({x})")
    gate = n.op(f"Sigmoid({n.op(f'Gemm({mean}, {n.const(4, 4)})')})")
    shaped = n.op(f"Reshape({gate}, {n.array(np.array([-1, 1, 1, 4]))})")
    return n.model("batch,6,6,3", f"Relu({n.conv(n.op(f'Mul({x}, {shaped})'), 4, 3)})")


def classifier() -> onnx.ModelProto:
    n = Net()
    x = n.op(f"Relu({n.norm(n.conv('x', 3, 4), 4)})")
    mean = n.op(f"ReduceMean<axes=[1,2],keepdims=0>({x})")
    return n.model("batch,6,6,3", f"Gemm({mean}, {n.const(4, 5)}, {n.const(5)})")


def transposes_of(graph: Graph) -> int:
    return sum(1 for _ in graph.ops("Transpose"))


def by_onnxruntime(model: onnx.ModelProto, path: Path) -> int:
    """Count the Transposes that remain after onnxruntime's basic optimizations."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.optimized_model_filepath = str(path)
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return sum(node.op_type == "Transpose" for node in onnx.load(path).graph.node)


@pytest.mark.parametrize(
    ("build", "left"),
    [(resnet, 2), (unet, 2), (mobilenet, 2), (squeeze_excite, 2), (gated_by_a_vector, 2), (classifier, 1)],
)
def test_only_interface_transposes_remain(build: Callable[[], onnx.ModelProto], left: int, tmp_path: Path) -> None:
    model = build()
    result, change_log = apply_passes(model, MOVE)
    assert transposes_of(result.graph) == left <= by_onnxruntime(model, tmp_path / "basic.onnx")
    require_equivalent(model, to_onnx(result), exact=change_log.is_exact)
    assert MOVE.run(result.graph, ChangeLog()) == 0


def test_terminates_together_with_merging() -> None:
    model = from_onnx(resnet())
    assert Fixpoint("both", (MOVE, MERGE_TRANSPOSES)).run(model.graph, ChangeLog())
    assert transposes_of(model.graph) == 2


def chain(ops: int, last: str) -> onnx.ModelProto:
    """A given number of activations between two Transposes, or after one."""
    nodes = [helper.make_node("Transpose", ["x"], ["v0"], perm=[0, 3, 1, 2])]
    nodes += [helper.make_node("Relu", [f"v{i}"], [f"v{i + 1}"]) for i in range(ops)]
    attrs = {"perm": [0, 2, 3, 1]} if last == "Transpose" else {}
    nodes.append(helper.make_node(last, [f"v{ops}"], ["y"], **attrs))
    return small(nodes, ["y"])


def star(readers: int, last: str) -> onnx.ModelProto:
    """A Transpose with many consumers."""
    nodes = [helper.make_node("Transpose", ["x"], ["t"], perm=[0, 3, 1, 2])]
    attrs = {"perm": [0, 2, 3, 1]} if last == "Transpose" else {}
    for i in range(readers):
        nodes.append(helper.make_node("Relu", ["t"], [f"r{i}"]))
        nodes.append(helper.make_node(last, [f"r{i}"], [f"y{i}"], **attrs))
    return small(nodes, [f"y{i}" for i in range(readers)])


def small(nodes: list[onnx.NodeProto], outputs: list[str]) -> onnx.ModelProto:
    x = helper.make_tensor_value_info("x", 1, [1, 2, 2, 3])
    graph = helper.make_graph(nodes, "g", [x], [onnx.ValueInfoProto(name=name) for name in outputs])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)


@each(("build", "last", "left"), [(chain, "Transpose", 0), (chain, "Neg", 1), (star, "Transpose", 0), (star, "Neg", 1)])
def test_large_regions(build: Callable[[int, str], onnx.ModelProto], last: str, left: int) -> None:
    result = from_onnx(build(2000, last))
    MOVE.run(result.graph, ChangeLog())
    assert transposes_of(result.graph) == left
