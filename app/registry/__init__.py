"""Passes, pipelines, tools and data that users name, or write in Python."""
