"""`passes run`: optimize, verify, write."""
