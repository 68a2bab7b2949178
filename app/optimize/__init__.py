"""Optimization of a model: its options, run and report."""
