"""Measurements of models in separate processes."""
