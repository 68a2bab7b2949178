"""Proofs that a rewrite keeps the meaning of a model: over the reals, bit for bit, or refuted by an input."""
