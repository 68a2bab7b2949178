"""Verification of rewritten models against the original on sets of inputs.

`oracle` holds the original and its runs and compares models with them; it runs in a process of its own
(`oracle_process`). Inputs are specified from the original (`input_specs`), get extents (`size_assignments`) and
numbers (`input_generation`), and are chosen by whether the original runs on them (`input_search`, `combined_plans`).
Tolerances are decided in `output_comparison`, from the noise of the original (`noise`, `sensitivity`); a difference
within one region is judged by values in float64 (`regions`, `reference`).
"""
