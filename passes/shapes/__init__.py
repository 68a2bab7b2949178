"""Arithmetic on shapes: what the symbolic shape engine knows need not be computed."""
