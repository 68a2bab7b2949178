"""Elementwise algebra: neutral elements, chains, inverses, comparisons."""
