"""`passes compare`: comparison of the results of several optimizers."""
