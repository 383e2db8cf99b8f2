"""What the rules on an entry are given: its values, its texts, how they report, and their tables.

The rules are in `entries` and `checks`.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping, MutableMapping
from datetime import datetime
from typing import Any, Final

import attrs

from matchmaker._data import data_text
from matchmaker.classad import Value
from matchmaker.classad.values import is_number

TABLES: Final[Mapping[str, Any]] = tomllib.loads(data_text("schemas", "glue", "rules.toml"))
OTHER: Final = "GlueHostProcessorOtherDescription"
SI00: Final = "GlueHostBenchmarkSI00"
HEPSPEC: Final = re.compile(
    r"Benchmark\s*=\s*\(?\s*([0-9]{1,6}(?:\.[0-9]{0,6})?)\s*\)?\s*-?\s*HEP-?SPEC06", re.IGNORECASE
)

HS06: Final = 250
"""SPECint2000 of one HEP-SPEC06: 4 HS06 are 1 kSI2k, by the convention of the LHC grid."""


@attrs.frozen(slots=True)
class Case:
    """What a rule judges.

    Attributes:
        values: of the entry, typed and cleaned one by one.
        raw: the texts that were published.
        now: the time by which entries are fresh or stale.
        say: reports a finding: the attribute, its raw text, and what to add to the rule's message.
    """

    values: MutableMapping[str, Value]
    raw: Mapping[str, tuple[str, ...]]
    now: datetime
    say: Callable[[str, str, str], None]

    def number(self, name: str) -> int | float | None:
        """The number that an attribute holds."""
        found = self.values.get(name)
        return found if is_number(found) else None

    def put(self, name: str, value: Value, more: str = "") -> None:
        """Changes a value, and reports it."""
        self.values[name] = value
        self.doubt(name, more)

    def doubt(self, name: str, more: str = "") -> None:
        """Leaves a value, and reports it."""
        self.say(name, "; ".join(self.raw.get(name, ())), more)


@attrs.frozen(slots=True)
class EntryRule:
    """A rule on an entry: its id, what it found and did, and how."""

    id: str
    message: str
    apply: Callable[[Case], None]
