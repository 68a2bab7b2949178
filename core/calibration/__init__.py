"""Calibration: statistics of the values of a model on samples, and ranges from them.

`collection` runs a model on samples in a process of its own and gathers `statistics`; `methods` chooses ranges from
them.
"""
