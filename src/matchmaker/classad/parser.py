"""The way from text to an expression or an ad in brackets.

The fast parser (``scanner``, ``climbing``) takes what it can. The rest goes to the grammar,
``classad.lark``, which defines the syntax, decides, and alone reports errors: with line, column,
what was expected and a hint. A property and a fuzz target hold both equal. Whole files and streams
are read in ``formats``.
"""

from __future__ import annotations

import re
from typing import Any, Final

from matchmaker.classad.cache import Cache
from matchmaker.classad.climbing import DepthError, MissError, expression_of
from matchmaker.classad.deferred import Deferred
from matchmaker.classad.errors import ParseError
from matchmaker.classad.footprint import size_of_text
from matchmaker.classad.limits import LIMITS
from matchmaker.classad.nodes import AdExpr, Expr, Literal
from matchmaker.classad.scanner import begins_ad, is_common
from matchmaker.classad.stack import with_room

_SPAN: Final = re.compile(
    r"""//[^\n]*+|/\*.*?\*/|'(?:[^'\\]|\\.)*+'|("(?:[^"\\]|\\.)*+")""", re.DOTALL
)
"""What a quote may stand in: comments, quoted names, and strings as group 1."""


def _outside(text: str) -> int:
    """The characters outside of strings, if there may be too many."""
    if len(text) <= LIMITS.syntax:
        return 0
    return len(text) - sum(len(span[1] or "") for span in _SPAN.finditer(text))


_known: Final[Cache[str, Expr]] = Cache("expressions by text", 1 << 24)


def parse_expr(text: str) -> Expr:
    """Reads one expression.

    The same text gives the same object. Raises ParseError with line, column, a caret, what was
    expected and a hint. (HTCondor manual, "ClassAd Syntax"; the grammar is classad.lark.)

    >>> str(parse_expr("Cpus*2 >= (Want)"))
    'Cpus * 2 >= Want'
    """
    if not isinstance(text, str):
        raise TypeError(f"text was expected, not {type(text).__name__}")
    known = _known[text]
    return _keep(text, read(text)) if known is None else known


def value_of(text: str) -> Any:
    """What an ad holds for the text of an expression; None if only the grammar may take it.

    Mostly an expression is read when it is looked at. A text that comes again is read, once for
    all ads that have it.

    >>> value_of("undefined"), value_of("a+1"), value_of("a+")
    (UNDEFINED, Expr('a + 1'), None)
    """
    new = _SHORTEST <= len(text) <= LIMITS.syntax and _comes_first(text)
    return Deferred(text) if new and _many() and is_common(text) else read_value(text)


def value_of_common(text: str) -> Any:
    """The same for what is known to be an expression by its form."""
    new = len(text) >= _SHORTEST and _comes_first(text)
    return Deferred(text) if new else read_value(text)


def read_value(text: str) -> Any:
    """The same, never deferred."""
    node = _known[text]
    if node is None:
        node = parsed(text)
        if node is None:
            return None
        _keep(text, node)
    return node.value if node.__class__ is Literal else node


_SHORTEST: Final = 12
"""What is shorter is read at once: mostly it is a word, and comes again."""

_MANY: Final = 1000
_new: Final = iter(range(_MANY))


def _many() -> bool:
    """Whether there are enough expressions that making the pattern that knows them is less work."""
    return next(_new, _MANY) == _MANY


_met: Final = [0] * (1 << 13)
"""Marks of texts that came last; two may share a place, so that one is not known to come again."""


def _comes_first(text: str) -> bool:
    mark = hash(text)
    place = mark % len(_met)
    first = _met[place] != mark
    _met[place] = mark
    return first


def parse_value(text: str) -> Any:
    """The same by the grammar where it must be, and never deferred. Raises ParseError.

    >>> parse_value("a + 1"), parse_value("true")
    (Expr('a + 1'), True)
    """
    node = parse_expr(text)
    return node.value if type(node) is Literal else node


def _keep(text: str, node: Expr) -> Expr:
    return _known.put(text, node, size_of_text(text))


def read(text: str) -> Expr:
    """The expression of a text that was not met before. Raises ParseError."""
    node = parsed(text)
    return by_grammar(text, "expression") if node is None else node


def parse_ad_expr(text: str) -> AdExpr:
    """Reads one ad in brackets as a node; ParseError as in :func:`parse_expr`."""
    if not isinstance(text, str):
        raise TypeError(f"text was expected, not {type(text).__name__}")
    node = parsed_ad(text)
    return by_grammar(text, "ad") if node is None else node


def by_grammar(text: str, start: str) -> Any:
    """What a text denotes by a rule of the grammar, `expression` or `ad`. Raises ParseError."""
    if len(text) > LIMITS.text:
        raise ParseError(f"{len(text)} characters in one piece, at most {LIMITS.text} are allowed")
    outside = _outside(text)
    if outside > LIMITS.syntax:
        raise ParseError(
            f"{outside} characters outside of strings in one piece,"
            f" at most {LIMITS.syntax} are allowed",
            hint="give the parts names of their own",
        )
    if _is_too_deep(text):
        raise ParseError(f"nested more than {LIMITS.nesting} deep", hint=_INSTEAD)
    from matchmaker.classad.grammar import parse

    tree: Any = parse(text, start)
    if tree.depth > LIMITS.nesting:
        raise ParseError(
            f"nested {tree.depth} deep, at most {LIMITS.nesting} is allowed", hint=_INSTEAD
        )
    return tree


_INSTEAD: Final = "give the inner parts names of their own"


def _is_too_deep(text: str) -> bool:
    """Whether a text nests so deep that the grammar would take its time to find that."""
    try:
        with_room(expression_of, text)
    except (DepthError, RecursionError):
        return True
    except MissError:
        return False
    return False


def parsed(text: str) -> Expr | None:
    """The expression of a text, None if the fast parser does not take it."""
    if len(text) > LIMITS.syntax and (len(text) > LIMITS.text or _outside(text) > LIMITS.syntax):
        return None
    try:
        node = with_room(expression_of, text)
    except (MissError, RecursionError):
        return None
    return node if node.depth <= LIMITS.nesting else None


def parsed_ad(text: str) -> AdExpr | None:
    """The ad of a text, None if the fast parser does not take it."""
    node = parsed(text) if begins_ad(text) else None
    return node if isinstance(node, AdExpr) else None
