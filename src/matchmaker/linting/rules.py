"""The table of rules. Codes are stable: CA0 syntax, CA1 names, CA2 operations, CA3 conditions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from matchmaker._diagnostics import ERROR, NOTE, WARNING
from matchmaker.linting import comparisons, logic, names, patterns
from matchmaker.linting.model import Rule

_ALL: Final = (
    Rule("CA001", ERROR, "text that cannot be read"),
    Rule("CA002", ERROR, "= where == is meant"),
    Rule("CA003", ERROR, "a sign or ! right after ?: without parentheses"),
    Rule("CA004", ERROR, "and, or, not in place of &&, ||, !"),
    Rule("CA005", NOTE, "a job description that HTCondor does not read"),
    Rule("CA006", WARNING, "// before what looks like a part of the expression"),
    Rule("CA101", WARNING, "an attribute that nothing known has", names.unknown_attribute),
    Rule("CA102", ERROR, "an unknown function", names.unknown_function),
    Rule("CA103", ERROR, "too many or too few arguments", names.wrong_arity),
    Rule("CA104", WARNING, "an attribute that is set again below", names.shadowed, True),
    Rule("CA105", WARNING, "an attribute that leads back to itself", names.circular, True),
    Rule("CA106", WARNING, "text in single quotes, or null", names.foreign_word),
    Rule("CA201", ERROR, "a comparison that is always an error", comparisons.mismatch),
    Rule("CA202", ERROR, "a number in quotes, compared", comparisons.quoted_number),
    Rule("CA203", ERROR, "undefined or error compared other than by is",
         comparisons.compared_with_undefined),
    Rule("CA204", ERROR, "an operation that is always an error", comparisons.always_error),
    Rule("CA205", WARNING, "comparisons in a chain", comparisons.chained),
    Rule("CA206", ERROR, "a pattern that is no regular expression", patterns.broken_pattern),
    Rule("CA207", WARNING, "a backslash that a pattern has lost", patterns.lost_backslash),
    Rule("CA301", ERROR, "& or | between conditions", comparisons.single_operator),
    Rule("CA302", WARNING, "a clause that is never true", logic.never_true),
    Rule("CA303", WARNING, "a clause that is always true", logic.always_true),
    Rule("CA304", WARNING, "a branch that is never reached", logic.dead_branch),
    Rule("CA305", NOTE, "is, where the case of letters counts", logic.letter_case),
)  # fmt: skip

RULES: Final[Mapping[str, Rule]] = {rule.code: rule for rule in _ALL}
