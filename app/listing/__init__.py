"""`passes list`: passes, rules and pipelines."""
