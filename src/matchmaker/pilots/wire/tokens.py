"""Tokens: who a peer is and what it may do, signed by the binder's key.

A token is a JSON Web Token with HS256 (RFC 7519, RFC 7515), as HTCondor's IDTOKENS are. A peer
sends it without the signature, and proves in the greeting that it has it, so that who listens or
answers in the binder's place learns nothing to use. Keys come from a file that the binder keeps.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import json
import re
import secrets
from collections.abc import Collection
from enum import StrEnum
from typing import Any, Final

import attrs

from matchmaker.pilots.wire.frames import canonical

_MOST_BYTES: Final = 2048
_LAST: Final = 1e12
REVOKED: Final = "the token was revoked: ask the admin of the binder for a new one"
_HEADER: Final = {"alg": "HS256", "typ": "JWT"}
_TEXT: Final = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\Z")
_NAME: Final = re.compile(r"[\x21-\x7e]{1,128}\Z")


class TokenError(ValueError):
    """A token cannot be read, or is not good here."""


class Scope(StrEnum):
    """What the owner of a token may do."""

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
    """What a token says.

    Attributes:
        subject: who it was given to: 1 to 128 visible characters of ASCII.
        scope: what its owner may do.
        pool: the name of the binder that takes it.
        id: names it, so that it can be revoked.
        ends: when it ends, in seconds since 1970.
        owners: of a pilot's token, a session's or a factory's: whose jobs alone the pilot may get;
            none for anybody's.
    """

    subject: str
    scope: Scope
    pool: str
    id: str = attrs.field(factory=lambda: secrets.token_hex(8))
    ends: float
    owners: tuple[str, ...] = ()


def sign(key: bytes, token: Token) -> str:
    """The text of a token, which is to be kept as a password is.

    Raises TokenError for a subject, a pool, an id or an owner that is no name, and for a token that
    is too long to be read.

    >>> text = sign(b"k" * 32, Token(subject="ana", scope="client", pool="p", id="1", ends=9e9))
    >>> said, signature = parted(text)
    >>> read(said).subject, signature == signed(b"k" * 32, said)
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
    text = f"{said}.{_encoded(signed(key, said))}"
    if len(text) > _MOST_BYTES:
        raise TokenError(f"a token of {len(text)} bytes, over {_MOST_BYTES}: name fewer owners")
    return text


def signed(key: bytes, said: str) -> bytes:
    """The signature of a token's text without one."""
    return hmac.digest(key, said.encode("ascii"), "sha256")


def parted(text: str) -> tuple[str, bytes]:
    """A token's text without its signature, and the signature. Raises TokenError."""
    said, _, signature = text.strip().rpartition(".")
    if len(text) > _MOST_BYTES or not _TEXT.match(said):
        raise TokenError("this is no token: three parts with dots between them were expected")
    return said, _decoded(signature)


def read(said: str) -> Token:
    """What a token's text without its signature says; nothing of it is proven.

    Raises TokenError for any other text.
    """
    if len(said) > _MOST_BYTES or not _TEXT.match(said):
        raise TokenError("this is no token: two parts with a dot between them were expected")
    header, claims = map(_object, said.split("."))
    if header != _HEADER:
        raise TokenError("the token is not signed by HS256")
    ends = claims.get("exp")
    if isinstance(ends, bool) or not isinstance(ends, int | float) or not 0 <= ends <= _LAST:
        raise TokenError("the token has no end, in seconds since 1970")
    scope = claims.get("scope")
    if not isinstance(scope, str) or scope not in set(Scope):
        raise TokenError("the token has no scope that this program knows")
    subject, pool, id_ = (_name(claims, name) for name in ("sub", "pool", "jti"))
    owners = claims.get("owners", [])
    if not isinstance(owners, list) or not all(map(_is_name, owners)):
        raise TokenError("the token's owners are no list of names")
    return Token(
        subject=subject, scope=Scope(scope), pool=pool, id=id_, ends=float(ends),
        owners=tuple(owners),
    )  # fmt: skip


def _is_name(value: object) -> bool:
    return isinstance(value, str) and _NAME.match(value) is not None


def _name(claims: dict[str, Any], name: str) -> str:
    value = claims.get(name)
    if not isinstance(value, str) or not _is_name(value):
        raise TokenError(f"the token has no {name} of 1 to 128 visible characters")
    return value


def refusal(token: Token, *, pool: str, now: float, revoked: Collection[str]) -> str:
    """Why a token is not good here, in words; empty where it is.

    Args:
        token: what it says; its signature is checked elsewhere.
        pool: the name of the binder.
        now: the binder's clock, in seconds since 1970.
        revoked: ids of tokens that are refused.

    >>> mine = Token(subject="ana", scope=Scope.CLIENT, pool="p", id="1", ends=100.0)
    >>> refusal(mine, pool="p", now=99.0, revoked=())
    ''
    >>> refusal(mine, pool="p", now=160.0, revoked=())
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
