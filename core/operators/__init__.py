"""Operators by family: one declaration for each, with its traits and its meaning as a function of arrays.

To add an operator, declare it in the module of its family, with a shape function if onnx's is not sufficient: folding,
inference, verification and proofs read the declaration. `declaration` defines the contents, `table` lists the families
and answers queries on all operators; `core.proof.smt_overrides` lists those that z3 encodes over the reals.
`object_array` has arrays of terms on which meanings run, and `symbolic_integers` computes with small symbolic integers.
`operands` and `effects` have queries on an op in a graph: its axes and bounds, and whether it may be folded, merged or
dropped.
"""
