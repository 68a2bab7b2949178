"""Node cases of the ONNX backend suite: outputs are kept, whichever inputs are constant."""

import os
from collections.abc import Iterator
from itertools import islice

import node_cases
import numpy as np
import onnx
import pytest
from node_cases import FREEZE_MODES, backend_cases
from passwright.core import Op, from_onnx, inference, is_known
from passwright.core.ir.values import declared_shape
from passwright.core.operators.effects import is_random
from passwright.core.processes import onnx_calls
from passwright.core.processes.onnx_calls import OnnxError
from passwright.core.processes.onnx_worker import OnnxCode
from passwright.passes.folding.fold_constants import SMALL_GROWTH
from passwright.passes.pipelines import PIPELINES
from rewriting import apply_passes
from tiers import slow_unless


# Each case in one of the forms, in rotation, or in all of them.
@pytest.mark.parametrize("forms", slow_unless({1}, (1, len(FREEZE_MODES))))
@pytest.mark.parametrize("block", slow_unless({0, 8}, range(20)))
def test_outputs_are_kept(block: int, forms: int) -> None:
    wrong: dict[str, list[str]] = {}
    ran = 0
    for i, name in enumerate(list(backend_cases())[block::20]):
        for form in range(i, i + forms):
            mode = FREEZE_MODES[form % len(FREEZE_MODES)]
            problems = node_cases.optimization_errors(node_cases.freeze_inputs(backend_cases()[name], mode))
            ran += problems is not None
            if problems:
                wrong[f"{name}, {mode}"] = problems
    assert not wrong
    assert ran >= 55 * forms  # a backend that refuses everything would fail here: over 1,300 cases run in all


def test_case_count() -> None:
    assert len(backend_cases()) > 1600


# Sequences and optionals cannot be initializers, a training BatchNormalization and a Dropout are not constant,
# QuantizeLinear marks quantized values, and the number of strings that StringSplit returns is unknown.
PROTECTED = {"BatchNormalization", "Dropout", "QuantizeLinear", "StringSplit"}


@pytest.mark.parametrize("block", slow_unless({0}, range(8)))
def test_constant_inputs_are_folded_completely(block: int) -> None:
    left: dict[str, list[str]] = {}
    for name in list(backend_cases())[block::8]:
        case = node_cases.freeze_inputs(backend_cases()[name], FREEZE_MODES[2])
        graph = from_onnx(case.model).graph
        if case.feeds or any(v.type is not None for v in graph.outputs):
            continue
        kinds = {
            op.type for g in apply_passes(case.model, PIPELINES["basic"])[0].graph.with_subgraphs() for op in g.ops()
        }
        if kinds - PROTECTED and not any(map(is_random, graph.ops())) and all(map(is_known, graph.ops())):
            left[name] = sorted(kinds)
    assert {name: kinds for name, kinds in left.items() if has_small_results(name)} == {}


def has_small_results(name: str) -> bool:
    """Whether onnxruntime runs a case, with results for which even a small model may grow."""
    found = node_cases.model_outputs(backend_cases()[name].model, backend_cases()[name].feeds)
    return found is not None and sum(np.asarray(a).nbytes for a in found.values()) <= SMALL_GROWTH


def test_round_trip() -> None:
    assert [c.name for c in backend_cases().values() if not node_cases.is_round_trip_equal(c.model)] == []


LESS_KNOWN = {"Attention", "AveragePool", "ConvTranspose", "MaxPool"}
"""Operators of which extents stay unknown on which versions of ONNX and onnxruntime disagree.

Of scores of Attention, onnx gives 0 for an unknown number of keys.
"""


def variants(model: onnx.ModelProto) -> Iterator[onnx.ModelProto]:
    """A model whose outputs have no types: as it is, with symbols as extents, and without the rank of each input."""

    def copy() -> onnx.ModelProto:
        made = onnx.ModelProto()
        made.CopyFrom(model)
        for out in made.graph.output:
            out.ClearField("type")
        return made

    yield copy()
    symbolic = copy()
    for dim in (d for i in symbolic.graph.input for d in i.type.tensor_type.shape.dim):
        dim.dim_param = f"d{dim.dim_value}"
    yield symbolic
    for i, given in enumerate(model.graph.input):
        if given.type.HasField("tensor_type"):
            made = copy()
            made.graph.input[i].type.tensor_type.ClearField("shape")
            yield made


def disagreements(op: Op) -> Iterator[str]:
    """The outputs of which the declarations know another type or shape than onnx, or less."""
    try:
        theirs = inference._inferred_types(op, op.schema, {})
    except (OnnxError, ValueError):
        theirs = {}
    for v in op.outputs:
        if (proto := theirs.get(v.name)) is None or not proto.HasField("tensor_type"):
            continue
        dtype, shape = proto.tensor_type.elem_type, declared_shape(proto.tensor_type)
        own = v.known_shape
        same_rank = own is not None and shape is not None and len(own) == len(shape)
        pairs = list(zip(own, shape, strict=True)) if same_rank else []
        if dtype not in {0, v.known_dtype} or (shape is not None and not same_rank):
            yield f"{op.type}: {v.known_dtype}{own} is {dtype}{shape}"
        elif any(isinstance(d, int) and d != e for e, d in pairs) and op.type not in LESS_KNOWN:
            yield f"{op.type}: {own} is {shape}"


@pytest.mark.parametrize(("part", "parts"), [(0, 50), pytest.param(0, 1, marks=pytest.mark.slow)])
def test_declarations_know_what_onnx_does(part: int, parts: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the nodes of onnx's own tests, whose ops are declared with a shape function."""
    asked: set[Op] = set()
    ask = inference.infer_from_schema
    monkeypatch.setattr(inference, "infer_from_schema", lambda op, spec: (asked.add(op), ask(op, spec)))
    monkeypatch.setattr(onnx_calls._process(os.getpid()), "code", OnnxCode())
    found: list[str] = []
    count = 0
    for case in islice(backend_cases().values(), part, None, parts):
        for model in variants(case.model):
            ops = list(from_onnx(model, inline=False).graph.ops())
            for op in ops:
                for v in op.outputs:
                    _ = v.known_shape
                if not op.domain and op.type in inference.SHAPE_FUNCTIONS and op not in asked and op.schema is not None:
                    count += 1
                    found += disagreements(op)
    assert found == []
    assert count > 2 * len(asked)
