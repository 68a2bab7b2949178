"""Calibration: statistics of the values of a model on samples, and ranges from them."""
