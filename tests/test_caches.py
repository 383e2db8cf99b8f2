"""What the library remembers: bounded, all of it, and given back when it is forgotten."""

from __future__ import annotations

import ast
import gc
import io
import json
import re
import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import matchmaker as mm

ROOT = Path(__file__).resolve().parents[1]

SLOTS = mm.Pool(
    mm.parse_ad(f'[ Name = "s{n}"; Memory = {1000 * n}; Requirements = TARGET.Owner != "x" ]')
    for n in range(10)
)
QUEUES = mm.broker.pool(
    mm.parse_ad(
        f'[ GlueCEUniqueID = "q{n}"; GlueCEStateFreeCPUs = {n}; GlueCEStateStatus = "Production";'
        ' GlueCEAccessControlBaseRule = {"VO:atlas"} ]'
    )
    for n in range(17)
)


def _job(number: int) -> mm.ClassAd:
    return mm.parse_ad(
        f'[ Owner = "u{number}"; VirtualOrganisation = "atlas"; Want = {number};'
        f" Requirements = TARGET.Memory >= MY.Want && TARGET.Memory != {number + 7};"
        f" Rank = TARGET.Memory % {number + 3} ]"
    )


def match_jobs(some: range) -> None:
    for number in some:
        SLOTS.match(_job(number))


def match_large_jobs(some: range) -> None:
    for number in some[:10]:
        clauses = " || ".join(f"TARGET.Memory == {n * n + number}" for n in range(400))
        SLOTS.match(mm.ClassAd(Requirements=mm.parse_expr(clauses), Note="x" * 50_000))


def match_many_jobs(some: range) -> None:
    for _ in SLOTS.match_many(map(_job, some)):
        pass


def choose_queues(some: range) -> None:
    for number in some:
        mm.broker.choose(_job(number), QUEUES)


def make_ads_of_long_names(some: range) -> None:
    for number in some[:20]:
        mm.ClassAd({f"x{number}" * 100_000: 1})


def make_ads_of_new_names(some: range) -> None:
    for number in some:
        mm.ClassAd({"Owner": 1, f"Other{number % 50}": 2, f"More{number % 49}": 3})


def look_up_long_names(some: range) -> None:
    for number in some[:20]:
        name = f"GlueX{number}" * 50_000
        assert mm.glue.attribute(name) is None
        assert mm.glue.scope(name) == "unknown"


def read_descriptions(some: range) -> None:
    for number in some[::10]:
        lines = [f"dn: GlueCEUniqueID=q{number},o=grid", "objectClass: GlueCE"]
        lines += [f"GlueCEInfoHostName: host{number}.{n}" for n in range(20)]
        lines += [f"Unheard{number}of{n}: {'x' * 100}" for n in range(20)]
        mm.glue.read_ldif([*lines, ""]).computing_elements()


def read_documents(some: range) -> None:
    for number in some[::10]:
        name = f"Name{number}" * 2000
        text = f'{{"ComputingService": [{{"ID": "s", "{name}": "x", "{name}ID": "y"}}]}}'
        mm.glue.read(io.BytesIO(text.encode())).computing_elements()


def read_expressions(some: range) -> None:
    for number in some[::10]:
        mm.parse_expr(" + ".join(f"Attribute{n + number}" for n in range(30)))


def read_ads(some: range) -> None:
    for number in some:
        mm.parse_ad(f'[ A = {number}; B = "text {number}"; C = {number} + D ]')
        list(mm.parse_ads(f'A = {number}\nB = "text {number}"\n', format="old"))


def evaluate_patterns(some: range) -> None:
    for number in some[::10]:
        mm.parse_expr(f'regexp("a{number}+(b|c)*", X)').eval(mm.ClassAd(X="aaa"))


def call_unknown_functions(some: range) -> None:
    for number in some[::10]:
        mm.parse_expr(f"unheard{number}of(1)").eval()


def reduce_requirements(some: range) -> None:
    for number in some[::5]:
        mm.reduce(_job(number), mm.ClassAd(Memory=5), lambda name: "host")


WORKS: list[Callable[[range], None]] = [
    match_jobs, match_large_jobs, match_many_jobs, choose_queues, make_ads_of_long_names,
    make_ads_of_new_names, look_up_long_names, read_descriptions, read_documents, read_expressions,
    read_ads, evaluate_patterns, call_unknown_functions, reduce_requirements,
]  # fmt: skip


MOST = 5_000_000
"""Bytes that caches may keep of 150 such works."""


def measure() -> dict[str, tuple[int, int]]:
    """Bytes that each work takes, and that are left when its results are forgotten."""
    found = {}
    for work in WORKS:
        work(range(50))
        mm.forget()
        gc.collect()
        tracemalloc.start()
        work(range(1000, 1150))
        gc.collect()
        taken = tracemalloc.get_traced_memory()[0]
        mm.forget()
        gc.collect()
        found[work.__name__] = (taken, tracemalloc.get_traced_memory()[0])
        tracemalloc.stop()
    return found


@pytest.fixture(scope="module")
def measured() -> dict[str, tuple[int, int]]:
    """What a new process measures: in this one, tables may be large already."""
    code = "import json; from tests.test_caches import measure; print(json.dumps(measure()))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, check=True)
    return json.loads(done.stdout)  # type: ignore[no-any-return]


@pytest.mark.parametrize("work", WORKS, ids=lambda work: work.__name__)
def test_caches_give_back_what_they_take(
    work: Callable[[range], None], measured: dict[str, tuple[int, int]]
) -> None:
    taken, left = measured[work.__name__]
    assert taken <= MOST
    # The interpreter's tables do not shrink: names, and nodes that are alive.
    assert left <= max(150_000, taken / 5)


# --- the guide to safety lists them all -----------------------------------------------------------

SOURCE = ROOT / "src"

EVERY_CACHE = """
import importlib, json, pkgutil, matchmaker as mm
for module in pkgutil.walk_packages(mm.__path__, "matchmaker."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
pool = mm.Pool([mm.ClassAd(Name="a")])
matches = pool.match_many([mm.parse_ad('[ Requirements = TARGET.Name == "a" ]')])
next(matches)
from matchmaker._cache import caches
print(json.dumps({cache.name: cache.most for cache in caches()}))
"""

TABLES = {
    "classad/ad.py:FIRST": "bounded, as the guide says",
    "classad/functions/__init__.py:FUNCTIONS": "the functions of the language",
    "classad/nodes.py:TABLE": "weak: what nobody holds is dropped as it grows",
    "_cache.py:_caches": "weak",
    "_locks.py:_locks": "weak",
    "_locks.py:_taken": "threads that fork at this moment",
    "classad/nodes.py:METHODS": "what methods of expressions do",
    "_stack.py:_guests": "evaluations that have room at this moment",
    "cli/transfers.py:_said": "the ledgers and folders of this process",
    "delegation/group_commit.py:_all": "weak",
    "glue/publish/__init__.py:_NONE": "constant",
    "pilots/node/isolation.py:KEEPERS": "the tasks that run at this moment",
    "pilots/node/isolation.py:STARTING": "the tasks that start at this moment",
    "reduction/simplify.py:watchers": "what tests watch with",
}
"""What else begins empty in a module, and why it needs no bound."""


def listed(heading: str) -> dict[str, str]:
    """The rows of the table below a heading of the guide: the first column and the last."""
    text = (ROOT / "docs" / "safety.md").read_text("utf-8")
    section = text.partition(f"\n{heading}\n")[2].partition("\n#")[0]
    rows = [line.strip("| ").split(" | ") for line in section.splitlines() if line[:2] == "| "]
    return {row[0].strip("`"): row[-1] for row in rows[1:]}


def test_the_guide_lists_every_cache_with_its_bound() -> None:
    done = subprocess.run(
        [sys.executable, "-c", EVERY_CACHE], check=True, capture_output=True, text=True
    )
    found = json.loads(done.stdout)
    guide = listed("## Caches")
    assert guide.keys() == found.keys()
    for name, most in found.items():
        flat, _, each = guide[name].partition(", and ")
        more = int(each.split()[0]) if each else 0
        assert int(flat.replace(",", "")) + more == most, name


def modules() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(SOURCE.rglob("*.py")):
        name = path.relative_to(SOURCE / "matchmaker").as_posix()
        yield name, ast.parse(path.read_text("utf-8"))


def test_the_guide_lists_every_function_that_remembers_without_a_bound() -> None:
    found = set()
    for name, tree in modules():
        dotted = name.removesuffix(".py").replace("/", ".").removesuffix(".__init__")
        functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
        # What a function within a function remembers goes with the call.
        inner = {node for outer in functions for node in ast.walk(outer) if node is not outer}
        for node in ast.walk(tree):
            if node in inner and isinstance(node, ast.FunctionDef):
                continue
            if isinstance(node, ast.FunctionDef):
                for decorator in node.decorator_list:
                    if re.search(r"\b(?:lru_)?cache\b", ast.unparse(decorator)):
                        found.add(f"{dotted}.{node.name}")
            elif isinstance(node, ast.Call) and "lru_cache" in ast.unparse(node.func):
                found.add(f"{dotted}:{node.lineno}")
    assert found == listed("### Of a fixed domain").keys()


def test_no_other_table_of_a_module_grows() -> None:
    found = set()
    empty = re.compile(
        r"(\{\}|\[\]|(dict|list|set|OrderedDict|defaultdict|deque|\w*Weak\w+)\(.*\))"
    )
    for name, tree in modules():
        for node in tree.body:
            if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
                target = node.targets[0] if isinstance(node, ast.Assign) else node.target
                if empty.fullmatch(ast.unparse(node.value)):
                    found.add(f"{name}:{ast.unparse(target)}")
    assert found == TABLES.keys()
