"""Transforms of a model, at the user's request, before it is optimized."""
