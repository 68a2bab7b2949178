"""Tiny models of every family of transformers, from both exporters."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import onnx
import pytest

from passwright import optimize

FAMILIES = Path(__file__).parent.parent / "golden_models" / "families"
MODELS = sorted(FAMILIES.glob("*.onnx"))
EXPECTED = {
    "bart_decoder", "bart_decoder_past", "bart_encoder", "bert", "bert_additive", "bert_lowest", "bert_unmasked",
    "clip_text", "clip_vision", "detr", "distilbert", "gemma", "gemma2", "gemma2_past", "gemma_past", "gpt2",
    "gpt2_past", "llama", "llama_past", "llama_positions", "minilm", "mistral", "mistral_past", "phi", "phi_past",
    "qwen2", "qwen2_past", "sam_decoder", "sam_encoder", "segformer", "swin", "t5_decoder", "t5_decoder_past",
    "t5_encoder", "vit", "wav2vec2", "whisper_decoder", "whisper_decoder_past", "whisper_encoder",
}  # fmt: skip


def facts(path: Path) -> dict[str, Any]:
    return json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))


def test_every_family_is_there() -> None:
    assert {facts(path)["family"] for path in MODELS} == EXPECTED
    assert {facts(path)["opset"] for path in MODELS} == {*range(11, 25)}


def test_sizes() -> None:
    sizes = [file.stat().st_size for file in FAMILIES.glob("*.onnx*")]
    assert max(sizes) < 300_000
    assert sum(sizes) < 9_000_000


@pytest.mark.parametrize("path", MODELS, ids=lambda p: p.stem)
def test_facts_are_those_of_the_model(path: Path) -> None:
    graph = onnx.load(path).graph
    dims = {dim.dim_param for value in graph.input for dim in value.type.tensor_type.shape.dim} - {""}
    for sizes in facts(path)["workloads"].values():
        assert {*sizes} == dims - {"batch"}
    assert {*facts(path)["below"]} <= {value.name for value in graph.input}


@pytest.mark.slow
@pytest.mark.parametrize("path", MODELS, ids=lambda p: p.stem)
def test_basic(path: Path) -> None:
    report = optimize(path).report
    assert report.verification is not None
    assert report.after.nodes <= report.before.nodes
    assert report.quarantined == []
