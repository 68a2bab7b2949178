"""Test kit for authors of rules and passes: expected rewrites, and checks on models generated from a rule's pattern."""

from .check import CheckInconclusive, CheckResult, RuleIsWrong, check_pass, check_rule, examine
from .rewriting import becomes, stays

__all__ = ["CheckInconclusive", "CheckResult", "RuleIsWrong", "becomes", "check_pass", "check_rule", "examine", "stays"]
