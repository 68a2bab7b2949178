"""Passes and pipelines by name: built in, installed, from files, and given by the caller."""
