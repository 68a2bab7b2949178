"""Reports on the terminal, as pages, in notebooks, and for continuous integration."""
