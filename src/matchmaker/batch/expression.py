"""HTCondor is told a whole ClassAd expression, in the words of its own pool.

A clause is carried as it is, with the host's attributes as ``TARGET.Name``, under the names that
the mapping has for them. It is written for a submit file, which has rules of its own for quotes,
backslashes and what looks like a macro; a clause that they cannot write is left out, and named.
"""

from __future__ import annotations

import attrs

from matchmaker.batch.mapping import Mapping
from matchmaker.batch.told import Dropped
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
    for clause in conjuncts(condition):
        missing = _missing(clause, table)
        if missing:
            dropped.append(Dropped(clause, f"no attribute of the pool for {missing}"))
            continue
        renamed = _renamed(clause, table)
        try:
            submit_text(renamed)
        except ValueError as error:
            dropped.append(Dropped(clause, str(error)))
        else:
            carried.append(renamed)
    return Expression(conjunction(carried), tuple(dropped))


def submit_text(node: Expr) -> str:
    r"""An expression as the value of a line in a submit file.

    ``condor_submit`` reads texts in the manner of old ClassAds, where a backslash is one but for
    that before a quote. ``$`` is written as the macro for it, since what looks like a macro would
    be replaced; two of them are refused, since ``$$(...)`` is replaced once more when a machine is
    found, and so is that macro itself.

    Raises ValueError for what cannot be written.

    >>> from matchmaker import parse_expr
    >>> submit_text(parse_expr('TARGET.Os == "$(HOME)"'))
    'TARGET.Os == "$(DOLLAR)(HOME)"'
    >>> print(submit_text(parse_expr(r'regexp("^el\\d", TARGET.Os)')))
    regexp("^el\d", TARGET.Os)
    """
    for part in postorder(node):
        if isinstance(part, Attr) and unparse_name(part.name) != part.name:
            raise ValueError("a submit file cannot carry a name that is no plain word")
    # condor_submit sets it in brackets: no backslash stands at the end, which would be another.
    text = old_text(f"({unparse(node)})")[1:-1]
    if not text.isprintable():
        raise ValueError("it holds characters that no submit file can carry")
    if "$$" in text or "$(dollar" in text.lower():
        raise ValueError("a submit file cannot carry $$ and $(DOLLAR) but as macros")
    return text.replace("$", "$(DOLLAR)")


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
