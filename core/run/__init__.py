"""Pipelines of passes, runs that are repeated without wrong changes, their verification, and their reports."""
