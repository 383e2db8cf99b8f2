"""Mutations of text by words: what a fuzzer of bytes seldom hits upon by itself.

Tokens are swapped, repeated, dropped, nested in brackets and replaced by words of the dictionary.
"""

from __future__ import annotations

import ast
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Final

DICTIONARY: Final = Path(__file__).with_name("classad.dict")

_WORD: Final = re.compile(rb"[A-Za-z_0-9.]+|\s+|.", re.DOTALL)
_AROUND: Final = (b"()", b"{}", b"[]", b'""', b"''", b"!!", b"\n\n")


def dictionary() -> list[bytes]:
    """The words of the dictionary, which is in libFuzzer's format: one in quotes on a line."""
    lines = DICTIONARY.read_text("ascii").splitlines()
    return [
        ast.literal_eval(f"b{line}") for line in lines if line.strip() and not line.startswith("#")
    ]


def mutated(data: bytes, most: int, seed: int) -> bytes:
    """The input with a few of its tokens changed, cut to a length."""
    chance = random.Random(seed)  # noqa: S311 - no secret
    tokens = _WORD.findall(data) or [b""]
    for _ in range(chance.choice((1, 1, 2, 4))):
        chance.choice(_CHANGES)(tokens, chance)
    return b"".join(tokens)[:most]


def _span(tokens: list[bytes], chance: random.Random) -> tuple[int, int]:
    start = chance.randrange(len(tokens) + 1)
    return start, min(len(tokens), start + chance.choice((1, 1, 2, 3, 8, 20)))


def _replaced(tokens: list[bytes], chance: random.Random) -> None:
    start, end = _span(tokens, chance)
    tokens[start:end] = [chance.choice(_words)]


def _added(tokens: list[bytes], chance: random.Random) -> None:
    start, _ = _span(tokens, chance)
    tokens[start:start] = [chance.choice(_words)]


def _dropped(tokens: list[bytes], chance: random.Random) -> None:
    start, end = _span(tokens, chance)
    del tokens[start:end]


def _repeated(tokens: list[bytes], chance: random.Random) -> None:
    start, end = _span(tokens, chance)
    tokens[start:end] = tokens[start:end] * chance.choice((2, 2, 3, 9))


def _moved(tokens: list[bytes], chance: random.Random) -> None:
    start, end = _span(tokens, chance)
    to, _ = _span(tokens, chance)
    tokens[to:to] = tokens[start:end]


def _nested(tokens: list[bytes], chance: random.Random) -> None:
    start, end = _span(tokens, chance)
    around = chance.choice(_AROUND)
    tokens[start:end] = [around[:1], *tokens[start:end], around[1:]]


_CHANGES: Final[tuple[Callable[[list[bytes], random.Random], None], ...]] = (
    _replaced,
    _replaced,
    _added,
    _dropped,
    _repeated,
    _moved,
    _nested,
)
_words: Final = dictionary()
