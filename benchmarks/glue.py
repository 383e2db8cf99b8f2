"""Prints how long a grid's description takes to read, flatten and match, and LDIF beside its peer.

``python benchmarks/glue.py [--quick] [--ldap]``. The grid is that of `grid`. The peer is the reader
`ldif` of the extra ``bench``; both are first checked to give the same entries. With ``--ldap`` the
grid is also served by a real server, as in the tests, and fetching it is set beside what the client
library alone needs for the same entries.
"""

from __future__ import annotations

import sys
import time
import tracemalloc
from collections import deque
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import grid

import matchmaker as mm
from matchmaker import glue

ROOT = Path(__file__).resolve().parents[1]
JOB = (
    '[ VirtualOrganisation = "cms"; FQAN = "/cms/Role=NULL"; CertificateSubject = "/CN=x";'
    " Rank = other.GlueCEStateFreeCPUs;"
    " Requirements = other.GlueCEPolicyMaxCPUTime > {} && other.GlueHostBenchmarkSI00 > 1000 {}]"
)
CLOSE = "&& anyMatch(other.storage.CloseSEs, target.GlueSAStateAvailableSpace > {}000000)"


def seconds(work: Callable[[], Any], rounds: int = 1) -> float:
    """Processor time of some work: the median of the rounds."""
    found = []
    for _ in range(rounds):
        start = time.process_time()
        work()
        found.append(time.process_time() - start)
    return median(found)


def row(what: str, value: str) -> None:
    """One line of the table."""
    print(f"{what:58} {value}")


def ldif(path: Path, rounds: int) -> None:
    """Our reader and its peer on the same clean file, turn by turn, and the memory that ours takes.

    Both gather every value by its name.
    """

    def ours() -> int:
        return sum(len(e.attributes.values_by_name) for e in glue.read_entries(path, print))

    try:
        peer = import_module("ldif").LDIFParser
    except ImportError:
        mine = seconds(ours, rounds)
        beside = "not installed: pip install '.[bench]'"
    else:

        def theirs() -> None:
            with path.open("rb") as file:
                for _ in peer(file).parse():
                    pass

        with path.open("rb") as file:
            entries = glue.read_entries(path, print)
            for (dn, found), entry in zip(peer(file).parse(), entries, strict=True):
                assert dn == entry.dn
                assert {k: tuple(v) for k, v in found.items()} == dict(entry.attributes)
        turns = [(seconds(ours), seconds(theirs)) for _ in range(rounds)]
        mine, its = (median(figures) for figures in zip(*turns, strict=True))
        beside = f"{its:.2f} s: {its / mine:.1f} times"
    size = path.stat().st_size / 1e6
    row("LDIF to entries, every value gathered by name", f"{mine:.2f} s, {size / mine:.0f} MB/s")
    row("  beside the reader `ldif`", beside)
    tracemalloc.start()
    ours()
    row(
        "  memory at most, beside the entry at hand",
        f"{tracemalloc.get_traced_memory()[1] / 1e6:.0f} MB",
    )
    tracemalloc.stop()


def queues(path: Path) -> None:
    """The whole way to ads and a match."""
    found: list[Any] = []
    row("read, cleaned and linked", f"{seconds(lambda: found.append(glue.read_ldif(path))):.1f} s")
    ads: list[mm.ClassAd] = []
    taken = seconds(lambda: ads.extend(found[0].computing_elements()))
    row(f"{len(found[0].snapshot.computing_elements)} queues to {len(ads)} ads", f"{taken:.1f} s")
    kept: list[mm.Pool] = []
    taken = seconds(lambda: kept.append(mm.broker.pool(ads)))
    row("ads to a pool", f"{taken:.1f} s")
    broker(kept[0])


def broker(pool: mm.Pool) -> None:
    """Decisions on a pool, the broker's own conditions among them: the first job and later ones.

    The first finds nothing that an earlier one has left. No later one asks for what one before it
    asked for, but all have the broker's conditions.
    """
    for what, close in (("a job", ""), ("a job that asks for close storage", CLOSE)):
        pool.forget()
        jobs = [mm.parse_ad(JOB.format(n, close.format(n))) for n in range(600, 610)]
        times = [seconds(lambda job=job: mm.broker.choose(job, pool)) for job in jobs]
        chosen = mm.broker.choose(jobs[-1], pool)
        said = f"{len(chosen.ranked)} match: first {1000 * times[0]:.1f} ms"
        row(what, f"{said}, next {1000 * median(times[1:]):.1f} ms")
    refused = mm.broker.choose(mm.parse_ad(JOB.format(600, "")), pool).refused
    taken = seconds(lambda: [one.reason for one in refused[:1000]])
    row("why a queue refuses, for each that is asked", f"{taken:.2f} ms")


def ldap(path: Path, rounds: int) -> None:
    """Fetching from a real server, beside the client library alone; both give the same entries."""
    import ldap3

    from matchmaker.glue.readers.ldap import FILTER, search

    sys.path.insert(0, str(ROOT))
    slapd = import_module("tests.services.slapd")
    with slapd.server(path.read_text(encoding="ascii")) as url:

        def theirs() -> Iterator[dict[str, Any]]:
            connection = ldap3.Connection(ldap3.Server(url, get_info=ldap3.NONE), auto_bind=True)
            found: Iterator[dict[str, Any]] = connection.extend.standard.paged_search(
                "o=grid", FILTER, attributes=["*"], paged_size=500, generator=True
            )
            return found

        def ours() -> Iterator[glue.Entry]:
            return search(url, "o=grid", print)

        told = {
            its["dn"]: {
                name: [v.decode() for v in vs] for name, vs in its["raw_attributes"].items()
            }
            for its in theirs()
        }
        for entry in ours():
            assert {k: list(v) for k, v in entry.attributes.items()} == told.pop(entry.dn)
        assert not told
        taken = seconds(lambda: deque(ours(), maxlen=0), rounds)
        needed = seconds(lambda: deque(theirs(), maxlen=0), rounds)
        row("LDAP to entries", f"{taken:.1f} s: {taken / needed:.2f} times ldap3 alone")
        row("  ldap3 alone", f"{needed:.1f} s")


def main() -> None:
    """Makes the grid, measures, prints."""
    part = 20 if "--quick" in sys.argv else 1
    numbers = (grid.SITES // part, grid.QUEUES // part, grid.SUBCLUSTERS // part)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "grid.ldif"
        size = grid.write(path, *numbers)
        row("sites, queues, SubClusters", f"{numbers}, {size / 1e6:.0f} MB of LDIF")
        rounds = 5 if part > 1 else 3
        ldif(path, rounds)
        queues(path)
        if "--ldap" in sys.argv:
            ldap(path, rounds)


if __name__ == "__main__":
    main()
