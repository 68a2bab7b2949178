"""Tiny models of every family of transformers, from both exporters."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest

from passwright import optimize

pytestmark = pytest.mark.usefixtures("_few_combined_inputs")

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


def test_facts_are_those_of_the_model() -> None:
    for path in MODELS:
        graph = onnx.load(path, load_external_data=False).graph
        dims = {dim.dim_param for value in graph.input for dim in value.type.tensor_type.shape.dim} - {""}
        assert all({*sizes} == dims - {"batch"} for sizes in facts(path)["workloads"].values()), path.stem
        assert {*facts(path)["below"]} <= {value.name for value in graph.input}, path.stem


def sampled(step: int) -> pytest.MarkDecorator:
    """One in `step` models by default; all of them with the slow tests."""
    marks = ([], [pytest.mark.slow])
    models = [pytest.param(p, marks=marks[i % step > 0], id=p.stem) for i, p in enumerate(MODELS)]
    return pytest.mark.parametrize("path", models)


@pytest.mark.slow
@pytest.mark.parametrize("pipeline", ["basic", "ort"])
@pytest.mark.parametrize("path", MODELS, ids=lambda p: p.stem)
def test_verified(path: Path, pipeline: str) -> None:
    report = optimize(path, pipeline=pipeline).report
    assert report.verification is not None
    assert report.after.nodes <= report.before.nodes
    assert not report.rejected


FUSED = ("Attention", "RotaryEmbedding", "RMSNormalization", "LayerNormalization", "Softmax")


@sampled(6)
def test_fusions(path: Path) -> None:
    """`python tests/test_families.py` records the counts."""
    assert counts_of_fusions(path) == facts(path)["ort"]


def counts_of_fusions(path: Path) -> dict[str, int]:
    """The ops of each fused operator in the result of pipeline `ort`, and all nodes."""
    after = optimize(path, pipeline="ort", verify=False).report.after
    return {name: after.ops.get(name, 0) for name in FUSED} | {"nodes": after.nodes}


@sampled(9)
def test_padded_inputs(path: Path) -> None:
    """Padding on the left and right, a sample that is masked throughout, one token, and no past give the same."""
    result = optimize(path, pipeline="ort", verify=False).model
    sessions = [session(onnx.load(path)), session(result)]
    tolerance = 5e-2 if path.stem.endswith("_half") else 2e-4
    for batch, sizes in sizes_to_run(path):
        for masked in ("none", "left", "right", "all"):
            feed = padded_feed(path, batch, sizes, masked)
            want, got = (s.run(None, feed) for s in sessions)
            for a, b in zip(want, got, strict=True):
                assert np.isfinite(a).all()
                scale = max(1.0, float(np.abs(a).max(initial=0)))
                np.testing.assert_allclose(b, a, atol=tolerance * scale, rtol=0, err_msg=f"{masked}, {sizes}")


def session(model: onnx.ModelProto) -> ort.InferenceSession:
    options = ort.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    return ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def sizes_to_run(path: Path) -> list[tuple[int, dict[str, int]]]:
    """The workloads with two samples; one token behind no past and one sample."""
    found = [(2, sizes) for sizes in facts(path)["workloads"].values()]
    single = {name: {"past": 0}.get(name, 1 if name in {"sequence", "total"} else n) for name, n in found[0][1].items()}
    return [*found, (1, single)]


def padded_feed(path: Path, batch: int, sizes: dict[str, int], masked: str) -> dict[str, np.ndarray]:
    """Drawn inputs; the masks of the first sample leave out elements as `masked` says."""
    below, rng = facts(path)["below"], np.random.default_rng(0)
    feed: dict[str, np.ndarray] = {}
    for value in onnx.load(path).graph.input:
        kind = onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        dims = value.type.tensor_type.shape.dim
        shape = [d.dim_value or {"batch": batch, **sizes}[d.dim_param] for d in dims]
        if "mask" in value.name:
            x = np.ones(shape, kind)
            half = shape[-1] // 2
            cut = {"none": slice(0), "left": slice(half), "right": slice(half, None), "all": slice(None)}[masked]
            x[0, ..., cut] = 0
        elif value.name in below or kind == np.int64:
            x = rng.integers(0, below.get(value.name, 2), shape, kind)
        else:
            x = rng.standard_normal(shape).astype(kind)
        feed[value.name] = x
    return feed


def test_more_than_512_tokens() -> None:
    path = FAMILIES / "llama_ts14_sdpa.onnx"
    feed = padded_feed(path, 1, {"sequence": 600}, "left")
    result = optimize(path, pipeline="ort", verify=False).model
    want, got = (session(model).run(None, feed)[0] for model in (onnx.load(path), result))
    np.testing.assert_allclose(got, want, atol=1e-4, rtol=0)


def record() -> None:
    for path in MODELS:
        path.with_suffix(".json").write_text(
            json.dumps(facts(path) | {"ort": counts_of_fusions(path)}, indent=1) + "\n", encoding="utf-8"
        )


if __name__ == "__main__":
    record()
