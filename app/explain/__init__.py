"""`passes explain`: the reasons why a rule applies or does not."""
