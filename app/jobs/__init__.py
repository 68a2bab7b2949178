"""Runs on many models: their files, and processes that take one after the other."""
