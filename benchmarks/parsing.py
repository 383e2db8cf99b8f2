"""Prints how fast texts are read beside HTCondor's library: ads of the shapes that real pools have.

``python benchmarks/parsing.py [--quick]``, or ``make bench``. The garbage collector is on, the
caches know nothing of an ad's values, and a cold process is timed too. Numbers that count something
are new in each ad, as are texts that name something; idle counters stay 0, and the policy of a pool
is the same on all its slots, which is what real ads look like.
"""

from __future__ import annotations

import io
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import Any, Final

from run import Row, measured, peer, print_row
from timing import figure

import matchmaker as mm

ROUNDS: Final = 15
_numbers: Final = count(1)

_KINDS: Final = ("Jobs", "Shadows", "Updates", "Transfers", "Claims", "Queries", "Matches")
_EVENTS: Final = ("Started", "Completed", "Exited", "Lost", "Killed", "Held", "Waiting", "Time")
_BUCKETS: Final = "30Sec, 1Min, 3Min, 10Min, 30Min, 1Hr, 3Hr, 6Hr, 12Hr, 1Day, 2Day, 4Day, 8Day"


def daemon(number: int) -> Iterator[tuple[str, str]]:
    """An ad that a daemon publishes: 160 attributes, most of them counters, two thirds idle."""
    chance = random.Random(number)
    host = f"wn{number:06}.example.org"
    address = f"<10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}:9618?alias={host}>"
    yield "MyType", '"Scheduler"'
    yield "Name", f'"slot1@{host}"'
    yield "Machine", f'"{host}"'
    yield "MyAddress", f'"{address}"'
    yield "AddressV1", rf'"{{[ p=\"primary\"; a=\"{host}\"; port=9618; ], [ p=\"IPv4\"; ]}}"'
    yield "CondorVersion", '"$CondorVersion: 25.0.1 2026-01-12 PackageID: 25.0.1-1 $"'
    yield "CondorPlatform", '"$CondorPlatform: X86_64-AlmaLinux_9 $"'
    yield "HasFileTransfer", "true"
    yield "WantResAd", "true"
    yield "ChildState", "{  }"
    yield "LastHeardFrom", str(1_763_740_000 + number)
    yield "DaemonStartTime", str(1_763_000_000 + number)
    yield "DaemonCoreDutyCycle", repr(chance.random())
    yield "RecentDaemonCoreDutyCycle", repr(chance.random())
    yield "TotalDisk", str(chance.randrange(10**9))
    yield "Memory", str(chance.randrange(10**6))
    yield "Cpus", "8"
    yield "Start", 'START && (WithinResourceLimits) && TARGET.Owner =!= "nobody"'
    yield "CurbMatchmaking", "(RecentDaemonCoreDutyCycle > 0.98) || (Waiting > MaxUploading)"
    yield "WithinResourceLimits", "(MY.Cpus > 0 && TARGET.RequestCpus <= MY.Cpus)"
    yield "Requirements", "TARGET.RequestMemory <= MY.Memory && START"
    for prefix in ("", "Recent"):
        for kind in _KINDS:
            yield f"{prefix}{kind}Sizes", f'"{", ".join(["0"] * 12)}, {number}"'
            for event in _EVENTS:
                idle = chance.random() < 2 / 3
                yield f"{prefix}{kind}{event}", "0" if idle else str(chance.randrange(10**6))
    yield "HistogramBuckets", f'"{_BUCKETS}"'
    for name in ("Files", "Network", "Upload", "Download"):
        yield f"FileTransfer{name}Load", "0.0"
        yield f"FileTransfer{name}Seconds", repr(round(chance.random() * 1000, 3))


def job(number: int) -> Iterator[tuple[str, str]]:
    """An ad of a finished job: 110 attributes, its own requirements, and a nested ad."""
    chance = random.Random(number)
    yield "MyType", '"Job"'
    yield "GlobalJobId", f'"ce01.example.org#{number}.0#{1_763_740_000 + number}"'
    yield "ClusterId", str(number)
    yield "Owner", f'"user{number % 97}"'
    yield "Cmd", f'"/home/user{number % 97}/run-{number}/simulate.sh"'
    yield "Arguments", f'"--events {number} --seed {chance.randrange(10**9)}"'
    yield "Environment", f'"HOME=/home/user{number % 97} RUN={number}"'
    yield "RequestMemory", str(chance.randrange(10**5))
    yield "MemoryUsage", "((ResidentSetSize + 1023) / 1024)"
    yield "RequestDisk", "DiskUsage"
    yield "Rank", "0.0"
    yield "JobCurrentReconnectAttempt", "undefined"
    yield "LeaveJobInQueue", "false"
    yield "TransferInputStats", "[  ]"
    yield (
        "Requirements",
        (
            f'(TARGET.Arch == "X86_64") && (TARGET.OpSys == "LINUX") && (TARGET.Disk >= {number}) '
            "&& (TARGET.Memory >= RequestMemory) && (TARGET.HasFileTransfer)"
        ),
    )
    yield "ToE", f'[ Who = "itself"; How = "OF_ITS_OWN_ACCORD"; When = {number}; HowCode = 0 ]'
    for kind in ("Block", "Committed", "Cumulative", "Remote", "Num", "Last", "Job", "Total"):
        for event in (*_EVENTS, "Reads", "Writes", "Bytes"):
            value = chance.choice(("0", "0", "0.0", str(chance.randrange(10**9)), "false"))
            yield f"{kind}{event}", value
    yield "RemoteUserCpu", repr(chance.random() * 10_000)
    yield "CompletionDate", str(1_763_740_000 + number)


def twenty(number: int) -> Iterator[tuple[str, str]]:
    """A small ad, all of whose values are new."""
    for at in range(10):
        yield f"Count{at}", str(1000 * number + at)
        yield f"Text{at}", f'"text {number} {at}"'


JDL: Final = """// a grid job
[
  Type = "Job"; JobType = "Normal"; Executable = "simulate-{number}.sh";
  Arguments = "--events {number}"; StdOutput = "out.{number}"; StdError = "err.{number}";
  InputSandbox = {{ "simulate-{number}.sh", "/data/geometry-{number}.dat", "steer.xml" }};
  OutputSandbox = {{ "out.{number}", "err.{number}", "histograms.root" }};
  Environment = {{ "RUN={number}", "SITE=any" }};
  VirtualOrganisation = "example"; RetryCount = 3; ShallowRetryCount = 5;
  /* only where the software is */
  Requirements = Member("EXAMPLE-{number}", other.GlueHostApplicationSoftwareRunTimeEnvironment)
    && other.GlueCEPolicyMaxCPUTime > {number} && !RegExp("test.*", other.GlueCEUniqueID)
    && (other.GlueHostMainMemoryRAMSize >= 2048 || other.GlueCEStateStatus == "Production");
  Rank = -other.GlueCEStateEstimatedResponseTime + (other.GlueCEStateFreeCPUs > {number} ? 10 : 0);
  DataRequirements = {{ [ InputData = {{ "lfn:/grid/example/{number}" }}; Kind = "SRM" ] }};
]"""

EXPRESSION: Final = (
    'TARGET.Arch == "X86_64" && TARGET.Memory >= {number} && (TARGET.HasSingularity =?= true '
    '|| regexp("^wn{number}", TARGET.Machine)) && TARGET.Cpus >= RequestCpus * 2'
)

Shape = Callable[[int], Iterator[tuple[str, str]]]
Text = Callable[[int], str]


def old(shape: Shape) -> Text:
    """An ad's text in the old format, by its number."""
    return lambda number: "".join(f"{name} = {value}\n" for name, value in shape(number))


def new(shape: Shape, equals: str = " = ", between: str = "; ") -> Text:
    """The same in the new format, in a spelling."""
    return lambda number: f"[ {between.join(f'{n}{equals}{v}' for n, v in shape(number))} ]"


def as_json(shape: Shape) -> Text:
    """The same in JSON."""
    text = new(shape)
    return lambda number: mm.dumps(mm.parse_ad(text(number)), "json")


def fresh(text: Text, size: int) -> Callable[[], Sequence[str]]:
    """Texts that were never read before."""
    return lambda: [text(next(_numbers)) for _ in range(size)]


def streamed(text: Text, size: int) -> Callable[[], Sequence[str]]:
    """One stream of so many ads of the old format."""
    return lambda: ["\n".join(text(next(_numbers)) for _ in range(size))]


def rows(classad2: Any) -> Iterator[Row]:
    """What is measured."""

    def row(  # noqa: PLR0917 - a line of the table
        what: str, ours: Any, theirs: str, data: Any, wanted: str, number: int = 1
    ) -> Row:
        other = _peers(classad2).get(theirs) if classad2 else None
        return Row(what, ours, other, data, ROUNDS, number, wanted=wanted, collecting=True)

    def read(text: str) -> int:
        return sum(1 for _ in mm.read_ads(io.StringIO(text), "old"))

    def looked_at(text: str) -> int:
        return len(mm.parse_ad(text).content)

    def all_looked_at(text: str) -> int:
        return sum(len(ad._content) for ad in mm.read_ads(io.StringIO(text), "old"))

    for name, shape in (("daemons", daemon), ("jobs", job)):
        data = streamed(old(shape), 50)
        yield row(f"old stream of {name}, an ad", read, "parseAds", data, "1.2, 3", 50)
        yield row("the same, each attribute looked at", all_looked_at, "parseAds", data, "", 50)
    for name, shape in (("daemon", daemon), ("job", job)):
        data = fresh(old(shape), 30)
        yield row(f"a {name}'s ad, old; parseOne", mm.parse_ad, "parseOne", data, "0.5, 1")
        data = fresh(new(shape), 30)
        yield row(f"a {name}'s ad, new; ClassAd(text)", mm.parse_ad, "ClassAd", data, "0.5, 1")
        yield row("the same; parseOne", mm.parse_ad, "parseOne", data, "0.5, 1")
        yield row("the same, each attribute looked at; ClassAd", looked_at, "ClassAd", data, "")
    for spelled in (" = ", "=", "   =  "):
        data = fresh(new(twenty, spelled), 100)
        what = f"20 attributes with {spelled!r}; ClassAd(text)"
        yield row(what, mm.parse_ad, "ClassAd", data, "0.7, 1.2")
    data = fresh(lambda number: JDL.format(number=number), 50)
    yield row("JDL; ClassAd(text)", mm.parse_ad, "ClassAd", data, "0.3, 0.6")
    yield row("the same, each attribute looked at", looked_at, "ClassAd", data, "")
    data = fresh(lambda number: EXPRESSION.format(number=number), 200)
    yield row("an expression never met before", mm.parse_expr, "ExprTree", data, "0.2, 0.4")
    for name, shape in (("daemon", daemon), ("job", job)):
        data = fresh(as_json(shape), 30)
        ours: Any = lambda text: mm.parse_ad(text, "json")  # noqa: E731
        yield row(f"a {name}'s ad in JSON; ClassAd(json)", ours, "json", data, "0.7, 1.5")


def _peers(classad2: Any) -> dict[str, Any]:
    def stream(text: str) -> int:
        return sum(1 for _ in classad2.parseAds(io.StringIO(text), classad2.ParserType.Old))

    return {
        "parseAds": stream,
        "parseOne": classad2.parseOne,
        "ClassAd": classad2.ClassAd,
        "ExprTree": classad2.ExprTree,
        # Its reader of JSON is not among the bindings; the dict of json.loads is what users pass.
        "json": lambda text: classad2.ClassAd(json.loads(text)),
    }


COLD: Final = {
    "ours": "import matchmaker as mm, sys; sum(1 for _ in mm.read_ads(sys.argv[1], 'old'))",
    "theirs": """
import htcondor2, classad2, sys
with open(sys.argv[1]) as file:
    sum(1 for _ in classad2.parseAds(file, classad2.ParserType.Old))
""",
}


def cold(folder: str, *, beside: bool) -> None:
    """Prints the time of a new process that reads a file of a hundred ads."""
    path = f"{folder}/cold.ads"
    with open(path, "w", encoding="utf-8") as file:  # noqa: PTH123 - a benchmark's own file
        file.write("\n".join(old(daemon)(next(_numbers)) for _ in range(100)))
    taken: dict[str, list[float]] = {side: [] for side in COLD}
    for _ in range(5):
        for side, code in COLD.items():
            if side == "ours" or beside:
                before = time.perf_counter()
                subprocess.run([sys.executable, "-c", code, path], check=True)
                taken[side].append((time.perf_counter() - before) * 1e6)
    ours, theirs = (sorted(times)[len(times) // 2] if times else 0 for times in taken.values())
    ratio = figure(theirs / ours) if theirs else "-"
    print_row("a new process: import, 100 ads of daemons", figure(ours), figure(theirs), ratio)


def main() -> None:
    """Measures and prints the table."""
    os.environ.setdefault("TZ", "UTC")
    classad2 = peer()
    beside = not isinstance(classad2, str)
    print_row("what", "ours (µs)", "classad2 (µs)", "ratio", "wanted")
    for each in rows(classad2 if beside else None):
        ours, *rest = measured(each, 2 if "--quick" in sys.argv[1:] else ROUNDS)
        ratio = figure(rest[0].ratio_to(ours)) if rest else "-"
        print_row(each.what, str(ours), str(rest[0]) if rest else "-", ratio, each.wanted)
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as folder:
        cold(folder, beside=beside)


if __name__ == "__main__":
    main()
