"""Every node case of the ONNX backend suite keeps its outputs, whatever part of its inputs is constant."""

from __future__ import annotations

import backend
import pytest
from backend import FORMS, cases


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("block", range(20))
def test_outputs_are_kept(block: int, form: str) -> None:
    wrong: dict[str, list[str]] = {}
    ran = 0
    for name in list(cases())[block::20]:
        problems = backend.run(backend.frozen(cases()[name], form))
        ran += problems is not None
        if problems:
            wrong[name] = problems
    assert not wrong
    assert ran >= 55  # so that a backend that refuses everything is noticed: over 1,300 cases run in all


def test_there_are_enough_cases() -> None:
    assert len(cases()) > 1600
