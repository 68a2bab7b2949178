"""Calibration: statistics of a model's values on samples, and ranges computed from them.

`collection` runs a model on samples in a separate process and collects `statistics`; `methods` computes ranges.
"""
