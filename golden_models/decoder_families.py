"""Decoders of text, with and without past keys and values."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import torch
from torch import Tensor, nn
from transformers import (
    BartConfig,
    BartForConditionalGeneration,
    DynamicCache,
    EncoderDecoderCache,
    Gemma2Config,
    Gemma2ForCausalLM,
    GemmaConfig,
    GemmaForCausalLM,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    PhiConfig,
    PhiForCausalLM,
    PreTrainedConfig,
    PreTrainedModel,
    Qwen2Config,
    Qwen2ForCausalLM,
    T5Config,
    T5ForConditionalGeneration,
    WhisperConfig,
    WhisperForConditionalGeneration,
)

from .subject import Dimensions, Sizes, Subject

TOKENS = MappingProxyType({0: "batch", 1: "sequence"})
PAST = MappingProxyType({0: "batch", 2: "past"})
TOTAL = MappingProxyType({0: "batch", 1: "total"})
PRESENT = MappingProxyType({0: "batch", 2: "total"})
SOURCE = MappingProxyType({0: "batch", 2: "source"})
KINDS = ("key", "value")


def _steps(lengths: Sequence[int]) -> dict[str, Sizes]:
    """One token behind so many, and the smallest number of tokens behind none."""
    first = min(lengths)
    return {
        **{f"decode_{past}": {"sequence": 1, "past": past, "total": past + 1} for past in lengths},
        f"prefill_{first}": {"sequence": first, "past": 0, "total": first},
    }


def _ids(*shape: int) -> Tensor:
    return torch.ones(*shape, dtype=torch.long)


def _flat_cache(cache: DynamicCache) -> tuple[Tensor, ...]:
    return tuple(tensor for layer in cache.layers for tensor in (layer.keys, layer.values))


def _cache(tensors: Mapping[str, Tensor], prefix: str, config: PreTrainedConfig) -> DynamicCache:
    flat = [tensor for name, tensor in tensors.items() if name.startswith(prefix)]
    return DynamicCache(list(zip(flat[::2], flat[1::2], strict=True)), config=config)


def _causal(
    model: PreTrainedModel, dims: Dimensions, *, past: bool, lengths: Sequence[int] = (32,), positions: bool = False
) -> Subject:
    """Logits of a causal language model; with `past`, its keys and values go in and out."""
    if not past:
        names = ("input_ids", "attention_mask", *(["position_ids"] if positions else []))
        return Subject(
            model, _prefill, {name: _ids(2, 6) for name in names}, ("logits",),
            dict.fromkeys((*names, "logits"), TOKENS),
            {f"prefill_{length}": {"sequence": length} for length in lengths},
            {"input_ids": dims.vocabulary} | ({"position_ids": dims.positions} if positions else {}),
        )  # fmt: skip
    config = model.config
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    names = [f"past.{layer}.{kind}" for layer in range(dims.layers) for kind in KINDS]
    present = tuple(name.replace("past", "present") for name in names)
    inputs = {"input_ids": _ids(2, 3), "attention_mask": _ids(2, 8)}
    inputs |= {name: torch.randn(2, heads, 5, width) for name in names}
    axes = {"input_ids": TOKENS, "attention_mask": TOTAL, "logits": TOKENS}
    axes |= dict.fromkeys(names, PAST) | dict.fromkeys(present, PRESENT)
    return Subject(model, _decode, inputs, ("logits", *present), axes, _steps(lengths), {"input_ids": dims.vocabulary})


def _prefill(model: PreTrainedModel, **inputs: Tensor) -> Tensor:
    return model(**inputs, use_cache=False).logits


def _decode(model: PreTrainedModel, input_ids: Tensor, attention_mask: Tensor, **past: Tensor) -> tuple[Tensor, ...]:
    cache = _cache(past, "past.", model.config)
    out = model(input_ids=input_ids, attention_mask=attention_mask, past_key_values=cache, use_cache=True)
    return out.logits, *_flat_cache(out.past_key_values)


def gpt2(dims: Dimensions, attention: str = "eager", *, past: bool = False, lengths: Sequence[int] = (32,)) -> Subject:
    config = GPT2Config(
        vocab_size=dims.vocabulary, n_positions=dims.positions, n_embd=dims.width, n_layer=dims.layers,
        n_head=dims.heads, n_inner=dims.inner, attn_implementation=attention,
    )  # fmt: skip
    return _causal(GPT2LMHeadModel(config), dims, past=past, lengths=lengths)


def _rotary_config(dims: Dimensions, attention: str) -> dict[str, object]:
    return {
        "vocab_size": dims.vocabulary, "hidden_size": dims.width, "intermediate_size": dims.inner,
        "num_hidden_layers": dims.layers, "num_attention_heads": dims.heads,
        "num_key_value_heads": max(dims.heads // 4, 2), "max_position_embeddings": dims.positions,
        "attn_implementation": attention,
    }  # fmt: skip


def llama(
    dims: Dimensions, attention: str = "sdpa", *, past: bool = False, lengths: Sequence[int] = (32,),
    positions: bool = False,
) -> Subject:  # fmt: skip
    model = LlamaForCausalLM(LlamaConfig(**_rotary_config(dims, attention)))
    return _causal(model, dims, past=past, lengths=lengths, positions=positions)


def _window(*, past: bool) -> int:
    """A sliding window: exported steps hold only for pasts within it."""
    return 64 if past else 8


def mistral(dims: Dimensions, attention: str = "sdpa", *, past: bool = False) -> Subject:
    config = MistralConfig(**_rotary_config(dims, attention), sliding_window=_window(past=past))
    return _causal(MistralForCausalLM(config), dims, past=past)


def qwen2(dims: Dimensions, attention: str = "sdpa", *, past: bool = False) -> Subject:
    """With biases in front of the rotation."""
    return _causal(Qwen2ForCausalLM(Qwen2Config(**_rotary_config(dims, attention))), dims, past=past)


def gemma(dims: Dimensions, attention: str = "sdpa", *, past: bool = False) -> Subject:
    """RMS norms that multiply by 1 + weight, embeddings scaled, heads wider than their share."""
    config = GemmaConfig(**_rotary_config(dims, attention), head_dim=2 * dims.head_width)
    return _causal(GemmaForCausalLM(config), dims, past=past)


def gemma2(dims: Dimensions, attention: str = "eager", *, past: bool = False) -> Subject:
    """Softcaps of scores and logits; a sliding window in every other layer."""
    config = Gemma2Config(
        **_rotary_config(dims, attention), head_dim=dims.head_width, query_pre_attn_scalar=dims.head_width,
        sliding_window=_window(past=past),
    )  # fmt: skip
    return _causal(Gemma2ForCausalLM(config), dims, past=past)


def phi(dims: Dimensions, attention: str = "sdpa", *, past: bool = False) -> Subject:
    """Half of each head rotated; attention and MLP side by side."""
    rotation = {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.5}
    config = PhiConfig(**_rotary_config(dims, attention), rope_parameters=rotation)
    return _causal(PhiForCausalLM(config), dims, past=past)


class Decoder(nn.Module):
    """The decoder of an encoder-decoder and its head: logits and cache."""

    def __init__(self, model: PreTrainedModel, head: nn.Module) -> None:
        super().__init__()
        self.decoder, self.head, self.config = model.get_decoder(), head, model.config

    def forward(self, **inputs: object) -> tuple[Tensor, object]:
        out = self.decoder(**inputs)
        return self.head(out.last_hidden_state), out.past_key_values


def _sequence_to_sequence(
    model: PreTrainedModel, head: nn.Module, dims: Dimensions, *, past: bool, masked: bool = True,
    source: int | None = None,
) -> Subject:  # fmt: skip
    """The decoder on states of an encoder; with `past`, on its own keys and values, and those of the states."""
    decoder, longest = Decoder(model, head), min(dims.positions, 128) // 2
    source = source or longest
    if past:
        return _step_with_past(decoder, dims, masked=masked, target=longest, source=source)
    inputs = {"decoder_ids": _ids(2, 4), "encoder_states": torch.randn(2, 6, dims.width)}
    states = {0: "batch", 1: "source"}
    axes = {"decoder_ids": TOKENS, "encoder_states": states, "logits": TOKENS}
    if masked:
        inputs["encoder_mask"], axes["encoder_mask"] = _ids(2, 6), states
    workloads = {
        "first": {"sequence": 4, "source": source},
        f"prefill_{longest}": {"sequence": longest, "source": source},
    }
    return Subject(decoder, _decode_states, inputs, ("logits",), axes, workloads, {"decoder_ids": dims.vocabulary})


def _decode_states(
    model: nn.Module, decoder_ids: Tensor, encoder_states: Tensor, encoder_mask: Tensor | None = None
) -> Tensor:
    masks = {} if encoder_mask is None else {"encoder_attention_mask": encoder_mask}
    return model(
        input_ids=decoder_ids, attention_mask=torch.ones_like(decoder_ids), encoder_hidden_states=encoder_states,
        use_cache=False, **masks,
    )[0]  # fmt: skip


def _step_with_past(model: nn.Module, dims: Dimensions, *, masked: bool, target: int, source: int) -> Subject:
    own = [f"past.{layer}.{kind}" for layer in range(dims.layers) for kind in KINDS]
    crossed = [f"cross.{layer}.{kind}" for layer in range(dims.layers) for kind in KINDS]
    present = tuple(name.replace("past", "present") for name in own)

    def call(model: nn.Module, decoder_ids: Tensor, encoder_mask: Tensor | None = None, **past: Tensor) -> object:
        caches = (_cache(past, prefix, model.config) for prefix in ("past.", "cross."))
        masks = {} if encoder_mask is None else {"encoder_attention_mask": encoder_mask}
        # Only whether there are states counts: the cache has their keys and values.
        states = past[crossed[0]].new_zeros(decoder_ids.shape[0], 1, dims.width)
        logits, cache = model(
            input_ids=decoder_ids, encoder_hidden_states=states, past_key_values=EncoderDecoderCache(*caches),
            use_cache=True, **masks,
        )  # fmt: skip
        return logits, *_flat_cache(cache.self_attention_cache)

    inputs = {"decoder_ids": _ids(2, 1)} | ({"encoder_mask": _ids(2, 6)} if masked else {})
    inputs |= {name: torch.randn(2, dims.heads, 5, dims.head_width) for name in own}
    inputs |= {name: torch.randn(2, dims.heads, 6, dims.head_width) for name in crossed}
    axes = {"decoder_ids": {0: "batch"}, "encoder_mask": {0: "batch", 1: "source"}, "logits": {0: "batch"}}
    axes |= dict.fromkeys(own, PAST) | dict.fromkeys(crossed, SOURCE) | dict.fromkeys(present, PRESENT)
    workloads = {f"decode_{target}": {"past": target, "source": source}}
    return Subject(model, call, inputs, ("logits", *present), axes, workloads, {"decoder_ids": dims.vocabulary})


def t5_decoder(dims: Dimensions, attention: str = "eager", *, past: bool = False) -> Subject:
    """Relative position buckets, RMS norm; no scale of the scores."""
    model = T5ForConditionalGeneration(T5Config(
        vocab_size=dims.vocabulary, d_model=dims.width, d_kv=dims.head_width, d_ff=dims.inner, num_layers=dims.layers,
        num_heads=dims.heads, relative_attention_num_buckets=8, relative_attention_max_distance=16,
        attn_implementation=attention,
    ))  # fmt: skip
    return _sequence_to_sequence(model, model.lm_head, dims, past=past)


def bart_decoder(dims: Dimensions, attention: str = "sdpa", *, past: bool = False) -> Subject:
    model = BartForConditionalGeneration(BartConfig(
        vocab_size=dims.vocabulary, d_model=dims.width, encoder_layers=1, decoder_layers=dims.layers,
        encoder_attention_heads=dims.heads, decoder_attention_heads=dims.heads, encoder_ffn_dim=dims.inner,
        decoder_ffn_dim=dims.inner, max_position_embeddings=dims.positions, attn_implementation=attention,
    ))  # fmt: skip
    return _sequence_to_sequence(model, model.lm_head, dims, past=past)


def whisper_decoder(
    dims: Dimensions, attention: str = "sdpa", *, past: bool = False, source: int | None = None
) -> Subject:
    model = WhisperForConditionalGeneration(WhisperConfig(
        vocab_size=dims.vocabulary, d_model=dims.width, encoder_layers=1, decoder_layers=dims.layers,
        encoder_attention_heads=dims.heads, decoder_attention_heads=dims.heads, encoder_ffn_dim=dims.inner,
        decoder_ffn_dim=dims.inner, max_target_positions=dims.positions, num_mel_bins=20, max_source_positions=50,
        pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1, attn_implementation=attention,
    ))  # fmt: skip
    return _sequence_to_sequence(model, model.proj_out, dims, past=past, masked=False, source=source)
