"""What readers of answers share: the shape of a reader, the error for a cut answer, times."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import attrs

from matchmaker.delegation.observation import Sight

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element


class UnreadableError(ValueError):
    """An answer that was cut short or is not what was asked for; the message says what is wrong."""


@attrs.frozen(slots=True)
class Reader:
    """How the answers of one kind of batch system are read.

    Attributes:
        new_id: the id in the answer to a submission, or None if it has none.
        queue: the jobs of a listing of the queue, those of others too.
        accounts: the jobs of a listing of the accounting.
        count: how many jobs there are, in the answer to ``count`` of the table.

    All raise UnreadableError for an answer that is cut short or that they cannot read.
    """

    new_id: Callable[[str], str | None]
    queue: Callable[[str], Sequence[Sight]]
    accounts: Callable[[str], Sequence[Sight]]
    count: Callable[[str], int]


def no_count(_: str) -> int:
    """For batch systems whose listings say themselves where they end."""
    raise UnreadableError("no number of jobs was asked for")


def as_json(text: str) -> Any:
    """The JSON that a text is. Raises UnreadableError for anything else, a part of it too."""
    try:
        return json.loads(text, parse_constant=lambda _: None)
    except (ValueError, RecursionError) as error:
        raise UnreadableError(f"not JSON, or cut short: {error}") from None


def as_xml(text: str) -> Element:
    """The XML that a text is. Raises UnreadableError for anything else, a part of it too.

    Entities of a document type could grow without bound, and no batch system writes one.
    """
    from xml.etree.ElementTree import ParseError, fromstring

    if "<!" in text:
        raise UnreadableError("XML with a document type")
    try:
        return fromstring(text)  # noqa: S314 - no document type
    except ParseError as error:
        raise UnreadableError(f"not XML, or cut short: {error}") from None


def moment(text: str, form: str = "%Y-%m-%dT%H:%M:%S") -> float | None:
    """A time in UTC as seconds since 1970; None for what is no such time.

    >>> moment("1970-01-02T00:00:00"), moment("Unknown")
    (86400.0, None)
    """
    try:
        return datetime.strptime(text, form).replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None


def status_of(wait: int) -> int:
    """The exit status in the status that ``wait`` returns: 128 and the number of a signal's end.

    >>> status_of(768), status_of(15)
    (3, 143)
    """
    return 128 + (wait & 127) if wait & 127 else wait >> 8
