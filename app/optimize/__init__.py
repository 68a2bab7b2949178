"""Optimization of a model: options, the run, and its report."""
