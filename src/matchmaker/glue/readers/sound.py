"""A sound entry of LDIF, lines of ``name: value``, taken apart in one go.

`ldif` reads any other line by line, and mends it; a property holds both to the same entries.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import chain

from matchmaker._limits import GLUE_LIMITS as LIMITS
from matchmaker.glue.entries import Attributes, Entry
from matchmaker.glue.schema import name_within

NAME = re.compile(r"(?:[A-Za-z][A-Za-z0-9-]*|\d+(?:\.\d+)*)(?:;[A-Za-z0-9-]+)*\Z")
"""The name of an attribute."""

# Comments and empty lines.
_BEFORE = re.compile(rb"(?:#[^\n]*+(?:\n [^\n]*+)*+(?:\n|\Z)|\n)*+")
_KEPT_NAMES = 10_000


class Names:
    """The names of attributes met so far, in one spelling each."""

    def __init__(self) -> None:
        self._known: set[str] = set()
        self._lower = {"dn", "version", "changetype"}  # which are no attributes

    def sound(self, names: Iterable[str]) -> bool:
        """Whether all are names of attributes, and none is spelt in a second way."""
        if self._known.issuperset(names):
            return True
        for name in names:
            if name in self._known:
                continue
            lower = name.lower()
            if lower in self._lower or not NAME.match(name) or len(self._known) >= _KEPT_NAMES:
                return False
            self._known.add(name)
            self._lower.add(lower)
        return True


def taken(block: bytes, number: int, names: Names) -> tuple[Entry | None, int] | None:
    """The entry of a block that begins on a line, and the line behind; None if it is not sound."""
    if len(block) > LIMITS.line:
        return None
    if not block.startswith(b"dn: "):
        before = _BEFORE.match(block)
        start = before.end() if before else 0
        number += block.count(b"\n", 0, start)
        block = block[start:]
        if not block:
            return None, number + 2
        if not block.startswith(b"dn: "):
            return None
    try:
        parts = block.decode("utf-8").split("\n ")
    except UnicodeDecodeError:
        return None
    first, *lines = "".join(parts).split("\n")
    if len(lines) > LIMITS.values:
        return None
    found: dict[str, list[str]] = {}
    for line in lines:
        name, _, value = line.partition(": ")
        if value < "!":  # there is none, or it begins with space
            return None
        if name in found:
            found[name].append(value)
        else:
            found[name] = [value]
    dn = first[4:]
    if not names.sound(found) or dn != dn.strip() or dn[-1:] in ("", ","):
        return None
    if block.count(b":") != len(lines) + 1:  # a value has a colon, maybe behind a name
        texts = "\n".join(chain((dn,), *found.values()))
        if name_within(texts) is not None:
            return None
    return Entry(dn, Attributes.of(found), number), number + len(lines) + len(parts) + 1
