"""Tests of what passes change and what they leave, from tables of graph bodies in ONNX text."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnx
import pytest
from onnx.helper import tensor_dtype_to_np_dtype
from onnx.shape_inference import infer_shapes
from passwright.core import Pass, Rule
from rewriting import ARROW, OPSET, becomes, check_all, initializers, load, stays, table
from weights import read_by

OPERAND = re.compile(r"(?<![^ ])(-?\d[\d.e-]*|\[[-\d.,e\[\]]*\])(?![^,])")
Rows = str | Mapping[str, str | tuple[Any, ...]]


class Rewrites:
    """Passes and the graph whose bodies they change or leave.

        softmax = Rewrites("g (float[{x}] x) => (float[] y)", FUSE_SOFTMAX, weights={"two": 2.0}, x="n,3,4")
        test_becomes = softmax.all_become(\"""
            quotient: e = Exp(x) s = ReduceSum(e) y = Div(e, s) => y = Softmax(x)
        \""")
        test_stays = softmax.all_stay(\"""
            product: e = Exp(x) s = ReduceSum(e) y = Mul(e, s)
            vector [opset=11; x=3]: e = Exp(x) s = ReduceSum(e) y = Div(e, s)
        \""")

    Rows are those of `table`, or a dict of them. Settings: `opset`, `runs`, `graph`, `weights`, `dtype` in place of
    float, `in_if` to put the body into a branch of an If, and values of the names in braces. Names that nothing defines
    are initializers in `weights`, which may be a function of the settings; in an expected body, they stand for any
    constants. Operands may be numbers, `Add(x, 1.0)`, and lists, `Reshape(x, [0,-1])`; equal ones are one initializer.
    `[] y` as the last output has its inferred rank. A body may be a whole graph, `g (...) => (...) { ... }`.
    """

    def __init__(self, graph: str, *passes: Rule | Pass, **settings: Any) -> None:
        self.passes, self.settings = passes, {"graph": graph, **settings}

    def using(self, *passes: Rule | Pass, weights: Mapping[str, Any] | None = None, **settings: Any) -> Rewrites:
        """The same with other passes, further weights or other settings."""
        changed = {**self.settings, **settings}
        if weights:
            changed["weights"] = {**self.settings.get("weights", {}), **weights}
        return Rewrites(changed.pop("graph"), *(passes or self.passes), **changed)

    def becomes(self, before: str, after: str, **settings: Any) -> onnx.ModelProto:
        """Assert that `before` becomes `after`, and return the result."""
        text, options = self._model(before, **settings)
        out = becomes(text, self._model(after, **settings)[0], *self.passes, **options)
        if {**self.settings, **settings}.get("dtype", "float") != "float":
            assert np.float32 not in {a.dtype for a in initializers(out).values()}, "new weights of another type"
        return out

    def stays(self, body: str, **settings: Any) -> None:
        """Assert that the body does not change."""
        text, options = self._model(body, **settings)
        stays(text, *self.passes, **options)

    def all_become(self, rows: Rows) -> Callable[..., None]:
        """A test of rows `before => after`."""
        return _test_of(self.becomes, rows)

    def all_stay(self, rows: Rows) -> Callable[..., None]:
        """A test of bodies."""
        return _test_of(self.stays, rows)

    def _model(self, body: str, **changes: Any) -> tuple[str, dict[str, Any]]:
        """The text of a model, and the options of `becomes` and `stays`."""
        settings = {**self.settings, **changes}
        graph, dtype = settings["graph"], settings.get("dtype", "float")
        if settings.get("in_if"):
            graph, body = _in_branch(graph, body)
        text = body if body.startswith("g (") else f"{graph} {{ {body} }}"
        for name in settings.keys() - {"weights"}:
            text = text.replace(f"{{{name}}}", str(settings[name]))
        text = re.sub(r"\bfloat\b", dtype, text)
        text, numbers = _without_literals(text)
        shared = self.settings.get("weights", {})
        weights = {**(shared(**settings) if callable(shared) else shared), **changes.get("weights", {}), **numbers}
        used = {name: _as_array(value, dtype) for name, value in read_by(text, weights).items()}
        options = {name: settings[name] for name in ("opset", "runs") if name in settings}
        return _with_rank(text, settings.get("opset", OPSET), used), {"weights": used, **options}


def _test_of(check: Callable[..., Any], rows: Rows) -> Callable[..., None]:
    """One test, as pytest takes a fifth of the time of a row for a test of its own."""

    def check_row(row: str | tuple[Any, ...]) -> None:
        columns = (row,) if isinstance(row, str) else row
        *texts, settings = columns if isinstance(columns[-1], dict) else (*columns, {})
        check(*(column for text in texts for column in ARROW.split(text)), **settings)

    named = table(rows) if isinstance(rows, str) else rows

    def test(pytestconfig: pytest.Config) -> None:
        check_all(named, check_row, pytestconfig)

    return test


def _without_literals(text: str) -> tuple[str, dict[str, Any]]:
    """The text with names in place of operands that are numbers or lists, and the numbers by name."""
    names: dict[str, str] = {}
    calls = re.compile(r"(?<=[\w>]\()[^()]*(?=\))")
    text = calls.sub(lambda c: OPERAND.sub(lambda o: names.setdefault(o[0], f"literal{len(names)}"), c[0]), text)
    return text, {name: json.loads(literal) for literal, name in names.items()}


def _in_branch(graph: str, body: str) -> tuple[str, str]:
    """The graph with a condition, and an If with the body in one branch, and the first input in the other."""
    first = re.search(r" (\w+)[,)]", graph)[1]
    then = re.sub(r"\by\b", "y1", body)
    branches = f"t () => (float[] y1) {{ {then} }}, else_branch = e () => (float[] y2) {{ y2 = Neg({first}) }}"
    return graph.replace("(", "(bool condition, ", 1), f"y = If (condition) <then_branch = {branches}>"


def _with_rank(text: str, opset: int, weights: Mapping[str, np.ndarray]) -> str:
    if "[] y)" not in text:
        return text
    dims = infer_shapes(load(text, opset, weights)).graph.output[-1].type.tensor_type.shape.dim
    return text.replace("[] y)", f"[{','.join(f'y{i}' for i in range(len(dims)))}] y)" if dims else " y)")


def _as_array(value: Any, dtype: str) -> np.ndarray:
    """The weights; Python's floats are of single precision, and single precision becomes `dtype`."""
    array = np.asarray(value)
    if array.dtype == np.float32 or (array.dtype == np.float64 and not isinstance(value, np.ndarray | np.generic)):
        return array.astype(tensor_dtype_to_np_dtype(getattr(onnx.TensorProto, dtype.upper())))
    return array
