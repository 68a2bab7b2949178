"""Tests of language models with a cache, as exporters and as onnxruntime's own tools write them."""

import sys
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from loaded_by_ort import decibels
from msgspec.structs import replace
from onnx import TensorProto
from passwright.app.measure.accuracy import LabelledSet, labelled_outputs, load_metric
from passwright.app.quantize.candidates import CandidateBuilder
from passwright.app.quantize.schemes import SCHEMES
from passwright.core import QuantizationSpec
from passwright.core.io.model_source import model_source
from passwright.core.ort.backends import LoadedModel
from passwright.core.verify.input_specs import input_specs

from passwright import quantize

sys.path.append(str(Path(__file__).parent.parent / "benchmarks"))
from decoding import feeds, loaded
from language_model import Sizes, write_decoder

SIZES: dict[str, Any] = {"layers": 2, "width": 64, "heads": 4, "hidden": 96, "vocabulary": 600, "cache": True}


@pytest.mark.parametrize("bits", [4, 8])
def test_weights_of_few_bits_and_the_graph_of_fused_operators(bits: int, tmp_path: Path) -> None:
    """The same logits, and files of the same size, from the graph as an exporter writes it."""
    plain, fused, made = (tmp_path / f"{name}.onnx" for name in ("plain", "fused", "made"))
    write_decoder(plain, Sizes(**SIZES))
    write_decoder(fused, Sizes(**SIZES, bits=bits))
    scheme = SCHEMES[f"weights{bits}"]
    spec = replace(QuantizationSpec(min_weights=1000), **scheme.settings)
    builder = CandidateBuilder(model_source(plain, inline=True), scheme, spec)
    builder.build().write(made)
    largest = max(prod(t.dims) for t in onnx.load(made).graph.initializer if t.data_type == 1)
    assert largest < SIZES["vocabulary"] * SIZES["width"] / 8  # of floats, only scales
    sessions = [loaded(path, 1) for path in (plain, fused, made)]
    for tokens, past in ((6, 0), (1, 9)):
        given = feeds(sessions[0], tokens, past, SIZES["vocabulary"])
        wanted, *others = ([np.asarray(v) for v in s.run(None, given)] for s in sessions)
        for got in others:
            assert min(map(decibels, wanted, got)) > (6 if bits == 4 else 25)


def test_a_cache_of_integers_is_asked_for_and_said(tmp_path: Path) -> None:
    write_decoder(tmp_path / "lm.onnx", Sizes(**SIZES))
    tokens = np.random.default_rng(0).integers(0, SIZES["vocabulary"], (6, 8))
    labels = np.concatenate([tokens[:, 1:], np.full((6, 1), -1)], axis=1)
    np.savez(tmp_path / "text.npz", ids=tokens, labels=labels)
    options: dict[str, Any] = {"labelled": tmp_path / "text.npz", "metric": "perplexity", "goal": "size"}
    options |= {"scheme": "weights8", "threads": 1, "min_time": 0.01, "time": 60.0}
    result = quantize(tmp_path / "lm.onnx", **options, int8_cache=True)
    values = [*result.model.graph.input, *result.model.graph.output]
    types = {v.name: v.type.tensor_type.elem_type for v in values}
    assert {types[name] for name in types if name.startswith(("past", "present"))} == {TensorProto.INT8}
    said = "int8_cache changed the interface: 4 inputs and 4 outputs are int8, such as past.0.key and"
    assert any(note.startswith(said) for note in result.report.notes), result.report.notes
    assert result.report.result.bytes < result.report.original.bytes
    result.save(tmp_path / "int8.onnx")
    text, figures = LabelledSet.read(tmp_path / "text.npz"), list[float]()
    for path in (tmp_path / "lm.onnx", tmp_path / "int8.onnx"):
        graph = model_source(path, inline=False).load()
        names = [v.name for v in graph.graph.outputs]
        found = labelled_outputs(LoadedModel(path), input_specs(graph), names, text)
        figures.append(load_metric("perplexity")(found, labels))
    assert figures[1] == pytest.approx(figures[0], rel=0.05)
    left = quantize(tmp_path / "lm.onnx", **options, int8_cache=True, leave=["Attention"])
    assert not any(note.startswith("the interface") for note in left.report.notes)
    assert any(note == "int8_cache: 2 caches stay in float, such as present.0.key" for note in left.report.notes)
