"""One attribute of many ads: what each row holds, in as little space as its contents allow.

What a row holds is a *content* (``contents``). Forms of a column:

- ``Coded``: a small number a row and a table of the distinct contents, for what repeats.
- ``Numeric``: a kind and 64 bits a row, for numbers that hardly repeat.
- ``Texts``, in ``texts``: bytes in a heap, for strings that hardly repeat.
- ``Loose``, in ``loose``: the contents themselves, for anything else that hardly repeats.

``forms`` decides which form a column has, ``store`` which rows there are; ``evaluator`` evaluates
expressions on columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import count
from mmap import MAP_ANONYMOUS, MAP_PRIVATE, mmap
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from matchmaker.classad.nodes import Attr, Call, Expr
from matchmaker.classad.walks import postorder
from matchmaker.matching.columns.contents import (
    ABSENT,
    INTEGER,
    MISSING,
    OTHER,
    REAL,
    THEMSELVES,
    Bits,
    Kinds,
    bits_of,
    encoded,
    identity,
)

Codes: TypeAlias = "npt.NDArray[np.unsignedinteger[Any]]"
Rows: TypeAlias = "npt.NDArray[np.intp]"

_LARGE: Final = 1 << 16
_stamps = count(1)


def stamp() -> int:
    """A number never given before: the version of a column that has changed."""
    return next(_stamps)


def narrowest(size: int) -> type[np.unsignedinteger[Any]]:
    """The narrowest type for codes below `size`."""
    if size <= 1 << 16:
        return np.uint8 if size <= 1 << 8 else np.uint16
    return np.uint32 if size <= 1 << 32 else np.uint64


def roomy(array: npt.NDArray[Any], size: int, room: int) -> npt.NDArray[Any]:
    """A copy of the first `size` entries, with zeros behind them."""
    copy = zeros(room, array.dtype)
    copy[:size] = array[:size]
    return copy


def zeros(size: int, kind: npt.DTypeLike) -> npt.NDArray[Any]:
    """An array of zeros. A large one is of pages that go back to the system with it.

    What the allocator of C gets back it keeps, in holes between what is in use: columns that grow
    would leave as much in holes as they hold.
    """
    length = size * np.dtype(kind).itemsize
    if length < _LARGE:
        return np.zeros(size, kind)
    return np.frombuffer(mmap(-1, length, MAP_PRIVATE | MAP_ANONYMOUS), kind)


def numbers(rows: Iterable[int]) -> Rows:
    """Rows as an array."""
    return rows if isinstance(rows, np.ndarray) else np.fromiter(rows, np.intp)


class Column:
    """What the forms have in common.

    ``version`` changes with every change of a cell; ``shown`` notes that a view may show the
    column, so that it must not be changed. ``lookup`` is what the module of that name keeps here.
    """

    __slots__ = ("_lacks", "lookup", "shown", "version")

    def __init__(self) -> None:
        self.version = stamp()
        self.shown = False
        self._lacks = (0, 0, False)
        self.lookup: tuple[tuple[int, int], Any] | None = None

    def __len__(self) -> int:
        """How many rows there is room for."""
        raise NotImplementedError

    def get(self, row: int) -> Any:
        """The content of a row."""
        raise NotImplementedError

    def put(self, row: int, content: Any) -> None:
        """Sets the content of a row that there is room for."""
        raise NotImplementedError

    def fill(self, rows: Rows | slice, contents: Sequence[Any]) -> None:
        """Sets the contents of many rows that there is room for."""
        places = range(rows.start, rows.stop) if isinstance(rows, slice) else rows.tolist()
        for row, content in zip(places, contents, strict=True):
            self.put(row, content)

    def take(self, rows: Rows) -> Column:
        """A column of some of the rows, which may change while this one does not."""
        raise NotImplementedError

    def copy(self, size: int, room: int) -> Column:
        """A column of the first `size` rows with room for more, which are MISSING."""
        raise NotImplementedError

    def expressions(self) -> list[Expr]:
        """The distinct expressions among the contents; some may be of rows that are gone."""
        raise NotImplementedError

    def leading(self) -> list[Expr]:
        """The distinct expressions among the contents that are no constants, such as nested ads."""
        return [node for node in self.expressions() if leads(node)]

    def missing(self, size: int) -> npt.NDArray[np.bool_]:
        """Which of the first `size` rows lack the attribute."""
        raise NotImplementedError

    def lacks(self, size: int) -> bool:
        """Whether one of the first `size` rows lacks the attribute."""
        version, known, lacks = self._lacks
        if (version, known) != (self.version, size):
            lacks = bool(self.missing(size).any())
            self._lacks = (self.version, size, lacks)
        return lacks

    def contents(self, rows: Iterable[int]) -> list[Any]:
        """The contents of rows."""
        return [self.get(row) for row in rows]


def leads(node: Expr) -> bool:
    """Whether an expression names an attribute or calls a function."""
    return any(isinstance(part, (Attr, Call)) for part in postorder(node))


class Table(list[Any]):
    """Distinct contents by code. It only grows, so that columns copied from each other share it.

    The codes by contents take more room than all else, and are made anew when they are needed.
    """

    __slots__ = ("_found", "_known", "lookup")

    def __init__(self, contents: Iterable[Any] = ()) -> None:
        super().__init__()
        self._known: dict[type, dict[Any, int]] = {}
        self._found: tuple[int, list[Expr], list[Expr]] = (0, [], [])
        self.lookup: tuple[int, Any] | None = None
        for content in contents:
            self.code(content)

    def twin(self) -> Table:
        """A table of the same contents, which grows by itself."""
        twin = Table()
        twin.extend(self)
        return twin

    def forget(self) -> None:
        """Give up the codes by contents, until one is asked for."""
        self._known = {}

    def _codes_of(self, kind: type) -> dict[Any, int]:
        """The codes of contents of a class, by what stands for them."""
        if not self._known:
            for code, content in enumerate(self):
                key = content if content.__class__ in THEMSELVES else identity(content)
                self._known.setdefault(content.__class__, {})[key] = code
        return self._known.setdefault(kind, {})

    def code(self, content: Any) -> int:
        """The code of a content, which enters the table if it is new."""
        kind = content.__class__
        key = content if kind in THEMSELVES else identity(content)
        known = self._known.get(kind)
        if known is None:
            known = self._codes_of(kind)
        code = known.setdefault(key, len(self))
        if code == len(self):
            self.append(content)
        return code

    def codes(self, contents: Sequence[Any]) -> list[int]:
        """The codes of many contents; new ones enter the table."""
        if len(contents) == 1:
            return [self.code(contents[0])]
        kinds = dict.fromkeys(map(type, contents))
        if len(kinds) > 1:
            found = np.zeros(len(contents), np.intp)
            for each_kind in kinds:
                places = [at for at, each in enumerate(contents) if each.__class__ is each_kind]
                found[places] = self.codes([contents[at] for at in places])
            return found.tolist()
        if not kinds:
            return []
        (kind,) = kinds
        known = self._codes_of(kind)
        keys = contents if kind in THEMSELVES else _identities(kind, contents)
        new = [key for key in dict.fromkeys(keys) if key not in known]
        known.update(zip(new, range(len(self), len(self) + len(new)), strict=True))
        if keys is contents:
            self.extend(new)
        elif new:
            # The first of those that are one to an ad stays.
            firsts = dict(zip(reversed(keys), reversed(contents), strict=True))
            self.extend(map(firsts.__getitem__, new))
        return list(map(known.__getitem__, keys))

    def expressions(self) -> list[Expr]:
        """The expressions in it."""
        return self._sorted()[0]

    def leading(self) -> list[Expr]:
        """The expressions in it that are no constants."""
        return self._sorted()[1]

    def _sorted(self) -> tuple[list[Expr], list[Expr]]:
        seen, found, leading = self._found
        if seen < len(self):
            entered = self[seen:]
            fresh = [content for content in entered if isinstance(content, Expr)]
            found, leading = found + fresh, leading + list(filter(leads, fresh))
            self._found = (seen + len(entered), found, leading)
        return found, leading


def _identities(kind: type, contents: Sequence[Any]) -> list[Any]:
    if kind is float:
        return [each if each and each == each else repr(each) for each in contents]  # noqa: PLR0124
    return list(map(identity, contents))


class Tabled(Column):
    """A column with a table that holds all its expressions."""

    __slots__ = ("table",)
    table: Table

    def expressions(self) -> list[Expr]:
        """The distinct expressions among the contents."""
        return self.table.expressions()

    def leading(self) -> list[Expr]:
        """Those of them that are no constants."""
        return self.table.leading()


class Coded(Tabled):
    """A code a row and a table of distinct contents, of which the first is MISSING."""

    __slots__ = ("_plain", "_used", "codes")

    def __init__(self, codes: Codes, table: Table | None = None) -> None:
        super().__init__()
        self.codes = codes
        self.table = table if table is not None else Table((MISSING,))
        self._plain: tuple[int, Kinds, Bits] | None = None
        self._used: tuple[int, int, Rows] | None = None

    def __len__(self) -> int:
        return len(self.codes)

    @classmethod
    def of(cls, contents: Sequence[Any]) -> Coded:
        """A column of contents, one after the other."""
        table = Table((MISSING,))
        codes = table.codes(contents)
        return cls(np.array(codes, narrowest(len(table))), table)

    def get(self, row: int) -> Any:
        """The content of a row."""
        return self.table[self.codes[row]]

    def contents(self, rows: Iterable[int]) -> list[Any]:
        """The contents of rows."""
        codes = self.codes[numbers(rows)]
        return list(map(self.table.__getitem__, codes.tolist()))

    def put(self, row: int, content: Any) -> None:
        """Sets the content of a row."""
        code = self.table.code(content)
        codes = self.codes
        if codes.item(row) == code:
            return
        if code >> (codes.itemsize << 3):
            codes = self.codes = codes.astype(narrowest(code + 1))
        codes[row] = code
        self.version = stamp()

    def fill(self, rows: Rows | slice, contents: Sequence[Any]) -> None:
        """Sets the contents of many rows."""
        codes = self.table.codes(contents)
        if len(self.table) - 1 >> (self.codes.itemsize << 3):
            self.codes = self.codes.astype(narrowest(len(self.table)))
        self.codes[rows] = codes
        self.version = stamp()

    def take(self, rows: Rows) -> Coded:
        """A column of some of the rows."""
        return Coded(self.codes[rows], self.table)

    def copy(self, size: int, room: int) -> Coded:
        """A column of the first `size` rows with room for more."""
        return Coded(roomy(self.codes, size, room), self.table)

    def missing(self, size: int) -> npt.NDArray[np.bool_]:
        """Which of the first `size` rows lack the attribute."""
        return np.equal(self.codes[:size], 0)

    def content(self, name: str, code: int) -> dict[str, Any]:
        """The content of an ad that has an entry of the table under a name, and nothing else."""
        return {name: self.table[code]} if code else {}

    def used(self, size: int) -> Rows:
        """The codes that some of the first `size` rows have, in ascending order."""
        used = self._used
        if used is None or used[:2] != (self.version, size):
            used = self._used = self.version, size, used_codes(self.codes[:size], len(self.table))
        return used[2]

    def plain(self) -> tuple[Kinds, Bits]:
        """The kind and the bits of each entry of the table; OTHER where it is no plain value."""
        plain = self._plain
        if plain is None or plain[0] != len(self.table):
            table = self.table[:]
            plain = self._plain = (len(table), *encoded(table))
        return plain[1:]


def used_codes(codes: Codes, size: int) -> Rows:
    """Which of the codes below `size` occur, in ascending order."""
    if len(codes) << 2 < size:
        return np.unique(codes).astype(np.intp)
    return np.flatnonzero(np.bincount(codes, minlength=size))


class Numeric(Tabled):
    """A kind and 64 bits a row: those of the integer or real, else a code of the other contents."""

    __slots__ = ("bits", "kinds")

    def __init__(self, kinds: Kinds, bits: Bits, table: Table) -> None:
        """`table` has the other contents."""
        super().__init__()
        self.kinds = kinds
        self.bits = bits
        self.table = table

    def __len__(self) -> int:
        return len(self.kinds)

    def get(self, row: int) -> Any:
        """The content of a row."""
        kind = self.kinds[row]
        if kind == INTEGER:
            return int(self.bits[row])
        if kind == REAL:
            return float(self.bits[row : row + 1].view(np.float64)[0])
        return MISSING if kind == ABSENT else self.table[self.bits[row]]

    def contents(self, rows: Iterable[int]) -> list[Any]:
        """The contents of rows."""
        places = numbers(rows)
        kinds, bits = self.kinds[places], self.bits[places]
        found: list[Any] = bits.tolist()
        reals = np.flatnonzero(kinds == REAL)
        for place, real in zip(reals.tolist(), bits.view(np.float64)[reals].tolist(), strict=True):
            found[place] = real
        for place in np.flatnonzero((kinds != REAL) & (kinds != INTEGER)).tolist():
            found[place] = MISSING if kinds[place] == ABSENT else self.table[found[place]]
        return found

    def put(self, row: int, content: Any) -> None:
        """Sets the content of a row."""
        if content.__class__ is int:
            kind, bits = INTEGER, content
        elif content.__class__ is float:
            kind, bits = REAL, bits_of(content)
        elif content is MISSING:
            kind, bits = ABSENT, 0
        else:
            kind, bits = OTHER, self.table.code(content)
        if self.bits.item(row) != bits or self.kinds.item(row) != kind:
            self.kinds[row], self.bits[row] = kind, bits
            self.version = stamp()

    def fill(self, rows: Rows | slice, contents: Sequence[Any]) -> None:
        """Sets the contents of many rows."""
        kinds, bits = encoded(contents)
        for place in np.flatnonzero((kinds != INTEGER) & (kinds != REAL)).tolist():
            missing = contents[place] is MISSING
            kinds[place] = ABSENT if missing else OTHER
            bits[place] = 0 if missing else self.table.code(contents[place])
        self.kinds[rows], self.bits[rows] = kinds, bits
        self.version = stamp()

    def take(self, rows: Rows) -> Numeric:
        """A column of some of the rows."""
        return Numeric(self.kinds[rows], self.bits[rows], self.table)

    def copy(self, size: int, room: int) -> Numeric:
        """A column of the first `size` rows with room for more."""
        kinds, bits = roomy(self.kinds, size, room), roomy(self.bits, size, room)
        kinds[size:] = ABSENT
        return Numeric(kinds, bits, self.table)

    def missing(self, size: int) -> npt.NDArray[np.bool_]:
        """Which of the first `size` rows lack the attribute."""
        return np.equal(self.kinds[:size], ABSENT)
