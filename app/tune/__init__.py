"""`passes tune`: search for the fastest settings that give correct results on this machine."""
