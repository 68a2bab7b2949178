"""The IR: graphs, ops, values and tensors, independent of rules and of the messages of ONNX.

Start at `graph`: a Graph holds ops (`op`) and values (`values`), and its mutators alone change their edges. A constant
value has a Tensor (`tensor`), whose elements stay in the file until they are read. Extents, and the elements of shapes,
are symbolic integers (`expressions`). `op_schemas` answers from `onnx.defs`; what else is known of operators is
in `core.operators`.
"""
