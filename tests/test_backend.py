"""Node cases of the ONNX backend suite: outputs are kept, whichever inputs are constant."""

from __future__ import annotations

import node_cases
import pytest
from node_cases import FREEZE_MODES, backend_cases
from passwright.core import from_onnx, is_known
from passwright.core.operators.effects import is_random
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
    assert {name: kinds for name, kinds in left.items() if node_cases.is_runnable(name)} == {}


def test_round_trip() -> None:
    assert [c.name for c in backend_cases().values() if not node_cases.is_round_trip_equal(c.model)] == []
