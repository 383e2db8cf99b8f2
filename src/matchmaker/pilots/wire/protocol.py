"""The pilot protocol: frames, tokens, and the greeting, without any connection.

``docs/pilot-protocol.md`` describes it. A frame is the length of its body, in four bytes, the
highest first, and a JSON object in UTF-8 with its ``kind``. ``FrameKind`` lists the fields that
each kind must have. A reader ignores other fields, so that a later program may add some.

A token is a JSON Web Token with HS256 (RFC 7519, RFC 7515), as HTCondor's IDTOKENS are, signed by
the key of the binder. A peer sends it without the signature, and proves in the greeting that it
knows the signature, so that an eavesdropper or an impostor learns nothing to use. A proof covers
the hello as it arrived and the answer: none of it can be changed, nor used again with another
nonce.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import json
import re
import secrets
from collections.abc import Collection, Mapping
from enum import StrEnum
from math import isfinite
from types import MappingProxyType
from typing import Any, Final, Self

import attrs

VERSIONS: Final = (2,)
"""The versions of the protocol that this program speaks, the best last."""
# Before a peer has proven itself: a hello with the longest token has under 3 KiB.
GREETING_BYTES: Final = 8 << 10
# Afterwards: an ad of 192 KiB with its other fields.
MOST_BYTES: Final = 256 << 10
# Bytes of output in a frame; in base 64 they take 128 KiB of it.
MOST_PIECE: Final = 96 << 10
OUT: Final = "out"
ERR: Final = "err"
FILE: Final = "file:"
"""The beginning of the name of a part that is a file; then comes the file's name."""
# Below the 255 bytes of a file name on common file systems.
MOST_NAME: Final = 200
# The length before a body.
_HEAD: Final = 4
# Python takes quadratic time for the digits of an integer.
_MOST_DIGITS: Final = 300
_UNSTORED: Final = re.compile("[\0\ud800-\udfff]")
"""Halves of characters, which UTF-8 has not, and the null byte, which PostgreSQL has not."""


Fields = Mapping[str, type | tuple[type, ...]]
_WRITER: Final = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False)
# A token fits in a header of HTTP, an environment variable, a line.
_MOST_BYTES: Final = 2048
# Seconds since 1970, 30,000 years on: a larger number is a mistake.
_LAST: Final = 1e12
REVOKED: Final = "the token was revoked: ask the admin of the binder for a new one"
_HEADER: Final = {"alg": "HS256", "typ": "JWT"}
_TEXT: Final = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\Z")
_NAME: Final = re.compile(r"[\x21-\x7e]{1,128}\Z")
_LABEL: Final = b"matchmaker pilot protocol"
# A peer speaks one to three versions; a long list costs time before it has proven itself.
_MOST_VERSIONS: Final = 16
# Hexadecimal characters of 128 bits, which never occur twice.
_LEAST_NONCE: Final = 32


class FrameError(ValueError):
    """A frame that cannot be read, or that does not fit here."""


class FrameKind(StrEnum):
    """The kinds of frames, each with the fields that it must have and the types of their values."""

    fields: Fields

    def __new__(cls, name: str, fields: Fields = MappingProxyType({})) -> Self:
        """Make a kind of a name and its fields."""
        kind = str.__new__(cls, name)
        kind._value_, kind.fields = name, fields
        return kind

    HELLO = "hello", {"versions": list, "role": str, "token": str, "nonce": str}
    CHALLENGE = "challenge", {"version": int, "nonce": str, "proof": str}
    PROOF = "proof", {"proof": str}
    WELCOME = "welcome"
    REFUSED = "refused", {"reason": str}

    REGISTER = "register", {"ad": str, "session": str, "running": dict}
    REGISTERED = "registered", {"session": str, "lease": (int, float), "token": str}
    BEAT = "beat", {"number": int}
    ALIVE = "alive", {"number": int}
    DECLINED = "declined", {"job": str, "epoch": int, "reason": str}
    CHUNK = "chunk", {"job": str, "epoch": int, "name": str, "offset": int, "data": str}
    STORED = "stored", {"job": str, "epoch": int, "name": str, "size": int, "reason": str}
    ENDED = "ended", {"job": str, "epoch": int, "result": str}
    LEAVE = "leave", {"reason": str}
    KILL = "kill", {"job": str, "epoch": int}
    ACKNOWLEDGE = "acknowledge", {"job": str, "epoch": int}
    OVER = "over"
    STOP = "stop", {"reason": str}

    OFFER = "offer", {"session": str, "slot": str, "ad": str}
    PAIRED = "paired", {"job": str, "epoch": int, "ad": str, "stream": bool}
    ACCEPTED = "accepted", {"job": str, "epoch": int}

    CONNECT = "connect", {"ad": str, "seconds": (int, float)}
    WAITING = "waiting", {"job": str, "reason": str}
    SUBMIT = "submit", {"key": str, "ad": str}
    SUBMIT_ALL = "submit_all", {"jobs": list}
    ASK = "ask", {"jobs": list, "seconds": (int, float)}
    FETCH = "fetch", {"job": str, "name": str, "offset": int}
    PIECE = "piece", {"data": str, "size": int}
    CANCEL = "cancel", {"job": str, "reason": str}
    JOBS = "jobs", {"jobs": list}

    TOKEN = "token", {"subject": str, "owners": list, "seconds": (int, float)}

    STATUS = "status"
    REVOKE = "revoke", {"token": str, "ends": (int, float)}
    END = "end", {"session": str, "reason": str}
    DONE = "done"
    FAILED = "failed", {"reason": str}


@attrs.frozen(slots=True)
class Frame:
    """A frame; ``fields`` has all but the kind, and ``size`` is its length in bytes as it came."""

    kind: FrameKind
    fields: Mapping[str, Any] = attrs.field(factory=dict)
    size: int = attrs.field(default=0, eq=False, repr=False)

    def __getitem__(self, name: str) -> Any:
        return self.fields[name]


def encode(kind: FrameKind, **fields: Any) -> bytes:
    r"""Return the bytes of a frame.

    Raises ValueError if it is longer than a peer accepts, or not representable in JSON.

    >>> encode(FrameKind.BEAT, number=7)
    b'\x00\x00\x00\x1a{"kind":"beat","number":7}'
    """
    if lacking := kind.fields.keys() - fields.keys():
        raise ValueError(f"{kind} needs {', '.join(sorted(lacking))}")
    body = canonical({"kind": kind, **fields})
    if len(body) > MOST_BYTES:
        raise ValueError(f"a {kind} of {len(body)} bytes; at most {MOST_BYTES} can be sent")
    return len(body).to_bytes(_HEAD) + body


def canonical(fields: Mapping[str, Any]) -> bytes:
    """Return the same text for equal objects: keys in order, no spaces, ASCII."""
    return _WRITER.encode(fields).encode("ascii")


def decode(body: bytes) -> Frame:
    """Return the frame of a body, without its length. Raises FrameError, and nothing else.

    >>> decode(b'{"kind": "beat", "number": 7, "later": true}')
    Frame(kind=<FrameKind.BEAT: 'beat'>, fields={'number': 7, 'later': True})
    """
    try:
        found = _READER.decode(body.decode())
    except (ValueError, RecursionError):
        raise FrameError("a frame that is no JSON object") from None
    if not isinstance(found, dict):
        raise FrameError("a frame that is no JSON object")
    if b"\\u" in body and not _storable(found):
        raise FrameError("a frame with text that holds a null byte, or half a character")
    name = found.pop("kind", None)
    try:
        kind = FrameKind(name)
    except ValueError:
        raise FrameError(f"a frame of the unknown kind {str(name)[:40]!r}") from None
    for field, types in kind.fields.items():
        value = found.get(field)
        if not isinstance(value, types) or (isinstance(value, bool) and types is not bool):
            raise FrameError(f"{kind}: {field} is missing or of another type than it must be")
    return Frame(kind, found, len(body))


def _finite(text: str) -> float:
    value = float(text)
    if not isfinite(value):
        raise ValueError(f"{text} is too large")
    return value


def _whole(text: str) -> int:
    if len(text) > _MOST_DIGITS:
        raise ValueError(f"a number of {len(text)} digits is too large")
    return int(text)


def _storable(found: object) -> bool:
    """Whether every text can be stored; only a text with an escape cannot."""
    at = [found]
    while at:
        value = at.pop()
        if isinstance(value, str) and _UNSTORED.search(value):
            return False
        if isinstance(value, dict):
            at += (*value, *value.values())
        elif isinstance(value, list):
            at += value
    return True


def _no_number(name: str) -> float:
    raise ValueError(f"{name} is no number of JSON")


_READER: Final = json.JSONDecoder(parse_constant=_no_number, parse_float=_finite, parse_int=_whole)


class FrameDecoder:
    """Splits the bytes of a connection into frames.

    ``limit`` is the length of the longest frame that is accepted, and may change between frames.
    """

    __slots__ = ("_buffer", "limit")

    def __init__(self, limit: int = GREETING_BYTES) -> None:
        self.limit = limit
        self._buffer = bytearray()

    def feed(self, data: bytes) -> None:
        """Add bytes as they come."""
        self._buffer += data

    def next(self) -> Frame | None:
        r"""Return the next frame, or None until it is complete.

        Raises FrameError; nothing more can be read then.

        >>> decoder = FrameDecoder()
        >>> decoder.feed(encode(FrameKind.BEAT, number=1) + b"\0")
        >>> decoder.next(), decoder.next(), decoder.rest()
        (Frame(kind=<FrameKind.BEAT: 'beat'>, fields={'number': 1}), None, b'\x00')
        """
        buffer = self._buffer
        if len(buffer) < _HEAD:
            return None
        length = int.from_bytes(buffer[:_HEAD])
        if length > self.limit:
            raise FrameError(f"a frame of {length} bytes; at most {self.limit} are taken here")
        if len(buffer) < _HEAD + length:
            return None
        body = bytes(buffer[_HEAD : _HEAD + length])
        del buffer[: _HEAD + length]
        return decode(body)

    def __len__(self) -> int:
        """Return how many bytes wait."""
        return len(self._buffer)

    def rest(self) -> bytes:
        """Return the bytes that were not yet read, and remove them."""
        rest = bytes(self._buffer)
        self._buffer.clear()
        return rest


def is_path(name: str) -> bool:
    """Whether a name is a relative path that stays below its directory.

    >>> [is_path(name) for name in ("a/b.dat", "/etc/shadow", "a/../../b", "", "a//b", ".")]
    [True, False, False, False, False, False]
    """
    parts = name.split("/")
    return name.isprintable() and len(name) <= MOST_NAME and not {"", ".", ".."} & set(parts)


class TokenError(ValueError):
    """A token cannot be read, or is refused."""


class TokenScope(StrEnum):
    """The rights of a token's owner."""

    CLIENT = "client"
    PILOT = "pilot"
    """Buys one registration."""
    SESSION = "session"
    """What a pilot gets for it, and keeps in memory alone. It has the id of the pilot's token."""
    FACTORY = "factory"
    """Asks for tokens of pilots."""
    ADMIN = "admin"


@attrs.frozen(slots=True, kw_only=True)
class Token:
    """The contents of a token; times are seconds since 1970.

    ``subject`` is its owner, and ``pool`` the name of the binder that accepts it: 1 to 128 visible
    characters of ASCII each. ``id`` is used to revoke it. ``owners`` limits a pilot to the jobs of
    these owners; none are anybody's.
    """

    subject: str
    scope: TokenScope
    pool: str
    id: str = attrs.field(factory=lambda: secrets.token_hex(8))
    ends: float
    owners: tuple[str, ...] = ()


def sign(key: bytes, token: Token) -> str:
    """Return the text of a token, which must be kept like a password.

    Raises TokenError for a bad name, and for a token that would be too long to be read.

    >>> text = sign(b"k" * 32, Token(subject="ana", scope="client", pool="p", id="1", ends=9e9))
    >>> said, signature = split_token(text)
    >>> read_token(said).subject, signature == signature_of(b"k" * 32, said)
    ('ana', True)
    """
    for name in (token.subject, token.pool, token.id, *token.owners):
        if not _NAME.match(name):
            raise TokenError(f"{name[:80]!r}: 1 to 128 visible characters of ASCII were expected")
    claims: dict[str, Any] = {
        "sub": token.subject, "scope": str(token.scope), "pool": token.pool, "jti": token.id,
        "exp": token.ends,
    }  # fmt: skip
    if token.owners:
        claims["owners"] = list(token.owners)
    said = f"{_encoded(canonical(_HEADER))}.{_encoded(canonical(claims))}"
    text = f"{said}.{_encoded(signature_of(key, said))}"
    if len(text) > _MOST_BYTES:
        raise TokenError(f"a token of {len(text)} bytes, over {_MOST_BYTES}: name fewer owners")
    return text


def signature_of(key: bytes, said: str) -> bytes:
    """Return the signature of a token's text without one."""
    return hmac.digest(key, said.encode("ascii"), "sha256")


def split_token(text: str) -> tuple[str, bytes]:
    """Return a token's text without its signature, and the signature. Raises TokenError."""
    said, _, signature = text.strip().rpartition(".")
    if len(text) > _MOST_BYTES or not _TEXT.match(said):
        raise TokenError("this is no token: three parts with dots between them were expected")
    return said, _decoded(signature)


def read_token(said: str) -> Token:
    """Return the contents of a token's text without its signature, unproven. Raises TokenError."""
    if len(said) > _MOST_BYTES or not _TEXT.match(said):
        raise TokenError("this is no token: two parts with a dot between them were expected")
    header, claims = map(_object, said.split("."))
    if header != _HEADER:
        raise TokenError("the token is not signed by HS256")
    ends = claims.get("exp")
    if isinstance(ends, bool) or not isinstance(ends, int | float) or not 0 <= ends <= _LAST:
        raise TokenError("the token has no end, in seconds since 1970")
    scope = claims.get("scope")
    if not isinstance(scope, str) or scope not in set(TokenScope):
        raise TokenError("the token has no scope that this program knows")
    subject, pool, id_ = (_name(claims, name) for name in ("sub", "pool", "jti"))
    owners = claims.get("owners", [])
    if not isinstance(owners, list) or not all(map(_is_name, owners)):
        raise TokenError("the token's owners are no list of names")
    return Token(
        subject=subject, scope=TokenScope(scope), pool=pool, id=id_, ends=float(ends),
        owners=tuple(owners),
    )  # fmt: skip


def _is_name(value: object) -> bool:
    return isinstance(value, str) and _NAME.match(value) is not None


def _name(claims: dict[str, Any], name: str) -> str:
    value = claims.get(name)
    if not isinstance(value, str) or not _is_name(value):
        raise TokenError(f"the token has no {name} of 1 to 128 visible characters")
    return value


def token_refusal(token: Token, *, pool: str, now: float, revoked: Collection[str]) -> str:
    """Return why a token is refused, in words; empty if it is good. The signature is not checked.

    Args:
        token: the contents of the token.
        pool: the name of the binder.
        now: the binder's clock, in seconds since 1970.
        revoked: ids of tokens that are refused.

    >>> mine = Token(subject="ana", scope=TokenScope.CLIENT, pool="p", id="1", ends=100.0)
    >>> token_refusal(mine, pool="p", now=99.0, revoked=())
    ''
    >>> token_refusal(mine, pool="p", now=160.0, revoked=())
    'the token ended 60 s ago: ask the admin of the binder for a new one'
    """
    if token.pool != pool:
        return f"the token is for the binder {token.pool}; this one is {pool}"
    if now >= token.ends:
        ago = f"{now - token.ends:.0f} s ago"
        return f"the token ended {ago}: ask the admin of the binder for a new one"
    if token.id in revoked:
        return REVOKED
    return ""


def _object(part: str) -> dict[str, Any]:
    try:
        found = json.loads(_decoded(part))
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise TokenError("a part of the token is no JSON object")
    return found


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode("ascii")


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise TokenError("a part of the token is not in base64") from None


class Role(StrEnum):
    """The purpose of a connection."""

    PILOT = "pilot"
    SLOT = "slot"
    CLIENT = "client"
    FACTORY = "factory"
    ADMIN = "admin"


ROLES: Final[Mapping[TokenScope, Collection[Role]]] = {
    TokenScope.PILOT: (Role.PILOT,),
    TokenScope.SESSION: (Role.PILOT, Role.SLOT),
    TokenScope.FACTORY: (Role.FACTORY,),
    TokenScope.CLIENT: (Role.CLIENT,),
    TokenScope.ADMIN: (Role.CLIENT, Role.ADMIN),
}
"""The roles that a token's scope allows."""


class PeerRefusedError(ValueError):
    """The other side is refused, or refuses; the message has the reason."""


@attrs.frozen(slots=True)
class Greeting:
    """A greeting under way: the peer's token and role, and the proof that it must send."""

    token: Token
    role: Role
    version: int
    proof: str = attrs.field(repr=False)


def hello(text: str, role: Role, nonce: str) -> dict[str, Any]:
    """Return the fields of a peer's hello. Raises TokenError for another text than a token.

    Args:
        text: the token, with its signature.
        role: the purpose of the connection.
        nonce: at least 32 characters that were never used before.
    """
    said, _ = split_token(text)
    return {"versions": list(VERSIONS), "role": str(role), "token": said, "nonce": nonce}


def challenge(
    said: Mapping[str, Any], key: bytes, nonce: str, *, pool: str, now: float,
    revoked: Collection[str],
) -> tuple[dict[str, Any], Greeting]:  # fmt: skip
    """Return the binder's answer to a hello, and the greeting that it waits for.

    Raises PeerRefusedError if the peer is refused.

    Args:
        said: the fields of the hello.
        key: the binder's key.
        nonce: at least 32 characters that were never used before.
        pool: the name of the binder.
        now: the binder's clock, in seconds since 1970.
        revoked: ids of tokens that are refused.
    """
    version = _chosen(said["versions"])
    try:
        token = read_token(said["token"])
    except TokenError as error:
        raise PeerRefusedError(str(error)) from None
    if why := token_refusal(token, pool=pool, now=now, revoked=revoked):
        raise PeerRefusedError(why)
    if said["role"] not in ROLES[token.scope]:
        raise PeerRefusedError(
            f"a token of scope {token.scope} does not allow {said['role'][:40]!r}"
        )
    if len(said["nonce"]) < _LEAST_NONCE:
        raise PeerRefusedError(f"a nonce of at least {_LEAST_NONCE} characters was expected")
    answer = {"version": version, "nonce": nonce}
    signature = signature_of(key, said["token"])
    answer["proof"] = _proof(signature, "binder", said, answer)
    proof = _proof(signature, "peer", said, answer)
    return answer, Greeting(token, Role(said["role"]), version, proof)


def answer_challenge(text: str, said: Mapping[str, Any], answer: Frame) -> str:
    """Check the binder's proof, and return the peer's.

    Raises PeerRefusedError if the binder does not know the token, or chose a version that was not
    offered. ``text`` is the token with its signature, ``said`` the fields of the hello.
    """
    _, signature = split_token(text)
    fields = {"version": answer["version"], "nonce": answer["nonce"]}
    if not _equal(_proof(signature, "binder", said, fields), answer["proof"]):
        raise PeerRefusedError("who answers is not the binder that made this token")
    if fields["version"] not in said["versions"]:
        raise PeerRefusedError(
            f"the binder chose version {fields['version']}, which was not offered"
        )
    return _proof(signature, "peer", said, fields)


def check_proof(greeting: Greeting, proof: str) -> None:
    """Raise PeerRefusedError if a peer's proof is wrong."""
    if not _equal(greeting.proof, proof):
        raise PeerRefusedError("the token's signature is wrong: it was made by another key")


def _chosen(offered: list[Any]) -> int:
    if len(offered) > _MOST_VERSIONS or not all(type(each) is int for each in offered):
        raise FrameError(f"hello: at most {_MOST_VERSIONS} versions, each a number, were expected")
    common = [version for version in VERSIONS if version in offered]
    if not common:
        raise PeerRefusedError(
            f"no common version of the protocol: offered {offered}, spoken here {list(VERSIONS)}"
        )
    return max(common)


def _proof(signature: bytes, side: str, said: Mapping[str, Any], answer: Mapping[str, Any]) -> str:
    spoken = canonical({"said": said, "version": answer["version"], "nonce": answer["nonce"]})
    key = hmac.digest(signature, _LABEL, "sha256")
    return hmac.digest(key, side.encode() + b"\0" + spoken, "sha256").hex()


def _equal(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode(), other.encode("utf-8", "replace"))
