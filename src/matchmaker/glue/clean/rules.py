"""The list of cleaning rules, which of them are on, and how they are applied.

Each rule has an id, is switched off by leaving out the id, and reports what it found with the raw
value. `texts` has the rules on one text, `entries` those on the values of one entry, and `checks`
those that hold its values against each other. Readers report faults of files, and `v1` and `v2`
faults between entries.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from datetime import datetime
from typing import Final

from matchmaker.classad import Value
from matchmaker.classad.cache import remembered
from matchmaker.glue.clean.case import Case, EntryRule
from matchmaker.glue.clean.checks import CHECKS
from matchmaker.glue.clean.entries import ENTRY_RULES
from matchmaker.glue.clean.texts import TEXT_RULES, UNLIMITED, TextRule
from matchmaker.glue.issues import Report, issue

__all__ = [
    "ALL_RULES",
    "DEFAULT_RULES",
    "UNLIMITED",
    "VALIDATORS",
    "check_rules",
    "clean_entry",
    "clean_text",
]

ALL_RULES: Final = frozenset(rule.id for rule in (*TEXT_RULES, *ENTRY_RULES, *CHECKS))
ALWAYS: Final = frozenset({"clean.access-rule"})
"""Rules that cannot be switched off: no rule of access fails open."""
DEFAULT_RULES: Final = ALL_RULES - {"clean.limit-unlimited", "clean.cpu-time"}
VALIDATORS: Final = frozenset({"glue-validator", "gstat"})
"""Tools of EGI whose tests are made too, where the rules name them; they change no value."""


def check_rules(rules: frozenset[str]) -> None:
    """Raise ValueError for an id that no rule has.

    >>> check_rules(frozenset({"clean.colour"}))
    Traceback (most recent call last):
    ...
    ValueError: no cleaning rule is called 'clean.colour'
    """
    for unknown in sorted(rules - ALL_RULES - VALIDATORS):
        raise ValueError(f"no cleaning rule is called {unknown!r}")


def clean_text(name: str, text: str, rules: frozenset[str], say: Report) -> str | None:
    """One text after the rules that are on; None for "not known".

    >>> found = []
    >>> clean_text("GlueCEStateStatus", "queuing", DEFAULT_RULES, found.append)
    'Queueing'
    >>> [finding.rule for finding in found]
    ['clean.status']
    """
    meant: str | None = text
    for rule in _rules_about(name, rules):
        if meant is not None:
            before = meant
            meant = rule.apply(name, before)
            if meant != before:
                say(issue(rule.id, rule.message, attribute=name, raw=text))
    return meant


@remembered("cleaning rules by attribute", 1 << 20)
def _rules_about(name: str, rules: frozenset[str]) -> tuple[TextRule, ...]:
    on = rules | ALWAYS
    return tuple(rule for rule in TEXT_RULES if rule.id in on and rule.about(name))


def clean_entry(
    values: MutableMapping[str, Value],
    raw: Mapping[str, tuple[str, ...]],
    rules: frozenset[str],
    now: datetime,
    say: Report,
) -> None:
    """Apply to the values of an entry, in place, the entry rules that are on."""
    for rule in (*ENTRY_RULES, *CHECKS):
        if rule.id not in rules:
            continue

        def tell(name: str, text: str, more: str, rule: EntryRule = rule) -> None:
            message = f"{rule.message}: {more}" if more else rule.message
            say(issue(rule.id, message, attribute=name, raw=text))

        rule.apply(Case(values, raw, now, tell))
