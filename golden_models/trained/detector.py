"""A YOLO that finds faces and bodies, on parts of photographs, with its own boxes as labels."""

import numpy as np
import onnxruntime
from PIL import Image, ImageEnhance

from .labelled_model import LabelledModel, TrainedModel
from .metrics import boxes_of
from .packages import source, unpacked

SIDE, BOXES = 320, 40
CALIBRATION, LABELLED = 32, 96
PHOTOGRAPHS = {
    "insightface": ("insightface/data/images", ("t1.jpg", "Tom_Hanks_54745.png")),
    "scikit-image": ("skimage/data", ("astronaut.png", "camera.png", "coffee.png", "chelsea.png", "rocket.jpg")),
}


def photographs() -> list[Image.Image]:
    """Those with people twice, to be drawn more often."""
    folders = [(unpacked(name) / folder, names) for name, (folder, names) in PHOTOGRAPHS.items()]
    opened = [Image.open(folder / name).convert("RGB") for folder, names in folders for name in names]
    return [*opened[:3], *opened[:3], *opened]


def crops(count: int, seed: int) -> np.ndarray:
    """Parts of photographs [count, 3, SIDE, SIDE] in 0..1, mirrored, darker or paler."""
    draw, sources, found = np.random.default_rng(seed), photographs(), []
    for _ in range(count):
        image = sources[draw.integers(len(sources))]
        side = int(min(image.size) * draw.uniform(0.45, 1))
        left, top = (int(draw.integers(0, length - side + 1)) for length in image.size)
        part = image.crop((left, top, left + side, top + side)).resize((SIDE, SIDE), Image.Resampling.BILINEAR)
        part = ImageEnhance.Brightness(part).enhance(draw.uniform(0.6, 1.3))
        part = ImageEnhance.Contrast(part).enhance(draw.uniform(0.7, 1.3))
        pixels = np.asarray(part, np.float32).transpose(2, 0, 1) / np.float32(255)
        found.append(pixels[:, :, ::-1] if draw.random() < 0.5 else pixels)
    return np.stack(found)


def make() -> LabelledModel:
    path = unpacked("nudenet") / "nudenet" / "320n.onnx"
    session = onnxruntime.InferenceSession(path)
    images = crops(LABELLED, 2)
    labels = np.full((LABELLED, BOXES, 5), -1, np.float32)
    for label, image in zip(labels, images, strict=True):
        boxes = boxes_of(session.run(None, {"images": image[None]})[0][0])[:BOXES]
        label[: len(boxes)] = np.reshape(boxes, (-1, 5))
    return LabelledModel(
        path, {"images": crops(CALIBRATION, 1)}, {"images": images, "labels": labels}, source("nudenet")
    )


MODELS = (
    TrainedModel("nudenet", "YOLOv8 of 320 by 320 pixels, agreement with float32", make, "average_precision", 0.99),
)
