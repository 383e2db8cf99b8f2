"""Combines the answers of shards: pure functions, for any number of answers in any order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import attrs
import numpy as np

from matchmaker.classad.errors import shorten
from matchmaker.classad.parser import parse_expr
from matchmaker.matching.columns.keys import Keys
from matchmaker.matching.columns.sparse import Shown, Sparse
from matchmaker.matching.columns.views import Layout, View
from matchmaker.matching.snapshot import Matches
from matchmaker.matching.states import State
from matchmaker.shards.errors import ShardError
from matchmaker.shards.shard import NUMBERS

if TYPE_CHECKING:
    import numpy.typing as npt

    from matchmaker.shards.questions import Answer, Summary


@attrs.frozen(eq=False)
class Known:
    """Keys that came with their numbers, which rise."""

    numbers: npt.NDArray[np.int64]
    keys: Sequence[str]

    def of(self, rows: Iterable[int], /) -> list[str]:
        """The keys of many numbers."""
        places = np.searchsorted(self.numbers, np.fromiter(rows, np.int64))
        return [self.keys[place] for place in places.tolist()]


def matches(answers: Sequence[Answer], firsts: npt.NDArray[np.int64]) -> Matches:
    """What matched in some shards, in the order of the rows.

    `firsts` are the numbers that the first rows of the shards have in one pool of all of them, and
    of what was entered later.
    """
    numbers = np.concatenate([answer.numbers for answer in answers])
    numbers = firsts[numbers >> NUMBERS] + (numbers & ((1 << NUMBERS) - 1))
    order = np.argsort(numbers, kind="stable")
    numbers = numbers[order]
    keys = [key for answer in answers for key in answer.keys]
    errors = dict.fromkeys(answer.error for answer in answers if answer.error is not None)
    return Matches(
        numbers,
        np.concatenate([answer.ranks for answer in answers])[order],
        Known(numbers, [keys[place] for place in order.tolist()]),
        np.concatenate([answer.unranked for answer in answers])[order],
        "; ".join(errors) or None,
    )


def best(answers: Sequence[Answer], firsts: npt.NDArray[np.int64], count: int) -> Matches:
    """The best of the shards' best slots, as one pool would rank them."""
    return matches(answers, firsts).best(count)


def states(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """How many slots are in which state."""
    found: Counter[str] = Counter()
    for each in counts:
        found.update(each)
    return {state.value: found[state.value] for state in State if found[state.value]}


def outline(leading: Iterable[Mapping[str, Sequence[str]]]) -> View:
    """Rows that have every column of all shards, with the expressions that lead further.

    They represent the slots if only the names of the slots' attributes matter, not their values.
    `leading` has those expressions of each shard, by folded name.
    """
    texts: dict[str, dict[str, None]] = {}
    for each in leading:
        for name, expressions in each.items():
            texts.setdefault(name, {}).update(dict.fromkeys(expressions))
    size = max(map(len, texts.values()), default=0)
    columns = {
        name: Sparse(size, dict(enumerate(map(parse_expr, each)))) for name, each in texts.items()
    }
    layout = np.zeros(size, np.uint8)
    return View(size, Shown(dict(columns)), Keys(size), None, [Layout.of(())], layout)


def key_of(summaries: Sequence[Summary]) -> str:
    """The attribute that tells slots apart. Raises ShardError where shards have several."""
    first = summaries[0]
    for other in summaries:
        if other.key.lower() != first.key.lower():
            raise ShardError(
                f"shard {first.name} has its slots by {first.key}, shard {other.name} by"
                f" {other.key}: name one attribute as the key of all"
            )
    return first.key


def again(summaries: Sequence[Summary]) -> npt.NDArray[np.uint64]:
    """The numbers of keys that come twice, or seem to."""
    numbers = np.sort(np.concatenate([each.keys for each in summaries]))
    return np.unique(numbers[1:][numbers[1:] == numbers[:-1]])


def distinct(key: str, names: Sequence[str], keys: Sequence[Sequence[str]]) -> None:
    """Raises ShardError for the first of some keys that two shards have."""
    seen: dict[str, str] = {}
    for name, each in zip(names, keys, strict=True):
        for one in each:
            before = seen.setdefault(one, name)
            if before != name:
                raise ShardError(
                    f"shards {before} and {name} both have {key} = {shorten(repr(one), 60)};"
                    " the key must tell slots apart"
                )
