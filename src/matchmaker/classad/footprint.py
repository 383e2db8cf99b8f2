"""How many bytes objects take, with all that hangs on them: what caches charge for an entry.

An estimate, rather too high than too low: parts that objects share count for each of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from sys import getsizeof
from typing import Any, Final

from matchmaker.classad.nodes import AdExpr, Attr, Call, Expr, Literal
from matchmaker.classad.references import names_of
from matchmaker.classad.walks import postorder

NODE: Final = 800
"""Bytes of a node: 350 to 450 with its place in the table of nodes, the rest for compiled code."""

_TEXTS: Final[Mapping[type, Callable[[Any], Iterable[Any]]]] = {
    Literal: lambda node: (node.value,),
    Attr: lambda node: (node.name, node.folded),
    Call: lambda node: (node.function,),
    AdExpr: lambda node: node.names,
}
"""What nodes hold beside other nodes."""

_FLAT: Final = frozenset({str, int, float, bool})
_MANY: Final = frozenset({tuple, list, frozenset, set})
_NODES: Final = frozenset(Expr.__subclasses__())


def size_of(thing: Any) -> int:
    """The bytes of a text, a number, an expression, or a container of them.

    Of an object of another class it is what ``__sizeof__`` says.

    >>> from matchmaker import parse_expr
    >>> size_of("x" * 1000) > 1000, size_of(("a", ["b" * 500])) > 500
    (True, True)
    >>> size_of(parse_expr("a + 1")) > 3 * NODE
    True
    """
    if type(thing) in _FLAT:
        return getsizeof(thing)
    size = 0
    pending = [thing]
    while pending:
        one = pending.pop()
        kind = type(one)
        if kind in _FLAT:
            size += getsizeof(one)
        elif kind in _NODES:
            size += _of_tree(one)
        elif kind in _MANY:
            size += getsizeof(one)
            pending += one
        elif not isinstance(one, type):
            size += getsizeof(one)
            if isinstance(one, dict):
                pending += one.keys()
                pending += one.values()
    return size


def size_of_text(text: str) -> int:
    """The bytes of the expression of a text that was not read yet, when it is compiled.

    Each sign counts for a node, and each character for an eighth of one: ``a<b<c`` has a node for
    each sign, and words have few signs.

    >>> size_of_text("TARGET.Memory > 1000") < size_of_text("!!!!!!!!!!!!!!!!!!!a")
    True
    """
    signs = text.encode("utf-8", "surrogatepass").translate(None, _WORDS)
    return NODE // 8 * len(text) + NODE * len(signs)


_WORDS: Final = b"".join(bytes([code]) for code in range(128)
                         if chr(code).isalnum() or chr(code) in " \t\r\n_")  # fmt: skip


def _of_tree(root: Expr) -> int:
    """The bytes of a tree; kept with the names in it, since keys of caches hold it again."""
    names = names_of(root)
    if not names.bytes:
        size = 0
        for node in postorder(root):
            size += NODE
            texts = _TEXTS.get(type(node))
            if texts is not None:
                size += sum(map(getsizeof, texts(node)))
        object.__setattr__(names, "bytes", size)
    return names.bytes
