from __future__ import annotations

import re
from pathlib import Path

from matchmaker.glue.issues import ERRORS, NOTES

ROOT = Path(__file__).resolve().parents[2]
KINDS = "access|ldif|ldap|document|typed|clean|link|osg|source|system|publish"
TEXTS = [path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py")]
NAMED = {rule for text in TEXTS for rule in re.findall(rf'"((?:{KINDS})\.[a-z0-9-]+)"', text)}


def test_what_is_an_error_or_a_note_is_what_some_part_reports() -> None:
    assert ERRORS | NOTES <= NAMED
    assert not ERRORS & NOTES


def test_the_guide_names_every_kind_of_rule() -> None:
    guide = (ROOT / "docs" / "glue.md").read_text(encoding="utf-8")
    assert {rule.partition(".")[0] for rule in NAMED} == set(KINDS.split("|"))
    for kind in KINDS.split("|"):
        assert f"`{kind}." in guide
    for rule in NAMED:
        if rule.startswith(("clean.", "publish.")) and rule != "clean.colour":  # an example's
            assert f"`{rule}`" in guide
