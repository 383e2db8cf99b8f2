"""Prints how fast a job is matched with the ads of a real pool, beside HTCondor's library.

``python benchmarks/real_ads.py [--quick]``, or ``make bench-all``. The HTCondor pool of the service
tests publishes slots, daemons and a job; each is multiplied with new numbers and names. The garbage
collector is on. One job is matched with 20,000 ads, no two alike, pair by pair; a new process reads
a file and matches. Where HTCondor is not unpacked, ads of the same shapes are made up.
"""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import drawn
import subjects
from run import Row, measured, peer, print_row
from timing import figure

import matchmaker as mm

ROOT: Final = Path(__file__).resolve().parents[1]
ROUNDS: Final = 9
PAIRS: Final = 20_000
_numbers: Final = count(1)

JOB: Final = """[
  RequestCpus = 1; RequestMemory = 500; RequestDisk = 1000; Owner = "ada";
  Requirements = (TARGET.Arch == "X86_64") && (TARGET.OpSys == "LINUX")
    && (TARGET.Disk >= RequestDisk) && (TARGET.Memory >= RequestMemory) && (TARGET.HasFileTransfer);
  Rank = TARGET.Memory
]"""

Text = Callable[[int], str]


def published() -> dict[str, list[str]]:
    """The ads of a pool by kind, in the old format. Raises ServiceUnavailable without HTCondor."""
    sys.path.insert(0, str(ROOT))
    from tests.services.condor import Machine, pool

    with pool([Machine("n1", 1, 1000), Machine("n2", 2, 2000)]) as running:
        running.submit([], "requirements = TARGET.Memory > 9999999", 'arguments = "a b"')
        asked = {
            "slot": ["condor_status"],
            "daemon": ["condor_status", "-any", "-constraint", 'MyType != "Machine"'],
            "job": ["condor_q"],
        }
        texts = {kind: running.run(*argv, "-long") for kind, argv in asked.items()}
    return {kind: [ad for ad in text.split("\n\n") if ad.strip()] for kind, text in texts.items()}


def multiplied(ads: Sequence[str]) -> Text:
    """The ads in turn, with numbers and names that are new for each number.

    Counters that are idle, flags, and policies stay: they are alike on all machines of a pool.
    """
    made = [[_line(line) for line in ad.splitlines()] for ad in ads]
    return lambda number: "\n".join(part(number) for part in made[number % len(made)]) + "\n"


_ASSIGNED: Final = re.compile(r'(\w+ = )(?:(\d{3,})|(\d+\.\d+)|(".*[@#<].*)")', re.DOTALL)


def _line(line: str) -> Text:
    found = _ASSIGNED.fullmatch(line)
    if found is None:
        return lambda _: line
    head, integer, real, text = found.groups()
    if integer:
        return lambda number: f"{head}{int(integer) + number}"
    if real:
        return lambda number: f"{head}{float(real) + number / 1e6!r}"
    return lambda number: f'{head}{text}{number}"'


def pairs(classad2: Any, what: str, job: str, text: Text, size: int) -> Row:
    """One job with many ads, each once: all are new in every round."""
    mine = mm.parse_ad(job)
    its = classad2 and classad2.ClassAd(job)

    def batch() -> list[tuple[mm.ClassAd, Any]]:
        found = []
        for _ in range(size):
            new = text(next(_numbers))
            found.append((mm.parse_ad(new), classad2 and classad2.parseOne(new)))
        return found

    if classad2:
        # Theirs matches both ways too: neither side may have requirements that the other lacks.
        matched = [(mm.match(mine, one).matched, its.symmetricMatch(two)) for one, two in batch()]
        assert all(one == two for one, two in matched), what
        assert any(one for one, _ in matched), what
    return Row(
        f"match one job with {size:,} {what}, a pair",
        lambda pair: mm.match(mine, pair[0]),
        classad2 and (lambda pair: its.symmetricMatch(pair[1])),
        batch, 3, wanted="4, 8", collecting=True,
    )  # fmt: skip


COLD: Final = {
    "ours": """
import matchmaker as mm, sys
job = mm.parse_ad(sys.argv[2])
sum(mm.match(job, ad).matched for ad in mm.read_ads(sys.argv[1], 'old'))
""",
    "theirs": """
import htcondor2, classad2, sys
job = classad2.ClassAd(sys.argv[2])
with open(sys.argv[1]) as file:
    sum(job.symmetricMatch(ad) for ad in classad2.parseAds(file, classad2.ParserType.Old))
""",
}


def cold(text: Text, *, beside: bool, rounds: int) -> None:
    """Prints the time of a new process that reads a hundred ads and matches a job with each."""
    taken: dict[str, list[float]] = {side: [] for side in COLD if side == "ours" or beside}
    with TemporaryDirectory() as folder:
        path = Path(folder) / "pool.ads"
        path.write_text("\n".join(text(next(_numbers)) for _ in range(100)), encoding="utf-8")
        for _ in range(rounds):
            for side, times in taken.items():
                before = time.perf_counter()
                subprocess.run([sys.executable, "-c", COLD[side], path, JOB], check=True)
                times.append((time.perf_counter() - before) * 1e6)
    ours, *theirs = (sorted(times)[len(times) // 2] for times in taken.values())
    ratio = figure(theirs[0] / ours) if theirs else "-"
    other = figure(theirs[0]) if theirs else "-"
    print_row("a new process: import, 100 ads of slots, match", figure(ours), other, ratio)


def main() -> None:
    """Measures and prints the table."""
    quick = "--quick" in sys.argv[1:]
    classad2 = peer()
    classad2 = None if isinstance(classad2, str) else classad2
    try:
        real = published()
    except Exception as error:  # noqa: BLE001 - whatever keeps a pool from starting
        print(f"no HTCondor pool here, its ads are made up ({error})")
        real = {"slot": [*map(drawn.old, drawn.slots(50))]}
    texts = {kind: multiplied(ads) for kind, ads in real.items()}
    for kind, ads in real.items():
        sizes = [(ad.count("\n") + 1, len(ad)) for ad in ads]
        print(f"{kind}: {len(ads)} ads, up to {max(sizes)[0]} attributes, {max(sizes)[1]:,} bytes")
    print_row("what", "ours (µs)", "classad2 (µs)", "ratio", "wanted")
    size = 500 if quick else PAIRS
    rows = [
        pairs(classad2, "distinct ads", subjects.JOB, lambda n: subjects.machine_texts(1)[0], size),
        pairs(classad2, "slots of a pool", JOB, texts["slot"], size // 10),
    ]
    for each in rows:
        ours, *rest = measured(each, 2 if quick else ROUNDS)
        ratio = figure(rest[0].ratio_to(ours)) if rest else "-"
        print_row(each.what, str(ours), str(rest[0]) if rest else "-", ratio, each.wanted)
    cold(texts["slot"], beside=classad2 is not None, rounds=1 if quick else 5)


if __name__ == "__main__":
    main()
