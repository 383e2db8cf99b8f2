"""Assignments to ads: how ``name = value`` is read, from a line or from between brackets.

An assignment that was met before is one look-up in a bounded table. Any other is cut at its sign:
an integer, a plain string or a real is read as it stands, anything else by ``parser``. What is no
assignment to a plain name raises MissError: the reader of the format decides, with the grammar.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

from matchmaker.classad.ad import ClassAd, spelling_of
from matchmaker.classad.cache import ENTRY, Kept
from matchmaker.classad.footprint import NODE
from matchmaker.classad.lexer import NAME, REAL, SPACES, inside_of, pieces_of
from matchmaker.classad.limits import LIMITS
from matchmaker.classad.nodes import Literal
from matchmaker.classad.parser import MissError, parsed, parsed_ad

Assignment: TypeAlias = "tuple[str, Any] | tuple[str, Any, str]"
"""A folded name and what an ad holds for it; third a spelling that is not the name's first one."""


class Assignments(Kept[Assignment]):
    """What assignments say, by their texts. `convert` makes an expression's text one of the syntax.

    >>> Assignments("some", 1 << 20, str)["Cpus = 4"]
    ('cpus', 4)
    """

    __slots__ = ("_convert",)

    def __init__(self, name: str, most: int, convert: Callable[[str], str]) -> None:
        super().__init__(name, most)
        self._convert = convert

    def __missing__(self, text: str) -> Assignment:
        """Reads an assignment that was not met before. Raises MissError."""
        head, _, rest = text.partition("=")
        rest = rest.strip(SPACES)
        name = _names.get(head) or _name(head)
        found: Assignment
        # Most values are of these kinds. This takes half the time of one pattern for all of them,
        # and a third of what `keep` would.
        if not text.isascii() or len(text) > _LONG or not isinstance(name, str):
            found = self._read(name, rest)
            return self.keep(text, found, len(rest) * NODE // 8)
        if rest.isdecimal() and rest[0] != "0" and len(rest) < _DIGITS:
            found = name, int(rest)
        elif (
            rest[:1] == '"'
            and rest.find('"', 1) == len(rest) - 1
            and "\\" not in rest
            and "\0" not in rest
        ):
            found = name, rest[1:-1]
        elif REAL(rest):
            found = name, float(rest)
        else:
            found = self._read(name, rest)
            return self.keep(text, found, len(rest) * NODE // 8)
        self.bytes += _PLAIN + 2 * len(text)
        if self.bytes > self.most:
            self.forget()
        self[text] = found
        return found

    def _read(self, name: str | tuple[str, str], text: str) -> Assignment:
        node = parsed(self._convert(text))
        # What stands in an ad is one deeper.
        if node is None or node.depth >= LIMITS.nesting:
            raise MissError
        value: Any = node.value if type(node) is Literal else node
        return (name[0], value, name[1]) if isinstance(name, tuple) else (name, value)


_LONG: Final = 500
_PLAIN: Final = ENTRY + 150
"""Bytes of an entry with a plain value, beside twice its text: two tuples' and strings' heads."""
_DIGITS: Final = 19
"""Integers of fewer digits fit 64 bits."""

_names: Final[Kept[str | tuple[str, str]]] = Kept("names before signs", 1 << 21)
"""Of the texts before the signs of assignments: the folded name, and an unusual spelling of it."""


def _name(head: str) -> str | tuple[str, str]:
    name = head.strip(SPACES)
    if NAME(name) is None:
        raise MissError
    folded, *unusual = spelling_of(name)
    return _names.keep(head, (folded, name) if unusual else folded)


def ad_of(texts: Sequence[str], read: Assignments) -> ClassAd:
    """The ad of the texts of assignments. Raises MissError.

    >>> print(ad_of(["a = 1", "b=a+1"], Assignments("some", 1 << 20, str)))
    [ a = 1; b = a + 1 ]
    """
    found: list[Any] = list(map(read.__getitem__, texts))
    try:
        return ClassAd._of(dict(found))
    except ValueError:
        # One of three: a name that other ads spell otherwise.
        held = {each[0]: each[1] for each in found}
        # Of a name that comes twice the first spelling counts.
        names = {each[0]: each[2] if len(each) > 2 else "" for each in reversed(found)}
        return ClassAd._of(held, {folded: name for folded, name in names.items() if name})


def _split(inside: str) -> list[str]:
    """The pieces between semicolons: right if each is an assignment and there are no comments."""
    if not inside:
        return []
    return inside.split(";") if "//" not in inside and "/*" not in inside else [""]


_CUTS: Final = (_split, pieces_of)
"""Ways to cut assignments, the fastest first: it serves if no string or inner ad has semicolons."""


def ad_in(text: str) -> ClassAd | None:
    """The ad of a text in brackets, None if only the grammar may take it."""
    if len(text) > LIMITS.text:
        return None
    inside = inside_of(text)
    if inside is not None:
        for cut in _CUTS:
            try:
                return ad_of(cut(inside), _pieces)
            except MissError:
                pass
    node = parsed_ad(text)
    return ClassAd.from_expression(node) if node is not None else None


_pieces: Final = Assignments("assignments in brackets", 1 << 22, str)
