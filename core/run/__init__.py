"""Pipelines of passes, replayable runs, quarantine of wrong changes, and verified runs."""
