"""`passes check`: tests of rules on models generated from their own patterns."""
