"""Passes that do not come with passwright: what a plugin offers, how it is found, named, set and placed."""
