"""A dictionary bounded in the sizes of its entries, and the list of all such caches.

Texts and names come from strangers, so a number of entries alone bounds nothing: an entry counts
with the length of its text. docs/safety.md lists every cache with its bound, and a test compares.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, TypeVar
from weakref import WeakSet

from matchmaker._locks import Lock

_K = TypeVar("_K")
_V = TypeVar("_V")

LARGEST: Final = 1 << 3
"""An entry of more than this fraction of a cache is not kept: it would displace all others."""

ENTRY: Final = 32
"""The size of an entry beside its text: so many characters take as much as its tuples do."""

_lock: Final = Lock()
_caches: Final[WeakSet[BoundedCache[Any, Any]]] = WeakSet()


class BoundedCache(dict[_K, _V]):
    """Keep values by key up to a total size, and drop all when it is full.

    A hit is one look-up of a dictionary. An order of use would cost more at each hit than to make
    some values anew. Any thread may use a cache: two entries of one moment may be counted once.

    >>> lengths = BoundedCache[str, int]("lengths", 1 << 10)
    >>> lengths.put("abc", 3, 3), lengths.get("abc"), lengths.get("x" * 1000)
    (3, 3, None)
    """

    __slots__ = ("__weakref__", "most", "name", "size")

    def __init__(self, name: str, most: int) -> None:
        super().__init__()
        self.name = name
        self.most = most
        self.size = 0
        with _lock:
            _caches.add(self)

    # Caches compare by identity.
    __hash__ = object.__hash__  # type: ignore[assignment]
    __eq__ = object.__eq__

    def put(self, key: _K, value: _V, size: int) -> _V:
        """Keep a value unless it is too large, and return it; `size` is mostly a text's length."""
        size += ENTRY
        if size * LARGEST <= self.most:
            self.size += size
            if self.size > self.most:
                self.clear()
                self.size = size
            self[key] = value
        return value

    def forget(self) -> None:
        """Drop all entries."""
        self.clear()
        self.size = 0


def caches() -> Iterable[BoundedCache[Any, Any]]:
    """Return all caches, in no order."""
    with _lock:
        return list(_caches)
