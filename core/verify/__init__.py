"""Whether a rewritten model still computes what the original computes."""
