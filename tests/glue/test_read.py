from __future__ import annotations

import gzip
import io
import socket
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from matchmaker import glue
from matchmaker._limits import GLUE_LIMITS as LIMITS
from matchmaker.classad import UNDEFINED
from matchmaker.glue import issues
from tests.limits import fields

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "site.ldif"


def test_the_shortest_dump(tmp_path: Path) -> None:
    path = tmp_path / "x.ldif"
    path.write_text(
        "dn: GlueCEUniqueID=h:1/jm-pbs-q,o=grid\nobjectClass: GlueCE\n"
        "GlueCEUniqueID: h:1/jm-pbs-q\nGlueCEStateFreeCPUs: 7\nGlueCEStateStatus: Production\n"
        "GlueCEStateWaitingJobs: 444444\nGlueForeignKey: GlueClusterUniqueID=h\n\n",
        encoding="utf-8",
    )
    found = glue.read_ldif(str(path))
    [ad] = found.computing_elements()
    assert ad.eval("GlueCEStateFreeCPUs") == 7
    assert ad.eval("GlueCEStateWaitingJobs") is UNDEFINED
    assert [(issue.rule, issue.raw, issue.line) for issue in found.issues] == [
        ("clean.default-number", "444444", 1),
        ("link.elsewhere", "GlueClusterUniqueID=h", 1),
        ("access.none", "h:1/jm-pbs-q", 1),
    ]


def test_a_size_that_is_no_number_is_refused() -> None:
    with pytest.raises(TypeError, match="max_size is a number of bytes, such as 2 << 30, not '2G'"):
        glue.read_ldif([], max_size="2G")  # type: ignore[arg-type]


def test_rules_can_be_switched(tmp_path: Path) -> None:
    rules = glue.DEFAULT_RULES - {"clean.default-number", "clean.no-dynamic-information"}
    raw = glue.read_ldif(EXAMPLE, rules=rules)
    checks = {"clean.order", "clean.sum"}  # which numbers that mean "not known" may fail
    assert {issue.rule for issue in raw.issues} <= checks | {
        issue.rule for issue in glue.read_ldif(EXAMPLE).issues
    }
    free = [ad.eval("GlueCEStateFreeCPUs") for ad in raw.computing_elements()]
    assert 444444 in free
    with pytest.raises(ValueError, match="no cleaning rule"):
        glue.read_ldif(EXAMPLE, rules=["no such rule"])


def test_the_example_is_as_large_as_promised() -> None:
    found = glue.read_ldif(EXAMPLE)
    assert len(found.snapshot.sites) == 4
    assert len(found.snapshot.clusters) == 7
    assert len(found.snapshot.computing_elements) == 17
    assert {ad.eval("LRMSType") for ad in found.computing_elements()} == {
        *("slurm", "lsf", "sge", "pbs")
    }


@given(st.data())
def test_a_damaged_dump_never_raises(data: st.DataObject) -> None:
    """Bytes of the example removed, doubled and changed: fewer or other facts, never an error."""
    whole = EXAMPLE.read_bytes()
    start = data.draw(st.integers(0, len(whole) - 1))
    part = bytearray(whole[start : start + 6000])
    for _ in range(data.draw(st.integers(0, 12))):
        place = data.draw(st.integers(0, len(part)))
        length = data.draw(st.integers(0, 40))
        part[place : place + length] = data.draw(st.binary(max_size=8))
    # What begins like gzip and is not whole is refused: see the tests of packed files.
    assume(not part.startswith(b"\x1f\x8b"))
    found = glue.read_ldif(io.BytesIO(bytes(part)))
    for ad in found.computing_elements():
        assert isinstance(ad.eval("CEid"), str)


def test_a_server_that_is_not_there() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(ConnectionError, match="LDAP search"):
        glue.read_ldap(f"ldap://127.0.0.1:{port}", timeout=2)


def test_issues_without_end_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(fields(LIMITS), "issues", 10)
    lines = ["dn: o=a", *["stray"] * 500, *["a:: !"] * 30, "b:: !!", "", "dn: o=b,"]
    found = glue.read_ldif(lines)
    assert len(found.issues) == 10 + 10 + 1 + 2
    assert issues.total(found.issues) == 500 + 31 + 1
    assert issues.tally(found.issues) == [
        ("E", "ldif.no-colon", 500),
        ("E", "ldif.base64", 31),
        ("W", "ldif.dn-comma", 1),
    ]
    assert [str(issue) for issue in found.issues[-2:]] == [
        "ldif.base64: 21 more of this rule, which were only counted",
        "ldif.no-colon: 490 more of this rule, which were only counted",
    ]


def test_issues_repeat_little_of_a_long_value() -> None:
    name = "x" * 100_000
    text = f"dn: o=a\nobjectClass: GlueCE\nGlueCEUniqueID: {name}\nGlueCEUniqueID: {name}\n"
    found = glue.read(io.BytesIO(text.encode()))
    assert [issue.rule for issue in found.issues]
    assert all(len(issue.raw) < 2000 for issue in found.issues)


def test_packed_files_are_read(tmp_path: Path) -> None:
    packed = gzip.compress(EXAMPLE.read_bytes())
    path = tmp_path / "site.ldif.gz"
    path.write_bytes(packed)
    expected = glue.read_ldif(EXAMPLE)
    for found in (glue.read(path), glue.read_ldif(path), glue.read(io.BytesIO(packed))):
        assert found.issues == expected.issues
        assert found.computing_elements() == expected.computing_elements()
    document = gzip.compress(b'{"ComputingService": {"ID": "s", "ComputingShare": {"ID": "a"}}}')
    assert len(glue.read(io.BytesIO(document)).snapshot.computing_elements) == 1


@given(st.integers(2, 2000), st.integers(0, 255))
def test_damaged_packed_files_are_refused(place: int, byte: int) -> None:
    packed = gzip.compress(EXAMPLE.read_bytes(), mtime=0)
    with pytest.raises(ValueError, match="packed by gzip"):
        glue.read(io.BytesIO(packed[:place]))
    # A byte of the header may be any; one of the rest cannot change unseen.
    damaged = packed[: place + 8] + bytes([byte]) + packed[place + 9 :]
    if damaged != packed:
        with pytest.raises(ValueError, match="packed by gzip"):
            glue.read(io.BytesIO(damaged))


def test_what_was_read_is_shown_in_a_line() -> None:
    site = glue.read_ldif(EXAMPLE)
    kinds = "4 sites, 7 clusters, 17 computing elements, 4 storage elements"
    assert repr(site) == f"<Glue: {kinds}; 52 findings>"
    assert repr(site.snapshot) == f"<GlueRecords: {kinds}>"
    with pytest.raises(KeyError, match="no queue has the CEid 'x'"):
        site.provenance("x")
