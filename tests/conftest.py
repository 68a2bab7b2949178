"""Settings for all tests."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("default", deadline=None, max_examples=40, derandomize=True)
settings.load_profile("default")
