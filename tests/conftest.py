"""Settings for all tests."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("default", deadline=None, max_examples=15, derandomize=True)
settings.register_profile("slow", deadline=None, max_examples=40, derandomize=True)  # of `make test-all`
settings.load_profile("default")
