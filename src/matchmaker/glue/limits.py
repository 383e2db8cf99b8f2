"""What descriptions of grids may take. They come from strangers.

What reading a command's output may take is in ``batch.limits``.
"""

from __future__ import annotations

from typing import Final

import attrs

from matchmaker.classad.limits import limit


@attrs.frozen(slots=True)
class Limits:
    """What one description may take at most. Each field says what it bounds."""

    file: int = limit(1 << 28, "bytes of a file of LDIF, counted after unpacking (`--max-size`)")
    # That of a large ARC site, with its jobs, has some 10 MB.
    document: int = limit(1 << 26, "bytes of a document of GLUE 2.0, likewise")
    # Real ones stay below a few kB.
    line: int = limit(1 << 20, "bytes of a line of LDIF, with what is folded onto it")
    pairs: int = limit(64, "attributes on a line that lost its newlines")
    entry: int = limit(1 << 24, "bytes of an entry of LDIF")
    # A list of software has some thousand.
    values: int = limit(1 << 17, "values of an entry, in a dump or from a server")

    # Real ones stay below a few kB, and messages below 100 kB. The grid of 2012 took some 150 MB;
    # 300 sites with 5,000 queues have some 50,000 entries.
    value: int = limit(1 << 16, "bytes of a value from an LDAP server, or of an entry's name")
    message: int = limit(1 << 20, "bytes of an entry from an LDAP server, in all")
    answer: int = limit(1 << 29, "bytes of all that a server answers")
    entries: int = limit(500_000, "entries of a server")
    empty_pages: int = limit(100, "pages without an entry that a server sends in a row")
    timeout: float = limit(30.0, "seconds to wait for each piece of an answer (`--timeout`)")
    total: float = limit(900.0, "seconds to wait for all of an answer")

    objects: int = limit(200_000, "objects of a document, without its jobs")
    depth: int = limit(60, "how deep elements and objects of a document nest")
    text: int = limit(1 << 16, "characters of a value of a document")
    # A grid of 300 sites has some 3,000 queues.
    described: int = limit(50_000, "queues that a document of an information system describes")
    swell: int = limit(16, "characters of ids within ids and links for each byte of a document")

    # A grid of 5,000 queues with four views each has some 60 for each entry.
    ads: int = limit(
        1_000_000, "attributes and list items that the ads of all queues have together"
    )
    ads_each: int = limit(100, "and more of them for each entry")
    links: int = limit(10_000, "links of GLUE 2.0 between entries")
    links_each: int = limit(64, "and more links for each entry")
    # A few thousand entries could else make millions.
    queues: int = limit(1_000, "queues of a service of GLUE 2.0, each share at each endpoint")
    tags: int = limit(100_000, "applications on the hosts of a manager, each on each set of hosts")
    repeated: int = limit(20, "or of both, for each entry that they are made of")
    # Each queue repeats the values of its share and endpoint. An honest queue has some 100.
    taken: int = limit(100_000, "values that the queues of a service take from its entries")
    taken_each: int = limit(100, "and more values for each endpoint and share")

    downtimes: int = limit(100, "downtimes of a place, the first ones, that close its queues")
    registered: int = limit(
        16, "computing elements of a host, without queues, that its queues heed"
    )
    again: int = limit(100, "ads of OSG's collector about a queue that came before")

    issues: int = limit(10_000, "findings of a rule that are kept; those beyond are counted")
    raw: int = limit(1_000, "characters of published text that a finding repeats")


LIMITS: Final = Limits()
