"""What rows hold in a column, sorted by how it comes to a value: plain contents, and expressions.

``evaluator`` evaluates rows that hold the same expression together.
"""

from __future__ import annotations

from typing import Any, Final

import attrs
import numpy as np

from matchmaker.classad.nodes import Expr
from matchmaker.classad.values import UNDEFINED, Value
from matchmaker.matching.columns.column import Coded, Codes, Numeric, Rows
from matchmaker.matching.columns.contents import (
    ABSENT,
    INTEGER,
    MISSING,
    OTHER,
    REAL,
    UNDEFINED_KIND,
    Bits,
    Kinds,
)
from matchmaker.matching.columns.vectors import (
    Chosen,
    Objects,
    Scalars,
    Vector,
    tabled,
    uniform,
)

MOST_EXPRESSIONS: Final = 32
SHARED: Final = 64
"""More distinct expressions than that are grouped only if 64 rows share each of them."""


@attrs.frozen(slots=True)
class Groups:
    """Rows that hold values, and those that hold the same expression, or nothing."""

    plain: Rows
    values: Vector
    groups: list[tuple[Rows, Any]]


def grouped_codes(column: Coded, absent: Any, codes: Any) -> Vector | Groups | None:
    """The rows of a coded column by what they hold; None where too many expressions do."""
    kinds, bits = column.plain()
    if kinds[1:].max(initial=0) <= REAL and (absent is UNDEFINED or codes.all()):
        return _numbers(kinds, bits, codes)
    table = column.table[:]
    special = [i for i, content in enumerate(table) if isinstance(content, Expr) or not i]
    if len(special) > max(MOST_EXPRESSIONS, len(codes) // SHARED):
        return None
    if len(special) <= MOST_EXPRESSIONS:
        groups = [(np.flatnonzero(codes == code), table[code]) for code in special]
    else:
        ends = np.cumsum(np.bincount(codes, minlength=len(table)))
        each = np.split(np.argsort(codes, kind="stable"), ends[:-1])
        groups = [(each[code], table[code]) for code in special]
    held = (UNDEFINED if c is MISSING or isinstance(c, Expr) else c for c in table)
    known = table_by_code({i: c for i, c in enumerate(held) if i}, len(table))
    other = np.ones(len(codes), np.bool_)
    for places, _ in groups:
        other[places] = False
    if other.all():
        return Chosen(codes, known)
    plain = np.flatnonzero(other)
    return Groups(plain, Chosen(codes[plain], known), groups)


def grouped_numbers(column: Numeric, kinds: Kinds, bits: Bits) -> Vector | Groups | None:
    """The rows of a numeric column by what they hold; None where too many expressions do."""
    if kinds.max(initial=0) <= REAL:
        return Scalars(uniform(kinds), bits)
    codes = np.where(kinds == OTHER, bits, -1)
    found = [code for code in np.unique(codes).tolist() if code >= 0]
    if len(found) > MOST_EXPRESSIONS:
        return None
    plain = np.flatnonzero(kinds <= REAL)
    groups = [(np.flatnonzero(codes == code), column.table[code]) for code in found]
    groups.append((np.flatnonzero(kinds == ABSENT), MISSING))
    return Groups(plain, Scalars(kinds[plain], bits[plain]), groups)


def table_by_code(found: dict[int, Value], size: int) -> Scalars | Objects:
    """The values by code. A code that no row has gets one of the others, so that they agree."""
    filler = next(iter(found.values()), UNDEFINED)
    return tabled([found.get(code, filler) for code in range(size)])


def _numbers(kinds: Kinds, bits: Bits, codes: Codes) -> Scalars:
    """Scalars by code, of a table whose first entry is UNDEFINED and whose others are plain."""
    present = uniform(kinds[1:])
    if len(present) == 1 and present[0] >= INTEGER and codes.all():
        return Scalars(present, bits[codes])
    kinds = kinds.copy()
    kinds[0] = UNDEFINED_KIND
    return Scalars(kinds[codes], bits[codes])
