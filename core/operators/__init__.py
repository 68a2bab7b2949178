"""Operators by family: one declaration for each, with its traits and its meaning as a function of arrays.

To add an operator, declare it in the module of its family, with a shape function beside it where the one of onnx is not
enough: folding, inference, verification and proofs read the declaration. `declaration` defines what one says, `table`
lists the families and answers questions about all operators; those that z3 encodes over the reals are listed in
`core.proof.smt_overrides`. `object_array` has arrays of terms on which meanings run, `symbolic_integers` what inference
knows of small integers. `operands` and `effects` have queries on an op in a graph: its axes and bounds, whether it may
be folded, merged or dropped.
"""
