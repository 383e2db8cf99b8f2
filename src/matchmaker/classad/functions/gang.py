"""Functions that the gLite broker added: matching with one more ad, and names of VOMS groups."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from matchmaker.classad.ad import ClassAd
from matchmaker.classad.functions.results import wrong
from matchmaker.classad.limits import FOUR, Budget
from matchmaker.classad.nodes import Expr
from matchmaker.classad.registry import BOOLEAN, Trait, function
from matchmaker.classad.values import UNDEFINED, Value, is_error, is_exceptional
from matchmaker.classad.walks import weight

if TYPE_CHECKING:
    from matchmaker.classad.state import Scope

GLITE: Final = frozenset({"anymatch", "allmatch", "whichmatch", "fqanmember"})
"""These names, folded: HTCondor has no such functions."""

_CAPABILITY: Final = re.compile(r"/Capability=[^/]*", re.IGNORECASE)
_ROLE: Final = re.compile(r"/Role=", re.IGNORECASE)


@function("anyMatch", 2, traits={Trait.GANG}, result=BOOLEAN, lazy=True, elsewhere=1)
def any_match(arguments: tuple[Expr, ...], scope: Scope) -> Value:
    """anyMatch(L, x): whether x is true of any ad of the list L, which is TARGET for x.

    MY is the ad that the call stands in. An error where x is neither true, false nor undefined, or
    where L holds what is no ad, unless x is true of an ad before it; else undefined where x is
    undefined of one. Undefined where L is; error where it is no list. (gLite WMS, gang matching.)

    >>> from matchmaker import parse_expr
    >>> parse_expr("anyMatch({[free = 5], [free = 200]}, target.free > 100)").eval()
    True
    """
    return _quantified("anyMatch", arguments, scope, decides=True)


@function("allMatch", 2, traits={Trait.GANG}, result=BOOLEAN, lazy=True, elsewhere=1)
def all_match(arguments: tuple[Expr, ...], scope: Scope) -> Value:
    """allMatch(L, x): whether x is true of every ad of the list L, which is TARGET for x.

    True of no ads at all. Undefined and error as in anyMatch(), with false for true.
    (gLite WMS, gang matching.)

    >>> from matchmaker import parse_expr
    >>> parse_expr("allMatch({[free = 5], [free = 200]}, target.free > 100)").eval()
    False
    """
    return _quantified("allMatch", arguments, scope, decides=False)


@function("whichMatch", 2, traits={Trait.GANG}, lazy=True, elsewhere=1)
def which_match(arguments: tuple[Expr, ...], scope: Scope) -> Value:
    """whichMatch(L, x): the list of the ads of the list L that x is true of; undefined if none is.

    Undefined and error as in anyMatch(), but for an undefined x, which counts as false. (gLite
    WMS.)

    >>> from matchmaker import parse_expr
    >>> parse_expr('whichMatch({[n = "a"; free = 5], [n = "b"; free = 9]}, target.free > 7)[0].n'
    ...     ).eval()
    'b'
    """
    ads = _ads("whichMatch", arguments, scope)
    if not isinstance(ads, list):
        return ads
    found: list[Value] = []
    for ad, value in _met("whichMatch", ads, arguments[1], scope):
        if is_error(value):
            return value
        if value is True:
            found.append(ad)
    return found or UNDEFINED


def _quantified(name: str, arguments: tuple[Expr, ...], scope: Scope, *, decides: bool) -> Value:
    """``||`` (where true decides) or ``&&`` (where false does) of the condition's values."""
    ads = _ads(name, arguments, scope)
    if not isinstance(ads, list):
        return ads
    result: Value = not decides
    for _, value in _met(name, ads, arguments[1], scope):
        if value is decides or is_error(value):
            return value
        if value is UNDEFINED:
            result = UNDEFINED
    return result


def _ads(name: str, arguments: tuple[Expr, ...], scope: Scope) -> Value:
    ads = scope.eval(arguments[0])
    if isinstance(ads, list) or is_exceptional(ads):
        return ads
    return wrong(name, "a list of ads", ads)


def _met(name: str, ads: list[Value], node: Expr, scope: Scope) -> Iterator[tuple[Value, Value]]:
    """Each ad with the condition's value for it."""
    steps = weight(node)
    for ad in ads:
        if not isinstance(ad, ClassAd):
            yield ad, wrong(name, "a list of ads", ad)
            continue
        # Outside the ad that it stands in, as it would be matched with.
        alone = ad.copy()
        alone.parent = None
        scope.spend(steps + len(alone))
        value = scope.against(alone, node)
        if isinstance(value, bool) or is_exceptional(value):
            yield ad, value
        else:
            yield ad, wrong(name, "a condition that is true or false", value)


@function("FQANmember", 2, 3, budgeted=True, result=BOOLEAN)
def fqan_member(name: Value, rules: Value, kind: Value = "", budget: Budget | None = None) -> Value:
    """FQANmember(s, L[, kind]): whether a rule of the list L covers the name of a VOMS role.

    A name without a role is that of ``Role=NULL``; a capability is ignored. In a rule ``*`` stands
    for any text, and at its end for any role too. What stands before the first slash, such as
    ``VOMS:``, must be the same, in upper or lower case; ``kind`` is set before the name. Of a list
    of names, whether one of them is covered. What is no text in the list of rules covers nothing.
    Undefined where an argument is; an error for other types. (gLite WMS, access control.)

    >>> from matchmaker import parse_expr
    >>> parse_expr('FQANmember("VOMS:/cms/Role=NULL/Capability=NULL", {"VO:cms", "VOMS:/cms"})'
    ...     ).eval()
    True
    >>> parse_expr('FQANmember({"/cms", "/cms/Role=bad"}, {"DENY:/cms/Role=bad"}, "DENY:")').eval()
    True
    """
    for value in (name, rules, kind):
        if is_exceptional(value):
            return value
    given = name if isinstance(name, list) else [name]
    names = [one for one in given if isinstance(one, str)]
    if len(names) < len(given):
        return wrong("FQANmember", "a name as a string, or a list of them", name)
    if not isinstance(kind, str):
        return wrong("FQANmember", "a kind as a string", kind)
    if not isinstance(rules, list):
        return wrong("FQANmember", "a list of rules", rules)
    if budget is not None:
        # Each name is held against the text of each rule.
        text = sum(1 + (len(rule) >> FOUR) for rule in rules if isinstance(rule, str))
        budget.spend(text + sum(text + len(rules) * (len(one) >> FOUR) for one in names))
    patterns = [_parts(rule) for rule in rules if isinstance(rule, str)]
    wanted = [(before, _with_role(path)) for before, path in patterns]
    for one in names:
        before, path = _parts(f"{kind}{one}")
        path = _with_role(path)
        if any(other == before and _covers(pattern, path) for other, pattern in wanted):
            return True
    return False


def _parts(name: str) -> tuple[str, str]:
    kind, slash, rest = name.strip().partition("/")
    return kind.strip().lower(), slash + rest


def _with_role(path: str) -> str:
    path = _ROLE.sub("/Role=", _CAPABILITY.sub("", path))
    return path if path.endswith("*") or _ROLE.search(path) else f"{path.rstrip('/')}/Role=NULL"


def _covers(pattern: str, path: str) -> bool:
    """Whether a pattern, in which ``*`` is any text, is of the whole path.

    Each part is looked for once, from left to right, so that no pattern takes long.
    """
    first, *parts = pattern.split("*")
    if not parts:
        return first == path
    *middle, last = parts
    if not path.startswith(first) or len(path) < len(first) + len(last) or not path.endswith(last):
        return False
    place, end = len(first), len(path) - len(last)
    for part in middle:
        place = path.find(part, place, end)
        if place < 0:
            return False
        place += len(part)
    return True
