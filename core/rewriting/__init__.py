"""Rewriting: patterns, rules, the driver that applies them, and the ledger of changes."""
