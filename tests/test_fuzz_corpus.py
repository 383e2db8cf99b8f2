"""The fuzzer's corpus, replayed without a fuzzer: what once crashed is in it too."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn, TypeAlias

import attrs
import pytest

import matchmaker as mm
from fuzz import mutate, run, targets
from fuzz.targets import TARGETS
from matchmaker import ParseError, parse_expr, reduce
from matchmaker.classad.functions import FUNCTIONS
from matchmaker.classad.nodes import FALSE
from matchmaker.linting import lint
from matchmaker.reduction.bind import ScopeOf

CORPUS = Path(__file__).resolve().parents[1] / "fuzz" / "corpus"
FILES = sorted(path for path in CORPUS.glob("*/*") if path.is_file())
MOST_BYTES = 300_000


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_an_input_of_the_corpus_is_harmless(path: Path) -> None:
    TARGETS[path.parent.name](path.read_bytes())


def test_each_target_has_inputs_and_the_corpus_is_small() -> None:
    assert CORPUS == run.CORPUS
    counted = Counter(path.parent.name for path in FILES)
    assert counted.keys() == TARGETS.keys()
    assert min(counted.values()) >= 5
    assert sum(path.stat().st_size for path in FILES) < MOST_BYTES


def test_the_dictionary_knows_every_function() -> None:
    words = {word.lower() for word in mutate.dictionary()}
    assert [name for name in FUNCTIONS if f"{name}(".encode() not in words] == []
    assert {b'"', b"\\", b"\n", b"=?=", b"\xef\xbb\xbf"} <= words


def test_mutations_are_the_same_for_a_seed_and_no_longer_than_allowed() -> None:
    data = b'[ a = strcat("x", 1); b = {1, 2} ]'
    made = [mutate.mutated(data, 50, seed) for seed in range(500)]
    assert made == [mutate.mutated(data, 50, seed) for seed in range(500)]
    assert max(map(len, made)) <= 50
    assert len(set(made)) > 250
    assert any(parses(text) for text in made)
    assert isinstance(mutate.mutated(b"", 5, 1), bytes)


def parses(data: bytes) -> bool:
    try:
        parse_expr(data.decode("utf-8", "replace"))
    except ParseError:
        return False
    return True


def far_away(*_: object, **__: object) -> NoReturn:
    raise ParseError("wrong", line=99)


def never(job: mm.ClassAd, queue: mm.ClassAd, scope: ScopeOf) -> mm.Reduction:
    return attrs.evolve(reduce(job, queue, scope), residual=FALSE)


CE = "dn: GlueCEUniqueID=h:1/jm-pbs-q,o=grid"

# A target, an input, the part of the harness that is replaced and by what, and what that breaks.
Defect: TypeAlias = tuple[str, str, str, Callable[..., Any], str]
DEFECTS: list[Defect] = [
    ("parser", "a + b", "parse_again", lambda _: FALSE, "reads back as the same tree"),
    ("syntax", "1", "parsed", lambda _: FALSE, "both read an expression alike"),
    ("syntax", "[a = 1]", "ad_in", lambda _: mm.ClassAd(a=2), "both read an ad alike"),
    ("parser", "1 +", "parse_expr", far_away, "line 99 of 1"),
    ("new", "[a = 1]", "decoded", lambda _: "[a = 2]", "however the stream is cut"),
    ("new", "[a = 1]", "parse_ad", lambda *_: mm.ClassAd(a=2), "reads back equal"),
    ("evaluator", "[a = 1]", "trace", lambda *_: mm.trace("2"), "has one value"),
    ("linter", "1 +", "lint", lambda *_, **__: lint("\n\n1 +"), "line 3"),
    ("ldif", CE, "dumps", lambda *_: "[a = 2]", "reads back equal"),
    ("reduction", "[Requirements = true] [] []", "reduce", never, "verdict"),
]


@pytest.mark.parametrize("case", DEFECTS, ids=lambda case: f"{case[0]}-{case[2]}")
def test_a_target_fails_where_a_law_is_broken(
    case: Defect, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, data, part, defect, said = case
    TARGETS[target](data.encode())
    monkeypatch.setattr(targets, part, defect)
    with pytest.raises(AssertionError, match=said):
        TARGETS[target](data.encode())
