"""Simplification of elementwise arithmetic: neutral elements, chains, inverses, comparisons."""
