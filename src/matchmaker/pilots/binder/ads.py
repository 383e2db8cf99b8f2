"""What ads strangers may send: how long, what a job's may say, and what a pilot's report may hold.

An ad is read and matched in the binder's one event loop. So its size is bounded before it is read,
and what the binder itself asks of it has few steps.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from math import isfinite
from types import MappingProxyType
from typing import Final, TypeGuard

from matchmaker.classad import UNDEFINED, ClassAd, ParseError, parse_ad
from matchmaker.classad.nodes import Expr, ListExpr, Literal
from matchmaker.classad.values import ErrorType, Value
from matchmaker.matching.allowance import Allowance
from matchmaker.matching.limits import Limits

MOST_AD: Final = 192 << 10
"""How many bytes an ad may take as a text of JSON."""
MOST_SYNTAX: Final = 8 << 10
"""How many characters of it may stand outside of strings."""
MOST_POLICY: Final = 2 << 10
"""How many characters all expressions of a slot may have, which each job's matching evaluates."""
MOST_RESULT: Final = 32 << 10
"""How many characters of a job's result are kept."""
MATCHING: Final = Limits(flat=100_000, each=100, seconds=0.02, least=0.0001, kept=4 << 20)
"""What matching an ad with all free slots may take."""
_STEPS: Final = 2_000
"""How many steps the binder has for what it asks of an ad itself."""
_SPAN: Final = re.compile(
    r"""//[^\n]*+|/\*.*?(?:\*/|\Z)|'(?:[^'\\]|\\.)*+'?|("(?:[^"\\]|\\.)*+"?)""", re.DOTALL
)
"""What a quote may stand in: comments, quoted names, and strings as group 1; also without an end,
so that no text is gone through twice."""


def sendable(text: str) -> str:
    """The text of an ad. Raises ValueError where it is too long to be matched or sent on."""
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
    """The ad of a text. Raises ValueError for no ad, and for one that is too long."""
    try:
        return parse_ad(sendable(text), "new")
    except ParseError as error:
        raise ValueError(f"the ad cannot be read: {error}") from None


def a_slot(text: str) -> ClassAd:
    """The ad of a free slot, as ``an_ad``, with less room for what is no literal.

    >>> a_slot("[ Requirements = MY.Start; Start = " + "TARGET.Cpus > 1 && " * 200 + "true ]")
    Traceback (most recent call last):
    ...
    ValueError: its expressions have 3812 characters, at most 2048 are taken: shorten its policy
    """
    ad = an_ad(text)
    size = sum(len(str(ad[name])) for name in ad if not _literal(ad[name]))
    if size > MOST_POLICY:
        raise ValueError(
            f"its expressions have {size} characters, at most {MOST_POLICY} are taken:"
            " shorten its policy"
        )
    return ad


def asked(ad: ClassAd, name: str) -> Value:
    """The value of an attribute; ERROR where it takes more than the binder's few steps.

    >>> asked(ClassAd(Direct=True), "Direct")
    True
    """
    return Allowance(_STEPS).value(ad[name], ad, None) if name in ad else UNDEFINED


def reported(text: str) -> str:
    """The text of a result that a pilot reports, whose values are literals.

    Whoever reads it later evaluates nothing of a stranger's. For any other text it is one that
    says why that was refused.

    >>> reported("[ ExitCode = 0; Seconds = { 1.5, 2.5 } ]")
    '[ ExitCode = 0; Seconds = { 1.5, 2.5 } ]'
    >>> reported("[ ExitCode = 0 + 0 ]")[:59]
    '[ Reason = "a result was refused: ExitCode is no number, st'
    """
    why = ""
    if len(text) > MOST_RESULT:
        why = f"it has {len(text)} characters, at most {MOST_RESULT} are taken"
    else:
        try:
            ad = an_ad(text)
        except ValueError as error:
            why = str(error)
        else:
            for name in ad:
                if not _literal(ad[name]):
                    why = f"{name[:80]} is no number, string, boolean or list of these"
                    break
    if not why:
        return text
    return str(ClassAd(Reason=f"a result was refused: {why[:500]}"))


def _literal(node: Expr) -> bool:
    if isinstance(node, ListExpr):
        return all(isinstance(item, Literal) and _plain(item.value) for item in node.items)
    return isinstance(node, Literal) and _plain(node.value)


def _plain(value: object) -> bool:
    return isinstance(value, bool | int | float | str)


def check_job(ad: ClassAd) -> None:
    """Raises ValueError where an attribute of a job's ad is of another type than it must be.

    >>> check_job(ClassAd(Cmd="/bin/true", Env="A=1"))
    Traceback (most recent call last):
    ...
    ValueError: Env is "A=1"; an ad of strings, such as [ NAME = "value" ], was expected
    """
    for name, (fits, expected) in _JOB.items():
        if name in ad and not fits(value := asked(ad, name)):
            found = str(value) if isinstance(value, ErrorType) else str(ad[name])
            raise ValueError(f"{name} is {found[:80]}; {expected} was expected")


def _is_text(value: Value) -> bool:
    return isinstance(value, str) and "\0" not in value


def _is_program(value: Value) -> bool:
    return isinstance(value, str) and value != "" and not value.startswith("handler:")


def _is_texts(value: Value) -> bool:
    return isinstance(value, list) and all(map(_is_text, value))


def _is_environment(value: Value) -> bool:
    return isinstance(value, ClassAd) and all(_is_text(asked(value, name)) for name in value)


def _is_amount(value: Value) -> bool:
    # What depends on the slot has no value yet.
    return value is UNDEFINED or (_is_number(value) and value >= 0)


def _is_limit(value: Value) -> bool:
    return _is_number(value) and value > 0


def _is_number(value: Value) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)


_AMOUNT: Final = _is_amount, "a number"
_LIMIT: Final = _is_limit, "a number above 0"
_TRUTH: Final = (lambda value: isinstance(value, bool)), "true or false"
_TEXT: Final = _is_text, "a string"
_JOB: Final[Mapping[str, tuple[Callable[[Value], bool], str]]] = MappingProxyType({
    "Cmd": (_is_program, "the path of a program (handlers are the site's, as applications)"),
    "Application": _TEXT,
    "Arguments": (_is_texts, "a list of strings"),
    "Env": (_is_environment, 'an ad of strings, such as [ NAME = "value" ],'),
    "JobClass": _TEXT,
    "Direct": _TRUTH,
    "MayConnect": _TRUTH,
    "RequestCpus": _AMOUNT, "RequestMemory": _AMOUNT, "RequestDisk": _AMOUNT,
    "RequestGpus": _AMOUNT,
    "MaxSeconds": _LIMIT, "MaxMemory": _LIMIT, "MaxDisk": _LIMIT, "MaxOutput": _LIMIT,
})  # fmt: skip
"""What an attribute of a job must be, where it is there."""
