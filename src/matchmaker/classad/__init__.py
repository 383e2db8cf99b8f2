"""The ClassAd language: text, trees, values and ads. Knows nothing of jobs, grids or batches."""

from typing import TYPE_CHECKING, Any

from matchmaker.classad import evaluate  # noqa: F401 - gives expressions and ads their methods
from matchmaker.classad.ad import ClassAd
from matchmaker.classad.errors import ParseError
from matchmaker.classad.nodes import Expr, References, forget
from matchmaker.classad.parser import parse_expr, quote, unquote
from matchmaker.classad.values import ERROR, UNDEFINED, ErrorType, UndefinedType, Value, is_error

if TYPE_CHECKING:
    from matchmaker.classad.formats import dumps, parse_ad, parse_ads, read_ads, write_ads

__all__ = [
    "ERROR",
    "UNDEFINED",
    "ClassAd",
    "ErrorType",
    "Expr",
    "ParseError",
    "References",
    "UndefinedType",
    "Value",
    "dumps",
    "forget",
    "is_error",
    "parse_ad",
    "parse_ads",
    "parse_expr",
    "quote",
    "read_ads",
    "unquote",
    "write_ads",
]


def __getattr__(name: str) -> Any:
    # The formats take as long to load as all the rest, and an expression needs none of them.
    if name in {"dumps", "parse_ad", "parse_ads", "read_ads", "write_ads"}:
        from matchmaker.classad import formats

        found = globals()[name] = getattr(formats, name)
        return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
