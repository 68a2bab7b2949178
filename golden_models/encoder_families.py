"""Encoders of text: BERT and its kin, CLIP's, T5's and BART's."""

from types import MappingProxyType

import torch
from torch import Tensor, nn
from transformers import (
    BartConfig,
    BartModel,
    BertConfig,
    BertModel,
    CLIPTextConfig,
    CLIPTextModelWithProjection,
    DistilBertConfig,
    DistilBertModel,
    T5Config,
    T5EncoderModel,
)

from .subject import Dimensions, Subject

TEXT = MappingProxyType({0: "batch", 1: "sequence"})
MASKED = ("input_ids", "attention_mask")
TYPED = (*MASKED, "token_type_ids")


def _last_hidden_state(model: nn.Module, **inputs: Tensor) -> Tensor:
    return model(**inputs).last_hidden_state


def _text(
    model: nn.Module, dims: Dimensions, names: tuple[str, ...] = MASKED, call: object = _last_hidden_state,
    output: tuple[str, Subject] = ("last_hidden_state", TEXT),
) -> Subject:  # fmt: skip
    inputs = {name: torch.ones(2, 7, dtype=torch.long) for name in names}
    longest = min(dims.positions, 128)
    workloads = {"short": {"sequence": longest // 4}, "long": {"sequence": longest}}
    axes = {**dict.fromkeys(names, TEXT), output[0]: output[1]}
    return Subject(model, call, inputs, output[:1], axes, workloads, {"input_ids": dims.vocabulary})


def _bert(dims: Dimensions, attention: str) -> nn.Module:
    return BertModel(BertConfig(
        vocab_size=dims.vocabulary, hidden_size=dims.width, num_hidden_layers=dims.layers,
        num_attention_heads=dims.heads, intermediate_size=dims.inner, max_position_embeddings=dims.positions,
        attn_implementation=attention,
    ), add_pooling_layer=False)  # fmt: skip


def bert(dims: Dimensions, attention: str = "eager") -> Subject:
    """Ids, mask and token types, the mask as transformers writes it."""
    return _text(_bert(dims, attention), dims, TYPED)


def bert_additive(dims: Dimensions, fill: float = -10000.0) -> Subject:
    """The mask as older versions of transformers write it: (1 - mask) * fill."""

    def call(model: nn.Module, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        added = (1.0 - attention_mask[:, None, None, :].to(model.dtype)) * fill
        return _last_hidden_state(model, input_ids=input_ids, attention_mask=added)

    return _text(_bert(dims, "eager"), dims, MASKED, call)


def bert_unmasked(dims: Dimensions, attention: str = "sdpa") -> Subject:
    """Ids alone."""
    return _text(_bert(dims, attention), dims, MASKED[:1])


def minilm(dims: Dimensions, attention: str = "sdpa") -> Subject:
    """A sentence embedding: the normalized mean over the tokens that the mask keeps."""

    def call(model: nn.Module, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor) -> Tensor:
        hidden = _last_hidden_state(
            model, input_ids=input_ids, attention_mask=attention_mask, token_type_ids=token_type_ids
        )
        kept = attention_mask.unsqueeze(-1).expand(hidden.size()).to(hidden.dtype)
        mean = (hidden * kept).sum(1) / kept.sum(1).clamp(min=1e-9)
        return nn.functional.normalize(mean, p=2, dim=1)

    return _text(_bert(dims, attention), dims, TYPED, call, ("sentence_embedding", {0: "batch"}))


def distilbert(dims: Dimensions, attention: str = "sdpa") -> Subject:
    return _text(DistilBertModel(DistilBertConfig(
        vocab_size=dims.vocabulary, dim=dims.width, n_layers=dims.layers, n_heads=dims.heads, hidden_dim=dims.inner,
        max_position_embeddings=dims.positions, attn_implementation=attention,
    )), dims)  # fmt: skip


def clip_text(dims: Dimensions, attention: str = "sdpa") -> Subject:
    """Causal and padded; the embedding of the end token, found by ArgMax."""
    model = CLIPTextModelWithProjection(CLIPTextConfig(
        vocab_size=dims.vocabulary, hidden_size=dims.width, num_hidden_layers=dims.layers,
        num_attention_heads=dims.heads, intermediate_size=dims.inner, max_position_embeddings=dims.positions,
        projection_dim=dims.width, bos_token_id=dims.vocabulary - 2, eos_token_id=dims.vocabulary - 1,
        pad_token_id=1, attn_implementation=attention,
    ))  # fmt: skip
    return _text(
        model, dims, MASKED, lambda model, **inputs: model(**inputs).text_embeds, ("text_embeds", {0: "batch"})
    )


def t5_encoder(dims: Dimensions, attention: str = "eager") -> Subject:
    """Relative position buckets, RMS norm, gated GELU."""
    model = T5EncoderModel(T5Config(
        vocab_size=dims.vocabulary, d_model=dims.width, d_kv=dims.head_width, d_ff=dims.inner, num_layers=dims.layers,
        num_heads=dims.heads, relative_attention_num_buckets=8, relative_attention_max_distance=16,
        feed_forward_proj="gated-gelu", attn_implementation=attention,
    ))  # fmt: skip
    return _text(model, dims)


def bart_encoder(dims: Dimensions, attention: str = "sdpa") -> Subject:
    model = BartModel(BartConfig(
        vocab_size=dims.vocabulary, d_model=dims.width, encoder_layers=dims.layers, decoder_layers=1,
        encoder_attention_heads=dims.heads, decoder_attention_heads=dims.heads, encoder_ffn_dim=dims.inner,
        decoder_ffn_dim=dims.inner, max_position_embeddings=dims.positions, attn_implementation=attention,
    )).encoder  # fmt: skip
    return _text(model, dims)
