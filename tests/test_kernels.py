"""Operators and opsets that onnxruntime runs, as predicted from its tables and as it loads them."""

import onnx
import pytest
from node_cases import backend_cases
from onnx import TensorProto, defs, helper
from opset_cases import at_opset
from passwright.core import from_onnx
from passwright.core.errors import ModelLoadError
from passwright.core.ir.op import Op
from passwright.core.ir.op_schemas import schema
from passwright.core.ort.backends import LoadedModel
from passwright.core.ort.kernels import highest_opset_of_onnxruntime, runs_on_cpu
from rewriting import each
from tiers import slow_unless

FLOAT, HALF, DOUBLE, INT64 = TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE, TensorProto.INT64


def loads(model: onnx.ModelProto) -> bool:
    try:
        LoadedModel(model.SerializeToString())
    except ModelLoadError:
        return False
    return True


def identity(opset: int) -> onnx.ModelProto:
    imports = [helper.make_opsetid("", opset)]
    text = f'<ir_version: {helper.find_min_ir_version_for(imports)}, opset_import: ["": {opset}]>'
    return onnx.parser.parse_model(f"{text} g (float[1] x) => (float[1] y) {{ y = Identity(x) }}")


def test_highest_opset() -> None:
    highest = highest_opset_of_onnxruntime()
    assert highest >= 21
    assert loads(identity(highest))
    assert not any(loads(identity(v)) for v in range(highest + 1, defs.onnx_opset_version() + 1))


@each(
    ("op_type", "domain", "version", "dtypes", "runs"),
    {
        "kernel": ("Softmax", "", 21, [FLOAT], True),
        "other name of the domain": ("Softmax", "ai.onnx", 21, [FLOAT], True),
        "no kernel for the type": ("Softmax", "", 21, [INT64], False),
        "half precision between casts": ("Softmax", "", 21, [HALF], True),
        "unknown type": ("Softmax", "", 21, [], True),
        "kernel of the older version": ("RoiAlign", "", 21, [FLOAT, FLOAT, INT64], True),
        "no kernel of the newer version": ("RoiAlign", "", 22, [FLOAT, FLOAT, INT64], False),
        "before it was deprecated": ("Upsample", "", 9, [FLOAT, FLOAT], True),
        "deprecated": ("Upsample", "", 10, [FLOAT, FLOAT], False),
        "function": ("Swish", "", 24, [FLOAT], True),
        "function of an operator that changed": ("Swish", "", 25, [FLOAT], False),
        "function that depends on types": ("GroupNormalization", "", 25, [FLOAT] * 3, True),
        "function of an operator with a kernel": ("Bernoulli", "", 21, [FLOAT], True),
        "function of an operator without kernel": ("Bernoulli", "", 22, [FLOAT], False),
        "attention": ("Attention", "", 24, [FLOAT] * 3, True),
        "not in the opset": ("Attention", "", 22, [FLOAT] * 3, False),
        "needs no kernel": ("Constant", "", 25, [], True),
        "repeated input": ("Sum", "", 13, [DOUBLE] * 4, True),
        "repeated input of another type": ("Sum", "", 13, [INT64] * 4, False),
        "axes before they were an input": ("ReduceMean", "", 17, [FLOAT, INT64], False),
        "axes as an input": ("ReduceMean", "", 18, [FLOAT, INT64], True),
        "operator of onnxruntime": ("Gelu", "com.microsoft", 1, [FLOAT], True),
        "unknown domain": ("Gelu", "com.example", 1, [FLOAT], False),
    },
)
def test_runs_on_cpu(op_type: str, domain: str, version: int, dtypes: list[int], runs: bool) -> None:
    assert runs_on_cpu(op_type, domain, version, dtypes) is runs


# Attributes, types of outputs, bfloat16 in functions and missing locales decide too, not only the types of inputs.
LOADS_ONLY_SOME = {"Attention", "Cast", "CastLike", "GRU", "LSTM", "RNN", "StringNormalizer"}


def input_dtypes(op: Op) -> tuple[int, ...]:
    return tuple(v.known_dtype if v is not None else 0 for v in op.inputs)


@pytest.mark.parametrize("block", slow_unless({0}, range(30)))
def test_agrees_with_onnxruntime(block: int) -> None:
    compared = 0
    for name in list(backend_cases())[block::30]:
        model = backend_cases()[name].model
        graph = from_onnx(model).graph
        op = next(graph.ops(), None)
        if len(graph) != 1 or op is None or op.domain:
            continue
        last = highest_opset_of_onnxruntime()
        newest = schema(op.type, "", last)
        is_unchanged = newest is not None and newest.since_version <= op.version <= last
        for version in {op.version, last} if is_unchanged else {op.version}:
            predicted = runs_on_cpu(op.type, "", version, input_dtypes(op))
            if version <= last and not (predicted and op.type in LOADS_ONLY_SOME):
                assert loads(at_opset(model, version)) == predicted, f"{name} at opset {version}"
                compared += 1
    assert compared > 15
