"""`passes view`: a model in Netron."""
