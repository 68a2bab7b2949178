"""Proofs that a rewrite keeps the meaning of a model, over the reals or bit for bit, or refutations by an input.

An obligation is a fragment, its rewritten form, and a domain (`obligation`): of a rule (`rule_obligation`), or of a
region in which two models differ (`region_obligations`). `prover` tries several techniques: random points of a finite
field (`finite_field_proof`), z3 (`smt`), and exhaustion in onnxruntime (`exhaustion`). They evaluate the operators of
`core.operators` on arrays of other kinds of numbers.
"""
