from __future__ import annotations

import re
from pathlib import Path

from matchmaker.glue.issues import ERRORS, NOTES, issue, lines

ROOT = Path(__file__).resolve().parents[2]
KINDS = "access|ldif|ldap|document|typed|clean|link|osg|source|system|publish"
TEXTS = [path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py")]
NAMED = {rule for text in TEXTS for rule in re.findall(rf'"((?:{KINDS})\.[a-z0-9-]+)"', text)}


def test_what_is_an_error_or_a_note_is_what_some_part_reports() -> None:
    assert ERRORS | NOTES <= NAMED
    assert not ERRORS & NOTES


def test_the_same_finding_on_300_entries_is_one_line() -> None:
    found = [
        issue("clean.placeholder", "a placeholder", n, f"GlueCEUniqueID=q{n},o=grid",
              attribute="GlueCEInfoDataDir", raw="unset" if n % 2 else "none")
        for n in range(1, 301)
    ]  # fmt: skip
    [line] = lines(found)
    assert line == (
        "clean.placeholder: a placeholder: GlueCEInfoDataDir='unset', 'none'"
        " (300 entries, e.g. q1, q2, q3)"
    )
    other = issue("clean.placeholder", "a placeholder", 9, "o=grid", attribute="X", raw="unset")
    assert lines([other, *found]) == [str(other), line]
    assert lines([*found, *found])[0].endswith("(600 times in 300 entries, e.g. q1, q2, q3)")
    assert lines([found[0]] * 14)[0].endswith("GlueCEInfoDataDir='unset' (14 times in q1)")
    assert lines([issue("ldif.no-colon", "no colon", n, raw=str(n)) for n in (4, 9)]) == [
        "ldif.no-colon: no colon: '4', '9' (2 lines: line 4, line 9)"
    ]
    assert lines([issue("source.duplicate", "twice", raw=raw) for raw in "abcde"]) == [
        "source.duplicate: twice: 'a', 'b', 'c', … (5 times)"
    ]


def test_the_guide_names_every_kind_of_rule() -> None:
    guide = (ROOT / "docs" / "glue.md").read_text(encoding="utf-8")
    assert {rule.partition(".")[0] for rule in NAMED} == set(KINDS.split("|"))
    for kind in KINDS.split("|"):
        assert f"`{kind}." in guide
    for rule in NAMED:
        if rule.startswith(("clean.", "publish.")) and rule != "clean.colour":  # an example's
            assert f"`{rule}`" in guide
