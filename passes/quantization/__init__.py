"""Rules that quantize: float operators to groups that the target computes on integers."""
