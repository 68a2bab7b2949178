"""Plugins: discovery, registry, options and positions of passes that do not come with passwright."""
