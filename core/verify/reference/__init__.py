"""Evaluation of regions in double precision, which is used to judge changed regions."""
