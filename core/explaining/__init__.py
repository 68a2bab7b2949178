"""Why a rule fires at an op, or does not: what fits of its pattern, and what does not, in words."""
