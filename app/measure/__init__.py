"""Measurements of models in processes of their own."""
