"""Caches are bounded in bytes, and what they count is what they take."""

from __future__ import annotations

import gc
import random
import threading
import tracemalloc
import weakref
from collections.abc import Callable
from typing import Any

import pytest

import matchmaker as mm
from matchmaker.classad.cache import LARGEST, Cache, caches, remembered, size_of

pytestmark = pytest.mark.slow


def test_what_is_kept_is_bounded_and_what_is_used_stays() -> None:
    cache: Cache[int, str] = Cache("test", 1 << 16)
    for number in range(5000):
        cache.put(number, f"value {number}")
        assert cache.bytes <= cache.most
        assert cache[0] == "value 0"
    assert cache[4999] == "value 4999"
    assert cache[1] is None
    assert cache.bytes > cache.most / 4


def test_a_large_entry_is_not_kept() -> None:
    cache: Cache[Any, Any] = Cache("test", 1 << 16)
    large = "x" * ((1 << 16) // LARGEST)
    assert cache.put("small", large) is large
    cache.put(large, 1)
    assert not cache
    assert cache.bytes == 0


def test_forget_empties_all() -> None:
    dropped: list[int] = []
    cache: Cache[int, int] = Cache("test", 1 << 14, lambda: dropped.append(1))
    for number in range(100):
        cache.put(number, number)
    seen = len(dropped)
    assert seen
    mm.forget()
    assert (cache[99], cache.bytes, len(dropped)) == (None, 0, seen + 1)
    assert cache in caches()


def test_none_is_remembered_too() -> None:
    asked: list[str] = []

    @remembered("test", 1 << 16)
    def nothing(name: str, more: int = 0) -> None:
        asked.append(name)

    for _ in range(3):
        nothing("a")
        nothing("a", more=1)
    assert asked == ["a", "a"]


def test_threads_may_share_a_cache() -> None:
    cache: Cache[int, int] = Cache("test", 1 << 15)
    wrong: list[int] = []

    def work(first: int) -> None:
        for turn in range(4000):
            key = (first + turn * 7) % 501
            found = cache[key]
            if found is None:
                cache.put(key, key + 1)
            elif found != key + 1:
                wrong.append(key)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert 0 < cache.bytes <= cache.most


def _clause(number: int) -> mm.Expr:
    return mm.parse_expr(f'TARGET.Mem{number} >= {number} && size("abc{number}") > 2 || a')


def _compiled(number: int) -> mm.Expr:
    node = _clause(number)
    for _ in range(40):
        node.eval(mm.ClassAd(), mm.ClassAd())
    assert node.run is not None
    return node


MAKERS: dict[str, Callable[[int], Any]] = {
    "texts": lambda n: f"a text with the number {n}" * 5,
    "tuples": lambda n: (f"name{n}", (n + 1000, float(n)), frozenset({f"x{n}"})),
    "trees": _clause,
    "compiled trees": _compiled,
    "long sums": lambda n: mm.parse_expr("+".join(f"a{n + 1}_{place}" for place in range(50))),
    "lists of texts": lambda n: mm.parse_expr(
        "{" + ",".join(f'"{n}.{m}"' for m in range(50)) + "}"
    ),
}


@pytest.mark.parametrize("kind", MAKERS)
def test_an_entry_is_charged_no_less_than_it_takes(kind: str) -> None:
    make = MAKERS[kind]
    make(-1)
    mm.forget()
    cache: Cache[Any, Any] = Cache("test", 1 << 30)
    gc.collect()
    tracemalloc.start()
    for number in range(100):
        cache.put(make(number), None)
    # What other caches keep is theirs.
    for other in caches():
        if other is not cache:
            other.forget()
    gc.collect()
    taken = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert 0.8 * taken <= cache.bytes <= 8 * taken


TEXTS: dict[str, Callable[[random.Random], str]] = {
    "unary": lambda chance: "!" * 150 + f"a{chance.random()}".replace(".", "_"),
    "short names": lambda chance: "<".join(chance.choices("abcdefgh", k=60)),
    "digits": lambda chance: "+".join(chance.choices("0123456789", k=60)),
    "lists": lambda chance: "{" + ",".join(chance.choices("abcdefgh", k=60)) + "}",
    "words": lambda chance: " && ".join(
        f"TARGET.Memory{chance.randrange(10**6)} > {chance.randrange(10**6)}" for _ in range(9)
    ),
}


@pytest.mark.parametrize("kind", TEXTS)
def test_a_text_is_charged_no_less_than_its_compiled_expression_takes(kind: str) -> None:
    chance = random.Random(kind)
    texts = [TEXTS[kind](chance) for _ in range(14)]
    _compile(texts[:2])
    mm.forget()
    gc.collect()
    tracemalloc.start()
    _compile(texts[2:])
    charged = 0
    for other in caches():
        if other.name == "expressions by text":
            charged = other.bytes
        else:
            other.forget()
    gc.collect()
    taken = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert 0.8 * taken <= charged


def _compile(texts: list[str]) -> None:
    for text in texts:
        node = mm.parse_expr(text)
        for _ in range(40):
            node.eval(mm.ClassAd())


def test_a_tree_that_nobody_holds_is_given_up() -> None:
    node = mm.parse_expr("Some.Where + Else.Where * 12345678")
    gone = weakref.ref(node)
    del node
    mm.forget()
    gc.collect()
    assert gone() is None


def test_text_of_any_width_is_counted() -> None:
    assert size_of("\U0001f600" * 1000) > 4000
