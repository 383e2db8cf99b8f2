"""The greeting: both sides prove that they know a token's signature, over all that was said.

The peer says hello with the versions that it speaks, its role, its token without the signature and
a nonce. The binder makes the signature again from its key, chooses the best common version, and
answers with a nonce and its proof; then the peer proves itself. A proof covers the hello as it
arrived and the answer, so that none of it can be changed, nor be used again with another nonce.
"""

from __future__ import annotations

import hmac
from collections.abc import Collection, Mapping
from enum import StrEnum
from typing import Any, Final

import attrs

from matchmaker.pilots.wire import tokens
from matchmaker.pilots.wire.frames import VERSIONS, Frame, FrameError, canonical
from matchmaker.pilots.wire.tokens import Scope, Token, TokenError

_LABEL: Final = b"matchmaker pilot protocol"
_MOST_VERSIONS: Final = 16
_LEAST_NONCE: Final = 32


class Role(StrEnum):
    """What a connection is for."""

    PILOT = "pilot"
    SLOT = "slot"
    CLIENT = "client"
    FACTORY = "factory"
    ADMIN = "admin"


ROLES: Final[Mapping[Scope, Collection[Role]]] = {
    Scope.PILOT: (Role.PILOT,),
    Scope.SESSION: (Role.PILOT, Role.SLOT),
    Scope.FACTORY: (Role.FACTORY,),
    Scope.CLIENT: (Role.CLIENT,),
    Scope.ADMIN: (Role.CLIENT, Role.ADMIN),
}
"""The roles that a token's scope allows."""


class RefusedError(ValueError):
    """The other side is refused, or refuses, for the reason that this says."""


@attrs.frozen(slots=True)
class Greeting:
    """A greeting under way: who it is about, and what the peer's proof must be.

    Attributes:
        token: what the peer's token says.
        role: what the connection is for.
        version: the chosen version of the protocol.
        proof: the peer's proof.
    """

    token: Token
    role: Role
    version: int
    proof: str = attrs.field(repr=False)


def hello(text: str, role: Role, nonce: str) -> dict[str, Any]:
    """The fields of a peer's hello.

    Args:
        text: the token, with its signature.
        role: what the connection is for.
        nonce: at least 32 characters that were never used before.

    Raises TokenError for what is no token.
    """
    said, _ = tokens.parted(text)
    return {"versions": list(VERSIONS), "role": str(role), "token": said, "nonce": nonce}


def challenge(
    said: Mapping[str, Any], key: bytes, nonce: str, *, pool: str, now: float,
    revoked: Collection[str],
) -> tuple[dict[str, Any], Greeting]:  # fmt: skip
    """The binder's answer to a hello, and what it waits for.

    Args:
        said: the fields of the hello.
        key: the binder's key.
        nonce: at least 32 characters that were never used before.
        pool: the binder's name.
        now: its clock, in seconds since 1970.
        revoked: ids of tokens that are refused.

    Raises:
        RefusedError: the peer is refused.
    """
    version = _chosen(said["versions"])
    try:
        token = tokens.read(said["token"])
    except TokenError as error:
        raise RefusedError(str(error)) from None
    if why := tokens.refusal(token, pool=pool, now=now, revoked=revoked):
        raise RefusedError(why)
    if said["role"] not in ROLES[token.scope]:
        raise RefusedError(f"a token of scope {token.scope} does not allow {said['role'][:40]!r}")
    if len(said["nonce"]) < _LEAST_NONCE:
        raise RefusedError(f"a nonce of at least {_LEAST_NONCE} characters was expected")
    answer = {"version": version, "nonce": nonce}
    signature = tokens.signed(key, said["token"])
    answer["proof"] = _proof(signature, "binder", said, answer)
    proof = _proof(signature, "peer", said, answer)
    return answer, Greeting(token, Role(said["role"]), version, proof)


def answered(text: str, said: Mapping[str, Any], answer: Frame) -> str:
    """The peer's proof, once the binder's was checked.

    Args:
        text: the token, with its signature.
        said: the fields of the peer's hello.
        answer: the binder's challenge.

    Raises:
        RefusedError: who answered does not know the token, or chose a version that was not offered.
    """
    _, signature = tokens.parted(text)
    fields = {"version": answer["version"], "nonce": answer["nonce"]}
    if not _same(_proof(signature, "binder", said, fields), answer["proof"]):
        raise RefusedError("who answers is not the binder that made this token")
    if fields["version"] not in said["versions"]:
        raise RefusedError(f"the binder chose version {fields['version']}, which was not offered")
    return _proof(signature, "peer", said, fields)


def proven(greeting: Greeting, proof: str) -> None:
    """Raises RefusedError where a peer's proof is wrong."""
    if not _same(greeting.proof, proof):
        raise RefusedError("the token's signature is wrong: it was made by another key")


def _chosen(offered: list[Any]) -> int:
    if len(offered) > _MOST_VERSIONS or not all(type(each) is int for each in offered):
        raise FrameError(f"hello: at most {_MOST_VERSIONS} versions, each a number, were expected")
    common = [version for version in VERSIONS if version in offered]
    if not common:
        raise RefusedError(
            f"no common version of the protocol: offered {offered}, spoken here {list(VERSIONS)}"
        )
    return max(common)


def _proof(signature: bytes, side: str, said: Mapping[str, Any], answer: Mapping[str, Any]) -> str:
    spoken = canonical({"said": said, "version": answer["version"], "nonce": answer["nonce"]})
    key = hmac.digest(signature, _LABEL, "sha256")
    return hmac.digest(key, side.encode() + b"\0" + spoken, "sha256").hex()


def _same(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode(), other.encode("utf-8", "replace"))
