"""Rules about operations that can only fail, comparisons that mislead, and patterns."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from matchmaker._diagnostics import WARNING
from matchmaker._limits import LINT_LIMITS as LIMITS
from matchmaker.classad.functions import BOOLEAN, NUMBER, STRING, Trait, traits_of
from matchmaker.classad.functions.patterns import broken, expanded
from matchmaker.classad.nodes import (
    Binary,
    Call,
    Expr,
    ListExpr,
    Literal,
    Subscript,
    Ternary,
    Unary,
)
from matchmaker.classad.operators import ORDER, RELATIONS
from matchmaker.classad.printer import brief
from matchmaker.classad.values import is_error, is_exceptional
from matchmaker.linting.kinds import (
    ANY,
    CONDITIONS,
    Facts,
    Kinds,
    KnownNames,
    is_zero,
    undivided,
)
from matchmaker.linting.model import (
    LintSite,
    NodePlace,
    Report,
    text_of,
    whole,
    with_doubled,
    with_operator,
)


def broken_pattern(site: LintSite, facts: Facts, known: KnownNames) -> Iterator[Report]:
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


def lost_backslash(site: LintSite, facts: Facts, known: KnownNames) -> Iterator[Report]:
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


_NUMBER: Final = re.compile(r"\s*-?(?:(?:0|[1-9]\d{0,17})|\d+\.\d+)\s*", re.ASCII)
_VERSIONS: Final = {">=": "versionGE", ">": "versionGT", "<=": "versionLE", "<": "versionLT"}


def _sides(site: LintSite, operators: frozenset[str]) -> tuple[Binary, NodePlace, NodePlace] | None:
    """The operation and its two sides, if a site is one of these operations."""
    node = site.place.node
    if not isinstance(node, Binary) or node.operator not in operators:
        return None
    left, right = site.place.parts
    return node, left, right


def _exceptional(place: NodePlace) -> bool:
    node = place.node
    return isinstance(node, Literal) and is_exceptional(node.value)


def _fails_here(site: LintSite, facts: Facts) -> bool:
    """Whether a site can only be undefined or an error, and not because a part of it is."""
    if facts[site.place].kinds or isinstance(site.place.node, Literal):
        return False
    return all(facts[part].kinds or _exceptional(part) for part in site.place.parts)


def _severity(site: LintSite, facts: Facts) -> str:
    return WARNING if facts[site.place].by_target else ""


def _kind_words(kinds: Kinds) -> str:
    if kinds == ANY:
        return "anything"
    return " or ".join(f"{'an' if kind[0] == 'a' else 'a'} {kind}" for kind in sorted(kinds))


def _quoted_number(place: NodePlace) -> str:
    """The number in a string literal that holds nothing else, or empty."""
    node = place.node
    if isinstance(node, Literal) and isinstance(node.value, str) and _NUMBER.fullmatch(node.value):
        return node.value.strip()
    return ""


def compared_with_undefined(site: LintSite, facts: Facts, known: KnownNames) -> Iterator[Report]:
    """``x == undefined`` is undefined, whatever x is; so it is with error."""
    sides = _sides(site, RELATIONS)
    if sides is None or not any(map(_exceptional, sides[1:])):
        return
    node, left, right = sides
    text = str((right if _exceptional(right) else left).node)
    word = {"==": "is", "!=": "isnt"}.get(node.operator, "")
    message = f"a comparison with {text} by {node.operator} is never true or false"
    if word:
        message += f": {word} compares with {text}"
    yield site.report(message, with_operator(site, word) if word else "")


def quoted_number(site: LintSite, facts: Facts, known: KnownNames) -> Iterator[Report]:
    """``x > "4096"``: a string, no number; and as text ``"10"`` is less than ``"9"``."""
    sides = _sides(site, RELATIONS)
    if sides is None:
        return
    node, left, right = sides
    for quoted, other in ((right, left), (left, right)):
        number = _quoted_number(quoted)
        kinds = facts[other].kinds
        if not number or not kinds or _quoted_number(other):
            continue
        text = site.piece.text
        place = site.place
        fix = text[place.start : quoted.start] + number + text[quoted.end : place.end]
        if STRING not in kinds and kinds & CONDITIONS:
            against = _kind_words(kinds & CONDITIONS)
            yield site.report(
                f'"{number}" in quotes is a string: compared with {against} it is an error',
                fix, _severity(site, facts),
            )  # fmt: skip
        elif node.operator in ORDER and kinds == ANY:
            yield site.report(
                f'"{number}" in quotes is a string: with a number it is an error, and as text'
                ' "10" is less than "9"', fix, WARNING,
            )  # fmt: skip
        elif node.operator in ORDER and kinds == {STRING} and not facts[other].is_constant:
            yield site.report(
                'strings are compared as text, where "10" is less than "9"',
                f"{_VERSIONS[node.operator]}({text_of(site, left)}, {text_of(site, right)})",
                WARNING,
            )
        return


def mismatch(site: LintSite, facts: Facts, known: KnownNames) -> Iterator[Report]:
    """A comparison of kinds that cannot be compared: always an error, as ``"x" == 1``."""
    sides = _sides(site, RELATIONS)
    if sides is None or not _fails_here(site, facts) or any(map(_exceptional, sides[1:])):
        return
    node, left, right = sides
    kinds = facts[left].kinds, facts[right].kinds
    if any(
        _quoted_number(one) and other & CONDITIONS
        for one, other in ((left, kinds[1]), (right, kinds[0]))
    ):
        return
    fix = _as_member(site, node, left, right)
    for one, other, its in ((left, right, kinds[1]), (right, left, kinds[0])):
        value = one.node.value if isinstance(one.node, Literal) else None
        instead = ""
        if isinstance(value, str) and value.lower() in ("true", "false") and BOOLEAN in its:
            instead = value.lower()
        elif _is_number(one, facts) and isinstance(one.node, Literal) and its == {STRING}:
            # Of two constants neither is right, and "10" is less than "9".
            plain = node.operator in ORDER or facts[other].is_constant
            instead = "" if plain else f'"{value}"'
        if instead:
            text, place = site.piece.text, site.place
            fix = text[place.start : one.start] + instead + text[one.end : place.end]
    two = f"{_kind_words(kinds[0])} {node.operator} {_kind_words(kinds[1])}"
    where = " with every target given" if facts[site.place].by_target else ""
    yield site.report(f"{two} is an error{where}", whole(site, fix) if fix else "",
                      _severity(site, facts))  # fmt: skip


def _as_member(site: LintSite, node: Binary, left: NodePlace, right: NodePlace) -> str:
    """``member(x, {1, 2})`` for ``x == {1, 2}``."""
    lists = [isinstance(side.node, ListExpr) for side in (left, right)]
    if node.operator not in ("==", "!=") or lists.count(True) != 1:
        return ""
    one, many = (right, left) if lists[0] else (left, right)
    fix = f"member({text_of(site, one)}, {text_of(site, many)})"
    return f"!{fix}" if node.operator == "!=" else fix


_LOGIC: Final = frozenset({"&&", "||", "!", "?:", "is", "isnt"})


def always_error(site: LintSite, facts: Facts, known: KnownNames) -> Iterator[Report]:
    """Operations that fail with their operands: ``x % 0``, ``"a" && x``, ``size(5)``.

    No function is known by name here: constant parts have been evaluated.
    """
    node = site.place.node
    if isinstance(node, Binary) and node.operator in RELATIONS:
        return
    yield from _no_condition(site, facts, node)
    if isinstance(node, Binary) and node.operator == "/" and not facts[site.place].is_constant:
        divided, divisor = (facts[part] for part in site.place.parts)
        if is_zero(divisor.value) and NUMBER in divided.kinds:
            message = "division by zero is an error, but of a negative real -INF, and of 0.0 NaN"
            yield site.report(message, "", WARNING)
    if not _fails_here(site, facts) or _is_trap(site, facts):
        return
    value = facts[site.place].value
    reason = value.reason if is_error(value) else ""
    if isinstance(node, (Call, Subscript)) and is_error(value):
        yield site.report(f"this is always an error: {reason or 'of what it is given'}")
    if not isinstance(node, (Binary, Unary)) or node.operator in _LOGIC:
        return
    if reason:
        message = f"this is always an error: {reason}"
    elif reason := undivided(node, [facts[part] for part in site.place.parts]):
        message = f"this is an error whatever value is divided: {reason}"
    elif any(map(_exceptional, site.place.parts)):
        message = f"{node.operator} with undefined or error has no other value"
    else:
        kinds = [_kind_words(facts[part].kinds) for part in site.place.parts]
        message = f"{f' {node.operator} '.join(kinds)} is an error"
        if len(kinds) == 1:
            message = f"{node.operator} of {message}"
    yield site.report(message, "", _severity(site, facts))


def _no_condition(site: LintSite, facts: Facts, node: Expr) -> Iterator[Report]:
    """A string, a list or an ad in place of a condition."""
    parts: tuple[NodePlace, ...] = ()
    if isinstance(node, (Binary, Unary)) and node.operator in ("&&", "||", "!"):
        parts = site.place.parts
    elif isinstance(node, Ternary):
        parts = site.place.parts[:1]
    for part in parts:
        kinds = facts[part].kinds
        constant = isinstance(part.node, Literal)
        if constant and is_error(facts[part].value) and isinstance(node, Unary):
            yield site.report("error is not true or false: ! of it is an error", at=part)
        if kinds and not kinds & CONDITIONS:
            value = part.node.value if isinstance(part.node, Literal) else None
            word = value.lower() if isinstance(value, str) else ""
            message = f"{_kind_words(kinds)} is not true or false: as a condition it is an error"
            fix = word if word in ("true", "false") else ""
            yield site.report(message, fix, _severity(site, facts), part)


# --- operators that are mistaken for others -------------------------------------------------------

_DOUBLED: Final = {"&": "&&", "|": "||"}


def _is_trap(site: LintSite, facts: Facts) -> bool:
    """Whether a site is ``&`` or ``|`` with a side that is true or false, which is an error."""
    sides = _sides(site, frozenset(_DOUBLED))
    return sides is not None and any(
        facts[side].kinds == {BOOLEAN} or _is_trap_place(side, facts) for side in sides[1:]
    )


def _is_trap_place(place: NodePlace, facts: Facts) -> bool:
    """Whether a part is such an operation, whose own value, mended, would be true or false."""
    while isinstance(place.node, Binary) and place.node.operator in _DOUBLED:
        if any(facts[part].kinds == {BOOLEAN} for part in place.parts):
            return True
        place = place.parts[0]
    return False


def single_operator(site: LintSite, facts: Facts, known: KnownNames) -> Iterator[Report]:
    """``a > 1 & b > 2``, an error, and ``flags & 4 == 4``, which is ``flags & (4 == 4)``."""
    sides = _sides(site, frozenset(_DOUBLED))
    if sides is None:
        return
    node, left, right = sides
    above = site.above
    if (
        above is not None and not site.place.bracketed
        and _sides(above, frozenset({node.operator})) is not None
    ):  # fmt: skip
        # A chain is one finding.
        return
    if not _is_trap(site, facts):
        return
    torn = _torn_comparison(site, facts, left, right)
    if torn:
        yield site.report(
            f"{node.operator} binds less tightly than a comparison, so that this is an error:"
            " put the bits in parentheses", whole(site, torn),
        )  # fmt: skip
        return
    yield site.report(
        f"{node.operator} works on bits, and with true or false it is an error:"
        f" use {_DOUBLED[node.operator]}",
        whole(site, with_doubled(site)),
    )


def _torn_comparison(site: LintSite, facts: Facts, left: NodePlace, right: NodePlace) -> str:
    """``(flags & 4) == 4`` for ``flags & 4 == 4``, if one side is bits."""
    text, place = site.piece.text, site.place
    for side, other in ((right, left), (left, right)):
        node = side.node
        if side.bracketed or not isinstance(node, Binary) or node.operator not in ("==", "!="):
            continue
        near = side.parts[0 if side is right else 1]
        mask = side is right and near.node.__class__ is Literal and _is_number(near, facts)
        if not _is_number(other, facts) and not (mask and NUMBER in facts[other].kinds):
            continue
        if side is right:
            return f"({text[place.start : near.outer_end]}){text[near.outer_end : place.end]}"
        return f"{text[place.start : near.outer_start]}({text[near.outer_start : place.end]})"
    return ""


def _is_number(place: NodePlace, facts: Facts) -> bool:
    return facts[place].kinds == {NUMBER}


def chained(site: LintSite, facts: Facts, known: KnownNames) -> Iterator[Report]:
    """``1 < x < 5`` compares the truth of ``1 < x`` with 5. A longer chain is one finding."""
    above = site.above
    if above is not None and not site.place.bracketed and _chain(above.place) is site.place:
        return
    links: list[NodePlace] = []
    place: NodePlace | None = site.place
    while place is not None:
        links.append(place)
        place = _chain(place)
    if len(links) < 2:
        return
    text = site.piece.text
    left, parts = links[-1], [text[links[-1].start : links[-1].end]]
    for below, link in pairwise(reversed(links)):
        parts.append(text_of(site, below.parts[1]) + text[below.end : link.end])
    yield site.report(
        f"this compares the truth of {brief(left.node, 60)}, not {brief(left.parts[1].node, 60)}",
        whole(site, " && ".join(parts)),
    )


def _chain(place: NodePlace) -> NodePlace | None:
    """The comparison that is the left side of another, without parentheses."""
    if not isinstance(place.node, Binary) or place.node.operator not in ORDER:
        return None
    left = place.parts[0]
    if left.bracketed or not isinstance(left.node, Binary) or left.node.operator not in ORDER:
        return None
    return left
