"""Cross-checks: values of one entry that cannot all be true. They are doubted, and left.

EGI's glue-validator checks the same for GLUE 2.0; a finding has its code beside ours. What they
compare is in ``schemas/glue/rules.toml``; `entries` has the rules that change values.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Final

from matchmaker.glue.clean.case import HEPSPEC, HS06, OTHER, SI00, TABLES, Case, EntryRule
from matchmaker.glue.clean.texts import UNLIMITED
from matchmaker.glue.records import texts

AT_MOST: Final = tuple((small, large, code) for small, large, code in TABLES["at_most"])
SUMS: Final = tuple(
    (total, tuple(facts["of"]), facts["code"]) for total, facts in TABLES["sums"].items()
)
MAIL: Final[Mapping[str, str]] = TABLES["mail"]

_ADDRESS: Final = re.compile(
    r"(?:mailto:)?\s{0,9}[^\s@:]{1,200}@[\w-]{1,80}(?:\.[\w-]{1,80}){1,10}(?:\?\S{0,500})?\s{0,9}"
)


def _said(text: str, code: str) -> str:
    return f"{text} (glue-validator {code})" if code else text


@cache
def _first() -> Mapping[str, tuple[tuple[str, str], ...]]:
    """The comparisons of `AT_MOST` by the attribute that must be the smaller."""
    made: dict[str, tuple[tuple[str, str], ...]] = {}
    for small, large, code in AT_MOST:
        made[small] = (*made.get(small, ()), (large, code))
    return made


def order(case: Case) -> None:
    """A lower bound above its upper one, or more of a part than of the whole."""
    for name in case.values.keys() & _first().keys():
        number = case.number(name)
        if number is None:
            continue
        for large, code in _first()[name]:
            other = case.number(large)
            if other is not None and UNLIMITED not in (number, other) and number > other:
                case.doubt(name, _said(f"it is above {large}, which is {other}", code))


def sums(case: Case) -> None:
    """A total of jobs unlike what it is the sum of, by more than a tenth."""
    for name, parts, code in SUMS:
        total = case.number(name)
        known = [number for part in parts if (number := case.number(part)) is not None]
        if total is None or not known or (len(known) < 2 and sum(known) <= total):
            continue
        if abs(sum(known) - total) > total / 10:
            case.doubt(name, _said(f"its parts make {sum(known)}", code))


def speeds(case: Case) -> None:
    """SI00 and HEP-SPEC06 that differ by more than a tenth, at 250 SI00 a HEP-SPEC06."""
    number, text = case.number(SI00), case.values.get(OTHER)
    if not number or not isinstance(text, str) or SI00 not in case.raw:
        return
    if found := HEPSPEC.search(text[:1000]):
        score = float(found[1]) * HS06
        if abs(score - number) > number / 10:
            case.doubt(SI00, f"{found[1]} HEP-SPEC06 beside it are {score:g}")


def mail(case: Case) -> None:
    """A malformed address of mail."""
    for name in case.values.keys() & MAIL.keys():
        for text in texts(case.values.get(name)):
            # A contact of GLUE 2.0 may be the address of a page.
            page = name == "GLUE2ContactDetail" and text.startswith(("http:", "https:"))
            parts = re.split("[;,]", text[:10_000])
            if not page and not all(map(_ADDRESS.fullmatch, parts)):
                case.say(name, text, _said("expected is mailto:name@host", MAIL[name]))


CHECKS: Final = (
    EntryRule("clean.order", "doubtful", order),
    EntryRule("clean.sum", "doubtful total", sums),
    EntryRule("clean.speed", "doubtful", speeds),
    EntryRule("clean.mail", "no address of mail", mail),
)
"""The cross-checks."""
