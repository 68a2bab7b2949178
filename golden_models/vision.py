"""Dense prediction and detection."""

from pathlib import Path

import torch
from torch import Tensor, nn

from .recipe import Recipe
from .torch_export import UNFOLDED, export_dynamo, export_script, randomize_norms


def _double_conv(inner: int, outer: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inner, outer, 3, padding=1), nn.BatchNorm2d(outer), nn.ReLU(),
        nn.Conv2d(outer, outer, 3, padding=1), nn.BatchNorm2d(outer), nn.ReLU(),
    )  # fmt: skip


class UNet(nn.Module):
    """Two levels down and up; upsampling by ConvTranspose + BN, then a Concat with the skip."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.ModuleList([_double_conv(3, 8), _double_conv(8, 16)])
        self.bottom = _double_conv(16, 32)
        self.lift = nn.ModuleList([
            nn.Sequential(nn.ConvTranspose2d(32, 16, 2, 2), nn.BatchNorm2d(16), nn.ReLU()),
            nn.Sequential(nn.ConvTranspose2d(16, 8, 4, 2, 1, bias=False), nn.BatchNorm2d(8), nn.ReLU()),
        ])  # fmt: skip
        self.up = nn.ModuleList([_double_conv(32, 16), _double_conv(16, 8)])
        self.head = nn.Conv2d(8, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        skips = []
        for down in self.down:
            x = down(x)
            skips.append(x)
            x = nn.functional.max_pool2d(x, 2)
        x = self.bottom(x)
        for lift, up, skip in zip(self.lift, self.up, reversed(skips), strict=True):
            x = up(torch.cat([skip, lift(x)], 1))
        return torch.softmax(self.head(x), 1)


class RepVGGBlock(nn.Module):
    """The training form: 3x3 + BN, 1x1 + BN and a BN alone, summed."""

    def __init__(self, inner: int, outer: int, stride: int) -> None:
        super().__init__()
        self.dense = nn.Sequential(nn.Conv2d(inner, outer, 3, stride, 1, bias=False), nn.BatchNorm2d(outer))
        self.point = nn.Sequential(nn.Conv2d(inner, outer, 1, stride, bias=False), nn.BatchNorm2d(outer))
        self.same = nn.BatchNorm2d(inner) if inner == outer and stride == 1 else None

    def forward(self, x: Tensor) -> Tensor:
        y = self.dense(x) + self.point(x)
        return torch.relu(y if self.same is None else y + self.same(x))


def repvgg() -> nn.Module:
    """Five blocks, pool, classifier."""
    return randomize_norms(nn.Sequential(
        RepVGGBlock(3, 16, 2), RepVGGBlock(16, 16, 1), RepVGGBlock(16, 24, 2), RepVGGBlock(24, 24, 1),
        RepVGGBlock(24, 24, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(24, 10),
    ))  # fmt: skip


class YoloHead(nn.Module):
    """One scale: raw map to boxes through a grid of cells and a list of anchors, as YOLOv5 decodes them."""

    def __init__(self, width: int, classes: int, stride: int, anchors: list[list[float]]) -> None:
        super().__init__()
        self.conv = nn.Conv2d(width, len(anchors) * (classes + 5), 1)
        self.fields, self.stride = classes + 5, stride
        self.register_buffer("anchors", torch.tensor(anchors).view(1, len(anchors), 1, 1, 2))

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv(x)
        batch, _, height, width = x.shape
        x = x.view(batch, 3, self.fields, height, width).permute(0, 1, 3, 4, 2).contiguous()
        rows, columns = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
        grid = torch.stack([columns, rows], 2).view(1, 1, height, width, 2).float() - 0.5
        centre, size, scores = x.sigmoid().split([2, 2, self.fields - 4], 4)
        boxes = torch.cat([(centre * 2 + grid) * self.stride, (size * 2) ** 2 * self.anchors, scores], 4)
        return boxes.view(batch, -1, self.fields)


class Yolo(nn.Module):
    """SiLU backbone, nearest upsampling into a neck, two heads concatenated."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(self._conv(3, 8, 2), self._conv(8, 16, 2), self._conv(16, 16, 2))
        self.deep = nn.Sequential(self._conv(16, 32, 2), self._conv(32, 16, 1))
        self.neck = self._conv(32, 16, 1)
        self.heads = nn.ModuleList([
            YoloHead(16, 4, 8, [[10, 13], [16, 30], [33, 23]]), YoloHead(16, 4, 16, [[30, 61], [62, 45], [59, 119]]),
        ])  # fmt: skip

    @staticmethod
    def _conv(inner: int, outer: int, stride: int) -> nn.Sequential:
        return nn.Sequential(nn.Conv2d(inner, outer, 3, stride, 1, bias=False), nn.BatchNorm2d(outer), nn.SiLU())

    def forward(self, x: Tensor) -> Tensor:
        fine = self.stem(x)
        coarse = self.deep(fine)
        lifted = nn.functional.interpolate(coarse, scale_factor=2.0, mode="nearest")
        neck = self.neck(torch.cat([fine, lifted], 1))
        return torch.cat([head(x) for head, x in zip(self.heads, (neck, coarse), strict=True)], 1)


def build_unet(path: Path) -> str:
    axes = {name: {0: "batch", 2: "height", 3: "width"} for name in ("image", "mask")}
    image = torch.randn(1, 3, 32, 32)
    return export_script(randomize_norms(UNet()).eval(), (image,), path, 11, ["image"], ["mask"], axes, **UNFOLDED)


def build_unet_dynamo(path: Path) -> str:
    shapes = ({0: "batch"},)
    return export_dynamo(
        randomize_norms(UNet()).eval(), (torch.randn(2, 3, 32, 32),), path, 21, ["image"], ["mask"], shapes
    )


def build_repvgg(path: Path) -> str:
    return export_script(repvgg().eval(), (torch.randn(2, 3, 32, 32),), path, 15, **UNFOLDED)


def build_yolo(path: Path) -> str:
    axes = {"image": {0: "batch", 2: "height", 3: "width"}, "boxes": {0: "batch", 1: "candidates"}}
    model, image = randomize_norms(Yolo()).eval(), torch.randn(1, 3, 64, 64)
    return export_script(model, (image,), path, 16, ["image"], ["boxes"], axes, do_constant_folding=False)


def build_yolo_dynamo(path: Path) -> str:
    return export_dynamo(randomize_norms(Yolo()).eval(), (torch.randn(1, 3, 64, 64),), path, 19, ["image"], ["boxes"])


RECIPES = (
    Recipe("unet", "U-Net: ConvTranspose + BN, skip Concat, BN kept, dynamic image size", build_unet,
           sizes={"height": 32, "width": 16}),
    Recipe("unet_dynamo", "U-Net: ConvTranspose + BN, skip Concat", build_unet_dynamo),
    Recipe("repvgg", "RepVGG in training form: three branches a block, each with BN", build_repvgg),
    Recipe("yolo", "YOLO with two anchor heads, grids made at run time, dynamic image size", build_yolo,
           sizes={"height": 64, "width": 32}),
    Recipe("yolo_dynamo", "YOLO with two anchor heads at a fixed image size", build_yolo_dynamo),
)  # fmt: skip
