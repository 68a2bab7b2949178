"""Transformers on sound."""

import torch
from torch import Tensor, nn
from transformers import Wav2Vec2Config, Wav2Vec2ForCTC, WhisperConfig
from transformers.models.whisper.modeling_whisper import WhisperEncoder

from .subject import Dimensions, Subject


def whisper_encoder(dims: Dimensions, attention: str = "sdpa", *, mels: int = 20, length: int = 50) -> Subject:
    """Two convolutions, then `length` positions; keys have no bias."""
    config = WhisperConfig(
        d_model=dims.width, encoder_layers=dims.layers, encoder_attention_heads=dims.heads, encoder_ffn_dim=dims.inner,
        num_mel_bins=mels, max_source_positions=length, decoder_layers=1, vocab_size=100, pad_token_id=0,
        bos_token_id=1, eos_token_id=2, decoder_start_token_id=1, attn_implementation=attention,
    )  # fmt: skip

    def call(model: nn.Module, input_features: Tensor) -> Tensor:
        return model(input_features).last_hidden_state

    names = ("input_features", "last_hidden_state")
    features = {names[0]: torch.randn(2, mels, 2 * length)}
    axes = {name: {0: "batch"} for name in names}
    return Subject(WhisperEncoder(config), call, features, names[1:], axes, {"audio": {}})


def wav2vec2(
    dims: Dimensions, attention: str = "sdpa", *, channels: int = 16, samples: int = 1600, positions: int = 16
) -> Subject:
    """Convolutions on samples, positions from a grouped convolution, then the encoder."""
    config = Wav2Vec2Config(
        vocab_size=dims.vocabulary, hidden_size=dims.width, num_hidden_layers=dims.layers,
        num_attention_heads=dims.heads, intermediate_size=dims.inner, conv_dim=[channels] * 7,
        num_conv_pos_embeddings=positions, num_conv_pos_embedding_groups=positions // 8, attn_implementation=attention,
    )  # fmt: skip

    def call(model: nn.Module, input_values: Tensor) -> Tensor:
        return model(input_values).logits

    return Subject(
        Wav2Vec2ForCTC(config), call, {"input_values": torch.randn(2, samples)}, ("logits",),
        {"input_values": {0: "batch", 1: "samples"}, "logits": {0: "batch", 1: "frames"}},
        {"audio": {"samples": samples}},
    )  # fmt: skip
