"""Inference of types, shapes, and the elements of small integer tensors, on demand."""
