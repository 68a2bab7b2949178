"""Pictures of small pieces of graphs, and of patterns, as SVG."""
