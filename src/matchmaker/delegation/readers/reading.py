"""What readers of answers share: the shape of a reader, the error for a cut answer, values.

Answers come from strangers: whatever a reader cannot take for a value of the documented form makes
the whole answer unreadable, since a job that is left out would seem absent.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import attrs

from matchmaker.classad.values import is_number
from matchmaker.delegation.record import JobStatus, Phase, ReasonCode

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element


class UnreadableError(ValueError):
    """An answer that was cut short or has another form; the message names the fault."""


@attrs.frozen(slots=True)
class Reader:
    """How the answers of one kind of batch system are read.

    Attributes:
        id: the pattern of the answer to a submission; its first group is the id.
        queue: the jobs of a listing of the queue, those of others too.
        accounts: the jobs of a listing of the accounting.
        total: the pattern of a line with the number of jobs; empty if listings mark their own end.

    All raise UnreadableError for an answer that is cut short or that they cannot read, and nothing
    else.
    """

    id: str
    queue: Callable[[str], Sequence[JobStatus]]
    accounts: Callable[[str], Sequence[JobStatus]]
    total: str = ""

    def new_id(self, text: str) -> str | None:
        """The id in the answer to a submission, or None if it has none."""
        match = re.search(self.id, text, re.MULTILINE)
        return match[1] if match else None

    def count(self, text: str) -> int:
        """How many jobs there are, in the answer to ``count`` of the table."""
        match = re.search(self.total, text, re.MULTILINE) if self.total else None
        if match is None:
            raise UnreadableError("it lacks the number of jobs")
        return whole(match[1])


_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.\[\]-]{0,99}")
_MARK: Final = re.compile(
    # The first one: what the owner's own comment says comes behind it.
    r"(?:.*?\s)??mark=([0-9a-f]{16})(?:\sattempt=([0-9]{1,6})\skey=([A-Za-z0-9_.-]{1,64}))?(?:\s.*)?",
    re.DOTALL,
)
_LATEST: Final = 1e12
"""Far beyond every moment of a job, and before what a float of seconds rounds."""


def seen(  # noqa: PLR0917 - in the order of JobStatus
    name: object, remote_id: object, submitted: object, phase: Phase, exit_: object = None,
    why: object = "", mark: object = "", why_ended: ReasonCode | None = None,
) -> JobStatus:  # fmt: skip
    """A job of an answer. Raises UnreadableError for a value that is not of its kind.

    Why it ended counts for a job that the batch system ended.
    """
    number = remote_id if isinstance(remote_id, str) else str(whole(remote_id))
    if not _ID.fullmatch(number):
        raise UnreadableError(f"{number[:80]!r} is no id of a job")
    at = submitted
    if at is not None and not (is_number(at) and math.isfinite(at) and 0 <= at < _LATEST):
        raise UnreadableError(f"{str(at)[:80]!r} is no time")
    if not isinstance(name, str):
        raise UnreadableError(f"{str(name)[:80]!r} is no name of a job")
    code = None if exit_ is None else whole(exit_)
    carried = mark if isinstance(mark, str) and re.fullmatch(r"[0-9a-f]{16}", mark) else ""
    ended = why_ended if phase is Phase.CANCELLED else None
    return JobStatus(name, number, at, phase, code, str(why), carried, ended)


def whole(value: object) -> int:
    """A whole number that is not negative, of an answer's own kind or in digits.

    Raises UnreadableError for anything else.

    >>> whole("17"), whole(17)
    (17, 17)
    """
    if isinstance(value, str) and re.fullmatch(r"[0-9]{1,15}", value):
        return int(value)
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 10**15:
        return value
    raise UnreadableError("a number was expected")


def carried(text: object, name: str) -> tuple[str, str]:
    """The name and the mark of a job, by a comment or a description that carries our metadata.

    The name is that which the job was submitted under, even if the batch system shows another; it
    stays as it is if the text does not say it. The mark is empty if there is none.

    >>> carried("mark=00112233aabbccdd attempt=2 key=k7 ad=", "site_mm-k7-2")
    ('mm-k7-2', '00112233aabbccdd')
    >>> carried("mark=00112233aabbccdd attempt=2 key=k7 mark=ffffffffffffffff", "mm-k7-2")
    ('mm-k7-2', '00112233aabbccdd')
    >>> carried("a comment", "other")
    ('other', '')
    """
    match = _MARK.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        return name, ""
    mark, attempt, key = match.groups()
    return (f"mm-{key}-{attempt}" if key else name), mark


def as_json(text: str) -> Any:
    """The JSON that a text is. Raises UnreadableError for anything else, a part of it too."""
    try:
        return json.loads(text, parse_constant=lambda _: None)
    except (ValueError, RecursionError) as error:
        # Also for a number of more digits than Python takes.
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
    except (ParseError, ValueError, RecursionError) as error:
        raise UnreadableError(f"not XML, or cut short: {error}") from None


def moment(text: str, form: str = "%Y-%m-%dT%H:%M:%S") -> float | None:
    """Return a time in UTC as seconds since 1970; None for any other text.

    >>> moment("1970-01-02T00:00:00"), moment("Unknown")
    (86400.0, None)
    """
    try:
        return datetime.strptime(text, form).replace(tzinfo=UTC).timestamp()
    except (ValueError, OverflowError):
        return None


def status_of(wait: int) -> int:
    """The exit status in the status that ``wait`` returns: 128 and the number of a signal's end.

    >>> status_of(768), status_of(15)
    (3, 143)
    """
    return 128 + (wait & 127) if wait & 127 else wait >> 8
