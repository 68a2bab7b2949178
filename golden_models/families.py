"""Transformers of every family, by exporter, opset, dims and dtype: tiny ones for tests, larger ones for timing."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from . import audio_families as audio
from . import decoder_families as decoders
from . import encoder_families as encoders
from . import image_families as images
from .recipe import Recipe
from .subject import Dimensions, Subject, export

LOWEST = torch.finfo(torch.float32).min
TINY = Dimensions(width=16, layers=2, heads=2, inner=32, vocabulary=100, positions=64)
LONG = replace(TINY, positions=640)
GROUPED = replace(TINY, width=32, heads=4)
BASE = Dimensions(768, 4, 12, 3072, 30522, 512)
WHISPER = Dimensions(384, 4, 6, 1536, 51865, 448)
SHALLOW = replace(TINY, layers=1)
NARROW = replace(TINY, width=8, layers=1, heads=1, inner=16)


@dataclass(frozen=True)
class FamilyModel:
    """A model of a family. `variant`: the exporter (ts, dyn) with the opset, then eager, sdpa, static or half."""

    family: str
    description: str
    make: Callable[..., Subject]
    dims: Dimensions
    variant: str
    options: Mapping[str, object]

    @property
    def name(self) -> str:
        return "_".join([self.family, *self.variant.split()])

    def recipe(self) -> Recipe:
        """The recipe, for which the weights are drawn."""
        exporter, *words = self.variant.split()
        attention = next((word for word in words if word in {"eager", "sdpa"}), None)
        subject = self.make(self.dims, **({"attention": attention} if attention else {}), **self.options)
        opset, static, half = int(exporter.strip("tsdyn")), "static" in words, "half" in words

        def build(path: Path) -> str:
            return export(subject, path, opset, dynamo=exporter.startswith("dyn"), static=static, half=half)

        workloads = {"static": {}} if static else subject.workloads
        below = {name: range(bound) for name, bound in subject.below.items()}
        first = next(iter(workloads.values()))
        return Recipe(self.name, self.description, build, below, first, family=self.family, workloads=workloads)


def _models(
    family: str, description: str, make: Callable[..., Subject], *variants: str, dims: Dimensions = TINY,
    **options: object,
) -> tuple[FamilyModel, ...]:  # fmt: skip
    return tuple(FamilyModel(family, description, make, dims, variant, options) for variant in variants)


# Not there, with torch 2.13 and transformers 5.23: Swin from dynamo with fused attention (no decomposition), DETR with
# fused attention (not for its backbone), GPT-2 in half precision from TorchScript (norms of mixed types), Llama from
# dynamo at opset 23 without positions as input (its RotaryEmbedding runs with a batch of 1 only).
TINY_MODELS = (
    *_models("bert", "BERT", encoders.bert, "ts11 eager", "ts14 sdpa", "ts17 eager half", "ts17 sdpa static",
             "dyn18 eager", "dyn18 sdpa", "dyn24 sdpa"),
    *_models("bert_additive", "BERT with the mask (1 - mask) * -10000", encoders.bert_additive, "ts12", "dyn20"),
    *_models("bert_lowest", "BERT with the mask (1 - mask) * lowest", encoders.bert_additive, "ts15", "dyn18",
             fill=LOWEST),
    *_models("bert_unmasked", "BERT on ids alone", encoders.bert_unmasked, "ts16 sdpa", "dyn19 sdpa"),
    *_models("minilm", "MiniLM with mean pooling", encoders.minilm, "ts14 eager", "dyn18 sdpa", dims=LONG),
    *_models("distilbert", "DistilBERT", encoders.distilbert, "ts14 sdpa", "ts17 eager", "dyn18 sdpa"),
    *_models("clip_text", "CLIP text encoder", encoders.clip_text, "ts14 sdpa", "dyn18 sdpa"),
    *_models("clip_vision", "CLIP image encoder", images.clip_vision, "ts14 sdpa", "dyn21 sdpa"),
    *_models("vit", "Vision Transformer", images.vit, "ts13 eager", "ts17 sdpa static half", "dyn18 sdpa",
             "dyn23 sdpa"),
    *_models("swin", "Swin Transformer", images.swin, "ts17 eager", "dyn18 eager"),
    *_models("segformer", "Segformer", images.segformer, "ts13 eager", "ts17 sdpa", "dyn18 eager", dims=NARROW),
    *_models("detr", "DETR with a ResNet backbone", images.detr, "ts16 eager", "dyn18 eager"),
    *_models("sam_encoder", "SAM image encoder", images.sam_encoder, "ts17 eager", "dyn18 sdpa"),
    *_models("sam_decoder", "SAM prompt encoder and mask decoder", images.sam_decoder, "ts17 eager", "dyn18 sdpa",
             dims=SHALLOW),
    *_models("whisper_encoder", "Whisper encoder", audio.whisper_encoder, "ts17 sdpa", "dyn18 sdpa static"),
    *_models("whisper_decoder", "Whisper decoder", decoders.whisper_decoder, "ts17 eager", "dyn18 sdpa"),
    *_models("whisper_decoder_past", "Whisper decoder step", decoders.whisper_decoder, "ts14 sdpa", "dyn18 sdpa",
             past=True),
    *_models("wav2vec2", "wav2vec 2.0", audio.wav2vec2, "ts17 eager", "dyn18 sdpa"),
    *_models("t5_encoder", "T5 encoder", encoders.t5_encoder, "ts13", "dyn18"),
    *_models("t5_decoder", "T5 decoder", decoders.t5_decoder, "ts14", "dyn20"),
    *_models("t5_decoder_past", "T5 decoder step", decoders.t5_decoder, "ts17", "dyn18", past=True),
    *_models("bart_encoder", "BART encoder", encoders.bart_encoder, "ts14 eager", "dyn18 sdpa"),
    *_models("bart_decoder", "BART decoder", decoders.bart_decoder, "ts14 eager", "dyn18 sdpa"),
    *_models("bart_decoder_past", "BART decoder step", decoders.bart_decoder, "ts17 sdpa", "dyn18 sdpa", past=True),
    *_models("gpt2", "GPT-2", decoders.gpt2, "ts11 eager", "ts14 sdpa", "dyn20 sdpa"),
    *_models("gpt2_past", "GPT-2 step", decoders.gpt2, "ts13 eager", "dyn18 sdpa", "dyn18 sdpa half", past=True),
    *_models("llama", "Llama", decoders.llama, "ts14 sdpa", "dyn20 sdpa", "dyn18 eager static", dims=GROUPED),
    *_models("llama_positions", "Llama with positions as input", decoders.llama, "ts17 sdpa", "dyn23 sdpa",
             positions=True, dims=GROUPED),
    *_models("llama_past", "Llama step", decoders.llama, "ts17 eager", "dyn18 sdpa", "dyn24 sdpa", "dyn18 sdpa half",
             past=True, dims=GROUPED),
    *_models("mistral", "Mistral with a sliding window", decoders.mistral, "ts17 sdpa", dims=GROUPED),
    *_models("mistral_past", "Mistral step with a sliding window", decoders.mistral, "dyn18 sdpa", past=True,
             dims=GROUPED),
    *_models("qwen2", "Qwen2", decoders.qwen2, "dyn22 sdpa", dims=GROUPED),
    *_models("qwen2_past", "Qwen2 step", decoders.qwen2, "ts16 sdpa", "dyn18 eager", past=True, dims=GROUPED),
    *_models("gemma", "Gemma", decoders.gemma, "ts17 eager", dims=GROUPED),
    *_models("gemma_past", "Gemma step", decoders.gemma, "dyn18 sdpa", past=True, dims=GROUPED),
    *_models("gemma2", "Gemma 2 with softcaps", decoders.gemma2, "dyn18", dims=GROUPED),
    *_models("gemma2_past", "Gemma 2 step with softcaps", decoders.gemma2, "ts17", "dyn21", past=True, dims=GROUPED),
    *_models("phi", "Phi with partial rotation", decoders.phi, "ts14 sdpa", dims=GROUPED),
    *_models("phi_past", "Phi step with partial rotation", decoders.phi, "ts17 eager", "dyn18 sdpa", past=True,
             dims=GROUPED),
)  # fmt: skip
LARGE_MODELS = (
    *_models("minilm", "MiniLM-L6 with mean pooling", encoders.minilm, "ts14 eager", "dyn18 sdpa",
             dims=Dimensions(384, 6, 12, 1536, 30522, 512)),
    *_models("bert", "BERT-base, 4 of 12 layers", encoders.bert, "ts14 sdpa", "dyn18 sdpa", dims=BASE),
    *_models("distilbert", "DistilBERT, 4 of 6 layers", encoders.distilbert, "ts14 sdpa", dims=BASE),
    *_models("bart_encoder", "BART-base encoder, 4 of 6 layers", encoders.bart_encoder, "dyn18 sdpa", dims=BASE),
    *_models("bart_decoder_past", "BART-base decoder step, 4 of 6 layers", decoders.bart_decoder, "dyn18 sdpa",
             dims=BASE, past=True),
    *_models("gpt2_past", "GPT-2 with 124 M parameters", decoders.gpt2, "ts17 eager", "dyn18 sdpa",
             dims=Dimensions(768, 12, 12, 3072, 50257, 1024), past=True, lengths=(128,)),
    *_models("llama_past", "Llama with 4 of 16 heads for keys and values", decoders.llama, "ts17 eager", "dyn18 sdpa",
             dims=Dimensions(1024, 4, 16, 2816, 16000, 2048), past=True, lengths=(128, 1024)),
    *_models("t5_decoder", "T5-small decoder", decoders.t5_decoder, "ts14",
             dims=Dimensions(512, 6, 8, 2048, 32128, 512)),
    *_models("whisper_decoder", "Whisper-tiny decoder", decoders.whisper_decoder, "dyn18 sdpa", dims=WHISPER,
             source=1500),
    *_models("whisper_decoder_past", "Whisper-tiny decoder step", decoders.whisper_decoder, "dyn18 sdpa", dims=WHISPER,
             past=True, source=1500),
    *_models("whisper_encoder", "Whisper-tiny encoder", audio.whisper_encoder, "dyn18 sdpa", dims=WHISPER, mels=80,
             length=1500),
    *_models("wav2vec2", "wav2vec 2.0 base, 4 of 12 layers", audio.wav2vec2, "dyn18 sdpa",
             dims=Dimensions(768, 4, 12, 3072, 32, 0), channels=512, samples=16000, positions=128),
    *_models("vit", "ViT-base, 4 of 12 layers", images.vit, "ts17 eager", "dyn18 sdpa", dims=BASE, size=224, patch=16),
    *_models("clip_vision", "CLIP B/32 image encoder, 4 of 12 layers", images.clip_vision, "ts14 sdpa", dims=BASE,
             size=224, patch=32),
    *_models("swin", "Swin-tiny", images.swin, "ts17 eager", dims=Dimensions(96, 2, 3, 384, 0, 0), size=224, patch=4,
             window=7, depths=(2, 2, 6, 2)),
    *_models("segformer", "Segformer-b0 at 256 x 256", images.segformer, "ts13 eager", "ts17 eager",
             dims=Dimensions(32, 2, 1, 128, 0, 0), heads=(1, 2, 5, 8), size=256),
)  # fmt: skip
