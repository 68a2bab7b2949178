"""Proofs that a rewrite keeps the meaning of a model: over the reals, bit for bit, or refuted by an input.

An obligation is a fragment, its rewritten form, and a domain (`obligation`): of a rule (`rule_obligation`), or of the
regions in which two models differ (`region_obligations`). `prover` tries techniques on it: random points of a finite
field (`finite_field_proof`), z3 (`smt`), and exhaustion in onnxruntime (`exhaustion`). They compute with the operators
of `core.operators` on arrays of other numbers.
"""
