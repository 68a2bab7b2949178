"""The built-in rewrites by family, and their pipelines."""
