"""The one table of what stands behind the methods of expressions and ads.

Nodes and ads are imported by every module that does something with them. Their methods, such as
``Expr.eval``, call these modules through the table, so that no import goes in a circle.
"""

from __future__ import annotations

from matchmaker.classad.evaluate import evaluate, evaluate_attribute
from matchmaker.classad.nodes import METHODS
from matchmaker.classad.parser import parse_expr
from matchmaker.classad.references import references
from matchmaker.classad.rewriting import flatten, simplify
from matchmaker.classad.unparse import unparse


def bind() -> None:
    """Fills the table; ``matchmaker.classad`` does so once."""
    METHODS.update(
        evaluate=evaluate,
        evaluate_attribute=evaluate_attribute,
        flatten=flatten,
        parse_expr=parse_expr,
        references=references,
        simplify=simplify,
        unparse=unparse,
    )
