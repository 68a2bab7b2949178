"""Comparison of the changed regions of a model on the values that the original computes at their boundaries."""
