"""Which passes a run is made of: what there is, by name, and what is chosen of it."""
