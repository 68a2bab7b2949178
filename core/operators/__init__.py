"""Operators by family: one declaration for each, with its traits and its meaning as a function of arrays."""
