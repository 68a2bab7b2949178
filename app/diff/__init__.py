"""`passes diff`: structural differences between two models."""
