"""An entry of a directory made of a record's values, as a server with the schema takes it.

It names all the classes that its attributes need and has what these must have. Values that the
schema has no room for are left out and reported. `tree1` and `tree2` decide which entries
there are, and `entries` writes LDIF.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import attrs

from matchmaker.classad import UNDEFINED, Value
from matchmaker.glue.access import CLOSED, RULES
from matchmaker.glue.clean import text_of
from matchmaker.glue.clean.rules import RULES_OF_ACCESS
from matchmaker.glue.entries import Attributes, Entry, rdn
from matchmaker.glue.issues import Report, issue
from matchmaker.glue.records import Values
from matchmaker.glue.schema import (
    GLUE1_IDS,
    GLUE2_IDS,
    ancestry,
    attribute,
    classes,
    object_classes,
)

_KEYS = {"GlueForeignKey", "GlueChunkKey"}  # of which an entry may have more than are made here
_NAMED_BY: Final = {**GLUE1_IDS, **GLUE2_IDS}
_OTHER: Final = "GLUE2EntityOtherInfo"
_NONE: Final[Values] = {}
_UNKNOWN: Final = "undefined"
_UNKNOWN_NUMBER: Final = "444444"
Pairs = Iterable[tuple[str, str]]


_OURS: Final = frozenset({"glue2", "objectclass", "update_time", "expiry_time"})
"""What readers add to the values of a record."""


@attrs.frozen(slots=True)
class Writer:
    """Makes entries of one snapshot, and reports what they cannot hold."""

    report: Report

    def below(
        self, above: str, kind: str, ident: str, values: Values, more: Pairs = (), *,
        other: Values = _NONE,
    ) -> Entry:  # fmt: skip
        """An entry by the id that names its class, below another's name; all else as `entry`."""
        name = _NAMED_BY[kind.lower()]
        dn = f"{rdn(name, ident)},{above}"
        return self.entry(dn, kind, values, [(name, ident), *more], other)

    def entry(
        self, dn: str, kind: str, values: Values, more: Pairs = (), other: Values = _NONE
    ) -> Entry:
        """An entry of a class: the values that it may have, and pairs that it is to have besides.

        Args:
            dn: its name.
            kind: its structural class.
            values: by attribute; what is UNDEFINED, or of no class that can join, is not published.
            more: names and texts, before the values.
            other: values of GLUE 1.3 that an entry of GLUE 2.0 has in its OtherInfo.
        """
        pairs: dict[str, list[str]] = {}
        for name, text in more:
            pairs.setdefault(name, []).append(text)
        for name, value in other.items():
            for text in self._texts(dn, name, value):
                pairs.setdefault(_OTHER, []).append(f"{name}={text}")
        for name, value in values.items():
            if attribute(name) is None:
                if name.lower() not in _OURS:
                    said = "the schema has no such attribute, left out"
                    self.report(issue("publish.class", said, dn=dn, attribute=name))
                continue
            if name in pairs and name not in {*_KEYS, _OTHER}:
                continue
            if name == RULES:
                self.access(dn, value)
            shown = [CLOSED] if name == RULES and value == [] else value
            if texts := self._texts(dn, name, shown):
                pairs[name] = list(dict.fromkeys([*pairs.get(name, ()), *texts]))
        self._complete(kind, pairs)
        named = object_classes(kind, pairs)
        room = {n.lower() for known in named for n in _room(known)}
        kept = {name: texts for name, texts in pairs.items() if name.lower() in room}
        for name in pairs.keys() - kept.keys():
            said = f"an entry of class {kind} has no room for it, left out"
            self.report(issue("publish.class", said, dn=dn, attribute=name))
        found = [("objectClass", n) for n in named if n != "Mds" or kind == "Mds"]
        found += [(name, text) for name, texts in kept.items() for text in texts]
        return Entry(dn, Attributes(found))

    def access(self, dn: str, rules: Value) -> None:
        """Report rules of access that no rule of GLUE can say."""
        if rules == []:
            said = f"it admits nobody: published with {CLOSED}, which readers other than a WMS skip"
        elif rules is UNDEFINED:
            said = "whom it admits is not known: published without a rule"
        else:
            return
        self.report(issue("publish.access", said, dn=dn, attribute=RULES))

    def _complete(self, kind: str, pairs: dict[str, list[str]]) -> None:
        """What the schema wants and nobody knows: the schema's word for "not known"."""
        for known in ancestry(kind):
            for name in known.must:
                if name not in pairs:
                    made = attribute(name)
                    number = made is not None and made.ldap == "integer"
                    usual = made.usual if made is not None else ""
                    pairs[name] = [usual or (_UNKNOWN_NUMBER if number else _UNKNOWN)]

    def _texts(self, dn: str, name: str, value: Value) -> list[str]:
        known = attribute(name)
        items = value if isinstance(value, list) else [value]
        texts: dict[str, str] = {}
        for item in items:
            text = None if item is UNDEFINED else text_of(name, item)
            if text is not None:
                # Strings of GLUE 1.3 are equal whatever their case.
                texts.setdefault(text.lower() if known and known.version == "1.3" else text, text)
            elif item is not UNDEFINED and item != "":
                said = "no value of the schema's type, left out"
                self.report(issue("publish.value", said, dn=dn, attribute=name, raw=str(item)))
                if name in RULES_OF_ACCESS:  # it might deny
                    texts[CLOSED] = CLOSED
        found = list(texts.values())
        return found if known is not None and known.multi else found[:1]


def _room(name: str) -> tuple[str, ...]:
    known = classes()[name.lower()]
    return (*known.must, *known.may)
