"""`passes check`: rules, tested on models generated from their own patterns."""
