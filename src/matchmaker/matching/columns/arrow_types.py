"""Which types of Arrow ads can hold, and as what they are read. pyarrow is loaded here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from types import ModuleType
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from matchmaker._limits import CLASSAD_LIMITS as LIMITS
from matchmaker.classad.operators import ascii_fold

# Types of pyarrow, which carries none that a checker could read.
Type: TypeAlias = Any
Array: TypeAlias = Any
ArrowTable: TypeAlias = Any

MARK: Final = {b"classad": b"expression"}
"""The metadata of a field whose strings are the texts of expressions."""

CELLS: Final = {b"classad": b"json"}
"""The metadata of a field whose strings are contents as JSON (``cells``)."""

KEY: Final = b"classad.key"
"""The metadata of a table that names the key attribute."""


def pyarrow() -> ModuleType:
    """The module. Raises ImportError, saying what to install."""
    try:
        import pyarrow as pa
    except ImportError:
        raise ImportError(
            "Arrow and Parquet need pyarrow: pip install 'classad-matchmaker[arrow]'"
        ) from None
    module: ModuleType = pa
    return module


def array_of(held: npt.NDArray[Any]) -> Array:
    """The array of numbers, without a copy, or of truths.

    ``pyarrow.array`` would import pandas where it is installed, which takes 0.2 s.

    >>> array_of(np.array([1, 2])).to_pylist(), array_of(np.array([True, False])).to_pylist()
    ([1, 2], [True, False])
    """
    pa = pyarrow()
    truths = held.dtype == np.bool_
    kind = pa.bool_() if truths else pa.from_numpy_dtype(held.dtype)
    data = np.packbits(held, bitorder="little") if truths else np.ascontiguousarray(held)
    return pa.Array.from_buffers(kind, len(held), [None, pa.py_buffer(data)])


def numpy_of(array: Array) -> npt.NDArray[Any]:
    """NumPy's numbers or truths of an array without nulls; numbers without a copy, read-only.

    As above: ``to_numpy`` would import pandas.

    >>> some = array_of(np.array([1, 2, 3])).slice(1)
    >>> numpy_of(some), numpy_of(array_of(np.array([False, True, False])).slice(1))
    (array([2, 3]), array([ True, False]))
    """
    kind, (_, data), start = array.type, array.buffers(), array.offset
    end = start + len(array)
    if pyarrow().types.is_boolean(kind):
        bits = np.frombuffer(data or b"", np.uint8)
        return np.unpackbits(bits, count=end, bitorder="little")[start:].astype(np.bool_)
    return np.frombuffer(data or b"", kind.to_pandas_dtype())[start:end]


def is_text(kind: Type) -> bool:
    """Whether it holds strings, of any width."""
    types = pyarrow().types
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def check_names(kind: str, names: Iterable[str]) -> dict[str, str]:
    """Names by their folded forms. Raises ValueError for two that are one to a ClassAd."""
    found: dict[str, str] = {}
    for name in names:
        folded = ascii_fold(name)
        if folded in found:
            raise ValueError(f"two {kind} are {found[folded]} and {name} to a ClassAd")
        found[folded] = name
    return found


def check(root: Type) -> None:
    """Raises ValueError for a type of which no value can be taken, wherever it is nested."""
    types = pyarrow().types
    pending: list[tuple[Type, int]] = [(root, 1)]
    while pending:
        kind, depth = pending.pop()
        if depth > LIMITS.nesting:
            raise ValueError(f"is nested more than {LIMITS.nesting} levels deep")
        if types.is_timestamp(kind) and kind.tz is not None:
            _check_zone(kind)
        if types.is_struct(kind):
            check_names("fields", (field.name for field in kind))
        pending += ((part, depth + 1) for part in parts_of_type(kind))


def parts_of_type(kind: Type) -> Iterator[Type]:
    """The types that a nested one is made of."""
    if pyarrow().types.is_dictionary(kind):
        yield kind.value_type
    else:
        yield from (kind.field(place).type for place in range(kind.num_fields))


def _check_zone(kind: Type) -> None:
    try:
        pyarrow().scalar(0, kind).as_py()
    except (ValueError, LookupError, OSError):
        raise ValueError(f"{kind.tz} is no time zone that is known here") from None


def readable(kind: Type) -> Type:
    """The type to cast to before values are taken. Raises ValueError if ads cannot hold it."""
    return _mapped(kind, _readable)


def whole(kind: Type) -> Type:
    """The type with microseconds instead of nanoseconds, and a type for what is all null."""
    return _mapped(kind, _whole)


def _mapped(kind: Type, plain: Callable[[ModuleType, Type], Type]) -> Type:
    """A type with each plain one that it is made of replaced; dictionaries become their values."""
    pa = pyarrow()
    types = pa.types
    if types.is_dictionary(kind):
        return _mapped(kind.value_type, plain)
    if types.is_struct(kind):
        return pa.struct([field.with_type(_mapped(field.type, plain)) for field in kind])
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return pa.large_list(_mapped(kind.value_type, plain))
    return plain(pa, kind)


def _readable(pa: ModuleType, kind: Type) -> Type:
    types = pa.types
    if types.is_boolean(kind) or types.is_uint64(kind) or types.is_null(kind):
        return kind
    if types.is_integer(kind):
        return pa.int64()
    if types.is_floating(kind):
        return pa.float64()
    if is_text(kind):
        return pa.large_string()
    if types.is_timestamp(kind) or types.is_date(kind):
        return pa.timestamp("us", getattr(kind, "tz", None))
    if types.is_duration(kind):
        return pa.duration("us")
    raise ValueError(f"Arrow's {kind} is no type of ClassAds; cast the column, or leave it out")


def _whole(pa: ModuleType, kind: Type) -> Type:
    if pa.types.is_null(kind):
        # What pyarrow casts within a list loses its length.
        return pa.bool_()
    if pa.types.is_timestamp(kind) and kind.unit == "ns":
        return pa.timestamp("us", kind.tz)
    return pa.duration("us") if pa.types.is_duration(kind) and kind.unit == "ns" else kind
