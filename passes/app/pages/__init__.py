"""Reports as pages: one file that needs no network, for light and dark."""
