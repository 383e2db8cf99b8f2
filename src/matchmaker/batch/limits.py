"""The limits of ``batch`` in one object: sizes of input and output, and times of programs."""

from __future__ import annotations

from typing import Final

import attrs


@attrs.frozen(slots=True, kw_only=True)
class Limits:
    """What bounds the work for one job or one description.

    Attributes:
        alternatives: alternatives of one clause.
        rounds: passes over the clauses in which each may rule out alternatives of others.
        written: alternatives written out where parentheses do not nest.
        word: characters of all terms in one word of a command, which holds 128 KiB.
        hosts: characters of a list of nodes in one word of a command.
        policy: characters of a policy that a job carries, unless the table says less.
        amount: the largest amount requested, unless the table says more: many batch systems keep
            amounts in 32 bits.
        variables: characters of the shell variables that BLAH passes.
        site_seconds, site_output: the time of a site's own program, and the bytes it may print.
        query_seconds, query_output: the same for a batch system's command about one job.
        describe_seconds, describe_output: the same for one about all nodes or queues. The output
            is also the number of characters of a saved description.
        name: characters of a name within names of a description in JSON.
        depth: objects within objects of such a description.
        shown: characters of a clause in a message.
    """

    alternatives: int = 16
    rounds: int = 16
    written: int = 64
    word: int = 120_000
    hosts: int = 60_000
    policy: int = 3000
    amount: int = 2_000_000_000
    variables: int = 4 << 20
    site_seconds: float = 10.0
    site_output: int = 64 << 10
    query_seconds: float = 30.0
    query_output: int = 4 << 20
    describe_seconds: float = 60.0
    describe_output: int = 1 << 28
    name: int = 1000
    depth: int = 64
    shown: int = 200


LIMITS: Final = Limits()
