"""Tokens of running jobs, by which these are clients: given with the job, void at its end.

A client's job whose ad has ``MayConnect = true`` gets one at each giving. It says no more than its
submitter's own: the same subject, the scope of a client, no later end; and it is refused when that
one was revoked. What the submitter's token was is written into the job's ad by the binder.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final

from matchmaker.classad import ClassAd, parse_ad
from matchmaker.pilots.binder.ads import asked
from matchmaker.pilots.binder.states import Book, Job
from matchmaker.pilots.wire.tokens import Scope, Token, sign

MOST_OPEN: Final = 100
"""How many open jobs a running job may have at once."""
MAY_CONNECT: Final = "MayConnect"
_BY: Final = "SubmitToken"
_ENDS: Final = "SubmitTokenEnds"
_ID: Final = re.compile(r"job\.([0-9a-f]+)\.([0-9]+)\Z")


def is_jobs(token: Token) -> bool:
    """Whether a token is a job's."""
    return _ID.match(token.id) is not None


def note(ad: ClassAd, token: Token) -> None:
    """Writes into a job's ad by which token it was handed in, where it asks for one.

    Raises ValueError where that is no client's own.
    """
    for name in (_BY, _ENDS):
        ad.pop(name, None)
    if asked(ad, MAY_CONNECT) is True:
        if token.scope is not Scope.CLIENT or is_jobs(token):
            raise ValueError(f"{MAY_CONNECT}: only a job of a client's own token may connect")
        ad[_BY], ad[_ENDS] = token.id, token.ends


def same(one: str, other: str) -> bool:
    """Whether the ads of two jobs are the same but for the tokens that they were handed in by."""
    if one == other:
        return True
    first, second = parse_ad(one), parse_ad(other)
    for ad in (first, second):
        for name in (_BY, _ENDS):
            ad.pop(name, None)
    return str(first) == str(second)


def token_id(job: Job) -> str:
    """The id of the token that a job has by its last giving."""
    return f"job.{job.id}.{job.epoch}"


def granted(job: Job, key: bytes, pool: str) -> str:
    """The text of the token that a job gets as it is given to a pilot; empty for none.

    Args:
        job: as it was given.
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


def refusal(token: Token, book: Book, revoked: Collection[str]) -> str:
    """Why a job's token is not good any more, in words; empty for other tokens, and where it is."""
    named = _ID.match(token.id)
    if named is None:
        return ""
    job = book.jobs.get(named[1])
    if job is None or not job.stage.held or job.epoch != int(named[2]) or job.cancel:
        return "the job of this token does not run any more"
    if asked(parse_ad(job.ad), _BY) in revoked:
        return "the token by which this job was handed in was revoked"
    return ""
