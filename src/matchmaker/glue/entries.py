"""An entry of a directory as it was published, its name and attributes as text; written as LDIF.

Every reader makes them (`ldif`, `ldap`, `documents`), and `typed` gives their values types.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import IO

import attrs

from matchmaker.glue.schema import name_within


class Attributes(Mapping[str, tuple[str, ...]]):
    """The values of an entry by attribute name, in any case; the first spelling seen is kept.

    >>> found = Attributes([("GlueCEName", "long"), ("glueCEName", "short")])
    >>> found["GLUECENAME"], list(found)
    (('long', 'short'), ['GlueCEName'])
    """

    __slots__ = ("_lower", "values_by_name")

    values_by_name: Mapping[str, list[str]]
    """The values by the name as it is spelt; faster than the mapping itself for all of them."""

    def __init__(self, pairs: Iterable[tuple[str, str]] = ()) -> None:
        spelt: dict[str, str] = {}
        found: dict[str, list[str]] = {}
        for name, value in pairs:
            found.setdefault(spelt.setdefault(name.lower(), name), []).append(value)
        self.values_by_name = found
        self._lower: Mapping[str, str] | None = None

    @classmethod
    def of(cls, found: Mapping[str, list[str]]) -> Attributes:
        """Of values by name, where each name has one spelling."""
        made = cls()
        made.values_by_name = found
        return made

    def __getitem__(self, name: str) -> tuple[str, ...]:
        values = self.values_by_name
        found = values.get(name)
        if found is None:
            if self._lower is None:
                self._lower = {spelt.lower(): spelt for spelt in values}
            found = values[self._lower[name.lower()]]
        return tuple(found)

    def __iter__(self) -> Iterator[str]:
        return iter(self.values_by_name)

    def __len__(self) -> int:
        return len(self.values_by_name)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Attributes):
            return NotImplemented
        return {k.lower(): v for k, v in self.items()} == {k.lower(): v for k, v in other.items()}

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Attributes({dict(self)!r})"


@attrs.frozen(slots=True)
class Entry:
    """One entry of a directory.

    Attributes:
        dn: its name; empty for lines that lost theirs.
        attributes: their values as text. A rule of access or a key whose value cannot be read
            stands here as an empty text.
        line: the line on which it began, from 1; 0 where there are no lines.
        damaged: whether a part of it is lost, which may have been a rule of access.
    """

    dn: str
    attributes: Attributes
    line: int = 0
    damaged: bool = False


def write_entries(entries: Iterable[Entry], file: IO[str]) -> int:
    """Write entries as LDIF (RFC 2849): folded at 76 columns, in base64 what is not plain ASCII.

    Args:
        entries: in the order they are written; parents come first if a server is to take them.
        file: open for text.

    Returns:
        How many there were.

    >>> import sys
    >>> write_entries([Entry("o=grid", Attributes([("o", "grid"), ("o", " x")]))], sys.stdout)
    dn: o=grid
    o: grid
    o:: IHg=
    <BLANKLINE>
    1
    """
    count = 0
    for entry in entries:
        lines = [_line("dn", entry.dn)]
        for name, values in entry.attributes.values_by_name.items():
            lines += [_line(name, value) for value in values]
        file.write("\n".join(lines) + "\n\n")
        count += 1
    return count


_SAFE = re.compile(r"(?![ :<])[\x01-\x09\x0b\x0c\x0e-\x7f]*(?<! )\Z")


def _line(name: str, value: str) -> str:
    # What looks like a lost line to a reader that mends is kept from it.
    if _SAFE.match(value) and name_within(value) is None:
        text = f"{name}: {value}"
    else:
        encoded = base64.b64encode(value.encode("utf-8", "surrogatepass")).decode("ascii")
        text = f"{name}:: {encoded}"
    return "\n ".join([text[:76], *(text[i : i + 75] for i in range(76, len(text), 75))])
