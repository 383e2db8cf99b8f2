"""Expressions that differ in their constants alone: one is read for all that are alike.

The requirements of jobs mostly name an amount or a path that no other job's do. With a mark for
each constant, by Arrow's compiled search, few distinct texts are left. Where one of these is an
expression with a number for each mark, so is each text that it was made of.
"""

from __future__ import annotations

import re
from typing import Final

import numpy as np

from matchmaker.classad.limits import LIMITS
from matchmaker.classad.nodes import Expr, Literal
from matchmaker.classad.parser import parsed
from matchmaker.classad.scanner import LONGEST
from matchmaker.matching.columns.arrow_types import pyarrow

_MARK: Final = "\1"
_CONSTANT: Final = r'"[^"\\\x00]*"|\b(?:0|[1-9][0-9]{0,17})(?:\.[0-9]{1,18})?\b'
_SEVERAL: Final = 8
"""The least number of texts, on average, for which a form is read."""

# Behind a quote or comment that is not understood, and beside what belongs to a number or to a
# string of several parts, a mark may be something else than one constant.
_DOUBTFUL: Final = re.compile(rf"""["'\\]|/[/*]|[\w.]{_MARK}|{_MARK}(?:[\w.]|\s*+{_MARK})""")


def known(texts: list[str]) -> list[bool]:
    """Which texts are expressions for certain; of others nothing is said.

    >>> known([f'Memory > {n} && Site == "S{n}"' for n in range(20)] + ["Memory >"])[18:]
    [True, True, False]
    """
    import pyarrow.compute as pc

    pa = pyarrow()
    plain = [
        text if len(text) <= LONGEST and text.isascii() and _MARK not in text else ""
        for text in texts
    ]
    # By buffers, as in array_of: pyarrow.array would import pandas.
    ends = np.cumsum([0, *map(len, plain)], dtype=np.int32)
    buffers = [None, pa.py_buffer(ends), pa.py_buffer("".join(plain).encode())]
    held = pa.Array.from_buffers(pa.string(), len(plain), buffers)
    found = pc.replace_substring_regex(held, _CONSTANT, _MARK)
    forms = found.dictionary_encode()
    if _SEVERAL * len(forms.dictionary) > len(texts):
        return [False] * len(texts)
    sound = list(map(_is_expression, forms.dictionary.to_pylist()))
    return list(map(sound.__getitem__, forms.indices.to_pylist()))


def _is_expression(form: str) -> bool:
    node = None if _DOUBTFUL.search(form) else parsed(form.replace(_MARK, "1"))
    return isinstance(node, Expr) and type(node) is not Literal and node.depth < LIMITS.nesting
