"""Models in files and messages: reading, writing, and merging results of other tools."""
