"""`passes new`: a package for a plugin."""
