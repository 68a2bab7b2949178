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
from passwright.app.quantize.candidates import CandidateBuilder
from passwright.app.quantize.schemes import SCHEMES
from passwright.core import QuantizationSpec
from passwright.core.io.model_source import model_source

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
