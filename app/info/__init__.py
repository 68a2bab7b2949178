"""`passes info`: operators, sizes and interfaces of models."""
