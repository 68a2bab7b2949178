"""Reports in formats for continuous integration."""
