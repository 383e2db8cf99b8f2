"""A rule about regular expressions that are written in the text: whether they are ones."""

from __future__ import annotations

from collections.abc import Iterator

from matchmaker.classad.functions.patterns import broken
from matchmaker.classad.nodes import Call
from matchmaker.classad.pcre import expanded
from matchmaker.classad.registry import Trait, traits_of
from matchmaker.linting.kinds import Facts
from matchmaker.linting.known import Known
from matchmaker.linting.limits import LIMITS
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
