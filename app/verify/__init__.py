"""`passes verify`: numerical comparison of two models."""
