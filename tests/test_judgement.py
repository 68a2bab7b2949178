"""Judgements of regions by their float64 values: right rewrites, wrong ones, and those that saturate less."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from node_cases import model_outputs
from passwright.core.verify.referee.float64_evaluation import evaluate_in_float64
from passwright.core.verify.referee.judgement import Decision, Judgement, judge

FLOATS = "(float[N, M] x) => (float[N, M] y)"


def judgement(before: str, after: str, feeds: dict[str, np.ndarray], head: str = FLOATS, opset: int = 18) -> Judgement:
    """The judgement of the output y of two graphs."""
    texts = (f'<ir_version: 8, opset_import: ["": {opset}]> g {head} {{ {body} }}' for body in (before, after))
    models = [onnx.parser.parse_model(text) for text in texts]
    found = [model_outputs(m, feeds) for m in models]
    assert found[0] is not None
    assert found[1] is not None
    truths = [evaluate_in_float64(m, feeds, ["y"]) for m in models]
    return judge("y", found[0]["y"], found[1]["y"], *truths)


def normal(*shape: int, scale: float = 1.0, offset: float = 0.0) -> np.ndarray:
    return (np.random.default_rng(0).normal(size=shape) * scale + offset).astype(np.float32)


X = {"x": normal(8, 64)}
ADD_AND_SUBTRACT = "c = Constant<value_float = 12345.0>() s = Add(x, c) y = Sub(s, c)"


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        pytest.param(ADD_AND_SUBTRACT, "y = Identity(x)", Decision.RIGHT, id="cancels"),
        pytest.param("y = Identity(x)", ADD_AND_SUBTRACT, Decision.WRONG, id="loses digits"),
        pytest.param("y = Relu(x)", "s = Sigmoid(x) y = Mul(x, s)", Decision.WRONG, id="another function"),
        pytest.param("y = Relu(x)", "y = Transpose(x)", Decision.WRONG, id="another shape"),
    ],
)
def test_decisions(before: str, after: str, expected: Decision) -> None:
    assert judgement(before, after, X).decision == expected


def test_saturating_less_is_right() -> None:
    log_of_softmax, log_softmax = "s = Softmax(x) y = Log(s)", "y = LogSoftmax(x)"
    feeds = {"x": normal(8, 64, scale=100)}
    found = judgement(log_of_softmax, log_softmax, feeds)
    assert found.decision == Decision.RIGHT
    assert found.saturating > 0
    assert judgement(log_softmax, log_of_softmax, feeds).decision == Decision.WRONG
