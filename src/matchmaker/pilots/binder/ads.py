"""PoolLimits on the ads that strangers send: their length, and the contents of a pilot's report.

The binder reads and matches ads in one event loop. So it limits the size of an ad before it reads
it, and the steps for each attribute that it reads itself. ``node.task`` checks a job's attributes.
"""

from __future__ import annotations

import json
import re
from typing import Final

from matchmaker._limits import PoolLimits
from matchmaker.classad import UNDEFINED, ClassAd, ParseError, parse_ad
from matchmaker.classad.evaluate import Allowance
from matchmaker.classad.nodes import Expr, ListExpr, Literal
from matchmaker.classad.values import Value
from matchmaker.pilots.node.task import MOST_RESULT

MOST_AD: Final = 192 << 10
"""How many bytes an ad may take as a text of JSON."""
MOST_SYNTAX: Final = 8 << 10
"""How many characters of it may stand outside of strings."""
MOST_POLICY: Final = 2 << 10
"""How many characters all expressions of a slot may have, which each job's matching evaluates."""
MATCHING: Final = PoolLimits(flat=100_000, each=100, seconds=0.02, least=0.0001, kept=4 << 20)
"""What matching an ad with all free slots may take."""
_STEPS: Final = 2_000
"""How many steps the binder has for what it asks of an ad itself."""
_SPAN: Final = re.compile(
    r"""//[^\n]*+|/\*.*?(?:\*/|\Z)|'(?:[^'\\]|\\.)*+'?|("(?:[^"\\]|\\.)*+"?)""", re.DOTALL
)
"""What a quote may stand in: comments, quoted names, and strings as group 1; also without an end,
so that no text is gone through twice."""


def sendable(text: str) -> str:
    """The text of an ad. Raises ValueError if it is too long to be matched or sent on."""
    if len(text) > MOST_AD or len(json.dumps(text)) > MOST_AD:
        raise ValueError(f"an ad of over {MOST_AD} bytes; shorten it")
    outside = len(text) - sum(len(span[1] or "") for span in _SPAN.finditer(text))
    if outside > MOST_SYNTAX:
        raise ValueError(
            f"an ad with {outside} characters outside of strings, at most {MOST_SYNTAX} are taken:"
            " shorten it"
        )
    return text


def an_ad(text: str) -> ClassAd:
    """The ad in a text. Raises ValueError for a text that is not an ad, or is too long."""
    try:
        return parse_ad(sendable(text), "new")
    except ParseError as error:
        raise ValueError(f"the ad cannot be read: {error}") from None


def a_slot(text: str) -> ClassAd:
    """The ad of a free slot, as ``an_ad``, with a lower limit on expressions other than literals.

    >>> a_slot("[ Requirements = MY.Start; Start = " + "TARGET.Cpus > 1 && " * 200 + "true ]")
    Traceback (most recent call last):
    ...
    ValueError: its expressions have 3812 characters, at most 2048 are taken: shorten its policy
    """
    ad = an_ad(text)
    size = sum(len(str(ad.expr(name))) for name in ad if not _literal(ad.expr(name)))
    if size > MOST_POLICY:
        raise ValueError(
            f"its expressions have {size} characters, at most {MOST_POLICY} are taken:"
            " shorten its policy"
        )
    return ad


def asked(ad: ClassAd, name: str) -> Value:
    """The value of an attribute; ERROR if it takes more steps than the binder allows.

    >>> asked(ClassAd(Direct=True), "Direct")
    True
    """
    return Allowance(_STEPS).value(ad.expr(name), ad, None) if name in ad else UNDEFINED


def reported(text: str) -> str:
    """The text of the result that a pilot reports; all its values are literals.

    So nobody who reads it later evaluates a stranger's expression. If the report has other values,
    the result is an ad whose ``Reason`` says so.

    >>> reported("[ ExitCode = 0; Seconds = { 1.5, 2.5 } ]")
    '[ ExitCode = 0; Seconds = { 1.5, 2.5 } ]'
    >>> reported("[ ExitCode = 0 + 0 ]")[:59]
    '[ Reason = "a result was refused: ExitCode is no number, st'
    """
    try:
        _check_result(text)
    except ValueError as error:
        return str(ClassAd(Reason=f"a result was refused: {str(error)[:500]}"))
    return text


def _check_result(text: str) -> None:
    if len(text) > MOST_RESULT:
        raise ValueError(f"it has {len(text)} characters, at most {MOST_RESULT} are taken")
    ad = an_ad(text)
    for name in ad:
        if not _literal(ad.expr(name)):
            raise ValueError(f"{name[:80]} is no number, string, boolean or list of these")


def _literal(node: Expr) -> bool:
    items = node.items if isinstance(node, ListExpr) else (node,)
    return all(
        isinstance(i, Literal) and isinstance(i.value, bool | int | float | str) for i in items
    )
