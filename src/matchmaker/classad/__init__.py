"""The ClassAd language: text, trees, values and ads. Knows nothing of jobs, grids or batches."""

from matchmaker.classad.ad import ClassAd
from matchmaker.classad.cache import forget
from matchmaker.classad.errors import ParseError
from matchmaker.classad.formats import dumps, parse_ad, parse_ads, read_ads, write_ads
from matchmaker.classad.methods import bind
from matchmaker.classad.nodes import Expr, References
from matchmaker.classad.parser import parse_expr
from matchmaker.classad.values import ERROR, UNDEFINED, ErrorType, UndefinedType, Value, is_error

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
    "read_ads",
    "write_ads",
]

bind()
