"""Drawings of patterns, regions and whole graphs."""
