"""Passes for passwright in a separate package."""
