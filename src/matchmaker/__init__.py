"""Which resource may run this job, which is best, and how is the batch system asked for it?

Each name is loaded with its module when it is first used.

>>> import matchmaker as mm
>>> machine = mm.parse_ad('[ Name = "wn1"; Cpus = 8; Requirements = TARGET.Owner =!= "x" ]')
>>> job = mm.parse_ad('[ Owner = "ana"; Requirements = TARGET.Cpus >= 4; Rank = TARGET.Cpus ]')
>>> mm.match(job, machine).matched
True
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import matchmaker.batch as batch  # noqa: PLR0402 - so that type checkers see the modules
    import matchmaker.broker as broker  # noqa: PLR0402
    import matchmaker.delegation as delegation  # noqa: PLR0402
    import matchmaker.glue as glue  # noqa: PLR0402
    import matchmaker.nodes as nodes  # noqa: PLR0402
    import matchmaker.pilots as pilots  # noqa: PLR0402
    import matchmaker.shards as shards  # noqa: PLR0402
    from matchmaker._diagnostics import Diagnostic
    from matchmaker.classad import (
        ERROR,
        UNDEFINED,
        ClassAd,
        Expr,
        ParseError,
        References,
        Value,
        dumps,
        forget,
        is_error,
        parse_ad,
        parse_ads,
        parse_expr,
        quote,
        read_ads,
        unquote,
        write_ads,
    )
    from matchmaker.classad.trace import Trace, trace
    from matchmaker.linting import lint
    from matchmaker.matching.assignment import Assignment, Outcome, Placement, Policy
    from matchmaker.matching.explanation import Explanation, PairExplanation
    from matchmaker.matching.pair import Clause, Match, clauses, match, refusal
    from matchmaker.matching.pool import Pool
    from matchmaker.matching.snapshot import Matches, Plan, Snapshot
    from matchmaker.reduction import Reduction, ReductionError, Verdict, reduce, reduce_many
    from matchmaker.shards import Shards

__version__ = "0.1.0"

__all__ = [
    "ERROR",
    "UNDEFINED",
    "Assignment",
    "ClassAd",
    "Clause",
    "Diagnostic",
    "Explanation",
    "Expr",
    "Match",
    "Matches",
    "Outcome",
    "PairExplanation",
    "ParseError",
    "Placement",
    "Plan",
    "Policy",
    "Pool",
    "Reduction",
    "ReductionError",
    "References",
    "Shards",
    "Snapshot",
    "Trace",
    "Value",
    "Verdict",
    "batch",
    "broker",
    "clauses",
    "delegation",
    "dumps",
    "forget",
    "glue",
    "is_error",
    "lint",
    "match",
    "nodes",
    "parse_ad",
    "parse_ads",
    "parse_expr",
    "pilots",
    "quote",
    "read_ads",
    "reduce",
    "reduce_many",
    "refusal",
    "shards",
    "trace",
    "unquote",
    "write_ads",
]

_ROOMS = frozenset({"batch", "broker", "delegation", "glue", "nodes", "pilots", "shards"})
_LATER = {
    "ERROR": "classad",
    "UNDEFINED": "classad",
    "Assignment": "matching.assignment",
    "ClassAd": "classad",
    "Clause": "matching.pair",
    "Diagnostic": "_diagnostics",
    "Explanation": "matching.explanation",
    "Expr": "classad",
    "Match": "matching.pair",
    "Matches": "matching.snapshot",
    "Outcome": "matching.assignment",
    "PairExplanation": "matching.explanation",
    "ParseError": "classad",
    "Placement": "matching.assignment",
    "Plan": "matching.snapshot",
    "Policy": "matching.assignment",
    "Pool": "matching.pool",
    "Reduction": "reduction",
    "ReductionError": "reduction",
    "References": "classad",
    "Shards": "shards",
    "Snapshot": "matching.snapshot",
    "Trace": "classad.trace",
    "Value": "classad",
    "Verdict": "reduction",
    "clauses": "matching.pair",
    "dumps": "classad",
    "forget": "classad",
    "is_error": "classad",
    "lint": "linting",
    "match": "matching.pair",
    "parse_ad": "classad",
    "parse_ads": "classad",
    "parse_expr": "classad",
    "quote": "classad",
    "read_ads": "classad",
    "reduce": "reduction",
    "reduce_many": "reduction",
    "refusal": "matching.pair",
    "trace": "classad.trace",
    "unquote": "classad",
    "write_ads": "classad",
}


def __dir__() -> list[str]:
    return [*__all__, "__version__"]


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return import_module(f"matchmaker.{name}")
    if name in _LATER:
        found = getattr(import_module(f"matchmaker.{_LATER[name]}"), name)
        globals()[name] = found
        return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
