"""`passes profile`: time by operator and node, before and after optimization."""
