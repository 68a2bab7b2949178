"""The networks of ddddocr, on drawn words, with their own answers as labels."""

import numpy as np
from PIL import Image, ImageDraw

from .answers import first_output
from .detector import crops, found_boxes
from .labelled_model import LabelledModel, TrainedModel
from .metrics import BLANK, decoded_yolox
from .packages import source, unpacked
from .text_lines import lines, some_font

PACKAGE = "ddddocr"
CALIBRATION, LABELLED, SIDE = 32, 128, 416


def words_read(scores: np.ndarray) -> np.ndarray:
    """The classes that CTC reads greedily from scores [N, steps, classes], filled up with BLANK."""
    found = np.full(scores.shape[:2], BLANK)
    for row, steps in zip(found, np.argmax(scores, -1), strict=True):
        read = steps[(steps != BLANK) & (steps != np.concatenate([[BLANK], steps[:-1]]))]
        row[: len(read)] = read
    return found


def make_words() -> LabelledModel:
    path = unpacked(PACKAGE) / "ddddocr" / "common.onnx"

    def images(count: int, seed: int) -> np.ndarray:
        """Lines of text, grey, as high as the network wants them."""
        grey = (np.stack([image for _, image in lines(count, 160, seed)]).mean(1) + 1) / 2
        pixels = [Image.fromarray(np.rint(255 * image).astype(np.uint8)).resize((213, 64)) for image in grey]
        return np.stack([np.asarray(image, np.float32)[None] / np.float32(255) for image in pixels])

    found = {"input1": images(LABELLED, 2)}
    labelled = {**found, "labels": words_read(first_output(path, found))}
    return LabelledModel(path, {"input1": images(CALIBRATION, 1)}, labelled, source(PACKAGE))


def scattered(count: int, seed: int) -> np.ndarray:
    """Letters on photographs [count, 3, SIDE, SIDE] in 0..255, to be clicked in an order."""
    draw, found = np.random.default_rng(seed), []
    for photograph in crops(count, seed, SIDE):
        image = Image.fromarray(np.rint(255 * photograph.transpose(1, 2, 0)).astype(np.uint8))
        for column in draw.permutation(4)[: draw.integers(2, 5)]:
            font = some_font(draw, int(draw.integers(50, 80)))
            place = (10 + 100 * int(column), int(draw.integers(10, SIDE - 90)))
            colour = tuple(draw.integers(0, 256, 3).tolist())
            ImageDraw.Draw(image).text(place, chr(draw.integers(65, 91)), font=font, fill=colour)
        found.append(np.asarray(image, np.float32).transpose(2, 0, 1)[::-1])
    return np.stack(found)


def make_objects() -> LabelledModel:
    path = unpacked(PACKAGE) / "ddddocr" / "common_det.onnx"
    images = scattered(LABELLED // 2, 2)
    labels = found_boxes(decoded_yolox(first_output(path, {"images": images})))
    calibration = {"images": scattered(CALIBRATION // 2, 1)}
    return LabelledModel(path, calibration, {"images": images, "labels": labels}, source(PACKAGE))


MODELS = (
    TrainedModel("ddddocr_words", "characters of a word, agreement with float32", make_words, "characters", 0.99),
    TrainedModel("ddddocr_objects", "YOLOX, agreement with float32", make_objects, "average_precision_yolox", 0.99),
)
