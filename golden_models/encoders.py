"""Encoders of transformers, from tiny random configs."""

from pathlib import Path
from types import MappingProxyType

import torch
from torch import Tensor, nn
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    SwinConfig,
    SwinForImageClassification,
    T5Config,
    T5EncoderModel,
    ViTConfig,
    ViTForImageClassification,
    WhisperConfig,
)
from transformers.models.whisper.modeling_whisper import WhisperEncoder

from .recipe import Recipe
from .torch_export import TrainingMode, export_dynamo, export_script, randomize_norms

TEXT = MappingProxyType({0: "batch", 1: "sequence"})
VOCABULARY = range(200)


class Output(nn.Module):
    """One named output of a transformers model, called with named inputs in a fixed order."""

    def __init__(self, model: nn.Module, inputs: tuple[str, ...], output: str) -> None:
        super().__init__()
        self.model, self.inputs, self.output = model, inputs, output

    def forward(self, *args: Tensor) -> Tensor:
        return self.model(**dict(zip(self.inputs, args, strict=True)))[self.output]


def _bert(**config: object) -> nn.Module:
    tiny = BertConfig(
        vocab_size=len(VOCABULARY), hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64,
        max_position_embeddings=64, num_labels=3, **config,
    )  # fmt: skip
    inputs = ("input_ids", "attention_mask", "token_type_ids")
    return Output(randomize_norms(BertForSequenceClassification(tiny)), inputs, "logits")


def _token_inputs(inputs: int) -> tuple[Tensor, ...]:
    return tuple(torch.ones(2, 7, dtype=torch.long) for _ in range(inputs))


def build_bert(path: Path) -> str:
    model = _bert(attn_implementation="eager").eval()
    axes = {**{name: TEXT for name in model.inputs}, "logits": {0: "batch"}}
    return export_script(model, _token_inputs(3), path, 14, model.inputs, ["logits"], axes, do_constant_folding=False)


def build_bert_training(path: Path) -> str:
    # Before opset 12 Dropout has no training_mode: the nodes stay and do nothing.
    model = _bert(attn_implementation="eager").train()
    axes = {**{name: TEXT for name in model.inputs}, "logits": {0: "batch"}}
    options = {"do_constant_folding": False, "training": TrainingMode.TRAINING}
    return export_script(model, _token_inputs(3), path, 11, model.inputs, ["logits"], axes, **options)


def build_bert_dynamo(path: Path) -> str:
    model = _bert(attn_implementation="sdpa").eval()
    shapes = ((dict(TEXT),) * 3,)
    return export_dynamo(model, _token_inputs(3), path, 18, model.inputs, ["logits"], shapes)


def _vit() -> nn.Module:
    config = ViTConfig(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, image_size=32, patch_size=8,
        num_labels=5, attn_implementation="eager",
    )  # fmt: skip
    return Output(randomize_norms(ViTForImageClassification(config)).eval(), ("pixel_values",), "logits")


def build_vit(path: Path) -> str:
    return export_script(_vit(), (torch.randn(2, 3, 32, 32),), path, 17, ["pixel_values"], ["logits"])


def build_vit_dynamo(path: Path) -> str:
    image = torch.randn(2, 3, 32, 32)
    shapes = (({0: "batch"},),)
    return export_dynamo(_vit(), (image,), path, 23, ["pixel_values"], ["logits"], shapes, optimize=False)


def build_swin(path: Path) -> str:
    config = SwinConfig(
        image_size=32, patch_size=2, embed_dim=16, depths=[2, 2], num_heads=[2, 4], window_size=4, mlp_ratio=2.0,
        num_labels=5, attn_implementation="eager",
    )  # fmt: skip
    model = Output(randomize_norms(SwinForImageClassification(config)).eval(), ("pixel_values",), "logits")
    return export_script(model, (torch.randn(2, 3, 32, 32),), path, 13, ["pixel_values"], ["logits"])


def build_whisper(path: Path) -> str:
    config = WhisperConfig(
        d_model=32, encoder_layers=2, encoder_attention_heads=4, encoder_ffn_dim=64, num_mel_bins=20,
        max_source_positions=50, decoder_layers=1, vocab_size=100,
        pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1,
    )  # fmt: skip
    model = Output(randomize_norms(WhisperEncoder(config)).eval(), ("input_features",), "last_hidden_state")
    features = torch.randn(2, 20, 100)
    shapes = (({0: "batch"},),)
    return export_dynamo(model, (features,), path, 22, ["input_features"], ["last_hidden_state"], shapes)


def build_t5_encoder(path: Path) -> str:
    config = T5Config(
        vocab_size=len(VOCABULARY), d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4,
        relative_attention_num_buckets=8, relative_attention_max_distance=16, feed_forward_proj="gated-gelu",
    )  # fmt: skip
    inputs = ("input_ids", "attention_mask")
    model = Output(randomize_norms(T5EncoderModel(config)).eval(), inputs, "last_hidden_state")
    axes = {name: TEXT for name in (*inputs, "last_hidden_state")}
    return export_script(
        model, _token_inputs(2), path, 16, inputs, ["last_hidden_state"], axes, do_constant_folding=False
    )


TOKENS = MappingProxyType({"input_ids": VOCABULARY})
RECIPES = (
    Recipe("bert", "BERT classifier, dynamic batch and sequence (up to 64)", build_bert, TOKENS),
    Recipe("bert_training", "BERT classifier in training form: every Dropout kept", build_bert_training, TOKENS),
    Recipe("bert_dynamo", "BERT classifier with scaled-dot-product attention", build_bert_dynamo, TOKENS),
    Recipe("vit", "Vision Transformer classifier, dynamic batch", build_vit),
    Recipe("vit_dynamo", "Vision Transformer classifier as torch.export leaves it", build_vit_dynamo),
    Recipe("swin", "Swin Transformer: windows, shifts by Slice and Concat, patch merging", build_swin),
    Recipe("whisper_encoder", "Whisper encoder: 1-D convolutions, then a transformer", build_whisper),
    Recipe("t5_encoder", "T5 encoder: relative position buckets, RMS norm, gated GELU", build_t5_encoder, TOKENS),
)
