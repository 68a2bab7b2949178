"""Simplification of data movement: Reshape, Transpose, Slice, Concat, Pad, Gather and the like."""
