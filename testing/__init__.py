"""The kit for authors of rules: models made from a rule's own pattern, and what a rule has to hold on them."""

from .check import CheckInconclusive, CheckResult, RuleIsWrong, check_rule, examine

__all__ = ["CheckInconclusive", "CheckResult", "RuleIsWrong", "check_rule", "examine"]
