"""Propagation of layouts: moving Transposes through whole regions."""
