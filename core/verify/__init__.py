"""Verification of rewritten models against the original on sets of inputs.

`oracle` runs the original and compares models with it, in a process of its own (`oracle_process`). Inputs are
specified from the original (`input_specs`), get extents (`size_assignments`) and numbers (`input_generation`), and are
selected by whether the original runs on them (`input_search`, `combined_plans`). Tolerances are determined in
`output_comparison` from the noise of the original (`noise`, `sensitivity`); a difference within one region is judged
by values in float64 (`regions`, `reference`).
"""
