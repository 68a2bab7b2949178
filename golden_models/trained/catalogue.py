"""All trained models."""

from . import detector, digits, file_types, sentences, spoken_words, text_lines, text_pages, voice_activity

MODULES = (digits, file_types, text_lines, text_pages, voice_activity, spoken_words, sentences, detector)
MODELS = tuple(model for module in MODULES for model in module.MODELS)
