"""All trained models."""

from . import (
    captchas,
    detector,
    digits,
    file_types,
    foreign_text,
    sentences,
    sound,
    spoken_words,
    text_lines,
    text_pages,
    voice_activity,
)  # fmt: skip

MODULES = (digits, file_types, text_lines, text_pages, voice_activity, spoken_words, sentences, detector, captchas,
           foreign_text, sound)  # fmt: skip
MODELS = tuple(model for module in MODULES for model in module.MODELS)
