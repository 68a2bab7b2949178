"""Decoders with a key-value cache, from tiny random configs."""

from pathlib import Path
from types import MappingProxyType

import torch
from torch import Tensor, nn
from transformers import (
    DynamicCache,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    T5Config,
    T5ForConditionalGeneration,
)

from .recipe import Recipe
from .torch_export import export_dynamo, export_script, randomize_norms

VOCABULARY = range(150)
LAYERS = 2
PAST = tuple(f"past.{layer}.{kind}" for layer in range(LAYERS) for kind in ("key", "value"))
PRESENT = tuple(name.replace("past", "present") for name in PAST)


class CausalLM(nn.Module):
    """Token ids, mask and flat past in; logits and flat present out."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: Tensor, attention_mask: Tensor, *past: Tensor) -> tuple[Tensor, ...]:
        cache = DynamicCache(list(zip(past[::2], past[1::2], strict=True)), config=self.model.config)
        out = self.model(input_ids=input_ids, attention_mask=attention_mask, past_key_values=cache, use_cache=True)
        present = [tensor for layer in out.past_key_values.layers for tensor in (layer.keys, layer.values)]
        return out.logits, *present


class Prefill(nn.Module):
    """Token ids and mask in, logits out: no cache."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        return self.model(input_ids=input_ids, attention_mask=attention_mask, use_cache=False).logits


class Seq2SeqStep(nn.Module):
    """The decoder of an encoder-decoder on given encoder states."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, decoder_ids: Tensor, encoder_states: Tensor, encoder_mask: Tensor) -> Tensor:
        hidden = self.model.decoder(
            input_ids=decoder_ids, encoder_hidden_states=encoder_states, encoder_attention_mask=encoder_mask,
            use_cache=False,
        )  # fmt: skip
        return self.model.lm_head(hidden.last_hidden_state)


def _gpt2() -> nn.Module:
    config = GPT2Config(
        vocab_size=len(VOCABULARY), n_positions=64, n_embd=32, n_layer=LAYERS, n_head=4, attn_implementation="eager",
    )  # fmt: skip
    return CausalLM(randomize_norms(GPT2LMHeadModel(config))).eval()


def _llama(attention: str) -> nn.Module:
    config = LlamaConfig(
        vocab_size=len(VOCABULARY), hidden_size=32, intermediate_size=64, num_hidden_layers=LAYERS,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64, attn_implementation=attention,
    )  # fmt: skip
    return randomize_norms(LlamaForCausalLM(config)).eval()


def _step(heads: int) -> tuple[Tensor, ...]:
    """Two sequences, three new tokens after five past ones."""
    ids, mask = torch.ones(2, 3, dtype=torch.long), torch.ones(2, 8, dtype=torch.long)
    return ids, mask, *(torch.randn(2, heads, 5, 8) for _ in PAST)


def build_gpt2(path: Path) -> str:
    axes = {"input_ids": {0: "batch", 1: "sequence"}, "attention_mask": {0: "batch", 1: "total"}}
    axes |= {name: {0: "batch", 2: "past"} for name in PAST} | {name: {0: "batch", 2: "total"} for name in PRESENT}
    axes["logits"] = {0: "batch", 1: "sequence"}
    inputs = ["input_ids", "attention_mask", *PAST]
    return export_script(_gpt2(), _step(4), path, 17, inputs, ["logits", *PRESENT], axes, do_constant_folding=False)


def build_llama(path: Path) -> str:
    axes = {name: {0: "batch", 1: "sequence"} for name in ("input_ids", "attention_mask", "logits")}
    args = tuple(torch.ones(2, 6, dtype=torch.long) for _ in range(2))
    inputs = ["input_ids", "attention_mask"]
    return export_script(Prefill(_llama("sdpa")), args, path, 17, inputs, ["logits"], axes)


def build_llama_dynamo(path: Path) -> str:
    shapes = (
        {0: "batch", 1: "sequence"}, {0: "batch", 1: "total"}, tuple({0: "batch", 2: "past"} for _ in PAST),
    )  # fmt: skip
    inputs = ["input_ids", "attention_mask", *PAST]
    return export_dynamo(CausalLM(_llama("eager")), _step(2), path, 18, inputs, ["logits", *PRESENT], shapes)


def build_t5_decoder(path: Path) -> str:
    config = T5Config(
        vocab_size=len(VOCABULARY), d_model=32, d_kv=8, d_ff=64, num_layers=LAYERS, num_heads=4,
        relative_attention_num_buckets=8, relative_attention_max_distance=16, attn_implementation="eager",
    )  # fmt: skip
    model = Seq2SeqStep(randomize_norms(T5ForConditionalGeneration(config)).eval())
    args = (torch.ones(2, 4, dtype=torch.long), torch.randn(2, 6, 32), torch.ones(2, 6, dtype=torch.long))
    target, source = {0: "batch", 1: "target"}, {0: "batch", 1: "source"}
    axes = {"decoder_ids": target, "encoder_states": source, "encoder_mask": source, "logits": target}
    return export_script(model, args, path, 13, list(axes)[:3], ["logits"], axes)


IDS = MappingProxyType({"input_ids": VOCABULARY})
STEP = MappingProxyType({"sequence": 2, "past": 3, "total": 5})
RECIPES = (
    Recipe("gpt2", "GPT-2 step with past keys and values; total = past + sequence (up to 64)", build_gpt2, IDS, STEP),
    Recipe("llama", "Llama prefill: RoPE, grouped-query attention, RMS norm, SwiGLU", build_llama, IDS),
    Recipe("llama_dynamo", "Llama step with a grouped-query cache; total = past + sequence", build_llama_dynamo, IDS,
           STEP),
    Recipe("t5_decoder", "T5 decoder with cross attention", build_t5_decoder, {"decoder_ids": VOCABULARY}),
)  # fmt: skip
