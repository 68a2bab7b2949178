"""Ops that only move elements: Reshape, Transpose, Slice, Concat, Pad, Gather and their kin."""
