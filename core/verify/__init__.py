"""Verification of rewritten models against the original on sets of inputs."""
