"""Rewriting: patterns, rules, the driver that applies them, and the log of changes.

`rules` defines rules and contracts, `pattern` what a rule matches, and `builder` how it builds the replacement.
`driver` applies rules until none fires, and asks `change_log` before each change, so that a run can be repeated without
some of them.
"""
