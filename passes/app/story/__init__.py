"""A run as it can be looked at: each rewrite before and after, and the whole model drawn."""
