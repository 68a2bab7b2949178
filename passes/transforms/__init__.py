"""Transforms: changes of the interface, names, annotations and element types of a model, made before a run."""
