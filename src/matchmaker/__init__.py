"""Which resource may run this job, which is best, and how is the batch system told?"""

from matchmaker.classad import (
    ERROR,
    UNDEFINED,
    ClassAd,
    Expr,
    ParseError,
    parse_expr,
)

__all__ = ["ERROR", "UNDEFINED", "ClassAd", "Expr", "ParseError", "parse_expr"]
