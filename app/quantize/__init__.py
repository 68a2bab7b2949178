"""`passes quantize`: compression within a budget of accuracy."""
