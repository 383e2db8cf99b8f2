"""Caches that are bounded in bytes. Every cache of the library is one of these.

Texts, names and expressions come from strangers, so a count of entries bounds nothing: an entry is
charged for its key, its value and the trees that they hold (``size_of``). What has a small, fixed
domain may use ``functools.cache`` instead; docs/safety.md lists both kinds, and a test holds the
list to the code.

A library for this would do less: cachetools counts values alone, locks and reorders at each hit,
and knows no way to empty all caches at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from sys import getsizeof
from typing import Any, Final, ParamSpec, TypeVar
from weakref import WeakSet

from matchmaker._locks import Lock
from matchmaker.classad.interning import tidy
from matchmaker.classad.nodes import AdExpr, Attr, Call, Expr, Literal
from matchmaker.classad.references import names_of
from matchmaker.classad.walks import postorder

_K = TypeVar("_K")
_V = TypeVar("_V")
_P = ParamSpec("_P")

LARGEST: Final = 1 << 3
"""An entry that takes more than this fraction of a cache is not kept: it hardly comes again."""

ENTRY: Final = 200
"""Bytes of an entry beside its key and value: its place in the table, and a tuple or two."""

_lock: Final = Lock()
_caches: Final[WeakSet[Cache[Any, Any] | TextCache[Any]]] = WeakSet()


class Cache(dict[_K, _V | None]):
    """Values by key, up to `most` bytes; ``cache[key]`` is None for what is not kept.

    A hit costs no more than that of a dict. New entries fill one half; when it is full it becomes
    the older half, whose entries move back as they are used, and the former older half is dropped.
    So what has not been used for longest goes. Any thread may use a cache at any time.

    >>> squares = Cache[int, int]("squares", 1 << 20)
    >>> squares[7], squares.put(7, 49), squares[7]
    (None, 49, 49)
    """

    __slots__ = ("__weakref__", "_older", "_taken", "_taken_older", "dropped", "most", "name")

    def __init__(self, name: str, most: int, dropped: Callable[[], object] = lambda: None) -> None:
        """`dropped` is called whenever entries have been dropped."""
        super().__init__()
        self.name = name
        self.most = most
        self.dropped = dropped
        self._older: dict[_K, _V | None] = {}
        self._taken = self._taken_older = 0
        with _lock:
            _caches.add(self)

    # Caches compare by identity.
    __hash__ = object.__hash__  # type: ignore[assignment]
    __eq__ = object.__eq__

    @property
    def bytes(self) -> int:
        """How many bytes are taken, by the estimate of ``size_of``."""
        return self._taken + self._taken_older

    def __missing__(self, key: _K) -> _V | None:
        found = self._older.get(key)
        return self.put(key, found) if found is not None else None

    def put(self, key: _K, value: _V, size: int = 0) -> _V:
        """Keeps a value, if it is not too large; gives it back. `size` is known to the caller."""
        size = ENTRY + (size or size_of(key) + size_of(value))
        if size * LARGEST <= self.most:
            # Without the calls of `with _lock`: texts that are new come by the thousand.
            with _lock.held:
                full = 2 * (self._taken + size) > self.most
                if full:
                    self._older, self._taken_older = dict(self), self._taken
                    self._empty()
                self[key] = value
                # What is put again counts twice until its half is dropped: never too little.
                self._taken += size
            if full:
                self.dropped()
        return value

    def forget(self) -> None:
        """Drops all entries."""
        with _lock:
            some = self._taken + self._taken_older > 0
            self._older, self._taken_older = {}, 0
            self._empty()
        if some:
            self.dropped()

    def _empty(self) -> None:
        self.clear()
        self._taken = 0


class TextCache(dict[str, _V]):
    """Keep the results of reading texts, up to about `most` bytes, and drop all when it is full.

    It serves texts that come by the million: an order of use would cost more than to read some of
    them again. Any thread may use it; two entries of one moment may be counted once.

    >>> lengths = TextCache[int]("lengths", 1 << 20)
    >>> lengths.put("abc", 3), lengths["abc"]
    (3, 3)
    """

    __slots__ = ("__weakref__", "bytes", "most", "name")

    def __init__(self, name: str, most: int) -> None:
        super().__init__()
        self.name = name
        self.most = most
        self.bytes = 0
        with _lock:
            _caches.add(self)

    __hash__ = object.__hash__  # type: ignore[assignment]
    __eq__ = object.__eq__

    def put(self, text: str, value: _V, size: int = 0) -> _V:
        """Enter the result for a text, and return it. `size` is the bytes beside the text."""
        # The text may be part of the value too.
        size += ENTRY + 2 * getsizeof(text)
        # A requirement that names a thousand machines comes again with each job of its owner.
        if 2 * size <= self.most:
            self.bytes += size
            if self.bytes > self.most:
                self.clear()
                self.bytes = size
            self[text] = value
        return value

    def forget(self) -> None:
        """Drops all entries."""
        self.clear()
        self.bytes = 0


def remembered(name: str, most: int) -> Callable[[Callable[_P, _V]], Callable[_P, _V]]:
    """Makes a pure function of hashable arguments remember its results.

    >>> @remembered("doubles", 1 << 20)
    ... def double(text: str) -> str: return 2 * text
    >>> double("ab")
    'abab'
    """

    def around(function: Callable[_P, _V]) -> Callable[_P, _V]:
        cache: Cache[Any, tuple[_V]] = Cache(name, most)

        @wraps(function)
        def call(*args: _P.args, **more: _P.kwargs) -> _V:
            key = (args, *more.items()) if more else args
            found = cache[key]
            return (found or cache.put(key, (function(*args, **more),)))[0]

        call.cache = cache  # type: ignore[attr-defined]
        return call

    return around


def forget() -> None:
    """Empties every cache of the library, those of all pools too. Answers stay the same.

    Useful where memory counts more than time, as in a long-lived service between two bursts. What
    the caller's own ads, expressions and pools hold stays.

    >>> import matchmaker as mm
    >>> mm.forget()
    """
    for cache in caches():
        cache.forget()
    tidy()


def caches() -> Iterable[Cache[Any, Any] | TextCache[Any]]:
    """All caches that there are, in no order."""
    with _lock:
        return list(_caches)


# --- what entries take ---------------------------------------------------------------------------

NODE: Final = 800
"""Bytes of a node: 350 to 450 with its place in the table of nodes, the rest for compiled code."""

_FLAT: Final = frozenset({str, int, float, bool})
_MANY: Final = frozenset({tuple, list, frozenset, set})
_NODES: Final = frozenset(Expr.__subclasses__())

_TEXTS: Final[Mapping[type, Callable[[Any], Iterable[Any]]]] = {
    Literal: lambda node: (node.value,),
    Attr: lambda node: (node.name, node.folded),
    Call: lambda node: (node.function,),
    AdExpr: lambda node: node.names,
}
"""What nodes hold beside other nodes."""


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
