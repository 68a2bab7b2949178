"""`passes explain`: the reasons for which a rule fires or declines."""
