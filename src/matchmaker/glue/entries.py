"""The entries of a directory: attributes as text, names, and keys that lead to other entries.

Every reader makes an `Entry`, and `write_entries` writes it as LDIF. A `CleanEntry` is an entry
with its cleaned values; `linking` follows its keys.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from functools import cached_property
from itertools import islice
from typing import IO, TypeVar

import attrs

from matchmaker.glue.issues import Issue, Report, issue
from matchmaker.glue.records import Values, texts
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
        """Make attributes of values by name, each name in one spelling."""
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
        attributes: values as text; empty for a rule of access or a key that cannot be read.
        line: the line on which it began, from 1; 0 without lines.
        damaged: whether a part of it is lost, which may have been a rule of access.
    """

    dn: str
    attributes: Attributes
    line: int = 0
    damaged: bool = False


def write_entries(entries: Iterable[Entry], file: IO[str]) -> int:
    """Write entries as LDIF (RFC 2849), folded at 76 columns; base64 unless plain ASCII.

    Args:
        entries: in the order they are written; parents come first if a server is to take them.
        file: open for text.

    Returns:
        The number of entries.

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
        lines = [_ldif_line("dn", entry.dn)]
        for name, values in entry.attributes.values_by_name.items():
            lines += [_ldif_line(name, value) for value in values]
        file.write("\n".join(lines) + "\n\n")
        count += 1
    return count


# SAFE-STRING of RFC 2849, but without a blank at the end, which readers strip.
_SAFE = re.compile(r"(?![ :<])[\x01-\x09\x0b\x0c\x0e-\x7f]*(?<! )\Z")


def _ldif_line(name: str, value: str) -> str:
    # What looks like a lost line to a reader that mends is kept from it.
    if _SAFE.match(value) and name_within(value) is None:
        text = f"{name}: {value}"
    else:
        encoded = base64.b64encode(_utf8(value)).decode("ascii")
        text = f"{name}:: {encoded}"
    return "\n ".join([text[:76], *(text[i : i + 75] for i in range(76, len(text), 75))])


_PART = re.compile(r"(?:[^,\\]|\\.?)+", re.DOTALL)
_SPECIAL = re.compile(r'([,+"\\<>;=])')
# RFC 4514 allows UTF-8 here, but files of entries are read by tools for ASCII.
_CODED = re.compile(r"[^\x20-\x7e]")
_ESCAPE = re.compile(rb"\\([0-9A-Fa-f]{2}|.)", re.DOTALL)


_T = TypeVar("_T")


@attrs.frozen(slots=True)
class CleanEntry:
    """An entry of a class that is linked, and its values."""

    entry: Entry
    id: str
    values: Values

    @cached_property
    def rdns(self) -> Mapping[str, str]:
        """Return the first value of each attribute in its name, as `rdns` does."""
        return rdns(self.entry.dn)

    def text(self, name: str) -> str:
        """Return the one text of an attribute; empty if it has none or several."""
        found = self.values.get(name)
        return found if isinstance(found, str) else ""

    def texts(self, name: str) -> tuple[str, ...]:
        """Return the texts of an attribute: none, one or several."""
        return tuple(texts(self.values.get(name)))


@attrs.define(slots=True)
class Quota:
    """A bound on the items (`what`, in the plural) that a source may make.

    The rest is left out, and reported once by the `Issue` ``link.too-many``; `cut` tells so.
    """

    most: int
    what: str
    report: Report
    _used: int = attrs.field(default=0, init=False)
    cut: bool = attrs.field(default=False, init=False)

    def take(self, made: Iterable[_T], record: CleanEntry) -> list[_T]:
        """Take the items of a record until the quota is used up; ask for no more of them."""
        left = self.most - self._used
        kept = list(islice(made, left + 1))
        if len(kept) > left:
            kept.pop()
            if not self.cut:
                self.cut = True
                said = f"more than {self.most} {self.what}; the others are left out"
                self.report(finding(record, "link.too-many", said))
        self._used += len(kept)
        return kept


def _parts(dn: str) -> list[str]:
    return _PART.findall(dn) if "\\" in dn else dn.split(",")


def _unescaped(value: str) -> str:
    r"""Return a value without escapes: ``\\,`` and ``\\2C`` are a comma (RFC 4514, section 2.4)."""
    if "\\" not in value:
        return value

    def meant(found: re.Match[bytes]) -> bytes:
        text = found[1]
        return bytes.fromhex(text.decode("ascii")) if len(text) == 2 else text

    return _ESCAPE.sub(meant, value.encode("utf-8", "surrogatepass")).decode("utf-8", "replace")


def rdns(dn: str) -> dict[str, str]:
    r"""Return the first value of each attribute in a name, by the attribute in lower case.

    >>> rdns(r"GlueCEName=a\,b, O=grid")
    {'gluecename': 'a,b', 'o': 'grid'}
    """
    parts: dict[str, str] = {}
    if "\\" not in dn:
        for part in dn.split(","):
            attribute, _, value = part.partition("=")
            parts.setdefault(attribute.strip().lower(), value.strip())
        return parts
    for part in _parts(dn):
        attribute, _, value = part.partition("=")
        text = value.strip()
        if text.endswith("\\") and value[-1:] == " ":
            text += " "  # an escaped space at the end
        parts.setdefault(attribute.strip().lower(), _unescaped(text))
    return parts


def cut(dn: str) -> tuple[str, str]:
    r"""Split off the first part of a name, and return both.

    >>> cut(r"GlueCEName=a\,b,o=grid")
    ('GlueCEName=a\\,b', 'o=grid')
    """
    first = _PART.match(dn)
    end = first.end() if first else 0
    return dn[:end], dn[end + 1 :]


def rdn(name: str, value: str) -> str:
    r"""Make one part of a name, and escape what LDAP uses itself (RFC 4514, section 2.4).

    >>> rdn("GlueCEUniqueID", "ce.s.grid:8443/cream-pbs-a,b")
    'GlueCEUniqueID=ce.s.grid:8443/cream-pbs-a\\,b'
    >>> rdn("o", "caf\u00e9")
    'o=caf\\c3\\a9'
    """
    text = _SPECIAL.sub(r"\\\1", value)
    # In hexadecimal what is not printable ASCII, so that a file of entries has plain names.
    text = _CODED.sub(lambda m: "".join(f"\\{byte:02x}" for byte in _utf8(m[0])), text)
    if text[:1] in (" ", "#"):
        text = f"\\{text}"
    if text.endswith(" ") and len(text) > 1:
        text = f"{text[:-1]}\\ "
    return f"{name}={text}"


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def normal_name(dn: str) -> str:
    """Fold a name as names are compared: without case and without spare space."""
    lower = dn.lower()
    plain = "\\" not in lower and " " not in lower and lower.isprintable()
    if plain and all("=" in part for part in lower.split(",")):
        return lower  # there is nothing to strip
    parts = (part.partition("=") for part in _parts(lower))
    return ",".join(f"{attribute.strip()}={value.strip()}" for attribute, _, value in parts)


def key_values(values: Values, attribute: str, target: str) -> list[str]:
    """Return the values of keys such as ``GlueClusterUniqueID=…`` to a kind of target."""
    prefix = f"{target.lower()}="
    keys = (key.strip() for key in texts(values.get(attribute)))
    named = (key[len(prefix) :].strip() for key in keys if key.lower().startswith(prefix))
    return list(dict.fromkeys(named))


def home(record: CleanEntry) -> str:
    """Return the service of GLUE 2.0 that a record is under, in lower case; empty for none."""
    return record.rdns.get("glue2serviceid", "").lower()


def unique(
    records: Iterable[CleanEntry],
    report: Report,
    parent: Callable[[CleanEntry], str] = lambda record: "",
    merge: Callable[[CleanEntry, CleanEntry], CleanEntry] = lambda first, second: first,
) -> list[CleanEntry]:
    """Return the records that have an id: the first of several with one id under one parent.

    `parent` gives the scope in which an id must be unique, without it the whole source; `merge`
    makes one record of the first and another of the same id.
    """
    kept: dict[tuple[str, str], CleanEntry] = {}
    for record in records:
        key = parent(record), record.id.lower()
        if not record.id:
            report(finding(record, "link.no-id", "no id, skipped"))
        elif (first := kept.get(key)) is None:
            kept[key] = record
        else:
            report(duplicate(record, first, "its id came before, skipped"))
            kept[key] = merge(first, record)
    return list(kept.values())


def duplicate(record: CleanEntry, first: CleanEntry, said: str) -> Issue:
    """Return the issue of a record that is left out for another; only a note if both are equal.

    A BDII that collects from several others repeats what two of them have.
    """
    same = record.values == first.values
    return finding(record, "link.repeated" if same else "link.duplicate", said, record.id)


def under(records: Iterable[CleanEntry], target: str) -> dict[str, list[CleanEntry]]:
    """Group records by the id, in lower case, of the target that they are under, each group by id.

    A chunk key names the target, else the entry's own name.
    """
    grouped: dict[str, list[CleanEntry]] = {}
    for record in records:
        keys = key_values(record.values, "GlueChunkKey", target)
        above = keys[0] if keys else record.rdns.get(target.lower(), "")
        grouped.setdefault(above.lower(), []).append(record)
    return {key: by_id(group) for key, group in grouped.items()}


def by_id(records: Iterable[CleanEntry]) -> list[CleanEntry]:
    """Records in the order of their ids."""
    records = list(records)
    if len(records) < 2:
        return records
    return sorted(records, key=lambda record: (record.id.lower(), record.id))


def first_key(record: CleanEntry, keys: list[str], report: Report) -> str:
    """Return the first of several keys to one kind of entry; report more than one."""
    if len(keys) > 1:
        said = "several keys to one kind of entry; the first was taken"
        report(finding(record, "link.several", said, "; ".join(keys)))
    return keys[0] if keys else ""


def dangling(record: CleanEntry, key: str, others: Sized = (None,)) -> Issue:
    """Return the issue of a key that leads nowhere.

    Args:
        record: the record that has the key.
        key: as published.
        others: records of the class that the key leads to. A source without any may be one part of
            a site, whose keys lead to other parts: that is a note.
    """
    if not others:
        said = "the key leads out of this source, which has nothing of that class"
        return finding(record, "link.elsewhere", said, key)
    return finding(record, "link.dangling", "the key leads nowhere", key)


def finding(record: CleanEntry, rule: str, message: str, raw: str = "") -> Issue:
    """Return an issue about a record as a whole."""
    return issue(rule, message, record.entry.line, record.entry.dn, raw=raw)


def keys_of(record: CleanEntry, names: Iterable[str], ancestor: str) -> list[str]:
    """Return the ids, in lower case, that a record's keys name; without a key, its place's."""
    found: dict[str, None] = {}
    for name in names:
        found |= {text.lower(): None for text in record.texts(name)}
    if not found and (placed := record.rdns.get(ancestor.lower(), "")):
        found[placed.lower()] = None
    return list(found)


def grouped(
    records: Iterable[CleanEntry], names: Sequence[str], ancestor: str
) -> dict[str, list[CleanEntry]]:
    """Group records by the ids that their keys name, in lower case, each group by id."""
    made: dict[str, list[CleanEntry]] = {}
    for record in records:
        for key in keys_of(record, names, ancestor):
            made.setdefault(key, []).append(record)
    return {key: by_id(group) for key, group in made.items()}


class ChildEntries:
    """Records by their parents, whose ids are unique only within a service.

    Args:
        records: with the ids, in lower case, of the parent of each, and of the service that it is
            in.
    """

    __slots__ = ("_by_id", "_by_place")

    def __init__(self, records: Iterable[tuple[str, str, CleanEntry]]) -> None:
        self._by_id: dict[str, list[CleanEntry]] = {}
        self._by_place: dict[tuple[str, str], list[CleanEntry]] = {}
        for ident, service, record in records:
            self._by_id.setdefault(ident, []).append(record)
            self._by_place.setdefault((service, ident), []).append(record)

    @classmethod
    def by_keys(
        cls, records: Iterable[CleanEntry], names: Sequence[str], ancestor: str
    ) -> ChildEntries:
        """Group records by the ids that their keys name, or without a key by their place."""
        return cls((key, home(r), r) for r in records for key in keys_of(r, names, ancestor))

    def of(self, parent: CleanEntry, service: str | None = None) -> list[CleanEntry]:
        """Return the children of a record, by id: those in its service, and those in none."""
        place = home(parent) if service is None else service
        return by_id(self.at(place, parent.id.lower()))

    def at(self, service: str, ident: str) -> list[CleanEntry]:
        """Return the children of an id in a service; of the id anywhere if no service is given."""
        if not service:
            return self._by_id.get(ident, [])
        return [*self._by_place.get((service, ident), ()), *self._by_place.get(("", ident), ())]

    def __iter__(self) -> Iterator[tuple[str, list[CleanEntry]]]:
        """Yield each id with its children."""
        return iter(self._by_id.items())
