"""Minimal reproductions of changes that break a model."""
