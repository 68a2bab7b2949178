"""Inference of types, shapes, and the elements of small integer tensors, on demand.

Reading `Value.shape` runs `type_inference` for the op that produces the value and for those before it, once for the
same facts: the shape function of the operator's declaration (`core.operators`), or else the function of its schema
(`schema_inference`). The numbers of shapes are followed through the ops that compute with them, by the declarations
too.
"""
