"""`benchmarks/latency.py`: counts of matrix products, the floor, and the table."""

from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import onnx.parser
import pytest
from rewriting import cases

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"


@pytest.fixture
def gemm_floor(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return import_module("gemm_floor")


@pytest.fixture
def latency_table(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return import_module("latency_table")


def feeds_of(model: onnx.ModelProto) -> dict[str, Any]:
    shapes = {v.name: [d.dim_value for d in v.type.tensor_type.shape.dim] for v in model.graph.input}
    return {name: np.ones(shape, np.float32) for name, shape in shapes.items()}


@cases(
    ("text", "counts"),
    {
        "matmul": (
            "(float[2,3,5] x, float[5,7] w) => (float[2,3,7] y) { y = MatMul(x, w) }",
            {(2 * 2 * 3 * 5 * 7, 4 * 5 * 7): 1},
        ),
        "twice": (
            "(float[3,5] x, float[5,5] w) => (float[3,5] y) { a = MatMul(x, w) y = MatMul(a, w) }",
            {(2 * 3 * 5 * 5, 4 * 5 * 5): 2},
        ),
        "transposed-gemm": (
            "(float[5,3] x, float[7,5] w) => (float[3,7] y) { y = Gemm<transA=1, transB=1>(x, w) }",
            {(2 * 3 * 5 * 7, 4 * 5 * 7): 1},
        ),
        "grouped-conv": (
            "(float[2,6,8,8] x, float[4,3,3,3] w) => (float[2,4,6,6] y) { y = Conv<group=2>(x, w) }",
            {(2 * 2 * 4 * 6 * 6 * 3 * 3 * 3, 4 * 4 * 3 * 3 * 3): 1},
        ),
        "conv-transpose": (
            "(float[2,6,4,4] x, float[6,5,2,2] w) => (float[2,5,8,8] y) { y = ConvTranspose<strides=[2,2]>(x, w) }",
            {(2 * 2 * 6 * 4 * 4 * 5 * 2 * 2, 4 * 6 * 5 * 2 * 2): 1},
        ),
        "grouped-attention": (
            """(float[2,3,32] q, float[2,5,16] k, float[2,5,16] v) => (float[2,3,32] y)
            { y = Attention<q_num_heads=4, kv_num_heads=2>(q, k, v) }""",
            {(2 * 2 * 3 * 5 * 32, 4 * 2 * 5 * 16): 2},
        ),
        "attention-with-past": (
            """(float[2,4,1,8] q, float[2,4,1,8] k, float[2,4,1,8] v, float[2,4,6,8] pk, float[2,4,6,8] pv)
            => (float[2,4,1,8] y, float[2,4,7,8] nk, float[2,4,7,8] nv) { y, nk, nv = Attention(q, k, v, , pk, pv) }""",
            {(2 * 2 * 4 * 7 * 8, 4 * 2 * 4 * 7 * 8): 2},
        ),
        "none": ("(float[2] x) => (float[2] y) { y = Relu(x) }", {}),
    },
)
def test_products(gemm_floor: Any, tmp_path: Path, text: str, counts: dict[tuple[int, int], int]) -> None:
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["": 23]> g {text}')
    path = tmp_path / "model.onnx"
    onnx.save(model, path)
    found = gemm_floor.products_run(path, feeds_of(model), 1)
    assert {(p.flops, p.bytes): n for p, n in found.items()} == counts


def test_integer_products_have_no_floor(gemm_floor: Any, tmp_path: Path) -> None:
    text = "(float[2,3] x) => (uint8[2,3] y) { s = Constant<value_float=1.0>() y = QuantizeLinear(x, s) }"
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["": 23]> g {text}')
    path = tmp_path / "model.onnx"
    onnx.save(model, path)
    assert gemm_floor.products_run(path, feeds_of(model), 1) is None


def test_floor(gemm_floor: Any) -> None:
    peaks = [{"flops": 100.0, "bytes": {"4": 8.0, "16": 2.0}}, {"flops": 50.0, "bytes": {"4": 10.0, "16": 1.0}}]
    peak = gemm_floor.Peak.of(peaks)
    product = gemm_floor.Product
    assert peak.floor({product(1000, 1): 1}) == 10.0  # by flops
    assert peak.floor({product(1, 2): 1}) == 0.2  # by bytes, fewer than any that were measured
    assert peak.floor({product(1, 5): 4}) == 10.0  # together they need the slower memory


def race(*cells: dict[str, Any]) -> dict[str, Any]:
    return {
        "machine": "a machine", "min_time": 0.3, "sets": 5, "pipelines": ["basic", "ort"], "batches": [1],
        "failures": {}, "cells": list(cells),
    }  # fmt: skip


def cell(seconds: float, products: list[list[int]] | None, **ratios: list[float]) -> dict[str, Any]:
    rows = {"original": {"median": seconds, "ratio": [1.0, 1.0, 1.0]}}
    rows |= {name: {"median": seconds * ends[0], "ratio": ends} for name, ends in ratios.items()}
    return {"workload": "decode", "batch": 1, "products": products, "rows": rows}


def test_table(latency_table: Any) -> None:
    slow = cell(4e-3, [[200, 0, 10]], basic=[1.1, 1.05, 1.15], ort=[0.6, 0.55, 0.65])
    integers = cell(1e-3, None, basic=[0.9, 0.8, 1.02], ort=[0.9, 0.8, 0.95])
    facts = {"family": "bert", "group": "large", "pipelines": {"basic": {"nodes": 3, "left_out": 2}, "ort": {}}}
    failed = {"family": "vit", "group": "large", "pipelines": {"ort": {"failure": "fails: a reason"}}, "races": {}}
    models = {"large/a": facts | {"races": {"1": race(slow)}}, "large/b": facts | {"races": {"2": race(integers)}}}
    peaks = {threads: [{"flops": 1e6, "bytes": {"1": 1e9}}] for threads in "12"}  # so the floor of the first is 2 ms
    lines = list(latency_table.format_results({"peaks": peaks, "models": models | {"large/c": failed}}))
    assert "| large/a decode x1 | 1 | 4 | **1.10 ± 0.05** | **0.60 ± 0.05** | 0.50 |" in lines
    assert "| large/b decode x1 | 2 | 1 | 0.90 ± 0.11 | **0.90 ± 0.07** |  |" in lines
    assert "| all | 2 | 0.995 | 0 | 1 | 1 |" in lines
    assert "| all | 2 | 0.735 | 2 | 0 | 0 |" in lines
    assert "- large/a decode x1, threads 1: **1.10 ± 0.05**" in lines
    assert "| bert large | 1 | 1.10 | 1.20 |" in lines
    assert "| bert large | 1 | 0.60 | 0.20 |" in lines
    assert "- large/a: verification left out 2 changes" in lines
    assert "- large/c, ort: fails: a reason" in lines
