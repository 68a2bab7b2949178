"""Transformations that a user asks for before a model is optimized."""
