"""Rules about regular expressions that are written in the text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from matchmaker._limits import LINT_LIMITS as LIMITS
from matchmaker.classad.functions import Trait, traits_of
from matchmaker.classad.functions.patterns import broken, expanded
from matchmaker.classad.nodes import Call, Literal
from matchmaker.linting.kinds import Facts
from matchmaker.linting.known import Known
from matchmaker.linting.model import Report, Site


def broken_pattern(site: Site, facts: Facts, known: Known) -> Iterator[Report]:
    """``regexp("(", x)``: a pattern that none can read."""
    node = site.place.node
    if not isinstance(node, Call) or not node.arguments:
        return
    if Trait.PATTERN not in traits_of(node.function, len(node.arguments)):
        return
    place = site.place.parts[0]
    pattern = facts[place].value
    if not isinstance(pattern, str) or len(pattern) > LIMITS.pattern:
        return
    if expanded(pattern) <= LIMITS.pattern and (reason := broken(pattern)):
        yield site.report(f"{node.function}() with this is always an error: {reason}", at=place)


# Escapes of a regular expression that a string does not keep: an unknown escape stands for its
# character, \b is a backspace there, and a digit begins an octal number.
_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)
_LOST: Final = re.compile(r"[A-Zbdhpswzx1-9.^$*+?()\[\]{}|]")


def lost_backslash(site: Site, facts: Facts, known: Known) -> Iterator[Report]:
    r"""``regexp("\d+", x)``: the pattern is ``d+``, because a string knows no escape ``\d``."""
    node = site.place.node
    if not isinstance(node, Call) or not node.arguments:
        return
    if Trait.PATTERN not in traits_of(node.function, len(node.arguments)):
        return
    place = site.place.parts[0]
    if not isinstance(place.node, Literal) or not isinstance(place.node.value, str):
        return
    text = site.piece.text[place.start : place.end]
    lost = [found[0] for found in _ESCAPE.finditer(text) if _LOST.fullmatch(found[1])]
    if lost:
        fix = _ESCAPE.sub(lambda found: "\\" * bool(_LOST.fullmatch(found[1])) + found[0], text)
        one = lost[0]
        meant = {"b": "a backspace"}.get(one[1], "a character" if one[1].isdecimal() else one[1])
        yield site.report(
            f"in a string {one} is {meant}: a pattern's backslash is written twice", fix, at=place
        )
