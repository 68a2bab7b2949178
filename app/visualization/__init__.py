"""The trace of a run: each rewrite before and after, and whole models, as drawings."""
