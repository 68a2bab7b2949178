"""Evaluation of regions in double precision, and the judgement of a changed region by it."""
