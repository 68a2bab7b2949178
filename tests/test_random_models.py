"""Random models keep their outputs through the whole pipeline, and the result is stable."""

from __future__ import annotations

import onnx
from hypothesis import given, settings
from random_models import models

from passwright import optimize


@given(model=models())
@settings(max_examples=250)
def test_basic(model: onnx.ModelProto) -> None:
    onnx.checker.check_model(model)
    result = optimize(model)  # raises VerificationError if anything differs
    onnx.checker.check_model(result.model)
    assert result.report.after.nodes <= result.report.before.nodes


@given(model=models())
@settings(max_examples=60)
def test_basic_is_idempotent(model: onnx.ModelProto) -> None:
    once = optimize(model, verify=False).model
    again = optimize(once, verify=False)
    assert [p.name for p in again.report.passes if p.changes] == []
    assert again.model == once
