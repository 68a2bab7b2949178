"""The package that `passes new` makes for a plugin: its name, and its files."""
