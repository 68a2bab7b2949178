"""Generation of models from a rule's pattern, by a sequence of choices."""
