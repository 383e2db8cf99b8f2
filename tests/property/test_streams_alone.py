"""A stream gives the ads that each of its texts gives alone, whatever came before and between.

Ads are drawn as real pools have them, and by the strategies for odd values. They are put into one
stream in any order, some of them again, and read in pieces cut at any byte.
"""

from __future__ import annotations

import io
import os
import random
from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from typing import IO, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks import drawn
from matchmaker import ClassAd, Pool, dumps, parse_ad, parse_ads, read_ads, write_ads
from tests import strategies

CASES = int(os.environ.get("STREAM_CASES", "25"))
FORMATS = ["old", "new", "json", "xml"]
MADE = [drawn.slots, drawn.jobs, drawn.daemons]


class Pieces(io.RawIOBase):
    """A file of bytes that gives the next piece at each read, and never more than is asked for."""

    def __init__(self, data: bytes, cuts: Sequence[int]) -> None:
        places = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
        self._pieces = [data[start:end] for start, end in pairwise(places)][::-1]

    def read(self, size: int = -1, /) -> bytes:
        if not self._pieces:
            return b""
        piece = self._pieces.pop()
        if 0 <= size < len(piece):
            self._pieces.append(piece[size:])
        return piece if size < 0 else piece[:size]


def cut(stream: str, cuts: Sequence[int]) -> IO[bytes]:
    return cast("IO[bytes]", Pieces(stream.encode(), cuts))


@cache
def real_ads() -> list[drawn.Ad]:
    return [ad for made in MADE for seed in range(8) for ad in made(3, seed)]


def some_names(ad: drawn.Ad, chance: random.Random) -> drawn.Ad:
    return {name: ad[name] for name in chance.sample(list(ad), 25)}


def text_of(ad: drawn.Ad, form: str) -> str:
    if form == "xml":
        return dumps(parse_ad(drawn.old(ad), "old"), form)
    return {"old": drawn.old, "new": drawn.new, "json": drawn.in_json}[form](ad)


def joined(texts: Sequence[str], form: str, between: str = "\n") -> str:
    """A stream of texts that hold one ad each."""
    if form == "json":
        return f"[{between}{(',' + between).join(texts)}{between}]"
    if form == "xml":
        document = io.StringIO()
        write_ads([parse_ad(text, form) for text in texts], document, form)
        return document.getvalue()
    return f"{between}\n".join(f"{text.rstrip(chr(10))}\n" for text in texts)


def shown(ad: ClassAd) -> str:
    return dumps(ad)


@st.composite
def texts_of_ads(draw: st.DrawFn, form: str) -> list[str]:
    """Texts of one ad each: ads of all kinds, mixed, each with another name."""
    chance = random.Random(draw(st.integers(0, 2**32)))
    real = [
        text_of(some_names(ad, chance) | {"Name": f'"real{number}"'}, form)
        for number, ad in enumerate(chance.sample(real_ads(), 5))
    ]
    odd = [
        dumps(ClassAd({**ad, "Name": f"odd é {number}"}), form)
        for number, ad in enumerate(draw(st.lists(strategies.ads(), max_size=4)))
    ]
    texts = [*real, *odd]
    return chance.sample(texts, len(texts))


cuts = st.lists(st.integers(0, 2**31), max_size=12) | st.just(range(2**11))


@pytest.mark.parametrize("form", FORMATS)
def test_a_stream_gives_the_ads_that_each_text_gives_alone(form: str) -> None:
    @settings(max_examples=CASES)
    @given(texts_of_ads(form), st.integers(), cuts, st.sampled_from(["\n", "\n\n", "\n \n"]))
    def holds(texts: list[str], seed: int, cuts: Sequence[int], between: str) -> None:
        texts += random.Random(seed).choices(texts, k=3)
        stream = joined(texts, form, between)
        alone = [shown(parse_ad(text, form)) for text in texts]
        assert [shown(ad) for ad in read_ads(cut(stream, cuts), form)] == alone
        assert [shown(ad) for ad in parse_ads(stream, form)] == alone
        assert [shown(ad) for ad in read_ads(cut(stream, cuts))] == alone
        # What was met in the stream changes no text that is read after it.
        assert [shown(parse_ad(text, form)) for text in reversed(texts)] == alone[::-1]

    holds()


@pytest.mark.parametrize("form", FORMATS)
def test_a_pool_of_a_stream_has_the_ads_that_each_text_gives_alone(form: str) -> None:
    @settings(max_examples=CASES)
    @given(texts_of_ads(form), cuts)
    def holds(texts: list[str], cuts: Sequence[int]) -> None:
        pool = Pool.read(cut(joined(texts, form), cuts), format=form)
        alone = [parse_ad(text, form) for text in texts]
        assert pool.keys() == [ad["Name"] for ad in alone]
        assert [*map(shown, pool)] == [*map(shown, alone)]

    holds()


@pytest.mark.parametrize("form", ["old", "new", "json"])
@pytest.mark.parametrize("seed", range(int(os.environ.get("STREAM_POOLS", "1"))))
def test_a_large_stream_becomes_the_pool_of_its_texts(form: str, seed: int) -> None:
    # More than a megabyte, from which on a pool is filled by columns.
    chance = random.Random(seed)
    ads = [ad for made in MADE for ad in made(45, seed)]
    chance.shuffle(ads)
    texts = [text_of(ad | {"Name": f'"ad{n}"'}, form) for n, ad in enumerate(ads)]
    stream = joined(texts, form)
    assert len(stream) > 1 << 20
    cuts = [chance.randrange(len(stream)) for _ in range(50)]
    pool = Pool.read(cut(stream, cuts), format=form)
    assert pool.keys() == [f"ad{number}" for number in range(len(ads))]
    for text, held in zip(texts, pool, strict=True):
        assert shown(held) == shown(parse_ad(text, form))
