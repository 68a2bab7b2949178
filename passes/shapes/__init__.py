"""Folding of shape arithmetic that the symbolic shape engine evaluates."""
