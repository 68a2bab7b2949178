"""Operators as sums, products and functions, for runtimes and devices that lack them; in no pipeline."""
