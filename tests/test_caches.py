"""What the library remembers: counted in bytes, all of it, and given back when it is forgotten."""

from __future__ import annotations

import gc
import io
import tracemalloc
from collections.abc import Callable

import pytest

import matchmaker as mm
from matchmaker.classad.cache import caches

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


@pytest.mark.parametrize("work", WORKS, ids=lambda work: work.__name__)
def test_caches_take_what_they_count_and_give_it_back(work: Callable[[range], None]) -> None:
    work(range(50))
    mm.forget()
    gc.collect()
    tracemalloc.start()
    try:
        work(range(1000, 1150))
        gc.collect()
        taken = tracemalloc.get_traced_memory()[0]
        counted = sum(cache.bytes for cache in caches())
        mm.forget()
        gc.collect()
        left = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert taken - left <= 1.2 * counted + 20_000
    # The interpreter's tables do not shrink: names, and nodes that are alive.
    assert left <= max(150_000, taken / 5)
