"""Prints the shape of the code: files, names, prose, and the modules that one call passes.

``python tools/shape.py [--tests REPORT.xml]``. Bounds stand in parentheses. Rates are counts in
1,000 words of docstrings. A call passes a module if a function of it runs, imports not counted; a
switch is a call from one module into another. ``--tests`` adds the time of a run of pytest with
``--junit-xml=REPORT.xml``. ``tests/test_shape.py`` holds the parts that may not grow worse.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Final
from xml.etree import ElementTree as ET

ROOT: Final = Path(__file__).resolve().parents[1]
SOURCE: Final = ROOT / "src" / "matchmaker"

DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
RATES: Final = {
    "what-clauses": (r"\bwhat (?:is|has|are|was|were|may|can|a|the|it|they|an)\b", 1.5),
    "where-clauses": (r"\bwhere\b", 3.0),
    "is/are no": (r"\b(?:is|are) no\b", 0.8),
    "of/by/for which": (r"\b(?:of|by|for) which\b", 0.6),
}
"""Patterns of sentences that hide their verb or their noun, and how many 1,000 words may have."""
FILES, LINES, FOLDER = 250, 66_000, 15


def sources(root: Path = SOURCE) -> dict[str, str]:
    """Read the modules below a folder, by path relative to it."""
    return {
        str(path.relative_to(root)): path.read_text(encoding="utf-8")
        for path in sorted(root.rglob("*.py"))
    }


@cache
def prose(text: str) -> str:
    """Join the docstrings of a module, without their examples."""
    found = [
        ast.get_docstring(node)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, DOCUMENTED)
    ]
    return re.sub(r"(?:>>>|\.\.\.) .*", "", "\n".join(filter(None, found)))


def rates(texts: Mapping[str, str]) -> dict[str, float]:
    """Count each pattern of ``RATES`` in 1,000 words of the docstrings of modules."""
    words = "\n".join(map(prose, texts.values()))
    return {
        name: 1000 * len(re.findall(pattern, words, re.IGNORECASE)) / (len(words.split()) or 1)
        for name, (pattern, _) in RATES.items()
    }


def shared_names(texts: Mapping[str, str]) -> dict[str, list[str]]:
    """Find names of public top-level classes that stand for more than one class: name → paths."""
    places: dict[str, list[str]] = defaultdict(list)
    for path, text in texts.items():
        for node in ast.parse(text).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(path)
    return {name: paths for name, paths in sorted(places.items()) if len(paths) > 1}


def full_folders(texts: Mapping[str, str]) -> dict[str, int]:
    """Find folders of more than ``FOLDER`` modules, with their number."""
    counts = Counter(str(Path(path).parent) for path in texts)
    return {folder: count for folder, count in sorted(counts.items()) if count > FOLDER}


def passed(call: Callable[[], object]) -> tuple[set[str], int]:
    """Run a call; return the modules of the package that it passes and the number of switches."""
    found: set[str] = set()
    switches = 0
    prefix = str(SOURCE)

    def note(frame: FrameType, event: str, _: object) -> None:
        nonlocal switches
        name = frame.f_code.co_filename
        # A module's own code runs when it is imported: that is no part of the call.
        if event != "call" or not name.startswith(prefix) or frame.f_code.co_name == "<module>":
            return
        found.add(name)
        back = frame.f_back
        switches += back is not None and back.f_code.co_filename not in {name, __file__}

    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    return found, switches


def ways() -> dict[str, tuple[Callable[[], object], int]]:
    """Prepare the calls to follow, each with the number of modules that it may pass."""
    import matchmaker as mm
    from matchmaker.pilots.policy.policy_ad import PolicyAd

    examples = ROOT / "examples"
    job = next(iter(mm.read_ads(str(examples / "job.jdl"))))
    nodes = list(mm.read_ads(str(examples / "nodes.ad")))
    site = mm.glue.read_ldif(str(examples / "site.ldif"))
    queues = site.computing_elements()
    hosts = mm.broker.Hosts(nodes=nodes, mapping=mm.batch.load_mapping("slurm"))
    pool = mm.Pool(nodes)
    local = mm.parse_ad("[ Requirements = TARGET.Memory >= 2000 && TARGET.Cpus > 1 ]")
    reduced = mm.reduce(job, queues[0], scope=mm.glue.scope)
    demand = mm.pilots.Demand(key="job", ad=local, waiting=3)
    queue = mm.pilots.PilotQueue(key="queue", pilot=nodes[0])
    snapshot = mm.pilots.PilotSnapshot(now=0.0, demand=(demand,), queues=(queue,), pilots=())
    policy = PolicyAd()
    return {
        "Pool.match": (lambda: pool.match(local), 15),
        "batch.flags": (lambda: mm.batch.flags(reduced, lrms="slurm"), 12),
        "pilots.decide": (lambda: mm.pilots.decide(snapshot, policy), 12),
        "Pool.explain": (lambda: pool.explain(local), 20),
        "broker.route": (lambda: mm.broker.route(job, queues, hosts), 35),
    }


def slowest(report: Path, count: int = 100) -> tuple[float, float, list[tuple[float, str]]]:
    """Read a JUnit report: the time of the run, the sum of its tests, and the slowest tests."""
    root = ET.parse(report).getroot()  # noqa: S314 (our own file)
    suites = list(root.iter("testsuite"))
    cases = [
        (float(case.get("time", 0)), f"{case.get('classname')}::{case.get('name')}")
        for case in root.iter("testcase")
    ]
    wall = sum(float(suite.get("time", 0)) for suite in suites)
    return wall, sum(time for time, _ in cases), sorted(cases, reverse=True)[:count]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--tests", type=Path, help="a JUnit report of a run of pytest")
    report = parser.parse_args().tests
    texts = sources()
    lines = sum(len(text.splitlines()) for text in texts.values())
    comments = sum(len(re.findall(r"^\s*#", text, re.MULTILINE)) for text in texts.values())
    print(f"files {len(texts)} ({FILES})  lines {lines:,} ({LINES:,})")
    print(f"comments {100 * comments / lines:.1f} % of the lines")
    print("full folders:", ", ".join(f"{k} {v}" for k, v in full_folders(texts).items()) or "none")
    names = shared_names(texts)
    print(f"names that several classes share: {len(names)} (0) {' '.join(names)}")
    found = rates(texts)
    print("in 1,000 words:", "  ".join(f"{k} {found[k]:.1f} ({v[1]})" for k, v in RATES.items()))
    for name, (call, bound) in ways().items():
        modules, switches = passed(call)
        print(f"{name}: {len(modules)} modules ({bound}), {switches:,} switches")
    if report is not None:
        wall, total, cases = slowest(report)
        print(f"tests: {wall:.0f} s, {total:.0f} s in one process; the slowest:")
        for time, name in cases:
            print(f"  {time:6.1f} s  {name}")


if __name__ == "__main__":
    main()
