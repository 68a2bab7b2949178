"""Symbolic shapes and elements, held against what onnxruntime computes."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from passwright.core import Model, Value, from_onnx, to_onnx
from passwright.core.ir.dims import Shape
from passwright.core.ir.expressions import atoms, substituted
from passwright.core.ir.terms import Atom, Expr, Known, Unknown
from passwright.core.runtime import OnnxRuntime
from passwright.core.verify.answers import Search
from passwright.core.verify.draws import Draw
from passwright.core.verify.signature import signature

GOLDEN = sorted((Path(__file__).parent.parent / "golden_models").glob("*.onnx"))
RUNS = 4
# Where a window is larger than what it slides over, onnxruntime rounds towards zero and ONNX's formula down.
LARGE_ENOUGH = {"audio": {"samples": 32}, "crnn": {"width": 32}}


class Truth:
    """What the symbols stand for in one run; an unknown is what the first dim says that is just that."""

    def __init__(self, sizes: dict[str, int]) -> None:
        self.numbers: dict[Atom, int] = dict(sizes)

    def holds(self, said: Known, found: int) -> bool:
        """Whether an expression agrees with a number; what is made of unbound names is not judged."""
        if isinstance(said, Expr) and len(said.terms) == 1:
            ((product, factor),) = said.terms
            if factor == 1 and len(product) == 1 and isinstance(product[0], Unknown):
                return self.numbers.setdefault(product[0], found) == found
        if not all(a in self.numbers for a in atoms(said)):
            return True
        return substituted(said, self.numbers.get) == found


def contradictions(model: Model, proto: onnx.ModelProto, fixed: dict[str, int]) -> list[str]:
    """Where runs differ from what is inferred."""
    values = [v for op in model.graph.sorted_ops() for v in op.outputs if v.name and v.type is None]
    told = onnx.ModelProto()
    told.CopyFrom(proto)
    known = {o.name for o in told.graph.output}
    told.graph.output.extend(onnx.ValueInfoProto(name=v.name) for v in values if v.name not in known)
    session = OnnxRuntime(told.SerializeToString())
    names = [v.name for v in values]

    def run(draw: Draw) -> dict[str, Any]:
        return dict(zip(names, session.run(names, draw.feeds), strict=True))

    wrong: list[str] = []
    for answer in islice(Search(run, signature(model), fixed).answers(), RUNS):
        if 0 in answer.draw.sizes.values():
            continue  # onnxruntime reduces an empty tensor to its own shape
        truth = Truth(answer.draw.sizes)
        for v in values:
            found = answer.outputs[v.name]
            if isinstance(found, np.ndarray):
                wrong += judged(v, found, truth)
    return wrong


def judged(v: Value, found: np.ndarray[Any, Any], truth: Truth) -> list[str]:
    shape: Shape = v.known_shape if v.known_shape is not None else found.shape
    if len(shape) != found.ndim or not all(
        truth.holds(d, n) for d, n in zip(shape, found.shape, strict=True) if d is not None
    ):
        return [f"{v.name}: {list(shape)} is {list(found.shape)}"]
    elements = v.known_elements or ()
    numbers = [int(x) for x in found.reshape(-1)[: len(elements)]] if elements else []
    if not all(map(truth.holds, elements, numbers)):
        return [f"{v.name}: elements {elements} are {numbers}"]
    return []


@pytest.mark.parametrize("path", GOLDEN, ids=lambda p: p.stem)
def test_golden(path: Path) -> None:
    model = from_onnx(onnx.load(path), inline=True)
    assert contradictions(model, to_onnx(model), LARGE_ENOUGH.get(path.stem, {})) == []
