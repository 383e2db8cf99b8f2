"""A byte order mark, as Windows puts before a text, changes nothing in any file that is read."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from matchmaker import ClassAd, dumps, parse_ad, parse_ads, parse_expr
from matchmaker.classad.formats import FORMATS
from tests.cli.conftest import EXAMPLES, Run

pytestmark = pytest.mark.slow

MARK = b"\xef\xbb\xbf"
COMMANDS = [
    "convert job.jdl --to old",
    "convert - --to json",
    "eval Requirements --ad job.jdl --target node.ad",
    "eval",
    "lint job.jdl --target nodes.ad",
    "lint -",
    "match job.jdl nodes.ad",
    "explain job.jdl nodes.ad",
    "assign job.jdl --pool nodes.ad",
    "ces --ldif site.ldif",
    "ces --ldif packed.gz",
    "reduce job.jdl --ce atlfarm006.ad",
    "flags job.jdl --ce atlfarm006.ad --lrms slurm --nodes nodes.ad --mapping site.toml",
    "nodes --lrms torque --saved torque-nodes.xml",
    "broker job.jdl --ldif site.ldif --ce atlfarm006.ad --at 2005-10-03T15:05:00Z",
]
NODE = b'Name = "n"\nGlueHostMainMemoryRAMSize = 5\n'
GIVEN = {"convert": '[ a = "x" ]', "eval": "1 + 1\n", "lint": "[ a = b ]"}


def site(folder: Path, mark: bytes) -> Path:
    """A folder with the examples, each behind a mark."""
    folder.mkdir()
    texts = {path.name: path.read_bytes() for path in EXAMPLES.iterdir() if path.is_file()}
    texts |= {"node.ad": NODE, "site.toml": b'others = "same"\n'}
    for name, text in texts.items():
        (folder / name).write_bytes(mark + text)
    (folder / "packed.gz").write_bytes(gzip.compress(mark + texts["site.ldif"]))
    return folder


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_passes_over_it(
    classad: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    words = command.split()
    given = GIVEN.get(words[0], "") if words == ["eval"] or "-" in words else ""
    found = []
    for name, mark in (("plain", b""), ("marked", MARK)):
        monkeypatch.chdir(site(tmp_path / name, mark))
        found.append(classad(*words, stdin=mark.decode() + given))
    assert found[0] == found[1]
    assert found[0].status < 2, found[0]


@pytest.mark.parametrize("form", FORMATS)
def test_every_format_is_read_behind_it(form: str) -> None:
    ad = ClassAd(a=1, b="x")
    text = "\ufeff" + dumps(ad, form)
    assert parse_ad(text, form) == parse_ad(text) == ad
    assert list(parse_ads(text, form)) == [ad]


def test_an_expression_is_read_behind_it() -> None:
    assert parse_expr("\ufeffa + 1") is parse_expr("a + 1")
