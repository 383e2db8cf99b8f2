"""Caches are bounded, and what they hold takes no more memory than is said."""

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
from matchmaker._cache import ENTRY, LARGEST, BoundedCache, caches

pytestmark = pytest.mark.slow


def test_what_is_kept_is_bounded() -> None:
    cache: BoundedCache[int, str] = BoundedCache("test", 1 << 16)
    for number in range(5000):
        cache.put(number, text := f"value {number}", len(text))
        assert cache.size <= cache.most
        assert len(cache) * ENTRY <= cache.most
    assert cache.get(4999) == "value 4999"
    assert cache.get(1) is None


def test_a_large_entry_is_not_kept() -> None:
    cache: BoundedCache[Any, Any] = BoundedCache("test", 1 << 16)
    large = "x" * ((1 << 16) // LARGEST)
    assert cache.put("small", large, len(large)) is large
    assert not cache
    assert cache.size == 0


def test_forget_empties_all() -> None:
    cache: BoundedCache[int, int] = BoundedCache("test", 1 << 14)
    for number in range(100):
        cache.put(number, number, 1)
    mm.forget()
    assert (cache.get(99), cache.size) == (None, 0)
    assert cache in caches()


def test_threads_may_share_a_cache() -> None:
    cache: BoundedCache[int, int] = BoundedCache("test", 1 << 14)
    wrong: list[int] = []

    def work(first: int) -> None:
        for turn in range(4000):
            key = (first + turn * 7) % 501
            found = cache.get(key)
            if found is None:
                cache.put(key, key + 1, 10)
            elif found != key + 1:
                wrong.append(key)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert 0 < cache.size <= cache.most


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
def test_a_full_cache_of_expressions_takes_some_megabytes(kind: str) -> None:
    chance = random.Random(kind)
    _compile([TEXTS[kind](chance)])
    mm.forget()
    gc.collect()
    tracemalloc.start()
    _compile([TEXTS[kind](chance) for _ in range(150)])
    for other in caches():
        if other.name != "expressions by text":
            other.forget()
    gc.collect()
    taken = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert taken < 30_000_000


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
