"""The limits of ``batch``: sizes of input and output, and times of programs."""

from __future__ import annotations

from typing import Final

import attrs

from matchmaker.classad.limits import limit


@attrs.frozen(slots=True, kw_only=True)
class Limits:
    """What bounds the work for one job's flags, or for one description of a batch system."""

    alternatives: int = limit(16, "alternatives of one clause in flags")
    written: int = limit(64, "alternatives of all clauses, if parentheses do not nest")
    rounds: int = limit(16, "passes over the clauses, each of which may remove alternatives")
    word: int = limit(120_000, "characters of all terms in one word of a command")
    hosts: int = limit(60_000, "characters of the names of nodes in one word of a command")
    policy: int = limit(3000, "characters of a policy that a job carries, unless a table has less")
    amount: int = limit(2_000_000_000, "a requested amount, unless a table has another limit")
    text: int = limit(64, "characters of a job's text in a flag, unless a table has another limit")
    pattern_seconds: float = limit(1.0, "seconds to match such a text with a site's pattern")
    script: int = limit(1 << 20, "characters of a job script that are compared with its flags")
    variables: int = limit(4 << 20, "characters of the shell variables that BLAH passes")
    site_seconds: float = limit(10.0, "seconds of a site's own program")
    site_output: int = limit(64 << 10, "bytes that a site's own program prints")
    query_seconds: float = limit(30.0, "seconds of a command that shows one job")
    query_output: int = limit(4 << 20, "bytes that a command prints about one job")
    describe_seconds: float = limit(60.0, "seconds of a command that describes nodes or queues")
    describe_output: int = limit(1 << 28, "bytes that such a command prints, or characters of"
                                 " what was saved")  # fmt: skip
    name: int = limit(1000, "characters of a name within names of a description in JSON")
    depth: int = limit(64, "how deep objects of such a description nest")
    shown: int = limit(200, "characters of a clause in a message")
    complaint: int = limit(300, "characters of a command's standard error in a message")
    listed: int = limit(5, "nodes that a finding about a mapping names")


LIMITS: Final = Limits()
