"""Constant folding within a size budget."""
