"""The kit for authors of rules: models made from a rule's own pattern, and what a rule has to hold on them."""

from .check import Checked, NeverFired, RuleIsWrong, check_rule, examine

__all__ = ["Checked", "NeverFired", "RuleIsWrong", "check_rule", "examine"]
