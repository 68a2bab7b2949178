"""Models made from a rule's pattern: one choice after another, each valid where the next is made."""
