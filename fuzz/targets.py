"""What is fuzzed: each target takes any bytes and raises only where the library has a defect.

A target reads the bytes as a stranger's text and holds the library to its laws: nothing but a
ParseError for text that is wrong, the same tree from both parsers, the same ads from any
cut of a stream and from what was written, the same value from both forms of evaluation. ``run``
drives the targets with a fuzzer; ``tests/test_fuzz_corpus.py`` replays the corpus without one.
"""

from __future__ import annotations

import io
import random
import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import islice
from typing import IO, Any, Final, cast
from unittest.mock import patch
from zlib import crc32

import matchmaker as mm
from matchmaker import broker, glue
from matchmaker.classad import parser as parsing
from matchmaker.classad import reference as evaluation
from matchmaker.classad.ad import literal
from matchmaker.classad.errors import ParseError
from matchmaker.classad.formats import FORMATS, dumps, parse_ad, parse_ads, read_ads
from matchmaker.classad.formats.new import ad_in
from matchmaker.classad.formats.old import _read_lines
from matchmaker.classad.nodes import AdExpr, Expr, Literal
from matchmaker.classad.operators import truth
from matchmaker.classad.parser import parse_ad_expr, parse_expr, parsed
from matchmaker.classad.state import Budget
from matchmaker.classad.trace import trace
from matchmaker.classad.values import Value
from matchmaker.classad.walks import weight
from matchmaker.linting import FORMATS as LINTED
from matchmaker.linting import lint
from matchmaker.linting.model import place_ad, place_expr
from matchmaker.pilots.wire.protocol import (
    MOST_BYTES,
    Frame,
    FrameDecoder,
    FrameError,
    FrameKind,
    PeerRefusedError,
    Role,
    Token,
    TokenError,
    TokenScope,
    answer_challenge,
    challenge,
    check_proof,
    hello,
    read_token,
    sign,
    split_token,
)  # fmt: skip
from matchmaker.pilots.wire.protocol import canonical as canonical_json
from matchmaker.pilots.wire.protocol import decode as decode_frame
from matchmaker.pilots.wire.protocol import encode as encode_frame
from matchmaker.pilots.wire.protocol import signature_of as signed_by
from matchmaker.reduction import ReductionError, reduce
from tests.canonical import canonical

TRIES: Final = 3
"""How often two values may differ before that counts: clocks go on, and time limits are close."""

BRACKETED: Final = re.compile(r"[(\[{][^()\[\]{}]*[)\]}]")
"""Takes a part of a text that the parser keeps by itself."""

FEW: Final = 4
"""How many ads of an input are looked at more closely."""


def decoded(data: bytes) -> str:
    """The text of an input, as readers decode a file."""
    return data.decode("utf-8", "surrogateescape")


def read(reader: Callable[[str], Any], text: str) -> Any:
    """What a reader makes of a text; None after a ParseError, whose message must fit the text."""
    try:
        return reader(text)
    except ParseError as error:
        told(error, text)
        return None


def told(error: ParseError, text: str) -> None:
    """Checks that an error can be shown and that its place is one of the text."""
    assert str(error).startswith(error.summary()), "the summary comes first"
    assert error.message, "an error says what is wrong"
    lines = text.split("\n")
    if "\r" in text:
        # In XML a carriage return ends a line.
        assert 0 <= error.line <= len(lines) + text.count("\r")
        return
    assert 0 <= error.line <= len(lines), f"line {error.line} of {len(lines)}"
    if error.line:
        length = len(lines[error.line - 1])
        assert 0 <= error.column <= length + 1, f"column {error.column} of {length}"


# --- text and trees -------------------------------------------------------------------------------


def parser(data: bytes) -> None:
    """Expressions and ads: what is printed reads back as the same tree, and old lines alike."""
    text = decoded(data)
    node = read(parse_expr, text)
    if node is not None:
        looked_at(node)
        assert place_expr(text).node is node, "places are those of the same tree"
    ad = read(parse_ad_expr, text)
    if ad is not None:
        looked_at(ad)
        assert place_ad(text).node is ad, "places are those of the same tree"

    # Readers have found bytes that are no UTF-8 before.
    if text == data.decode("utf-8", "replace"):
        quick = read(lambda whole: list(parse_ads(whole, "old")), text)
        slow = read(
            lambda whole: list(_read_lines(whole.removeprefix("\ufeff").split("\n"), 1)), text
        )
        assert quick == slow, "both tiers read old lines alike"
        assert [list(ad) for ad in quick or ()] == [list(ad) for ad in slow or ()], "names alike"


def syntax(data: bytes) -> None:
    """The fast parser takes nothing but what the grammar takes, and reads it alike."""
    text = decoded(data)
    for part in BRACKETED.findall(text):
        parsed(part)
    node = parsed(text)
    ad = ad_in(text)
    if node is not None:
        assert parsing.by_grammar(text, "expression") is node, "both read an expression alike"
    if ad is not None:
        wanted = mm.ClassAd.from_expression(parsing.by_grammar(text, "ad"))
        assert ad == wanted, "both read an ad alike"
        assert list(ad) == list(wanted), "both spell its names alike"
        assert isinstance(node, AdExpr), "an ad is an expression, too"


def looked_at(node: Expr) -> None:
    """Checks what every tree must stand: printing, reading back, walks."""
    assert parse_again(node) is node, "what is printed reads back as the same tree"
    assert weight(node) >= 1
    node.references()
    repr(node)


def parse_again(node: Expr) -> Expr:
    """The tree of a tree's text."""
    return parse_expr(str(node))


# --- files ----------------------------------------------------------------------------------------


class Trickle(io.RawIOBase):
    """A file that gives a few bytes at a time, so that everything is cut somewhere."""

    def __init__(self, data: bytes) -> None:
        self._data = io.BytesIO(data)
        # Large files in larger pieces, for reading them by the byte takes its time.
        self._most = 1 + crc32(data) % 7 + len(data) // 64

    def read(self, size: int = -1, /) -> bytes:
        """At most as many bytes as the file gives at once."""
        return self._data.read(self._most if size < 0 else min(size, self._most))


def reader(name: str, data: bytes) -> None:
    """A file in a format, told or not: what is wrong is reported, what is read can be written."""
    text = decoded(data)
    ads: list[mm.ClassAd] = []
    for form in ("auto", name):
        wrong: list[ParseError] = []
        found = list(parse_ads(text, form, errors="report", report=wrong.append))
        for error in wrong:
            told(error, text)
        strictly(text, form, found, wrong)
        again: list[ParseError] = []
        file = cast("IO[bytes]", Trickle(data))
        trickled = list(read_ads(file, form, errors="report", report=again.append))
        assert trickled == found, f"{form}: the same ads however the stream is cut"
        places = [[(e.line, e.column) for e in errors] for errors in (again, wrong)]
        assert places[0] == places[1], f"{form}: the same errors however the stream is cut"
        ads += [ad for ad in found[:FEW] if ad not in ads]
    for ad in ads:
        written(ad)


def strictly(text: str, form: str, found: list[mm.ClassAd], wrong: list[ParseError]) -> None:
    """Checks that without a report the first error is raised, and before it the same ads come."""
    reader = parse_ads(text, form)
    ads: list[mm.ClassAd] = []
    try:
        ads.extend(reader)
    except ParseError as error:
        told(error, text)
        assert wrong, f"{form}: an error that is raised is also reported"
    else:
        assert not wrong, f"{form}: an error that is reported is also raised"
        assert ads == found, form


def written(ad: mm.ClassAd) -> None:
    """Checks that an ad reads back equal from every format that can hold it."""
    for form in FORMATS:
        try:
            text = dumps(ad, form)
        except ValueError as error:
            if "deep" not in str(error):
                raise
            continue
        again = parse_ad(text, form)
        assert again == ad, f"{form}: reads back equal"
        assert list(again) == list(ad), f"{form}: spelled alike and in the same order"


def ldif(data: bytes) -> None:
    """Dumps of information systems: nothing is an error; queues become ads that can be written."""
    site = glue.read_ldif(io.BytesIO(data))
    assert all(str(issue) for issue in site.issues)
    for ad in islice(site.computing_elements(), FEW):
        written(ad)


def systems(data: bytes) -> None:
    """Documents of information systems: refused with a reason, or read as queues."""
    try:
        site = glue.read(io.BytesIO(data), max_size=1 << 20)
    except ValueError as error:
        assert str(error), "a refusal has a reason"  # noqa: PT017 - it may be read too
        return
    assert all(str(issue) for issue in site.issues)
    if not site.computing_elements():
        return
    for ad in islice(broker.merged({"a": site, "b": site}, accept_partial=True), FEW):
        written(ad)
        assert all("\n" not in line for line in broker.grid_lines(mm.ClassAd(), ad))


# --- values ---------------------------------------------------------------------------------------


def evaluator(data: bytes) -> None:
    """An ad, or two that meet: both forms of evaluation agree, and values can be written."""
    text = decoded(data)
    node = read(parse_expr, text)
    if node is not None:
        evaluated(node, None, None)
    ads = whole_ads(text)
    mine, target = next(ads, None), next(ads, None)
    if mine is None:
        return
    for name in islice(mine, 16):
        evaluated(mine.expr(name), mine, target)
        shown(seeded(partial(mine.eval, name, target=target)))
    if target is not None:
        found = mm.match(mine, target)
        assert found.matched == (found.left is True and found.right is True)
        assert all(str(clause) for clause in mm.clauses(mine, target))


def whole_ads(text: str) -> Iterator[mm.ClassAd]:
    """The ads of a text in the new format or, failing that, in the old one."""
    form = "new" if text.lstrip().startswith("[") else "old"
    return parse_ads(text, form, errors="report", report=lambda _: None)


def evaluated(node: Expr, my: mm.ClassAd | None, target: mm.ClassAd | None) -> None:
    """Checks that an expression has one value, watched, by reference and as a function."""
    for tried in range(TRIES):
        watched = seeded(lambda: trace(node, my, target).value)
        others = [seeded(lambda: node.eval(my, target)) for _ in range(3)]
        if all(canonical(other) == canonical(watched) for other in others):
            break
        assert tried + 1 < TRIES, f"{node} has one value, not {[watched, *others]!r}"
    shown(seeded(lambda: node.eval(my, target)))


def seeded(evaluate: Callable[[], Value | None]) -> Value | None:
    """A value, with the same chance each time, functions made at once, and little time."""
    random.seed(0)
    with patch.object(evaluation, "COMPILE_AFTER", 2), patch.object(Budget, "seconds", 0.02):
        return evaluate()


def shown(value: Value | None) -> None:
    """Checks that a value can be written as an expression that has it."""
    node = literal(value)
    if node.depth <= DEEPEST:
        assert parse_again(node) is node, "a value reads back as itself"
    repr(value)


DEEPEST: Final = 190
"""Values may nest as deep as evaluation lets them; what is read back may not."""


def linter(data: bytes) -> None:
    """Any text can be linted, as anything; each finding stands somewhere in the text."""
    text = decoded(data)
    lines = text.split("\n")
    for form in ("auto", *LINTED):
        for found in lint(text, format=form):
            assert found.message
            assert 1 <= found.line <= found.end_line <= len(lines), found
            assert 1 <= found.column <= len(lines[found.line - 1]) + 1, found
            assert 1 <= found.end_column <= len(lines[found.end_line - 1]) + 1, found
            assert found.raw in text, found


# --- reduction ------------------------------------------------------------------------------------


def reduction(data: bytes) -> None:
    """A job, a queue and hosts: the residual is true of a host exactly when the requirement is."""
    ads = list(islice(whole_ads(decoded(data)), 4))
    if len(ads) < 2:
        return
    job, queue, *hosts = ads
    try:
        reduced = reduce(job, queue, scope)
    except ReductionError:
        return
    assert reduced.explain()
    assert parse_again(reduced.residual) is reduced.residual
    for host in hosts:
        plain = mm.ClassAd(
            (n, e) for n, e in host.items() if scope(n) == "host" and isinstance(e, Literal)
        )
        met = mm.ClassAd((n, e) for n, e in queue.items() if scope(n) != "host")
        met.update(plain)
        wanted, given = (
            job.eval("Requirements", target=met),
            reduced.residual.eval(job, target=plain),
        )
        if "Requirements" in job:
            assert (truth(wanted) is True) == (truth(given) is True), reduced.explain()


def scope(name: str) -> str:
    """Whether an attribute is one of a host's own: here those named so."""
    return "host" if name.lower().startswith("host") else "policy"


def frames(data: bytes) -> None:
    """Frames of the pilot protocol: the same from any cut, and what is read can be sent again."""
    whole, cut = FrameDecoder(MOST_BYTES), FrameDecoder(MOST_BYTES)
    whole.feed(data)
    place = crc32(data) % (len(data) + 1)
    cut.feed(data[:place])
    first = _frames(cut)
    cut.feed(data[place:])
    found = _frames(whole)
    if first[-1:] != [None]:
        first += _frames(cut)
    assert first == found
    for frame in found:
        if frame is not None and len(canonical_json(frame.fields)) < MOST_BYTES - 100:
            assert decode_frame(encode_frame(frame.kind, **frame.fields)[4:]) == frame


def _frames(decoder: FrameDecoder) -> list[Frame | None]:
    """The frames that are whole; None last where what follows is no frame."""
    came: list[Frame | None] = []
    try:
        while (frame := decoder.next()) is not None:
            came.append(frame)
    except FrameError:
        came.append(None)
    return came


def greeting(data: bytes) -> None:
    """The greeting: who does not know a token's signature is refused, whatever it says."""
    key = b"k" * 32
    token = Token(subject="a", scope=TokenScope.CLIENT, pool="p", id="1", ends=1e11)
    signed = sign(key, token)
    for text in (decoded(data), signed[: len(data)] + decoded(data)):
        try:
            said, signature = split_token(text)
            assert read_token(said) is not None
            assert signature != signed_by(key, said) or text.strip() == signed
        except TokenError:
            pass
    try:
        frame = decode_frame(data)
    except FrameError:
        return
    fields = dict(frame.fields)
    if frame.kind is FrameKind.HELLO:
        for token_text in (fields["token"], split_token(signed)[0]):
            said_now = {**fields, "token": token_text}
            try:
                answer, greeted = challenge(
                    said_now, key, "m" * 32, pool="p", now=0.0, revoked=frozenset()
                )
            except (PeerRefusedError, FrameError):
                continue
            assert greeted.version in said_now["versions"]
            try:
                check_proof(greeted, str(fields.get("proof", answer["proof"])))
            except PeerRefusedError:
                continue
            raise AssertionError("who knows no signature was let in")
    elif frame.kind is FrameKind.CHALLENGE:
        try:
            answer_challenge(signed, hello(signed, Role.CLIENT, "n" * 32), frame)
        except PeerRefusedError:
            return
        raise AssertionError("who knows no signature was taken for the binder")


TARGETS: Final[Mapping[str, Callable[[bytes], None]]] = {
    "parser": parser,
    "syntax": syntax,
    **{form: partial(reader, form) for form in FORMATS},
    "evaluator": evaluator,
    "linter": linter,
    "ldif": ldif,
    "systems": systems,
    "reduction": reduction,
    "frames": frames,
    "greeting": greeting,
}
