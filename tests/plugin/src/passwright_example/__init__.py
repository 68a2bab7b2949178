"""Passes for passwright, from a package of their own."""
