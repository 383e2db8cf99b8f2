"""Tokens with which running jobs are clients: sent with the job, invalid when it ends.

If a client's job has ``MayConnect = true``, it gets a token each time that it is given to a pilot.
The token allows no more than its submitter's: it has the same subject and expiry time, and the
scope of a client. It is refused when the submitter's token was revoked. So the binder writes the id
of that token into the job's ad.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final

import attrs

from matchmaker.classad import ClassAd, parse_ad
from matchmaker.pilots.binder.ads import asked
from matchmaker.pilots.binder.states import Book, Job
from matchmaker.pilots.wire.frames import Frame
from matchmaker.pilots.wire.tokens import REVOKED, Scope, Token, sign

MOST_OPEN: Final = 100
"""How many open jobs a running job may have at once."""
MAY_CONNECT: Final = "MayConnect"
_BY: Final = "SubmitToken"
_ENDS: Final = "SubmitTokenEnds"
_SESSION_SECONDS: Final = 30 * 86_400.0
"""How long a pilot may go on with a session's token; each registration gives a new one."""
MOST_PILOT_SECONDS: Final = 14 * 86_400.0
"""How long the token of a pilot that a factory submits may be good: it waits in a queue."""
_ID: Final = re.compile(r"job\.([0-9a-f]+)\.([0-9]+)\Z")


def is_jobs(token: Token) -> bool:
    """Whether a token is a job's."""
    return _ID.match(token.id) is not None


def note(ad: ClassAd, token: Token) -> None:
    """Writes into a job's ad with which token it was submitted, if the job asks for a token.

    Raises ValueError if that is not a client's own token.
    """
    for name in (_BY, _ENDS):
        ad.pop(name, None)
    if asked(ad, MAY_CONNECT) is True:
        if token.scope is not Scope.CLIENT or is_jobs(token):
            raise ValueError(f"{MAY_CONNECT}: only a job of a client's own token may connect")
        ad[_BY], ad[_ENDS] = token.id, token.ends


def same(one: str, other: str) -> bool:
    """Whether two jobs' ads are equal, apart from the tokens of their submission."""
    if one == other:
        return True
    first, second = parse_ad(one), parse_ad(other)
    for ad in (first, second):
        for name in (_BY, _ENDS):
            ad.pop(name, None)
    return str(first) == str(second)


def token_id(job: Job) -> str:
    """The id of the token that a job got when it was last given to a pilot."""
    return f"job.{job.id}.{job.epoch}"


def granted(job: Job, key: bytes, pool: str) -> str:
    """The text of the token that a job gets when it is given to a pilot; empty for none.

    Args:
        job: as the pilot gets it.
        key: the binder's key.
        pool: the binder's name.
    """
    if MAY_CONNECT.lower() not in job.ad.lower():
        return ""
    ad = parse_ad(job.ad)
    ends = asked(ad, _ENDS)
    if asked(ad, MAY_CONNECT) is not True or not isinstance(ends, float):
        return ""
    token = Token(subject=job.owner, scope=Scope.CLIENT, pool=pool, id=token_id(job), ends=ends)
    return sign(key, token)


def session_token(token: Token, key: bytes, now: float) -> str:
    """The text of the token with which a pilot that has registered comes back, and offers slots.

    It has the id of the pilot's token, so that revoking one revokes both.
    """
    made = attrs.evolve(token, scope=Scope.SESSION, ends=float(int(now + _SESSION_SECONDS)))
    return sign(key, made)


def pilot_token(token: Token, asked_for: Frame, key: bytes, now: float) -> str:
    """The text of a pilot's token that a factory asks for.

    Raises ValueError for owners that are not the factory's.
    """
    names, seconds = asked_for["owners"], float(asked_for["seconds"])
    if not all(isinstance(name, str) for name in names):
        raise ValueError("owners: a list of names was expected")
    owners = tuple(names) or token.owners
    if others := set(owners).difference(token.owners) if token.owners else ():
        raise ValueError(f"{min(others)[:80]} is no owner of this factory's token")
    if not 0 < seconds <= MOST_PILOT_SECONDS:
        raise ValueError(f"seconds: above 0 and at most {MOST_PILOT_SECONDS:g} were expected")
    made = Token(
        subject=asked_for["subject"], scope=Scope.PILOT, pool=token.pool, owners=owners,
        ends=float(int(now + seconds)),
    )  # fmt: skip
    return sign(key, made)


def refusal(token: Token, book: Book, revoked: Collection[str]) -> str:
    """Why a token is no longer valid: it was revoked, or the job that has it does not run."""
    if token.id in revoked:
        return REVOKED
    named = _ID.match(token.id)
    if named is None:
        return ""
    job = book.jobs.get(named[1])
    if job is None or not job.stage.held or job.epoch != int(named[2]) or job.cancel:
        return "the job of this token does not run any more"
    if asked(parse_ad(job.ad), _BY) in revoked:
        return "the token by which this job was handed in was revoked"
    return ""
