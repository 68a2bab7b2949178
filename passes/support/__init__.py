"""Queries about operands and element types that several families share."""
