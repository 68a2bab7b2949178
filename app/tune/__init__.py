"""`passes tune`: search for the fastest right way to run a model on this machine."""
