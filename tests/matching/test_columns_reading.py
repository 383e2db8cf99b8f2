"""Text that becomes rows: which ads need no reader of their own, and how assignments are cut."""

from __future__ import annotations

import io
from typing import Any

import pytest

from matchmaker import ClassAd, ParseError, Pool, read_ads
from matchmaker.matching.columns import reading
from matchmaker.matching.columns.store import RowBlock


@pytest.fixture
def read_alone(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The keys of the ads that the reader of their format had to make."""
    keys: list[str] = []
    block = reading._Reader.block

    def noted(self: Any, batch: reading.Batch) -> RowBlock:
        found = block(self, batch)
        keys.extend(key for key, _ in found.ads)
        return found

    monkeypatch.setattr(reading._Reader, "block", noted)
    return keys


OLD = 'Name = "slot{}"\nCpus = {}\nLoad = 0.5\nStart = TARGET.Cpus > {}\n{}'
NEW = '[ Name = "slot{}"; Cpus = {}; Load = 0.5; Start = TARGET.Cpus > {}; {} ]'


def check(text: str, form: str) -> list[ClassAd]:
    """The ads of a pool, which are those of the reader: names, order and kinds of values too."""
    found = list(Pool.read(io.StringIO(text), format=form))
    expected = list(read_ads(io.StringIO(text), form))
    assert [[*map(repr, ad.items())] for ad in found] == [
        [*map(repr, ad.items())] for ad in expected
    ]
    return found


@pytest.mark.parametrize(
    "line",
    ["a=1", "a  =  1 ", "A = -5", 'a = "x = y"', r'a = "say \"x\""', "a = -0.0", "cPUS2 = 1",
     "a = [ b = 1; c = 2 ]", 'a = "é"', "a = b // c", ""],
)  # fmt: skip
def test_a_line_that_is_an_assignment_is_read_with_all_others(
    line: str, read_alone: list[str]
) -> None:
    texts = [OLD.format(n, n % 3, n, f"Cpus2 = {n}\n" if n % 2 else "") for n in range(9)]
    texts[5] = OLD.format(5, 1, 5, f"{line}\n")
    assert len(check("\n".join(texts), "old")) == 9
    assert not read_alone


@pytest.mark.parametrize("line", ["# note", "cpus = 7", "'a b' = 1"])
def test_an_odd_ad_is_read_alone(line: str, read_alone: list[str]) -> None:
    texts = [OLD.format(n, n % 3, n, "") for n in range(9)]
    texts[5] = OLD.format(5, 1, 5, f"{line}\n")
    assert len(check("\n".join(texts), "old")) == 9
    assert read_alone == ["slot5"]


@pytest.mark.parametrize("line", ["a b = 1", "a =", "a", "a = 1 +", "a = 007"])
def test_an_odd_line_is_the_error_that_it_is_alone(line: str) -> None:
    text = "\n".join(OLD.format(n, n % 3, n, line if n == 5 else "") for n in range(9))
    with pytest.raises(ParseError) as expected:
        list(read_ads(io.StringIO(text), "old"))
    with pytest.raises(ParseError) as found:
        Pool.read(io.StringIO(text), format="old")
    assert str(found.value) == str(expected.value)


@pytest.mark.parametrize(
    "part",
    ['a = "x;y"', 'a = "x; Cpus = 9; y"', "a = [ b = 1; c = 2 ]", 'a = "[::1]"', "a = x[1]",
     'a = "http://x"', 'a = f("http://x;", 1)', "a=1", 'a = "# no comment"', 'a = "\n"',
     r'a = "say \"x\""', "", "A = {1, 2}"],
)  # fmt: skip
def test_an_assignment_between_brackets_is_read_with_all_others(
    part: str, read_alone: list[str]
) -> None:
    texts = [NEW.format(n, n % 3, n, "") for n in range(9)]
    texts[5] = NEW.format(5, 1, 5, part)
    assert len(check("\n".join(texts), "new")) == 9
    assert not read_alone


@pytest.mark.parametrize(
    "part",
    ["a = 5 // x; b = 2\n", "a = 5 /* ; b = 2; */", '// "x"; b = 2\n', "# x; b = 2\n", "cpus = 7",
     'a = [ b = "];"; c = "]" ]', r'a = "say \"x;\""', 'a = "["; b = "]"',
     "'a;b' = 3", "a = 'b;c' + 1", 'a = 1 /* " */; b = "//"'],
)  # fmt: skip
def test_what_may_hide_a_semicolon_is_odd(part: str, read_alone: list[str]) -> None:
    texts = [NEW.format(n, n % 3, n, "") for n in range(9)]
    texts[5] = NEW.format(5, 1, 5, part)
    assert len(check("\n".join(texts), "new")) == 9
    assert read_alone == ["slot5"]


@pytest.mark.parametrize("large", [1, 400, reading.LARGE])
def test_errors_come_in_the_order_of_the_stream(
    large: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "LARGE", large)
    texts = [NEW.format(n, n % 3, n, "") for n in range(12)]
    texts[4] = texts[4].replace("TARGET", "+ ) TARGET")
    texts[6] += "\n}"
    texts[8] = "[ Cpus = 1 ]"
    text = "\n".join(texts)

    def outcome(read: object, some: list[str]) -> object:
        try:
            return read(io.StringIO("\n".join(some)))  # type: ignore[operator]
        except (ParseError, ValueError) as error:
            return str(error)

    for begin in (0, 5, 7):
        alone = outcome(lambda file: Pool(read_ads(file, "new")), texts[begin:])
        assert isinstance(alone, str)
        assert outcome(lambda file: Pool.read(file, format="new"), texts[begin:]) == alone
    ours: list[str] = []
    theirs: list[str] = []
    texts[8] = ""
    text = "\n".join(texts)
    keys = Pool.read(
        io.StringIO(text), format="new", errors="report", report=lambda e: ours.append(str(e))
    ).keys()
    some = read_ads(
        io.StringIO(text), "new", errors="report", report=lambda e: theirs.append(str(e))
    )
    assert keys == [ad["Name"] for ad in some]
    assert ours == theirs != []
