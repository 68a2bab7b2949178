"""What users name or write in Python: passes, pipelines, tools and data."""
