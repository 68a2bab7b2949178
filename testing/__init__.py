"""Test kit for authors of rules: models generated from a rule's own pattern, and checks of the rule on them."""

from .check import CheckInconclusive, CheckResult, RuleIsWrong, check_pass, check_rule, examine

__all__ = ["CheckInconclusive", "CheckResult", "RuleIsWrong", "check_pass", "check_rule", "examine"]
