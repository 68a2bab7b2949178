"""Wrong results of golden models, of which no changed region is proved that the fault is in."""

from collections.abc import Callable, Collection, Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from msgspec.structs import replace
from onnx import helper, numpy_helper
from passwright.app.optimize.region_proofs import ProvedModels
from passwright.core.io.files import split_model
from passwright.core.io.model_source import model_source
from passwright.core.proof.prover import Prover
from passwright.core.proof.region_obligations import Regions
from passwright.core.proof.region_proofs import ProofSeconds, prove_regions
from passwright.core.run.pipeline_run import PipelineRun
from passwright.core.verify.regions.shared_values import SharedValues
from passwright.core.verify.regions.value_graph import ValueGraph
from passwright.passes.pipelines import PIPELINES

from passwright import optimize

GOLDEN = Path(__file__).parent.parent / "golden_models"
Fault = Callable[[onnx.ModelProto], bool]
"""Makes a model wrong; whether it could."""


def regions_of(name: str, pipeline: str, rewritten: onnx.ModelProto) -> Regions:
    """The regions in which a golden model differs from a model that a pipeline may have made."""
    source = model_source(GOLDEN / f"{name}.onnx", inline=True)
    run = PipelineRun(source.load, PIPELINES[pipeline])
    models = ProvedModels(source.load(), source.loadable(), split_model(rewritten.SerializeToString()), [run])
    return models.regions()


def proved(regions: Regions) -> list[str]:
    return [
        r.cut_point for r in prove_regions(regions, [Prover().prove], seconds=ProofSeconds(60)).regions if r.is_proved
    ]


def within(regions: Regions, cut_points: Collection[str]) -> Regions:
    return replace(
        regions, shared=replace(regions.shared, cut_points=tuple(s for s in regions.cut_points if s in cut_points))
    )


def nodes(model: onnx.ModelProto, *op_types: str) -> Iterator[onnx.NodeProto]:
    return (n for n in model.graph.node if n.op_type in op_types)


def initializers(model: onnx.ModelProto, op_type: str, position: int) -> Iterator[onnx.TensorProto]:
    by_name = {t.name: t for t in model.graph.initializer}
    read = (n.input[position] for n in nodes(model, op_type) if len(n.input) > position)
    return (by_name[name] for name in read if name in by_name)


def change(tensor: onnx.TensorProto, function: Callable[[np.ndarray], np.ndarray]) -> bool:
    array = numpy_helper.to_array(tensor)
    tensor.CopyFrom(numpy_helper.from_array(function(array.copy()).astype(array.dtype), tensor.name))
    return True


def off_by_ulps(op_type: str) -> Fault:
    def move_one(array: np.ndarray) -> np.ndarray:
        array.flat[3] += 4 * np.spacing(array.flat[3])
        return array

    return lambda model: any(change(t, move_one) for t in initializers(model, op_type, 1))


def without_part_of_bias(model: onnx.ModelProto) -> bool:
    def drop(array: np.ndarray) -> np.ndarray:
        array[::2] = 0
        return array

    return any(change(t, drop) for t in initializers(model, "Conv", 2))


def with_attribute(name: str, function: Callable[..., object], *op_types: str) -> Fault:
    def fault(model: onnx.ModelProto) -> bool:
        for node in nodes(model, *op_types):
            for a in node.attribute:
                if a.name == name:
                    a.CopyFrom(helper.make_attribute(name, function(helper.get_attribute_value(a))))
                    return True
        return False

    return fault


def with_swapped_operands(*op_types: str) -> Fault:
    def fault(model: onnx.ModelProto) -> bool:
        for node in nodes(model, *op_types):
            node.input[0], node.input[1] = node.input[1], node.input[0]
            return True
        return False

    return fault


FAULTS: dict[str, tuple[str, str, Fault]] = {
    "folded weight off by 4 ulps": ("mobilenet", "basic", off_by_ulps("Conv")),
    "moved weight off by 4 ulps": ("gpt2", "basic", off_by_ulps("Gemm")),
    "bias dropped in part": ("mobilenet", "basic", without_part_of_bias),
    "epsilon": ("bert", "ort", with_attribute("epsilon", lambda e: e * 1.01, "LayerNormalization")),
    "stride": ("mobilenet", "basic", with_attribute("strides", lambda s: [3 - n for n in s], "Conv")),
    "axis": ("gpt2", "basic", with_attribute("axis", lambda a: 1 - a if a in (0, 1) else 0, "Split", "Concat")),
    "order of axes": ("bert", "basic", with_attribute("perm", lambda p: [*p[:-2], p[-1], p[-2]], "Transpose")),
    "operands": ("bert", "basic", with_swapped_operands("Sub", "Div", "MatMul")),
}


@pytest.mark.slow
@pytest.mark.parametrize(("name", "pipeline", "fault"), FAULTS.values(), ids=list(FAULTS))
def test_a_fault_is_not_proved(name: str, pipeline: str, fault: Fault) -> None:
    right = optimize(GOLDEN / f"{name}.onnx", pipeline, verify=False).model
    wrong = onnx.ModelProto()
    wrong.CopyFrom(right)
    assert fault(wrong)
    graphs = [ValueGraph.of(split_model(m.SerializeToString())) for m in (right, wrong)]
    regions = regions_of(name, pipeline, wrong)
    changed = {s for s in SharedValues.of(*graphs).cut_points if s in regions.cut_points}
    assert changed
    assert proved(within(regions, changed)) == []
    regions = within(regions_of(name, pipeline, right), changed)
    assert proved(regions) == list(regions.cut_points)


def test_folded_weights_are_proved() -> None:
    right = optimize(GOLDEN / "mobilenet.onnx", verify=False).model
    regions = regions_of("mobilenet", "basic", right)
    found = prove_regions(within(regions, regions.cut_points[:1]), [Prover().prove])
    assert found.counts.proved == {"proved over the reals": 1}
    assert found.counts.rounded_weights == 2
    assert 0 < found.counts.ulps <= 0.5
