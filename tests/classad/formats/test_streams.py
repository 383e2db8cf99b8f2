"""Streams of any length are read and written in constant memory."""

from __future__ import annotations

import gc
import io
import tracemalloc
from collections.abc import Iterator
from itertools import chain, islice, repeat

import pytest

from matchmaker import ParseError, dumps, parse_ad, read_ads, write_ads
from matchmaker._limits import CLASSAD_LIMITS as LIMITS
from matchmaker.classad.formats import FORMATS
from tests.limits import fields

pytestmark = pytest.mark.slow

SIZE = 12_000_000
LITTLE = 8_000_000

AD = parse_ad(
    '[ Name = "slot1@wn1"; Cpus = 8; Load = 0.5; Tags = { "el9", "gpu" }; In = [ a = 1 ];'
    ' Start = TARGET.Owner == "ana" && Load < 0.9; Text = "' + "lorem ipsum " * 2500 + '" ]'
)


class Generated(io.RawIOBase):
    """A file whose bytes are made as they are read, and kept nowhere."""

    def __init__(self, parts: Iterator[str]) -> None:
        self.parts = parts
        self.held = b""
        self.given = 0

    def read(self, size: int = -1, /) -> bytes:
        while len(self.held) < size:
            part = next(self.parts, None)
            if part is None:
                break
            self.held += part.encode()
        data, self.held = self.held[:size], self.held[size:]
        self.given += len(data)
        return data


def stream(format_: str, text: str, size: int = SIZE) -> Generated:
    """A stream as HTCondor's tools write it."""
    before, between, after = {
        "new": ("{\n", ",\n", "\n}\n"),
        "old": ("", "\n\n", "\n"),
        "json": ("[\n", "\n,\n", "\n]\n"),
        "xml": ("<classads>\n", "\n", "</classads>\n"),
    }[format_]
    count = size // (len(text) + len(between))
    rest = chain.from_iterable(repeat((between, text), count - 1))
    return Generated(chain([before, text], rest, [after]))


def ad_text(format_: str) -> str:
    text = dumps(AD, format_)
    if format_ == "xml":
        text = text[text.index("<c>") : text.rindex("</classads>")].strip()
    return text


@pytest.fixture(scope="module")
def _settled() -> Iterator[None]:
    """Takes what other tests left out of the garbage collector's sight: looking takes long."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture
def _traced(_settled: None) -> Iterator[None]:
    tracemalloc.start()
    yield
    tracemalloc.stop()


def length(ads: Iterator[object]) -> int:
    return sum(1 for _ in ads)


def most_memory() -> int:
    return tracemalloc.get_traced_memory()[1]


def test_a_text_in_place_of_a_path_is_named() -> None:
    with pytest.raises(ValueError, match=r"a path has no null byte: 'a.*'; parse_ads\(\) reads"):
        list(read_ads("a\0b"))


@pytest.mark.usefixtures("_traced")
@pytest.mark.parametrize("format_", FORMATS)
@pytest.mark.parametrize("chosen", ["auto", "report"])
def test_reading_takes_little_memory(format_: str, chosen: str) -> None:
    file = stream(format_, ad_text(format_))
    wrong: list[ParseError] = []
    if chosen == "auto":
        ads = read_ads(file)  # type: ignore[arg-type]
    else:
        ads = read_ads(file, errors="report", report=wrong.append)  # type: ignore[arg-type]
    count = 0
    for ad in ads:
        assert ad == AD
        count += 1
    assert count > SIZE // 40_000
    assert file.given > 0.9 * SIZE
    assert wrong == []
    assert most_memory() < LITTLE


@pytest.mark.usefixtures("_traced")
@pytest.mark.parametrize("format_", ["old", "new"])
def test_ads_that_all_differ_take_little_memory(format_: str) -> None:
    between = "\n\n" if format_ == "old" else "\n"
    form = 'Name = "slot{0}"\nNumber = {0}\nText = "{1}"' if format_ == "old" else (
        '[ Name = "slot{0}"; Number = {0}; Text = "{1}" ]'
    )  # fmt: skip
    file = Generated(form.format(i, "x" * 400) + between for i in range(20_000))
    assert length(read_ads(file)) == 20_000  # type: ignore[arg-type]
    # Recent lines and values are remembered, up to a bound.
    assert most_memory() < 4 * LITTLE


@pytest.mark.usefixtures("_traced")
def test_a_list_on_one_line_takes_little_memory() -> None:
    file = Generated(chain(["{"], islice(repeat("[ a = { [ b = 1 ] } ],"), 5_000), ["[ a = ]}"]))
    ads = read_ads(file)  # type: ignore[arg-type]
    assert len(list(islice(ads, 5_000))) == 5_000
    with pytest.raises(ParseError) as caught:
        next(ads)
    assert (caught.value.line, caught.value.column) == (1, 1 + 5_000 * 22 + 7)
    assert len(str(caught.value)) < 500
    assert most_memory() < LITTLE


@pytest.mark.usefixtures("_traced")
def test_old_ads_with_other_line_ends_take_little_memory() -> None:
    line = "Name = " + '"' + "x" * 400 + '"'
    for end in ("\r\n\r\n", "\n \n"):
        file = Generated(repeat_text(line + end, 20_000))
        assert length(read_ads(file, "old")) == 20_000  # type: ignore[arg-type]
    assert most_memory() < LITTLE


def repeat_text(text: str, count: int) -> Iterator[str]:
    return islice(repeat(text), count)


@pytest.mark.parametrize("format_", FORMATS)
def test_an_ad_without_end_is_an_error_and_not_kept_for_ever(
    format_: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(fields(LIMITS), "text", 1 << 21)
    begin, more = {
        "new": ("[ a = {", "1, " * 1000),
        "old": ("", "a = 1\n" * 1000),
        "json": ('{"a": [', "1, " * 1000),
        "xml": ('<c><a n="x"><l>', "<i>1</i>" * 1000),
    }[format_]
    file = Generated(chain([begin], repeat_text(more, 5_000)))
    with pytest.raises(ParseError):
        list(read_ads(file, format_))  # type: ignore[arg-type]
    # The bound is one of characters, in XML with what each element takes.
    assert file.given < 6_000_000


@pytest.mark.usefixtures("_traced")
@pytest.mark.parametrize("format_", FORMATS)
def test_writing_takes_little_memory(format_: str) -> None:
    class Nowhere(io.StringIO):
        def write(self, text: str, /) -> int:
            return len(text)

    assert write_ads(repeat(AD, 60), Nowhere(), format_) == 60
    assert most_memory() < 60 * len(dumps(AD, format_)) // 2
