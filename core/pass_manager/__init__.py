"""Pipelines of passes, runs that can be replayed, quarantine, and the verified run."""
