from __future__ import annotations

import base64
import io
import re
import time
import tracemalloc
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from matchmaker._limits import GLUE_LIMITS as LIMITS
from matchmaker.glue.issues import Issue
from matchmaker.glue.readers import ldif
from matchmaker.glue.readers.ldif import Attributes, Entry, LdifBlocks, Source, read_entries
from tests.limits import fields

pytestmark = pytest.mark.slow

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "site.ldif"


def read(source: Source) -> tuple[list[Entry], list[Issue]]:
    issues: list[Issue] = []
    return list(read_entries(source, issues.append)), issues


def rules(issues: Iterable[Issue]) -> list[str]:
    return [issue.rule for issue in issues]


def one(*lines: str) -> tuple[dict[str, tuple[str, ...]], list[str]]:
    """The attributes of the only entry, and the rules that spoke."""
    entries, issues = read(["dn: o=grid", *lines])
    assert [entry.dn for entry in entries] == ["o=grid"]
    return dict(entries[0].attributes), rules(issues)


def test_sound_ldif_gives_no_issue() -> None:
    text = (
        "version: 1\n# a comment\n#  folded\n  on\ndn: o=gr\n id\nobjectClass: a\nobjectClass: b\n"
        "description:: w6k=\nempty:\nspaced:    x \n\n\n\ndn:: bz1iw6k=\na;lang-en: 1\n"
    )
    entries, issues = read(io.BytesIO(text.encode()))
    assert issues == []
    assert [(e.dn, e.line) for e in entries] == [("o=grid", 5), ("o=bé", 15)]
    assert dict(entries[0].attributes) == {
        "objectClass": ("a", "b"),
        "description": ("é",),
        "empty": ("",),
        "spaced": ("x ",),
    }
    assert dict(entries[1].attributes) == {"a;lang-en": ("1",)}


def test_every_kind_of_source_gives_the_same(tmp_path: Path) -> None:
    text = "dn: o=a\nb: é\n\ndn: o=c\nd: 2\n"
    path = tmp_path / "x.ldif"
    path.write_text(text, encoding="utf-8")
    expected = read(path)
    assert rules(expected[1]) == []
    crlf = text.replace("\n", "\r\n").encode()
    sources: list[Source] = [
        str(path),
        io.StringIO(text),
        io.BytesIO(text.encode()),
        io.BytesIO(crlf),
        io.BytesIO(b"\xef\xbb\xbf" + crlf),
        text.splitlines(),
        text.splitlines(keepends=True),
        text.encode().splitlines(),
    ]
    for source in sources:
        assert read(source) == expected
    with path.open(encoding="utf-8") as file:
        assert read(file) == expected


def test_bytes_are_refused_and_missing_files_raise(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="BytesIO"):
        read(b"dn: o=grid")  # type: ignore[arg-type]
    with pytest.raises(FileNotFoundError):
        read(tmp_path / "no.ldif")


def test_missing_newline_is_mended() -> None:
    assert one("GlueCEPolicyPriority: 1GlueCEStateStatus: Production") == (
        {"GlueCEPolicyPriority": ("1",), "GlueCEStateStatus": ("Production",)},
        ["ldif.missing-newline"],
    )


def test_several_pairs_on_a_line() -> None:
    found, said = one("GlueCEName: a b GlueCEStateFreeCPUs: 7 GlueCEInfoDataDir:: L2E=")
    assert found == {
        "GlueCEName": ("a b",),
        "GlueCEStateFreeCPUs": ("7",),
        "GlueCEInfoDataDir": ("/a",),
    }
    assert said == ["ldif.missing-newline"] * 2


def test_missing_newline_after_the_name_of_an_entry() -> None:
    entries, issues = read(["dn: GlueCEUniqueID=a,o=gridobjectClass: GlueCE"])
    assert entries[0].dn == "GlueCEUniqueID=a,o=grid"
    assert dict(entries[0].attributes) == {"objectClass": ("GlueCE",)}
    assert rules(issues) == ["ldif.missing-newline"]


@pytest.mark.parametrize(
    "value",
    ["GlueClusterUniqueID=ce.lyon.grid", "http://h:80/GlueFoo:1", "VOMS:/a/Role=b", "a: b: c"],
)
def test_what_looks_like_a_pair_and_is_none_stays_whole(value: str) -> None:
    assert one(f"GlueForeignKey: {value}") == ({"GlueForeignKey": (value,)}, [])


def test_trailing_comma_in_the_name() -> None:
    entries, issues = read(["dn: o=grid, ,", "", "dn: o=a\\,"])
    assert [entry.dn for entry in entries] == ["o=grid", "o=a\\,"]
    assert rules(issues) == ["ldif.dn-comma"]
    assert issues[0].raw == "o=grid, ,"


@pytest.mark.parametrize(
    ("line", "rule"),
    [
        ("no colon here", "ldif.no-colon"),
        ("two words: 1", "ldif.bad-name"),
        (": 1", "ldif.bad-name"),
        ("a:: !!!", "ldif.base64"),
        ("a:: Zm9vY", "ldif.base64"),
        ("a:< file:///etc/passwd", "ldif.url"),
    ],
)
def test_skipped_lines_are_reported_with_their_place(line: str, rule: str) -> None:
    entries, issues = read(["dn: o=grid", "b: 1", line, "c: 2"])
    assert list(entries[0].attributes) == ["b", "c"]
    assert [(issue.rule, issue.line, issue.dn) for issue in issues] == [(rule, 3, "o=grid")]
    assert line.partition(":")[2].lstrip(":< ") in issues[0].raw or issues[0].raw == line


def test_padding_of_base64_is_mended() -> None:
    assert one("a:: Zm9vYg") == ({"a": ("foob",)}, ["ldif.base64"])


def test_latin_1() -> None:
    entries, issues = read([b"dn: o=grid", b"a: caf\xe9", b"b:: " + base64.b64encode(b"\xe9")])
    assert dict(entries[0].attributes) == {"a": ("café",), "b": ("é",)}
    assert rules(issues) == ["ldif.encoding"] * 2


def test_a_character_folded_in_the_middle_is_joined_before_decoding() -> None:
    entries, issues = read(io.BytesIO(b"dn: o=grid\na: caf\xc3\n \xa9\n"))
    assert dict(entries[0].attributes) == {"a": ("café",)}
    assert issues == []


def test_lines_that_belong_to_no_entry() -> None:
    entries, issues = read(["a: 1", " folded", "", " nothing to continue", "", "other: 2"])
    assert entries == []
    assert rules(issues) == ["ldif.no-dn", "ldif.folding", "ldif.no-dn"]


def test_an_entry_without_an_empty_line_before_it() -> None:
    entries, issues = read(["dn: o=a", "x: 1", "dn: o=b", "x: 2"])
    assert [(e.dn, e.attributes["x"]) for e in entries] == [("o=a", ("1",)), ("o=b", ("2",))]
    assert rules(issues) == ["ldif.missing-blank"]


def test_changes_are_no_entries() -> None:
    lines = ["dn: o=a", "changetype: delete", "", "dn: o=b", "changetype: add", "x: 1"]
    entries, issues = read(lines)
    assert [entry.dn for entry in entries] == ["o=b"]
    assert rules(issues) == ["ldif.change"]


def test_empty_name_is_no_entry() -> None:
    entries, issues = read(["dn:", "x: 1"])
    assert entries == []
    assert rules(issues) == ["ldif.no-dn"]


def test_long_lines_are_skipped_without_being_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(fields(LIMITS), "line", 100)
    text = "dn: o=grid\nlong: " + "x" * 950 + "\nfolded: y\n" + " z" * 1 + "\n z" * 300 + "\nb: 2\n"
    for source in (io.BytesIO(text.encode()), io.StringIO(text), text.split("\n")):
        entries, issues = read(source)
        assert dict(entries[0].attributes) == {"b": ("2",)}
        assert rules(issues) == ["ldif.line-limit"] * 2


def test_large_entries_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(fields(LIMITS), "entry", 100)
    entries, issues = read(["dn: o=grid", *[f"a: {n:020}" for n in range(50)], "", "dn: o=b"])
    assert len(entries[0].attributes["a"]) == 4
    assert entries[1].dn == "o=b"
    assert rules(issues) == ["ldif.entry-limit"]


def test_values_of_an_entry_are_limited_both_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(fields(LIMITS), "values", 100)
    lines = ["dn: o=grid", *["a: b"] * 500, "", "dn: o=b"]
    for source in (lines, io.StringIO("\n".join(lines))):
        entries, issues = read(source)
        assert [entry.dn for entry in entries] == ["o=grid", "o=b"]
        assert len(entries[0].attributes["a"]) == 100
        assert rules(issues) == ["ldif.entry-limit"]


@pytest.mark.parametrize(
    "line",
    [
        "a: " + "Glue" * 250_000,
        "a: " + "GlueCEName:" * 90_000,
        "a: " + "GlueCEName: 1 " * 70_000,
        "dn: " + "," * 900_000 + "x",
        "a:: " + "=" * 900_000,
        "a" * 900_000,
    ],
)
def test_hostile_lines_take_no_time(line: str) -> None:
    start = time.perf_counter()
    _, issues = read(["dn: o=grid", line])
    assert time.perf_counter() - start < 5
    assert sum(len(issue.raw) for issue in issues) < 100_000


def test_attributes_are_looked_up_in_any_case() -> None:
    found = Attributes([("GlueCEName", "a"), ("gluecename", "b")])
    assert found["GLUECENAME"] == ("a", "b")
    assert "glueCEname" in found
    assert found == Attributes([("GLUECENAME", "a"), ("GlueCEName", "b")])
    assert found != Attributes()
    assert found != {}
    assert found.get("other") is None


def test_the_example_holds_the_defects_it_promises() -> None:
    entries, issues = read(EXAMPLE)
    assert len(entries) == 68
    assert sorted(rules(issues)) == [
        "ldif.base64",
        "ldif.dn-comma",
        "ldif.missing-newline",
        "ldif.missing-newline",
        "ldif.missing-newline",
        "ldif.no-colon",
        "ldif.url",
    ]
    site = next(e for e in entries if e.dn.startswith("GlueSiteUniqueID=LYON"))
    assert site.attributes["GlueSiteDescription"] == ("Centre de calcul, fermé le lundi matin",)


# What makes trouble, in any order.
PIECES = st.sampled_from(
    [
        *("\n", "\r\n", "\n\n", "\r", " ", "\t", "#", ":", "::", ":<", ",", "\\", "=", "\x00"),
        *("dn: o=grid", "dn:: bz1h", "DN:o=b,", "version: 1", "changetype: delete"),
        *("GlueCEName: x", "GlueCEStateStatus:", "objectClass: GlueCE", "é", "\udce9", "YQ=="),
    ]
)
NOISE = st.one_of(
    st.binary(max_size=300),
    st.lists(PIECES, max_size=60).map(lambda p: "".join(p).encode("utf-8", "surrogateescape")),
    st.lists(st.one_of(PIECES, st.text(max_size=5)), max_size=40).map(
        lambda p: "\n".join(p).encode("utf-8", "replace")
    ),
)


@given(NOISE)
def test_any_bytes_give_entries_and_issues_and_nothing_made_up(data: bytes) -> None:
    entries, issues = read(io.BytesIO(data))
    unfolded = re.sub(rb"\r?\n[ \t]", b"", data)
    names = re.findall(rb"(?im)^(?:\xef\xbb\xbf)?dn[ \t\f\v\r]*:", unfolded)
    assert len(entries) <= len(names)
    plain = unfolded.decode("utf-8", "replace") + unfolded.decode("latin-1")
    coded = "::" in plain
    for entry in entries:
        assert entry.dn
        assert 1 <= entry.line <= data.count(b"\n") + 1
        assert coded or entry.dn in plain
        for name, values in entry.attributes.items():
            assert name in plain
            assert coded or all(value in plain for value in values)
    for issue in issues:
        assert issue.rule.startswith("ldif.")
        assert issue.message
        assert str(issue)


NAMES = st.from_regex(r"\A[A-Za-z][A-Za-z0-9-]{0,20}\Z").filter(
    lambda name: name.lower() not in {"dn", "changetype", "version"}
)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=120)
ENTRIES = st.lists(
    st.tuples(
        TEXTS.map(str.strip).filter(lambda dn: dn and dn == dn.rstrip(", \t")),
        st.lists(st.tuples(NAMES, TEXTS), min_size=1, max_size=6),
    ),
    max_size=5,
)


def written(entries: list[tuple[str, list[tuple[str, str]]]], width: int, end: str) -> bytes:
    """LDIF by the book: base64 throughout, folded at any width."""
    lines = []
    for dn, pairs in entries:
        for name, value in [("dn", dn), *pairs]:
            line = f"{name}:: {base64.b64encode(value.encode()).decode()}"
            lines.append(line[:width])
            lines += [" " + line[i : i + width - 1] for i in range(width, len(line), width - 1)]
        lines.append("")
    return end.join(lines).encode()


@given(ENTRIES, st.integers(2, 90), st.sampled_from(["\n", "\r\n"]))
def test_what_is_written_by_the_book_is_read_back(
    entries: list[tuple[str, list[tuple[str, str]]]], width: int, end: str
) -> None:
    found, issues = read(io.BytesIO(written(entries, width, end)))
    assert issues == []
    assert [(e.dn, e.attributes) for e in found] == [(dn, Attributes(p)) for dn, p in entries]


PIECES = st.sampled_from(
    [
        *(
            "dn: o=grid",
            "dn: GlueCEUniqueID=a,o=grid",
            "dn:: bz1ncmlk",
            "DN: o=x",
            "dn: o=x,",
            "dn: ",
        ),
        *("GlueCEName: q", "gluecename: r", "GlueCEName:: cQ==", "GlueCEName:s", "GlueCEName:  t"),
        *("GlueCEName: a: b", "GlueCEName: GlueCEInfoHostName", "GlueCEName: ", "GlueCEName:"),
        *("GlueCEName: qGlueCEStateFreeCPUs: 7", "GlueCEName: qGlueCEStateFreeCPUs:7"),
        *("GlueCEName: x:8443/y", "GlueCEName: objectClass: GlueCE", "objectClass: GlueCE"),
        *("GlueCEName: GlueNoSuch: 7", "GlueCEName\0: x", "GlueCEName: \0", "GlueCEName\0"),
        *(
            " folded",
            " : folded",
            "  twice",
            "\tfolded",
            "# comment",
            "version: 1",
            "changetype: add",
        ),
        *(
            "stray",
            "",
            "",
            "\r",
            "GlueCEName: caf\u00e9",
            "GlueCEName;lang-en: x",
            "1.2.3: x",
            "a b: c",
        ),
        *("GlueCEName:< file:///etc/passwd", "x" * 70, "\ufeffdn: o=bom", "-", ": ", ":"),
        *("\x0bdn: o=x", "dn: o=x\x1c", "dn: \x0co=x", "o: a\x0bb\x0cc\x1cd\x1de\x1ef\x85g\u2028h"),
        *("o\x0b: x", "o: \x1c", "o\x85: x", "o: x\rdn: o=y", "o:\x0bx", "o: \t", "GlueCEName"),
    ]
)


@settings(max_examples=400)
@given(st.lists(PIECES, max_size=14), st.sampled_from(["\n", "\r\n"]), st.integers(1, 50))
def test_both_halves_of_the_reader_agree(lines: list[str], end: str, size: int) -> None:
    """Entries taken in one go are what they are line by line, wherever the file is cut."""
    agree(end.join(["dn: o=first", "o: first", "", *lines]).encode(), size)


# What str.splitlines and str.strip take for ends and space, and what means something here.
ODD = [b"\n", b"\n\n", b"\r", b"\r\n", b"\x0b", b"\x0c", b"\x1c", b"\x1d", b"\x1e", b"\x85"]
ODD += [
    b"\xc2\x85",
    b"\xe2\x80\xa8",
    b"\xc2\xa0",
    b" ",
    b"\t",
    b":",
    b": ",
    b"::",
    b"#",
    b",",
    b"\0",
]
ODD += [b"dn: ", b"dn: o=a\n", b"\n\ndn: o=b\n", b"\no: x", b"\nGlueCEName: q", b"GlueCEName", b"o"]


@settings(max_examples=300)
@given(
    st.one_of(st.lists(st.sampled_from(ODD), max_size=25).map(b"".join), st.binary(max_size=200)),
    st.integers(1, 50),
)
def test_both_halves_agree_on_any_bytes(data: bytes, size: int) -> None:
    agree(b"dn: o=first\no: first" + data, size)


def agree(data: bytes, size: int) -> None:
    """Holds the reader of a file, whole and in pieces of a size, to what it makes of its lines."""
    by_line: list[Issue] = []
    expected = list(read_entries(data.split(b"\n"), by_line.append))
    rest = [data]

    class Drops:
        """A file that gives a few bytes at a time."""

        def read(self, _: int) -> bytes:
            piece, rest[0] = rest[0][:size], rest[0][size:]
            return piece

    for source in (io.BytesIO(data), Drops()):
        issues: list[Issue] = []
        found = list(read_entries(source, issues.append))  # type: ignore[arg-type]
        assert found == expected
        assert [list(e.attributes) for e in found] == [list(e.attributes) for e in expected]
        assert issues == by_line


class Again:
    """A file of one piece over and over, up to a size."""

    def __init__(self, piece: bytes, size: int) -> None:
        self.piece = piece
        self.left = size // len(piece) * len(piece)
        self.more = b""

    def read(self, size: int) -> bytes:
        while len(self.more) < size:
            self.more += self.piece * (1 + size // len(self.piece))
        given = self.more[: min(size, self.left)]
        self.left -= len(given)
        self.more = self.more[len(given) :]
        return given


ENTRY = b"objectClass: GlueCE\nGlueCEName: " + b"x" * 500 + b"\n\n"
SEARCHED = b"# GlueCEUniqueID=a, grid\ndn: GlueCEUniqueID=a,o=grid\n"


@pytest.mark.parametrize(
    ("piece", "entries"),
    [
        (b"dn: GlueCEUniqueID=a,o=grid\n" + ENTRY, True),
        (SEARCHED + ENTRY, True),  # as ldapsearch prints them
        ((SEARCHED + ENTRY).replace(b"\n", b"\r\n"), True),
        (b"\ndn:: bz1ncmlk\n" + ENTRY, True),
        (b"dn: o=grid\n" + b"GlueCEName:: eA==\n" * 20 + b"\n", True),
        (b"GlueCEName: " + b"y" * 600 + b"\n", False),
        (b"\n\nx", False),
        (b"ab\n", False),
        (b"\n", False),
        (b"\r\n", False),
        (b" ", False),
        (b"# a comment\n", False),
        (b"z" * 1000, False),
    ],
)
def test_memory_does_not_grow_with_the_file(
    piece: bytes, entries: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file larger than the bound, read with limits in proportion."""
    monkeypatch.setitem(fields(LIMITS), "line", 1 << 11)
    monkeypatch.setattr(ldif, "CHUNK", 1 << 9)
    size = 120_000
    file: Any = Again(piece, size)
    # What is made once, at the first entry, is not the file's.
    once: Any = Again(piece, 2 * len(piece))
    for _ in read_entries(once, lambda issue: None):
        pass
    tracemalloc.start()
    found = len([None for _ in read_entries(file, lambda issue: None)])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found == (size // len(piece) if entries else 0)
    assert peak < 100_000


@pytest.mark.parametrize("piece", [b"\n\nx", b"a: b\n\n", b"dn: o=a\no: a\n\n", b"a\n", b" "])
def test_work_grows_with_the_file_alone(piece: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """A block or a line is made of each byte, whatever the file: little is gone over again."""
    monkeypatch.setitem(fields(LIMITS), "line", 1000)
    monkeypatch.setattr(ldif, "CHUNK", 100)
    size, handled = 100_000, 0
    cut = LdifBlocks(Again(piece, size).read)
    more = cut._more

    def counted() -> bytes:
        nonlocal handled
        data = more()
        handled += len(data) + len(cut._rest)  # which are joined and split
        return data

    monkeypatch.setattr(cut, "_more", counted)
    for block in cut:
        if not isinstance(block, bytes):
            for _ in block:
                pass
    assert handled < 12 * size
