"""Transposes travel: each region of ops that any layout suits is computed in the one that takes the fewest of them."""
