"""HTCondor is told a whole ClassAd expression, in the words of its own pool.

A clause is carried as it is, with the host's attributes as ``TARGET.Name``, under the names that
the mapping has for them. It is written for a submit file, which has rules of its own for quotes,
backslashes and what looks like a macro; a clause that they cannot write is left out, and named.
"""

from __future__ import annotations

import re
from typing import Final

import attrs

from matchmaker.batch.clauses import Dropped
from matchmaker.batch.mapping import Mapping
from matchmaker.classad.formats.old import old_text
from matchmaker.classad.nodes import (
    TARGET_SCOPES,
    Attr,
    Expr,
    children,
    conjunction,
    conjuncts,
    postorder,
    rebuild,
    scope_of,
)
from matchmaker.classad.quoting import unparse_name
from matchmaker.classad.unparse import unparse

_TARGET = Attr(None, "TARGET", False)


@attrs.frozen(slots=True)
class Expression:
    """The clauses that the pool has the attributes for, in its names, and those it has not."""

    carried: Expr
    dropped: tuple[Dropped, ...]


def expression(condition: Expr, table: Mapping) -> Expression:
    """A condition on hosts in the names of a pool.

    >>> from matchmaker import parse_expr
    >>> from matchmaker.batch import load_mapping
    >>> wanted = parse_expr("other.GlueHostMainMemoryRAMSize > 5 && other.X is 3")
    >>> found = expression(wanted, load_mapping("htcondor"))
    >>> print(found.carried), found.dropped[0].reason
    TARGET.DetectedMemory > 5
    (None, 'no attribute of the pool for X')
    """
    carried: list[Expr] = []
    dropped: list[Dropped] = []
    open_macro = False
    for clause in conjuncts(condition):
        missing = _missing(clause, table)
        if missing:
            dropped.append(Dropped(clause, f"no attribute of the pool for {missing}"))
            continue
        renamed = _renamed(clause, table)
        try:
            text = _plain_text(renamed)
        except ValueError as error:
            dropped.append(Dropped(clause, str(error)))
            continue
        if open_macro and "$" in text:
            dropped.append(Dropped(clause, _WITHIN_MACRO))
        else:
            carried.append(renamed)
            open_macro = open_macro or _ends_in_macro(text)
    return Expression(conjunction(carried), tuple(dropped))


def submit_text(node: Expr) -> str:
    r"""An expression as the value of a line in a submit file.

    ``condor_submit`` reads texts in the manner of old ClassAds, where a backslash is one but for
    that before a quote. It replaces what looks like a macro, so ``$`` is written as ``$(DOLLAR)``.
    Some texts are refused. It reads what it has put in once more, so that a function such as
    ``$INT(`` hides any ``$(DOLLAR)`` up to its closing parenthesis; ``$$(...)`` is replaced when a
    machine is found; and ``$(DOLLAR)`` itself cannot be written.

    Raises ValueError for what cannot be written.

    >>> from matchmaker import parse_expr
    >>> submit_text(parse_expr('TARGET.Os == "$(HOME)"'))
    'TARGET.Os == "$(DOLLAR)(HOME)"'
    >>> print(submit_text(parse_expr(r'regexp("^el\\d", TARGET.Os)')))
    regexp("^el\d", TARGET.Os)
    >>> submit_text(parse_expr('TARGET.Os != "$INT(" && TARGET.Tag == "$x"'))
    Traceback (most recent call last):
    ...
    ValueError: a submit file cannot carry a $ within what looks like a macro
    """
    return _plain_text(node).replace("$", "$(DOLLAR)")


_WITHIN_MACRO: Final = "a submit file cannot carry a $ within what looks like a macro"
_MACRO: Final = re.compile(r"\$[^\s\"()$]*\(|[()$]")


def _plain_text(node: Expr) -> str:
    """An expression as old text that a submit file can carry once each ``$`` is quoted."""
    for part in postorder(node):
        if isinstance(part, Attr) and unparse_name(part.name) != part.name:
            raise ValueError("a submit file cannot carry a name that is no plain word")
    # condor_submit sets it in brackets: no backslash stands at the end, which would be another.
    text = old_text(f"({unparse(node)})")[1:-1]
    if not text.isprintable():
        raise ValueError("it holds characters that no submit file can carry")
    if "$$" in text or "$(dollar" in text.lower():
        raise ValueError("a submit file cannot carry $$ and $(DOLLAR) but as macros")
    _ends_in_macro(text)
    return text


def _ends_in_macro(text: str) -> bool:
    """Whether a text ends within what looks like a macro. Raises ValueError for a ``$`` in one."""
    depth = 0
    for match in _MACRO.finditer(text):
        sign = match.group()
        if depth and sign[0] == "$":
            raise ValueError(_WITHIN_MACRO)
        if depth:
            depth += 1 if sign == "(" else -1
        elif sign[0] == "$" and sign[-1] == "(":
            depth = 1
    return depth > 0


def _missing(clause: Expr, table: Mapping) -> str:
    """The first attribute of hosts in a clause that the pool does not have."""
    if table.others == "same":
        return ""
    for node in postorder(clause):
        if not isinstance(node, Attr) or node.folded in table.rules:
            continue
        if scope_of(node) in TARGET_SCOPES:
            return node.name
    return ""


def _renamed(clause: Expr, table: Mapping) -> Expr:
    made: dict[Expr, Expr] = {}
    for node in postorder(clause):
        if isinstance(node, Attr) and scope_of(node) in TARGET_SCOPES:
            rule = table.rules.get(node.folded)
            made[node] = Attr(_TARGET, rule.name if rule else node.name, False)
        else:
            made[node] = rebuild(node, tuple(made[part] for part in children(node)))
    return made[clause]
