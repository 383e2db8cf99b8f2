"""Admission to a binder: its settings, and limits on the frames, ads and tokens of strangers.

The binder reads and matches ads in one event loop. So it limits the size of an ad before it reads
it, and the steps for each attribute that it reads itself. ``node.task`` checks a job's attributes.

If a client's job has ``MayConnect = true``, it gets a token each time that it is given to a pilot.
The token allows no more than its submitter's: it has the same subject and expiry time, and the
scope of a client. It is refused when the submitter's token was revoked. So the binder writes the id
of that token into the job's ad.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import secrets
import ssl
import time
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import Final

import attrs

from matchmaker._limits import PoolLimits
from matchmaker.classad import UNDEFINED, ClassAd, ParseError, parse_ad
from matchmaker.classad.evaluate import Allowance
from matchmaker.classad.nodes import Expr, ListExpr, Literal
from matchmaker.classad.values import Value
from matchmaker.pilots.binder.state import BinderJob, Book
from matchmaker.pilots.node.task import MOST_RESULT
from matchmaker.pilots.wire.protocol import REVOKED, Frame, FrameKind, Token, TokenScope, sign

# As long as the digest of SHA-256: a longer key would not make HMAC stronger.
_KEY_BYTES: Final = 32
# Bytes of a job's output, of its errors, and of its files: larger ones belong on a file server.
MOST_OUTPUT: Final = 16 << 20
# Bytes of all jobs of an owner together, so that one owner does not fill the disk.
MOST_STORED: Final = 1 << 30
# Characters of a reason: enough for a sentence, so that no peer fills the tables with text.
MOST_TEXT: Final = 1000
# Characters of a job's key and of a slot's name; both are indexed, and printed on one line.
MOST_KEY: Final = 128
# Frames a second from one connection for long, so that one peer alone cannot fill the event loop.
_FRAMES: Final = 200
# A burst, such as the submissions of a script, passes without a wait.
_AT_ONCE: Final = 400
# Bytes that count as one frame: parsing takes time by size.
_FRAME_BYTES: Final = 4096
# A piece of output is stored and not parsed, so its bytes count for less.
_PIECE_BYTES: Final = 16_384
# Bytes of an ad as JSON: one frame must hold it, with the fields beside it.
MOST_AD: Final = 192 << 10
# Characters outside of strings: matching takes time by these; strings cost little.
MOST_SYNTAX: Final = 8 << 10
# Characters of all expressions of a slot, which each job's matching evaluates.
MOST_POLICY: Final = 2 << 10
MATCHING: Final = PoolLimits(flat=100_000, each=100, seconds=0.02, least=0.0001, kept=4 << 20)
"""What matching an ad with all free slots may take."""
# Steps of an attribute that the binder itself evaluates: such expressions are literals, or nearly
# so.
_STEPS: Final = 2_000
_SPAN: Final = re.compile(
    r"""//[^\n]*+|/\*.*?(?:\*/|\Z)|'(?:[^'\\]|\\.)*+'?|("(?:[^"\\]|\\.)*+"?)""", re.DOTALL
)
"""What a quote may stand in: comments, quoted names, and strings as group 1; also without an end,
so that no text is gone through twice."""
# Open jobs of a running job, so that a job that submits itself does not grow without end.
MOST_OPEN: Final = 100
MAY_CONNECT: Final = "MayConnect"
_BY: Final = "SubmitToken"
_ENDS: Final = "SubmitTokenEnds"
# A pilot lives for days at most; each registration gives a new token.
_SESSION_SECONDS: Final = 30 * 86_400.0
# A pilot may wait in a queue for so long before it uses the token of its factory.
MOST_PILOT_SECONDS: Final = 14 * 86_400.0
_ID: Final = re.compile(r"job\.([0-9a-f]+)\.([0-9]+)\Z")


class KeyFileError(ValueError):
    """A file with a key cannot be used; the message says why, and what to do."""


def load_key(file: Path) -> bytes:
    """Return the key of a binder; create the file if there is none.

    Raises KeyFileError for a file that others may read or without a key, and OSError.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     len(load_key(Path(folder, "key"))), load_key(Path(folder, "key")) == b""
    (32, False)
    """
    with suppress(FileExistsError):
        write_secret(file, secrets.token_hex(_KEY_BYTES) + "\n")
    with file.open("rb") as opened:
        mode = os.fstat(opened.fileno()).st_mode
        text = opened.read(4 * _KEY_BYTES)
    if mode & 0o077:
        raise KeyFileError(f"{file}: others may read this key: chmod 600 it, and make new tokens")
    try:
        key = bytes.fromhex(text.decode("ascii"))
    except ValueError:
        key = b""
    if len(key) != _KEY_BYTES:
        raise KeyFileError(f"{file}: {2 * _KEY_BYTES} digits of base 16 were expected")
    return key


def write_secret(file: Path, text: str) -> None:
    """Write a new file that its owner alone may read, whole or not at all.

    Raises FileExistsError if there is a file of that name, and OSError.
    """
    temporary = file.with_name(f".{file.name}.{secrets.token_hex(4)}")
    opened = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(opened, "w", encoding="ascii") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        # A link fails if the name is taken; a rename would replace that file.
        try:
            file.hardlink_to(temporary)
        except FileExistsError as error:
            # The system names the temporary file.
            raise FileExistsError(error.errno, error.strerror, str(file)) from None
    finally:
        temporary.unlink()


@attrs.frozen(slots=True, kw_only=True)
class BinderSettings:
    """The settings of a binder.

    Attributes:
        name: its name, which is the pool in its tokens.
        key: the key of its tokens; 32 random bytes.
        tls: its certificate; needed to listen beyond this machine.
        lease: seconds for which a pilot may be silent.
        most_jobs: the limit on the open jobs of a client.
        most_bytes: the limit on the bytes of a client's open jobs together.
        handled: the applications, in lower case, with a handler.
        most_output: the limit on the bytes of a job's output, of its errors, and of its files.
        most_stored: the limit on these bytes of all jobs of an owner.
    """

    name: str = "binder"
    key: bytes = attrs.field(repr=False)
    host: str = "127.0.0.1"
    port: int = 0
    tls: ssl.SSLContext | None = None
    lease: float = 60.0
    most_connections: int = 50_000
    most_jobs: int = 10_000
    most_bytes: int = 16 << 20
    handled: frozenset[str] = frozenset()
    most_output: int = MOST_OUTPUT
    most_stored: int = MOST_STORED


class RateLimit:
    """Limits how fast frames are read from one connection."""

    __slots__ = ("_last", "_left")

    def __init__(self) -> None:
        self._left = float(_AT_ONCE)
        self._last = time.monotonic()

    async def step(self, frame: Frame) -> None:
        """Wait until a frame may be read; at least until other tasks had their turn."""
        bytes_ = _PIECE_BYTES if frame.kind is FrameKind.CHUNK else _FRAME_BYTES
        now = time.monotonic()
        self._left = min(float(_AT_ONCE), self._left + (now - self._last) * _FRAMES)
        self._left -= max(1.0, frame.size / bytes_)
        self._last = now
        await asyncio.sleep(max(0.0, -self._left / _FRAMES))


def check_length(text: str) -> str:
    """Return the text of an ad. Raises ValueError if it is too long to be matched or sent on."""
    if len(text) > MOST_AD or len(json.dumps(text)) > MOST_AD:
        raise ValueError(f"an ad of over {MOST_AD} bytes; shorten it")
    outside = len(text) - sum(len(span[1] or "") for span in _SPAN.finditer(text))
    if outside > MOST_SYNTAX:
        raise ValueError(
            f"an ad with {outside} characters outside of strings, at most {MOST_SYNTAX} are taken:"
            " shorten it"
        )
    return text


def parse_job_ad(text: str) -> ClassAd:
    """Parse an ad. Raises ValueError if it is not an ad, or too long."""
    try:
        return parse_ad(check_length(text), "new")
    except ParseError as error:
        raise ValueError(f"the ad cannot be read: {error}") from None


def parse_slot_ad(text: str) -> ClassAd:
    """Parse a free slot's ad, as ``parse_job_ad`` does, with a lower limit on its expressions.

    >>> start = "TARGET.Cpus > 1 && " * 200 + "true"
    >>> parse_slot_ad(f"[ Requirements = MY.Start; Start = {start} ]")
    Traceback (most recent call last):
    ...
    ValueError: its expressions have 3812 characters, at most 2048 are taken: shorten its policy
    """
    ad = parse_job_ad(text)
    size = sum(len(str(ad.expr(name))) for name in ad if not _literal(ad.expr(name)))
    if size > MOST_POLICY:
        raise ValueError(
            f"its expressions have {size} characters, at most {MOST_POLICY} are taken:"
            " shorten its policy"
        )
    return ad


def bounded_value(ad: ClassAd, name: str) -> Value:
    """Return the value of an attribute; ERROR if it takes more steps than the binder allows.

    >>> bounded_value(ClassAd(Direct=True), "Direct")
    True
    """
    return Allowance(_STEPS).value(ad.expr(name), ad, None) if name in ad else UNDEFINED


def checked_result(text: str) -> str:
    """Return the text of a pilot's report if all its values are literals; else a reason, as an ad.

    So nobody who reads it later evaluates a stranger's expression.

    >>> checked_result("[ ExitCode = 0; Seconds = { 1.5, 2.5 } ]")
    '[ ExitCode = 0; Seconds = { 1.5, 2.5 } ]'
    >>> checked_result("[ ExitCode = 0 + 0 ]")[:59]
    '[ Reason = "a result was refused: ExitCode is no number, st'
    """
    try:
        _check_result(text)
    except ValueError as error:
        return str(ClassAd(Reason=f"a result was refused: {str(error)[:500]}"))
    return text


def _check_result(text: str) -> None:
    if len(text) > MOST_RESULT:
        raise ValueError(f"it has {len(text)} characters, at most {MOST_RESULT} are taken")
    ad = parse_job_ad(text)
    for name in ad:
        if not _literal(ad.expr(name)):
            raise ValueError(f"{name[:80]} is no number, string, boolean or list of these")


def _literal(node: Expr) -> bool:
    items = node.items if isinstance(node, ListExpr) else (node,)
    return all(
        isinstance(i, Literal) and isinstance(i.value, bool | int | float | str) for i in items
    )


def is_job_token(token: Token) -> bool:
    """Whether a token belongs to a running job."""
    return _ID.match(token.id) is not None


def note_submitter(ad: ClassAd, token: Token) -> None:
    """Write the submitter's token into a job's ad, if the job wants a token of its own.

    Raises ValueError if the submitter's is not a client's own token.
    """
    for name in (_BY, _ENDS):
        ad.pop(name, None)
    if bounded_value(ad, MAY_CONNECT) is True:
        if token.scope is not TokenScope.CLIENT or is_job_token(token):
            raise ValueError(f"{MAY_CONNECT}: only a job of a client's own token may connect")
        ad[_BY], ad[_ENDS] = token.id, token.ends


def same_job(one: str, other: str) -> bool:
    """Whether two jobs' ads are equal, apart from the tokens of their submission."""
    if one == other:
        return True
    first, second = parse_ad(one), parse_ad(other)
    for ad in (first, second):
        for name in (_BY, _ENDS):
            ad.pop(name, None)
    return str(first) == str(second)


def job_token_id(job: BinderJob) -> str:
    """Return the id of the token that a job got with its last assignment."""
    return f"job.{job.id}.{job.epoch}"


def job_token(job: BinderJob, key: bytes, pool: str) -> str:
    """Return the token of a job that is given to a pilot, signed by the key; empty for none."""
    if MAY_CONNECT.lower() not in job.ad.lower():
        return ""
    ad = parse_ad(job.ad)
    ends = bounded_value(ad, _ENDS)
    if bounded_value(ad, MAY_CONNECT) is not True or not isinstance(ends, float):
        return ""
    token = Token(
        subject=job.owner, scope=TokenScope.CLIENT, pool=pool, id=job_token_id(job), ends=ends
    )
    return sign(key, token)


def session_token(token: Token, key: bytes, now: float) -> str:
    """Return a registered pilot's token, with which it comes back and offers slots.

    It has the id of the pilot's token, so that revoking one revokes both.
    """
    made = attrs.evolve(token, scope=TokenScope.SESSION, ends=float(int(now + _SESSION_SECONDS)))
    return sign(key, made)


def pilot_token(token: Token, asked_for: Frame, key: bytes, now: float) -> str:
    """Return a pilot's token for a factory. Raises ValueError for owners that it may not name."""
    names, seconds = asked_for["owners"], float(asked_for["seconds"])
    if not all(isinstance(name, str) for name in names):
        raise ValueError("owners: a list of names was expected")
    owners = tuple(names) or token.owners
    if others := set(owners).difference(token.owners) if token.owners else ():
        raise ValueError(f"{min(others)[:80]} is no owner of this factory's token")
    if not 0 < seconds <= MOST_PILOT_SECONDS:
        raise ValueError(f"seconds: above 0 and at most {MOST_PILOT_SECONDS:g} were expected")
    made = Token(
        subject=asked_for["subject"], scope=TokenScope.PILOT, pool=token.pool, owners=owners,
        ends=float(int(now + seconds)),
    )  # fmt: skip
    return sign(key, made)


def token_problem(token: Token, book: Book, revoked: Collection[str]) -> str:
    """Return why a token is no longer valid: it was revoked, or its job does not run."""
    if token.id in revoked:
        return REVOKED
    named = _ID.match(token.id)
    if named is None:
        return ""
    job = book.jobs.get(named[1])
    if job is None or not job.stage.held or job.epoch != int(named[2]) or job.cancel:
        return "the job of this token does not run any more"
    if bounded_value(parse_ad(job.ad), _BY) in revoked:
        return "the token by which this job was handed in was revoked"
    return ""
