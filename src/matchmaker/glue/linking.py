"""How entries are linked: the keys that they hold, the names that they have, and what fails.

A `Record` is an entry with its cleaned values. Keys that lead nowhere or twice are reported.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import attrs

from matchmaker.glue.issues import Issue, Report
from matchmaker.glue.ldif import Entry
from matchmaker.glue.records import Values

_COMMA = re.compile(r"(?<!\\),")


@attrs.frozen(slots=True)
class Record:
    """An entry of a class that is linked, and its values."""

    entry: Entry
    id: str
    values: Values

    def text(self, name: str) -> str:
        """The one text of an attribute, empty where it is none."""
        found = self.values.get(name)
        return found if isinstance(found, str) else ""

    def texts(self, name: str) -> tuple[str, ...]:
        """The texts of an attribute that has a list of them."""
        found = self.values.get(name, ())
        return tuple(x for x in found if isinstance(x, str)) if isinstance(found, list) else ()


def rdns(dn: str) -> dict[str, str]:
    """The first value of each attribute in a name, by the attribute in lower case."""
    parts: dict[str, str] = {}
    for part in _COMMA.split(dn):
        attribute, _, value = part.partition("=")
        parts.setdefault(attribute.strip().lower(), re.sub(r"\\(.)", r"\1", value.strip()))
    return parts


def normal_name(dn: str) -> str:
    """A name as names are compared: without case and without spare space."""
    parts = (part.partition("=") for part in _COMMA.split(dn.lower()))
    return ",".join(f"{attribute.strip()}={value.strip()}" for attribute, _, value in parts)


def key_values(record: Record, attribute: str, target: str) -> list[str]:
    """The values of keys such as ``GlueClusterUniqueID=…`` to a kind of target."""
    prefix = f"{target.lower()}="
    keys = (key.strip() for key in record.texts(attribute))
    return list(
        dict.fromkeys(key[len(prefix) :].strip() for key in keys if key.lower().startswith(prefix))
    )


def parent_id(record: Record, target: str) -> str:
    """The id of the target that a chunk key, else the entry's own name, puts a record under."""
    keys = key_values(record, "GlueChunkKey", target)
    return (keys[0] if keys else rdns(record.entry.dn).get(target.lower(), "")).lower()


def unique(records: Iterable[Record], report: Report) -> Iterator[Record]:
    """Records with an id of their own; the first of several stays."""
    seen: set[str] = set()
    for record in records:
        if not record.id:
            report(finding(record, "link.no-id", "no id, skipped"))
        elif record.id.lower() in seen:
            report(finding(record, "link.duplicate", "its id came before, skipped", record.id))
        else:
            seen.add(record.id.lower())
            yield record


def under(records: Iterable[Record], target: str) -> dict[str, list[Record]]:
    """Records by the id of the target that they are under, in lower case, each group by id."""
    grouped: dict[str, list[Record]] = {}
    for record in records:
        grouped.setdefault(parent_id(record, target), []).append(record)
    return {key: by_id(group) for key, group in grouped.items()}


def by_id(records: Iterable[Record]) -> list[Record]:
    """Records in the order of their ids."""
    return sorted(records, key=lambda record: (record.id.lower(), record.id))


def first_key(record: Record, keys: list[str], report: Report) -> str:
    """The first of several keys to one kind of entry; more than one is reported."""
    if len(keys) > 1:
        said = "several keys to one kind of entry; the first was taken"
        report(finding(record, "link.several", said, "; ".join(keys)))
    return keys[0] if keys else ""


def dangling(record: Record, key: str) -> Issue:
    """The issue of a key that leads nowhere."""
    return finding(record, "link.dangling", "the key leads nowhere", key)


def finding(record: Record, rule: str, message: str, raw: str = "") -> Issue:
    """An issue about a record as a whole."""
    return Issue(rule, message, record.entry.line, record.entry.dn, raw=raw)
