"""Simplification of control flow, sequences and outputs."""
