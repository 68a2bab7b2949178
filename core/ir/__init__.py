"""The IR: graphs, ops, values and tensors, independent of rules and of ONNX messages.

Start at `graph`: a Graph contains ops (`op`) and values (`values`), and only its mutators change their edges. A
constant value has a Tensor (`tensor`), whose elements stay in the file until they are read. Extents and the elements of
shapes are symbolic integers (`expressions`). `op_schemas` queries `onnx.defs`; `core.operators` has other facts about
operators.
"""
