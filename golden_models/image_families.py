"""Transformers on images: classification, segmentation and detection."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from transformers import (
    CLIPVisionConfig,
    CLIPVisionModelWithProjection,
    DetrConfig,
    DetrForObjectDetection,
    ResNetConfig,
    SamConfig,
    SamModel,
    SamVisionConfig,
    SamVisionModel,
    SegformerConfig,
    SegformerForSemanticSegmentation,
    SwinConfig,
    SwinForImageClassification,
    ViTConfig,
    ViTForImageClassification,
)

from .subject import Call, Dimensions, Subject

BATCH = {0: "batch"}


def _image(model: nn.Module, size: int, call: Call, outputs: tuple[str, ...] = ("logits",)) -> Subject:
    image = {"pixel_values": torch.randn(2, 3, size, size)}
    return Subject(model, call, image, outputs, dict.fromkeys(("pixel_values", *outputs), BATCH), {"image": {}})


def _logits(model: nn.Module, pixel_values: Tensor) -> Tensor:
    return model(pixel_values=pixel_values).logits


def vit(dims: Dimensions, attention: str = "eager", *, size: int = 32, patch: int = 8) -> Subject:
    config = ViTConfig(
        hidden_size=dims.width, num_hidden_layers=dims.layers, num_attention_heads=dims.heads,
        intermediate_size=dims.inner, image_size=size, patch_size=patch, num_labels=10, attn_implementation=attention,
    )  # fmt: skip
    return _image(ViTForImageClassification(config), size, _logits)


def clip_vision(dims: Dimensions, attention: str = "sdpa", *, size: int = 32, patch: int = 8) -> Subject:
    """A norm in front, quick GELU, the projection of the class token."""
    config = CLIPVisionConfig(
        hidden_size=dims.width, num_hidden_layers=dims.layers, num_attention_heads=dims.heads,
        intermediate_size=dims.inner, image_size=size, patch_size=patch, projection_dim=dims.width,
        attn_implementation=attention,
    )  # fmt: skip
    model = CLIPVisionModelWithProjection(config)
    return _image(model, size, lambda model, pixel_values: model(pixel_values).image_embeds, ("image_embeds",))


def swin(
    dims: Dimensions, attention: str = "eager", *, size: int = 32, patch: int = 2, window: int = 4,
    depths: Sequence[int] = (2,),
) -> Subject:  # fmt: skip
    """Attention in windows with a bias by position, shifted in every other layer."""
    config = SwinConfig(
        image_size=size, patch_size=patch, embed_dim=dims.width, depths=list(depths), window_size=window,
        num_heads=[dims.heads << i for i in range(len(depths))], mlp_ratio=dims.inner / dims.width, num_labels=10,
        attn_implementation=attention,
    )  # fmt: skip
    return _image(SwinForImageClassification(config), size, _logits)


def segformer(dims: Dimensions, attention: str = "eager", *, heads: Sequence[int] = (1, 2), size: int = 64) -> Subject:
    """Keys and values of fewer positions than queries; depthwise convolutions in the MLPs."""
    stages = len(heads)
    config = SegformerConfig(
        num_encoder_blocks=stages, depths=[dims.layers] * stages, sr_ratios=[8, 4, 2, 1][-stages:],
        patch_sizes=[7, 3, 3, 3][:stages], strides=[4, 2, 2, 2][:stages], num_attention_heads=list(heads),
        hidden_sizes=[dims.width * h for h in heads], mlp_ratios=[dims.inner // dims.width] * stages,
        decoder_hidden_size=max(heads) * dims.width, num_labels=10,
        attn_implementation=attention,
    )  # fmt: skip
    return _image(SegformerForSemanticSegmentation(config), size, _logits)


def detr(dims: Dimensions, attention: str = "eager", *, size: int = 64) -> Subject:
    """A convolutional backbone, an encoder over its positions, a decoder over learned queries."""
    backbone = ResNetConfig(
        embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], layer_type="basic", out_features=["stage2"]
    )
    config = DetrConfig(
        use_timm_backbone=False, use_pretrained_backbone=False, backbone=None, backbone_config=backbone,
        d_model=dims.width, num_queries=10, encoder_layers=dims.layers, decoder_layers=dims.layers,
        encoder_attention_heads=dims.heads, decoder_attention_heads=dims.heads, encoder_ffn_dim=dims.inner,
        decoder_ffn_dim=dims.inner, num_labels=5, attn_implementation=attention,
    )  # fmt: skip

    def call(model: nn.Module, pixel_values: Tensor) -> tuple[Tensor, Tensor]:
        out = model(pixel_values=pixel_values)
        return out.logits, out.pred_boxes

    return _image(DetrForObjectDetection(config), size, call, ("logits", "boxes"))


def _sam_vision(dims: Dimensions, attention: str, size: int, patch: int) -> SamVisionConfig:
    return SamVisionConfig(
        hidden_size=dims.width, output_channels=dims.width, num_hidden_layers=dims.layers,
        num_attention_heads=dims.heads, image_size=size, patch_size=patch, mlp_dim=dims.inner, window_size=3,
        global_attn_indexes=[dims.layers - 1], num_pos_feats=dims.width // 2, initializer_range=0.02,
        attn_implementation=attention,
    )  # fmt: skip


def sam_encoder(dims: Dimensions, attention: str = "eager", *, size: int = 64, patch: int = 8) -> Subject:
    """Padded windows and one global layer, with positions added to the scores by axis."""
    model = SamVisionModel(_sam_vision(dims, attention, size, patch))
    for name, weight in model.named_parameters():  # zeros in a fresh model
        if "rel_pos" in name or "pos_embed" in name:
            nn.init.normal_(weight, 0.0, 0.1)
    return _image(model, size, lambda model, pixel_values: model(pixel_values).last_hidden_state, ("embeddings",))


def sam_decoder(dims: Dimensions, attention: str = "eager", *, size: int = 64, patch: int = 8) -> Subject:
    """Masks of points on image embeddings: attention of tokens to the image and of the image to tokens."""
    config = SamConfig(
        vision_config=_sam_vision(dims, attention, size, patch).to_dict(),
        prompt_encoder_config={
            "hidden_size": dims.width, "image_size": size, "patch_size": patch, "mask_input_channels": 4,
        },
        mask_decoder_config={
            "hidden_size": dims.width, "mlp_dim": dims.inner, "num_hidden_layers": dims.layers,
            "num_attention_heads": dims.heads, "iou_head_hidden_dim": dims.width,
        },
        attn_implementation=attention,
    )  # fmt: skip

    def call(model: nn.Module, embeddings: Tensor, points: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        out = model(image_embeddings=embeddings, input_points=points, input_labels=labels)
        return out.pred_masks, out.iou_scores

    inputs = {
        "embeddings": torch.randn(2, dims.width, size // patch, size // patch),
        "points": torch.rand(2, 1, 3, 2) * size,
        "labels": torch.ones(2, 1, 3, dtype=torch.long),
    }
    points = {0: "batch", 2: "points"}
    axes = {"embeddings": BATCH, "points": points, "labels": points, "masks": BATCH, "scores": BATCH}
    return Subject(SamModel(config), call, inputs, ("masks", "scores"), axes, {"points": {"points": 3}})
