"""Removal of dead ops, unused and equal constants, duplicates and ops without effect."""
