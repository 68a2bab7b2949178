"""Random models keep their outputs through the whole pipeline, and the result is stable."""

import onnx
import pytest
from hypothesis import given, settings
from random_models import models

from passwright import optimize

pytestmark = pytest.mark.usefixtures("_few_combined_inputs")


# Of the 88 passes and rules that rewrite one of 250 models, 57 rewrite one of these 30.
@given(model=models())
@settings(max_examples=30)
def test_basic(model: onnx.ModelProto) -> None:
    require_preserved(model)


@pytest.mark.slow
@given(model=models())
@settings(max_examples=250)
def test_basic_on_many(model: onnx.ModelProto) -> None:
    require_preserved(model)


def require_preserved(model: onnx.ModelProto) -> None:
    """Optimize a model; it must stay valid and equivalent, and must not grow."""
    onnx.checker.check_model(model)
    result = optimize(model)  # raises VerificationError if anything differs
    onnx.checker.check_model(result.model)
    assert result.report.after.nodes <= result.report.before.nodes


@given(model=models())
@settings(max_examples=30)
def test_basic_is_idempotent(model: onnx.ModelProto) -> None:
    once = optimize(model, verify=False).model
    again = optimize(once, verify=False)
    assert [p.name for p in again.report.passes if p.changes] == []
    assert again.model == once
