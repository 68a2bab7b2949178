"""Metrics of language models with a cache: prefill and decode of a row count as one sample."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from passwright.app.measure.accuracy import LabelledSet, labelled_outputs, load_metric
from passwright.app.quantize.samples import labelled_halves
from passwright.core.errors import ModelError
from passwright.core.io.model_source import model_source
from passwright.core.ort.backends import LoadedModel
from passwright.core.verify.input_specs import input_specs
from rewriting import load

from passwright import bench

GOLDEN = Path(__file__).parent.parent / "golden_models"
ROWS, LENGTH = 3, 7
RNG = np.random.default_rng(0)


class CountingModel(LoadedModel):
    """A model that notes the numbers of tokens, and of those before them, that it was given."""

    runs: list[tuple[int, int]]

    def run(self, outputs: Any, feeds: Any, timeout: float | None = None) -> list[Any]:
        self.runs = [*getattr(self, "runs", []), (feeds["input_ids"].shape[1], feeds["past.0.key"].shape[2])]
        return super().run(outputs, feeds, timeout)


@pytest.mark.parametrize("name", ["gpt2", "llama_dynamo", "families/phi_past_ts17_eager"])
def test_text_is_read_in_parts_with_the_cache(name: str) -> None:
    """A text at once has the same scores as a prefill and decodes with the cache."""
    path = GOLDEN / f"{name}.onnx"
    tokens = RNG.integers(0, 100, (ROWS, LENGTH))
    examples = LabelledSet("text", {"input_ids": tokens, "labels": np.roll(tokens, -1, 1)})
    model = model_source(path, inline=False).load()
    inputs, outputs = input_specs(model), [v.name for v in model.graph.outputs]
    session = CountingModel(path)
    found = labelled_outputs(session, inputs, outputs, examples)
    assert list(found) == ["logits"]
    assert session.runs[-5:] == [(3, 0), (1, 3), (1, 4), (1, 5), (1, 6)]
    feeds, _ = examples.feeds(inputs, ROWS)
    (wanted,) = LoadedModel(path).run(["logits"], feeds)
    np.testing.assert_allclose(found["logits"], wanted, atol=1e-4)
    for metric in map(load_metric, ("tokens", "perplexity")):
        values = [metric(x, examples.arrays["labels"]) for x in (found, {"logits": wanted})]
        assert values[0] == pytest.approx(values[1], rel=1e-4)


def test_halves_have_no_past_of_their_own() -> None:
    model = model_source(GOLDEN / "gpt2.onnx", inline=False).load()
    tokens = RNG.integers(0, 100, (ROWS, LENGTH))
    examples = LabelledSet("text", {"input_ids": tokens, "labels": tokens})
    for half, start in zip(labelled_halves(examples, input_specs(model)), (0, 1), strict=True):
        assert set(half.arrays) == {"input_ids", "labels"}
        np.testing.assert_array_equal(half.arrays["input_ids"], tokens[start::2])


def test_a_model_that_forgets_its_past_finds_other_tokens(tmp_path: Path) -> None:
    """One model scores by the sum of all tokens so far, the other by the sum of the tokens of a run."""
    text = """g (int64[batch,sequence] input_ids, float[batch,1,past,1] past_key)
        => (float[batch,sequence,4] logits, float[batch,1,total,1] present_key)
        <int64[4] four = {0, 1, -1, 1}, int64[3] each = {0, -1, 1}, int64[3] all = {0, 1, 1}, int64[1] last = {2},
         float zero = {0}, float[1,4] w = {0, 1, 2, 3}> {
        f = Cast<to = 1>(input_ids) k = Reshape(f, four) present_key = Concat<axis = 2>(past_key, k)
        s = ReduceSum(KEPT, last) t = Reshape(s, all) e = Reshape(f, each) z = Mul(e, zero) u = Add(z, t)
        logits = Mul(u, w) }"""
    tokens = np.array([[1, 0, 0, 0], [0, 0, 0, 0]])
    labels = np.array([[-1, -1, -1, 3], [-1, -1, -1, 0]])
    np.savez(tmp_path / "text.npz", input_ids=tokens, labels=labels)
    for name, kept in (("right", "present_key"), ("wrong", "k")):
        onnx.save(load(text.replace("KEPT", kept)), tmp_path / f"{name}.onnx")
    paths = [tmp_path / "right.onnx", tmp_path / "wrong.onnx"]
    report = bench(paths, labelled=tmp_path / "text.npz", metric="tokens", batch=(1,), min_time=0.01, threads=1)
    assert [m.accuracy for m in report.models] == [1.0, 0.5]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"input_ids": [1, 2, 3]}, "text: input_ids has shape [3]; it needs rows of one token or more"),
        ({"input_ids": [[[1], [2]]]}, "text: input_ids has shape [1,2,1]; it needs rows of one token or more"),
        ({"input_ids": [[], []]}, "text: input_ids has shape [2,0]; it needs rows of one token or more"),
        (
            {"input_ids": [[1, 2], [3, 4]], "attention_mask": [[1], [1]]},
            "text: attention_mask has shape [2,1]; it needs the shape of the tokens, [2,2]",
        ),
    ],
)
def test_texts_that_are_no_rows_of_tokens(given: dict[str, Any], message: str) -> None:
    inputs = input_specs(model_source(GOLDEN / "gpt2.onnx", inline=False).load())
    arrays = {name: np.array(rows, np.int64) for name, rows in given.items()}
    with pytest.raises(ModelError) as e:
        LabelledSet("text", {**arrays, "labels": arrays["input_ids"]}).feeds(inputs, len(arrays["input_ids"]))
    assert str(e.value) == message
