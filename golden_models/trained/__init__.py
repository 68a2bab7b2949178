"""Trained networks with labelled data."""
