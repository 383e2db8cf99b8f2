"""Pools in Parquet files, read by the columns that jobs need: they may be larger than memory.

A job needs the columns that it names, those that the ads' requirements name, and the keys. What is
wrong with the values of a column is found when it is read; types are looked at when the file is
opened.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from functools import partial
from typing import Any

import attrs
import numpy as np

from matchmaker._locks import Lock
from matchmaker.classad.operators import ascii_fold
from matchmaker.matching.columns.arrow import (
    Field,
    Mask,
    column_in,
    computed_keys,
    fields_of,
    parquet_problem,
    parts_with,
)
from matchmaker.matching.columns.arrow_types import check, is_text, numpy_of, parts_of_type, pyarrow
from matchmaker.matching.columns.column import Column
from matchmaker.matching.columns.stored import Stored
from matchmaker.matching.columns.views import Parts


def opened(path: str | os.PathLike[str]) -> Any:
    """A Parquet file that stays open. Raises ValueError for any other file."""
    pyarrow()
    from pyarrow import parquet

    with parquet_problem(path):
        # Not mapped: a file that someone cuts short would end the process.
        return parquet.ParquetFile(path, page_checksum_verification=True)


def stored_parts(file: Any, path: object, key: str, expressions: Collection[str]) -> Parts:
    """The parts of an open Parquet file, most of whose columns stay there.

    Raises ValueError as ``parts_of`` does.
    """
    lock, size = Lock(), file.metadata.num_rows

    def read(field: Field) -> Any:
        with parquet_problem(path), lock:
            found = file.read(columns=[field.name]).column(field.name)
        if len(found) != size:
            raise ValueError(f"{path}: {field.name} has {len(found)} rows, and not {size}")
        return found

    def load(field: Field) -> Column:
        column = column_in(field, read(field))
        if column is None:
            raise ValueError(f"{path}: {field.name} is null in all rows, and was not before")
        return column

    columns: dict[str, Column] = {}
    present: dict[str, Mask] = {}
    fields = fields_of(file.schema_arrow, expressions)
    full = _full(file.metadata)
    for field, kind in zip(fields, file.schema_arrow.types, strict=True):
        if field.folded == ascii_fold(key) or field.read is not None or not _may_wait(kind):
            column = column_in(field, read(field))
            if column is not None:
                columns[field.folded] = column
                present[field.folded] = ~column.missing(size)
            continue
        every = field.name in full
        mask = (
            np.ones(size, np.bool_) if every else numpy_of(read(field).is_valid().combine_chunks())
        )
        if mask.any():
            columns[field.folded] = Stored(partial(load, field), size)
            present[field.folded] = mask
    parts = parts_with(columns, present, fields, size)
    return attrs.evolve(parts, computed=computed_keys(parts, key, {}))


def _may_wait(root: Any) -> bool:
    """Whether values of a type need not be read to know that ads can hold them."""
    types = pyarrow().types
    check(root)
    pending = [root]
    while pending:
        kind = pending.pop()
        plain = types.is_signed_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)
        if types.is_nested(kind) or types.is_dictionary(kind):
            pending += parts_of_type(kind)
        elif not (plain or is_text(kind)):
            return False
    return True


def _full(metadata: Any) -> set[str]:
    """The columns of a file that say of all their parts that there is no null in them."""
    doubtful, found = set(), set()
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        for place in range(group.num_columns):
            column = group.column(place)
            name, facts = column.path_in_schema, column.statistics
            found.add(name)
            if facts is None or not facts.has_null_count or facts.null_count:
                doubtful.add(name)
    return found - doubtful
