"""Prints how fast and small ads are read beside HTCondor's library, on pools whose ads differ.

``python benchmarks/reading.py [--quick] [ROW…]``, or ``make bench``; a ROW is a part of what a row
says, such as ``JDL``. Each ad has names, order and values of its own (``drawn``). Each measurement
is a new process, with the garbage collector on; in each round both sides read the same new file.
The time is the processor's, without imports; the ratio is the median of the rounds. The longest
stream is given to the other library in parts of 200 ads, and so are the shorter ones: it takes
longer for each ad the longer the text is. 4,900 slots are 100 MB.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import io
import json
import os
import pkgutil
import re
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from random import Random
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, Final

import attrs
import drawn
from run import peer
from timing import figure, resident

ROUNDS: Final = 3
PIECE: Final = 200
"""How many ads of a stream the other library reads at once: longer texts slow it."""


@attrs.frozen(slots=True)
class Row:
    """A line of the table: what is done to which data, and the ratio that is wanted."""

    text: str
    action: str
    data: str
    count: int
    wanted: float | None = None
    aim: float | None = None
    quick: int = 100
    """How many there are in a quick run, which leaves the row out if there are none."""
    rounds: int = ROUNDS

    def what(self, *, quick: bool = False) -> str:
        """What the row says: the number is that of the things which are read."""
        return self.text.format(self.quick if quick else self.count)


ROWS: Final = (
    Row("old stream of {:,} slots", "stream", "slots.old", 50, 1.5, 2.5, 50),
    Row("old stream of {:,} slots, looked at", "look", "slots.old", 50, 0.8, 1.2, 0),
    Row("old stream of {:,} slots", "stream", "slots.old", 200, 1.5, 2.5, 200),
    Row("old stream of {:,} slots, looked at", "look", "slots.old", 200, 0.8, 1.2, 200),
    Row("old stream of {:,} slots", "stream", "slots.old", 1_000, 1.5, 2.5, 0),
    Row("old stream of {:,} slots, looked at", "look", "slots.old", 1_000, 0.8, 1.2, 0),
    Row("old stream of {:,} slots", "stream", "slots.old", 20_000, 1.5, 2.5, 0, 1),
    Row("old stream of {:,} slots, looked at", "look", "slots.old", 20_000, 0.8, 1.2, 0, 1),
    Row("old stream of {:,} slots, nearly no line twice", "stream", "fresh slots.old", 200),
    Row("old stream of {:,} job histories", "stream", "jobs.old", 1_000, 1.2, 2),
    Row("old stream of {:,} job histories, looked at", "look", "jobs.old", 1_000, 0.8, 1.2),
    Row("a slot, old; parseOne(text)", "parseOne", "slots.old.texts", 100, 1.2, 2),
    Row("a job, old; parseOne(text)", "parseOne", "jobs.old.texts", 200, 1.2, 2),
    Row("a slot, new; ClassAd(text)", "ClassAd", "slots.new.texts", 100, 0.8, 1.2),
    Row("a job, new; ClassAd(text)", "ClassAd", "jobs.new.texts", 200, 0.8, 1.2),
    Row("20 attributes, any spelling; ClassAd(text)", "ClassAd", "twenties", 1_000, 0.8, 1.2, 999),
    Row("JDL; ClassAd(text)", "ClassAd", "descriptions", 1_000, 0.4, 0.7, 1_000),
    Row("a new expression; ExprTree(text)", "ExprTree", "expressions", 2_000, 0.25, 0.4, 1_000),
    Row("a slot, JSON; ClassAd(json.loads(text))", "json", "slots.json.texts", 100, 1.2, 2),
    Row("a job, JSON; ClassAd(json.loads(text))", "json", "jobs.json.texts", 200, 1.2, 2),
    Row("{:,} slots, old to JSON, whole process", "convert", "slots.old", 4_900, 1.2, 2, 100, 1),
    Row("Pool.read of {:,} daemons, old; list", "pool", "daemons.old", 2_000, 2, None, 500),
    Row("Pool.read of {:,} daemons, new; list", "pool", "daemons.new", 2_000, 2, None, 500),
    Row("Pool.read of {:,} daemons, JSON; list", "pool", "daemons.json", 2_000, 2, None, 500),
    Row("Pool.read of {:,} jobs, old; list", "pool", "jobs.old", 2_000, 1.5, None, 500),
    Row("Pool.read of {:,} jobs, new; list", "pool", "jobs.new", 2_000, 1.5, None, 500),
    Row("Pool.read of {:,} jobs, JSON; list", "pool", "jobs.json", 2_000, 1.5, None, 500),
    Row("memory of a slot in a list, kB (25 wanted)", "list memory", "slots.old", 2_000, rounds=1),
    Row("memory of a slot in a pool, kB (10 wanted)", "pool memory", "slots.old", 2_000, rounds=1),
)  # fmt: skip

# --- data ----------------------------------------------------------------------------------------


def _fresh(ads: Iterable[drawn.Ad], seed: int) -> Iterator[drawn.Ad]:
    """The ads with new digits in each number and text: hardly a line comes twice."""
    chance = Random(seed)

    def renewed(value: drawn.Value) -> drawn.Value:
        if not isinstance(value, str):
            return value
        if value.startswith('"'):
            return f'"{chance.randrange(10**9)}{value[1:]}'
        return re.sub(r"(?<![\w.])[0-9]+", lambda _: str(chance.randrange(10**9)), value)

    for ad in ads:
        yield {name: renewed(value) for name, value in ad.items()}


ADS: Final[dict[str, Callable[[int, int], Iterator[drawn.Ad]]]] = {
    "slots": drawn.slots,
    "jobs": drawn.jobs,
    "daemons": drawn.daemons,
    "fresh slots": lambda count, seed: _fresh(drawn.slots(count, seed), seed),
}
TEXTS: Final = {
    "twenties": drawn.twenties,
    "descriptions": drawn.descriptions,
    "expressions": drawn.expressions,
}
FORMS: Final = {"old": drawn.old, "new": drawn.new, "json": drawn.in_json}


def written(folder: Path, data: str, count: int, seed: int) -> Path:
    """Writes the data to a file, unless another row has: a stream, or a list of texts in JSON."""
    path = folder / f"{data}.{count}.{seed}"
    if path.exists():
        return path
    kind, _, form = data.partition(".")
    with path.open("w", encoding="utf-8") as file:
        if kind in TEXTS:
            json.dump(list(TEXTS[kind](count, seed)), file)
        elif form.endswith(".texts"):
            form = form.removesuffix(".texts")
            json.dump([FORMS[form](ad) for ad in ADS[kind](count, seed)], file)
        else:
            file.writelines(drawn.stream(ADS[kind](count, seed), form))
    return path


def met_before(path: Path) -> float:
    """Which part of the assignments of a file occurred before in it."""
    text = path.read_text(encoding="utf-8")
    if text.startswith('["'):
        text = "\n".join(json.loads(text))
    parts = [part.strip(" []{},") for part in re.split(r"; |;?\n", text)]
    parts = [part for part in parts if part]
    return 1 - len(set(parts)) / len(parts)


# --- what each side does -------------------------------------------------------------------------

Prepare = Callable[[str], Iterable[Any]]
Work = Callable[[Any], int]


@attrs.frozen(slots=True)
class Side:
    """How one library does it: what is prepared is not timed, what is worked on it is."""

    work: Work
    prepare: Prepare = lambda path: [path]


def _texts(path: str) -> list[str]:
    found: list[str] = json.loads(Path(path).read_text(encoding="utf-8"))
    return found


def _pieces(path: str) -> Iterator[str]:
    """The texts of a few ads each, that an old stream consists of."""
    ads, lines = 0, list[str]()
    with Path(path).open(encoding="utf-8") as file:
        for line in file:
            lines.append(line)
            ads += line == "\n"
            if ads == PIECE:
                yield "".join(lines)
                ads, lines = 0, []
    if lines:
        yield "".join(lines)


def _counted(ads: Iterable[Any]) -> int:
    return sum(1 for _ in ads)


def _looked_at(ads: Iterable[Any]) -> int:
    number = 0
    for ad in ads:
        for name in ad:
            ad[name]
        number += 1
    return number


def _each(parse: Callable[[str], object]) -> Work:
    def work(text: str) -> int:
        parse(text)
        return 1

    return work


def ours(action: str) -> Side:
    """How this library does it; all its modules are loaded."""
    import matchmaker as mm

    for name in ("matchmaker.classad", "matchmaker.matching", "pyarrow"):
        package = import_module(name)
        if name != "pyarrow":
            for found in pkgutil.walk_packages(package.__path__, f"{name}."):
                import_module(found.name)
    import_module("pyarrow.compute")
    # The grammar is loaded at the first text that needs it, which in a stream may be the last.
    with suppress(mm.ParseError):
        mm.parse_ad("[ x = ]")
    read = partial(mm.read_ads, format="old")
    sides = {
        "stream": Side(lambda path: _counted(read(path))),
        "look": Side(lambda path: _looked_at(read(path))),
        "parseOne": Side(_each(mm.parse_ad), _texts),
        "ClassAd": Side(_each(mm.parse_ad), _texts),
        "ExprTree": Side(_each(mm.parse_expr), _texts),
        "json": Side(_each(partial(mm.parse_ad, format="json")), _texts),
        "pool": Side(lambda path: len(mm.Pool.read(path, _key(path)))),
        "list memory": Side(lambda path: _kept(read(path))),
        "pool memory": Side(lambda path: _kept(mm.Pool.read(path))),
    }
    return sides[action]


def theirs(action: str) -> Side:
    """How HTCondor's library does it."""
    classad2 = peer()
    kinds = classad2.ParserType

    def read(path: str) -> Iterator[Any]:
        with Path(path).open(encoding="utf-8") as file:
            if ".json." in path:
                yield from map(classad2.ClassAd, json.load(file))
            else:
                yield from classad2.parseAds(file, kinds.New if ".new." in path else kinds.Old)

    def read_piece(piece: str) -> Iterator[Any]:
        return iter(classad2.parseAds(io.StringIO(piece), kinds.Old))

    sides = {
        "stream": Side(lambda piece: _counted(read_piece(piece)), _pieces),
        "look": Side(lambda piece: _looked_at(read_piece(piece)), _pieces),
        "parseOne": Side(_each(classad2.parseOne), _texts),
        "ClassAd": Side(_each(classad2.ClassAd), _texts),
        "ExprTree": Side(_each(classad2.ExprTree), _texts),
        # Its reader of JSON is not among the bindings; the dict of json.loads is what users pass.
        "json": Side(_each(lambda text: classad2.ClassAd(json.loads(text))), _texts),
        "pool": Side(lambda path: len(list(read(path)))),
        "list memory": Side(lambda path: _kept(read(path))),
        "pool memory": Side(lambda path: _kept(read(path))),
    }
    return sides[action]


def _key(path: str) -> str:
    """The attribute by which a pool finds its ads."""
    return "GlobalJobId" if "jobs." in Path(path).name else "Name"


SIDES: Final = {"ours": ours, "theirs": theirs}
_held: list[Any] = []


def _kept(ads: Iterable[Any]) -> int:
    """Keeps a list or a pool of ads to the end of the process."""
    _held.append(list(ads) if isinstance(ads, Iterator) else ads)
    return len(_held[-1])


def _settled() -> int:
    """The bytes of this process after all garbage went back to the system."""
    gc.collect()
    if sys.platform == "linux":
        ctypes.CDLL(None).malloc_trim(0)
    return resident()


def measure(side: str, action: str, path: str, warm: str) -> None:
    """Prints what one side needs for each thing (microseconds or kB), and how many there are."""
    done = SIDES[side](action)
    for data in done.prepare(warm):
        done.work(data)
    _held.clear()
    before, taken, number = _settled(), 0, 0
    for data in done.prepare(path):
        start = time.process_time_ns()
        number += done.work(data)
        taken += time.process_time_ns() - start
    if action.endswith("memory"):
        print((_settled() - before) / number / 1000, number)
    else:
        print(taken / number / 1000, number)


CONVERT: Final = {
    "ours": (
        sys.executable,
        "-c",
        "from matchmaker.cli import main; main()",
        *("convert", "--from", "old", "--to", "json"),
    ),
    "theirs": (
        sys.executable,
        "-c",
        """
import os, sys
os.environ["CONDOR_CONFIG"] = "ONLY_ENV"
import htcondor2, classad2
with open(sys.argv[1]) as file:
    print("[")
    for number, ad in enumerate(classad2.parseAds(file, classad2.ParserType.Old)):
        print("," if number else "", ad.printJson())
    print("]")
""",
    ),
}


def _converted(side: str, path: Path, count: int) -> float:
    """Microseconds of the processor for each ad, in a process that converts a file."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with path.with_suffix(".converted").open("w", encoding="utf-8") as output:
        subprocess.run([*CONVERT[side], str(path)], check=True, stdout=output)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    taken = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return taken / count * 1e6


# --- the table -----------------------------------------------------------------------------------


def print_line(what: str, *cells: str) -> None:
    """Prints a line of the table."""
    print(" | ".join([f"{what:<50}", *(f"{cell:>11}" for cell in cells)]), flush=True)


def _warm(folder: Path, row: Row) -> Path:
    """A file of the same form with one small thing, to load what is loaded at the first use."""
    path = folder / f"warm.{row.data}.1"
    form = row.data.partition(".")[2]
    ad: drawn.Ad = {"Name": '"a"', "GlobalJobId": '"a"'}
    text = FORMS[form.partition(".")[0] or "new"](ad)
    if row.action == "ExprTree":
        text = "1"
    elif form == "json":
        text = f"[{text}]"
    texts = form.endswith("texts") or row.data in TEXTS
    path.write_text(json.dumps([text]) if texts else f"{text}\n\n", encoding="utf-8")
    return path


def _one(side: str, row: Row, path: Path, count: int, warm: Path) -> float:
    if row.action == "convert":
        return _converted(side, path, count)
    command = [sys.executable, __file__, "--measure", side, row.action, str(path), str(warm)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    taken, number = done.stdout.split()
    assert int(number) == count, (row.what(), side, number)
    return float(taken)


def measured(row: Row, folder: Path, *, beside: bool, quick: bool) -> None:
    """Measures a row and prints it."""
    count, rounds = (row.quick, 1) if quick else (row.count, row.rounds)
    sides = list(SIDES) if beside else ["ours"]
    taken: dict[str, list[float]] = {side: [] for side in sides}
    path, warm = Path(), _warm(folder, row)
    for number in range(rounds):
        path = written(folder, row.data, count, 1 + number)
        for side in reversed(sides) if number % 2 else sides:
            taken[side].append(_one(side, row, path, count, warm))
    mine = taken["ours"]
    ratio = theirs_shown = "-"
    if beside:
        pairs = zip(taken["theirs"], mine, strict=True)
        of_rounds = median(its / my for its, my in pairs)
        ratio, theirs_shown = figure(of_rounds), figure(median(taken["theirs"]))
        if row.wanted is not None and of_rounds < row.wanted:
            ratio += " below"
    wanted, aim = (figure(each) if each else "" for each in (row.wanted, row.aim))
    met = "" if row.action == "ExprTree" else f"{met_before(path):.0%}"
    print_line(row.what(quick=quick), figure(median(mine)), theirs_shown, ratio, wanted, aim, met)


def check(classad2: Any) -> None:
    """Fails unless both libraries read the same values from a few ads of each kind and format."""
    import matchmaker as mm

    for kind, made in ADS.items():
        ads = list(made(8, 99))
        for form in ("old", "new"):
            text = "".join(drawn.stream(ads, form))
            parser = classad2.ParserType.New if form == "new" else classad2.ParserType.Old
            theirs_read = list(classad2.parseAds(io.StringIO(text), parser))
            for mine, its in zip(mm.parse_ads(text, form), theirs_read, strict=True):
                assert set(map(str.lower, mine)) == set(map(str.lower, its)), kind
                for name in mine:
                    if type(its[name]) in {bool, int, float, str}:
                        assert mine[name] == its[name], (kind, form, name)
        old = mm.parse_ads("".join(drawn.stream(ads, "old")), "old")
        in_json = mm.parse_ads("".join(drawn.stream(ads, "json")), "json")
        assert all(one == two for one, two in zip(old, in_json, strict=True)), kind


def table(rows: Iterable[Row], *, quick: bool) -> None:
    """Measures and prints the table."""
    classad2 = peer()
    beside = not isinstance(classad2, str)
    if beside:
        check(classad2)
        print(f"beside classad2, {classad2.version()}")
    else:
        print(f"HTCondor's library is not here, ours alone ({classad2})")
    print("µs or kB for one; ratio classad2/ours: above 1, ours is better; met before: which part")
    print("of the assignments occurred before in the same data, and may come from a cache\n")
    print_line("what", "ours", "classad2", "ratio", "wanted", "aim", "met before")
    start = time.monotonic()
    with TemporaryDirectory() as name:
        folder = Path(name)
        for row in rows:
            if quick and not row.quick:
                continue
            measured(row, folder, beside=beside, quick=quick)
    print(f"\n{time.monotonic() - start:.0f} s in all")


def main() -> None:
    """Does what the arguments ask for."""
    options = argparse.ArgumentParser()
    options.add_argument("--quick", action="store_true", help="small data, one round")
    options.add_argument("--list", action="store_true", help="print what would be measured")
    options.add_argument("--measure", nargs=4, help=argparse.SUPPRESS)
    options.add_argument("rows", nargs="*", metavar="ROW")
    asked = options.parse_args()
    rows = [row for row in ROWS if not asked.rows or any(part in row.what() for part in asked.rows)]
    if asked.measure:
        measure(*asked.measure)
    elif asked.list:
        print(*(row.what() for row in rows), sep="\n")
    else:
        os.environ.setdefault("TZ", "UTC")
        table(rows, quick=asked.quick)


if __name__ == "__main__":
    main()
