"""Functions that choose an expression or its ad, or look at an expression itself.

With those that the gLite broker added: matching with one more ad, and names of VOMS groups.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from matchmaker._limits import CLASSAD_LIMITS as LIMITS
from matchmaker.classad.ad import ClassAd
from matchmaker.classad.errors import ParseError
from matchmaker.classad.functions import BOOLEAN, NUMBER, Trait, function, wrong
from matchmaker.classad.functions.conversions import to_text
from matchmaker.classad.functions.patterns import search
from matchmaker.classad.nodes import TARGET_SCOPES, Attr, Expr
from matchmaker.classad.operators import ascii_fold, truth
from matchmaker.classad.state import FOUR, Budget, CallScope, OutOfBoundsError
from matchmaker.classad.values import (
    UNDEFINED,
    ErrorType,
    UndefinedType,
    Value,
    is_error,
    is_exceptional,
)
from matchmaker.classad.walks import names_of, weight

GLITE: Final = frozenset({"anymatch", "allmatch", "whichmatch", "fqanmember", "accessby"})
"""These names, folded: HTCondor has no such functions."""

_CAPABILITY: Final = re.compile(r"/Capability=[^/]*", re.IGNORECASE)
_ROLE: Final = re.compile(r"/Role=", re.IGNORECASE)
FQAN: Final = re.compile(
    r"(?:/[\w.-]+)+(?:/role=[\w.-]+)?(?:/capability=[\w.-]+)?", re.IGNORECASE | re.ASCII
)
"""A VOMS group or role."""


@function("ifThenElse", 3, lazy=True)
def if_then_else(arguments: tuple[Expr, ...], scope: CallScope) -> Value:
    """ifThenElse(c, a, b): a if c is true (or a number other than 0), b if it is false.

    Undefined and error pass through c; a string as c is an error. Only the branch taken is
    evaluated. (HTCondor manual.)

    >>> from matchmaker import parse_expr
    >>> parse_expr('ifThenElse(2 > 1, "yes", 1 / 0)').eval()
    'yes'
    """
    condition = truth(scope.eval(arguments[0]))
    if not isinstance(condition, bool):
        return condition
    return scope.eval(arguments[1] if condition else arguments[2])


@function("eval", 1, traits={Trait.REFLECTIVE, Trait.CODE, Trait.ASKING}, lazy=True)
def eval_(arguments: tuple[Expr, ...], scope: CallScope) -> Value:
    """eval(x): x as text, read as an expression and evaluated in place of the call.

    Undefined, and any other text, are an error. (HTCondor manual.)

    >>> from matchmaker import parse_ad
    >>> parse_ad('[a = 1; b = eval("a + 1")]').eval("b")
    2
    """
    from matchmaker.classad.parser import parse_expr

    text = to_text(scope.eval(arguments[0]), scope.budget)
    if not isinstance(text, str):
        return wrong("eval", "text", text)
    # Reading costs more than most steps of an evaluation do.
    scope.spend(100 + 32 * len(text))
    try:
        expression = parse_expr(text)
    except ParseError as error:
        return ErrorType(f"eval(): {error.summary()}")
    # Text may read itself, without end and through no attribute.
    state = scope.budget
    state.depth += expression.depth
    if state.depth > LIMITS.depth:
        raise OutOfBoundsError(f"eval() leads more than {LIMITS.depth} levels deep")
    value = scope.eval(expression)
    state.depth -= expression.depth
    return value


@function("debug", 1, traits={Trait.VOLATILE, Trait.ASKING}, lazy=True)
def debug(arguments: tuple[Expr, ...], scope: CallScope) -> Value:
    """debug(x): x, of any type; undefined and error stay.

    HTCondor writes the evaluation of x to a log as well. (HTCondor manual.)

    >>> from matchmaker import parse_expr
    >>> parse_expr("debug(1 + 1)").eval()
    2
    """
    return scope.eval(arguments[0])


@function("unparse", 1, traits={Trait.REFLECTIVE, Trait.ASKING}, lazy=True)
def unparse(arguments: tuple[Expr, ...], scope: CallScope) -> Value:
    """unparse(attr): the expression of an attribute of the ad as text, empty if it is missing.

    The attribute is not evaluated, so that it may be undefined. Anything but a name as the argument
    is an error. (HTCondor manual.)

    >>> from matchmaker import parse_ad
    >>> parse_ad("[a = b || c; t = unparse(a)]").eval("t")
    'b || c'
    """
    name = arguments[0]
    if not isinstance(name, Attr):
        return ErrorType("unparse() takes the name of an attribute")
    if name.base is not None or name.absolute or scope.ad is None or name.name not in scope.ad:
        return ""
    text = str(scope.ad.expr(name.name))
    scope.spend(len(text))
    return text


@function("unresolved", 1, 2, traits={Trait.REFLECTIVE, Trait.ASKING}, lazy=True)
def unresolved(arguments: tuple[Expr, ...], scope: CallScope) -> Value:
    """unresolved(attr[, pattern]): the names that an attribute needs from outside its ad.

    The result is a list in text. With a pattern (see regexp(), without regard to case), whether one
    of the names matches it. Undefined if the attribute is missing; anything but a name is an
    error. (HTCondor manual.)

    >>> from matchmaker import parse_ad
    >>> parse_ad("[a = x + b + TARGET.y; b = z; t = unresolved(a)]").eval("t")
    'y,x,z'
    """
    start = arguments[0]
    if not isinstance(start, Attr):
        return ErrorType("unresolved() takes the name of an attribute")
    pattern = scope.eval(arguments[1]) if len(arguments) == 2 else ""
    ad = scope.ad if start.base is None else scope.eval(start.base)
    if not isinstance(ad, ClassAd) or start.absolute or start.name not in ad:
        return UNDEFINED
    names = _external_names(ad.expr(start.name), ad, scope)
    if len(arguments) == 1:
        return ",".join(names)
    if not isinstance(pattern, str):
        return wrong("unresolved", "a pattern as a string", pattern)
    found: Value = search("unresolved", pattern, "", "i", scope.budget)
    if not isinstance(found, bool):
        return found
    for name in names:
        found = search("unresolved", pattern, name, "i", scope.budget)
        if found is not False:
            return found
    return False


def _external_names(root: Expr, ad: ClassAd, scope: CallScope) -> list[str]:
    """The names that an expression leads to and the ad does not define, in order."""
    found: dict[str, str] = {}
    pending, seen = [root], {root}
    while pending:
        expression = pending.pop()
        # Each name takes several comparisons.
        scope.spend(3 * weight(expression))
        names = names_of(expression)
        for path in names.paths:
            if path.start is not None:
                continue
            if path.scope in TARGET_SCOPES:
                inner = path.names[1:]
                found.setdefault(f"target.{'.'.join(inner)}".lower(), ".".join(inner))
                continue
            kept = path.names[1:] if path.scope else path.names
            if kept[0] in ad:
                if ad.expr(kept[0]) not in seen:
                    seen.add(ad.expr(kept[0]))
                    pending.append(ad.expr(kept[0]))
            elif ascii_fold(kept[0]) not in names.defined:
                found.setdefault(".".join(kept).lower(), ".".join(kept))
    return [found[key] for key in sorted(found)]


@function("evalInEachContext", 2, traits={Trait.REFLECTIVE}, lazy=True, elsewhere=0)
def eval_in_each_context(arguments: tuple[Expr, ...], scope: CallScope) -> Value:
    """evalInEachContext(x, L): the list of the values of x in each ad of the list L.

    x that is the name of an attribute stands for its expression. Bare names in x that an ad lacks
    are looked up around it and then in its TARGET. An element that is not an ad gives an error, or
    undefined. Undefined if L is; error if L is not a list. (HTCondor manual.)

    >>> from matchmaker import parse_expr
    >>> parse_expr("evalInEachContext(a + 1, {[a = 1], [a = 2]})").eval()
    [2, 3]
    """
    ads = scope.eval(arguments[1])
    if not isinstance(ads, list):
        return ads if ads is UNDEFINED else wrong("evalInEachContext", "a list of ads", ads)
    return _in_each(arguments[0], ads, scope)


@function("countMatches", 2, traits={Trait.REFLECTIVE}, result=NUMBER, lazy=True, elsewhere=0)
def count_matches(arguments: tuple[Expr, ...], scope: CallScope) -> Value:
    """countMatches(x, L): in how many ads of the list L x is true (or a number other than 0).

    0 if L is undefined; error if L is not a list. (HTCondor manual.)

    >>> from matchmaker import parse_expr
    >>> parse_expr("countMatches(a > 1, {[a = 1], [a = 2], [b = 3]})").eval()
    1
    """
    ads = scope.eval(arguments[1])
    if ads is UNDEFINED:
        return 0
    if not isinstance(ads, list):
        return wrong("countMatches", "a list of ads", ads)
    return sum(truth(value) is True for value in _in_each(arguments[0], ads, scope))


def _in_each(node: Expr, ads: list[Value], scope: CallScope) -> list[Value]:
    node = _named(node, scope)
    scope.spend(len(ads) * weight(node))
    return [_in_context(node, ad, scope) for ad in ads]


def _named(node: Expr, scope: CallScope) -> Expr:
    """The expression that an attribute's name stands for; anything else stands for itself."""
    if not isinstance(node, Attr):
        return node
    base: Value | None = scope.ad
    if node.base is not None:
        base = scope.eval(node.base)
    elif node.absolute and scope.ad is not None:
        base = scope.ad.root
    ad = base if isinstance(base, ClassAd) else None
    while ad is not None and node.name not in ad:
        ad = ad.parent
    if ad is None and node.base is None and not node.absolute:
        # As with any bare name that an ad lacks.
        outermost = scope.ad is None or scope.ad.parent is None
        ad = scope.budget.opposite(scope.ad) if outermost else None
    return ad.expr(node.name) if ad is not None and node.name in ad else node


def _in_context(node: Expr, ad: Value, scope: CallScope) -> Value:
    if isinstance(ad, ClassAd):
        return scope.in_context(ad, node)
    return UNDEFINED if ad is UNDEFINED else wrong("evalInEachContext", "a list of ads", ad)


def _quantified(name: str, which: str, *, decides: bool) -> Callable[..., Value]:
    """Enter ``||`` or ``&&`` of the condition's values; `decides` is the value that ends it."""

    @function(name, 2, traits={Trait.GANG}, result=BOOLEAN, lazy=True, elsewhere=1)
    def quantified(arguments: tuple[Expr, ...], scope: CallScope) -> Value:
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

    quantified.__doc__ = f"""{name}(L, x): whether x is true of {which} ad of the list L.

    The ad is TARGET for x, MY the one that the call stands in. An error where x is neither true,
    false nor undefined, or where L holds what is no ad, unless x is {str(decides).lower()} of an ad
    before it; else undefined where x is undefined of one. Undefined where L is; error where it is
    no list. (gLite WMS, gang matching.)

    >>> from matchmaker import parse_expr
    >>> parse_expr("{name}({{[free = 5], [free = 200]}}, target.free > 100)").eval()
    {decides}
    """
    return quantified


any_match = _quantified("anyMatch", "any", decides=True)
all_match = _quantified("allMatch", "every", decides=False)


@function("whichMatch", 2, traits={Trait.GANG}, lazy=True, elsewhere=1)
def which_match(arguments: tuple[Expr, ...], scope: CallScope) -> Value:
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


def _ads(name: str, arguments: tuple[Expr, ...], scope: CallScope) -> Value:
    ads = scope.eval(arguments[0])
    if isinstance(ads, list) or is_exceptional(ads):
        return ads
    return wrong(name, "a list of ads", ads)


def _met(
    name: str, ads: list[Value], node: Expr, scope: CallScope
) -> Iterator[tuple[Value, Value]]:
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
    for any text, and at its end for any role too. Text before the first slash, such as ``VOMS:``,
    must be the same, in upper or lower case; ``kind`` is set before the name. Of a list of names,
    whether one of them is covered. Elements of the list of rules other than text cover nothing.
    Undefined if an argument is; an error for other types. (gLite WMS, access control.)

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


@function("accessBy", 4, 5, budgeted=True, result=BOOLEAN)
def access_by(
    rules: Value, subject: Value, vo: Value, fqan: Value, also: Value = UNDEFINED,
    *, budget: Budget | None = None,
) -> Value:  # fmt: skip
    """accessBy(L, subject, vo, fqan[, also]): whether rules of access admit a user.

    True if a rule of the list L names the user and none denies; false if one denies; undefined if
    none names. A user has the subject of a certificate, a VO, and a VOMS group or role or a list of
    them; each may be undefined. A rule is ``VO:name``, ``VOMS:/group/Role=…`` as in FQANmember(), a
    subject, ``ALL``, or ``DENY:`` and one of these. Names compare without case; a group is also of
    its VO. A malformed group or role is named by no rule, and denied by each rule on a VO, group or
    role. Each list in ``also`` must admit, too. In place of one may stand several: one of
    them must; in place of any, several that all must, and so on. An error among the arguments, or
    one of another type, gives error. (gLite WMS, access control.)

    >>> from matchmaker import parse_expr
    >>> text = 'accessBy({"VO:cms", "DENY:/cms/Role=bad"}, undefined, "CMS", "/cms/Role=pilot")'
    >>> parse_expr(text).eval(), parse_expr(text.replace("pilot", "BAD")).eval()
    (True, False)
    >>> parse_expr(text.replace("CMS", "atlas").replace("/cms/Role=pilot", "/atlas")).eval()
    UNDEFINED
    >>> parse_expr(text[:-1] + ', { { { "VO:atlas" }, { "/CN=Ada" } } })').eval()
    UNDEFINED
    """
    names = fqan if isinstance(fqan, list) else [] if fqan is UNDEFINED else [fqan]
    lists = [] if rules is UNDEFINED else [rules]
    lists += also if isinstance(also, list) else [] if also is UNDEFINED else [also]
    for value in (*lists, subject, vo, *names):
        if is_error(value):
            return value
    if not all(isinstance(one, list) for one in lists):
        return wrong("accessBy", "lists of rules", rules if also is UNDEFINED else also)
    for value in (subject, vo):
        if not isinstance(value, str | UndefinedType):
            return wrong("accessBy", "a subject and a VO as strings", value)
    paths = [name if isinstance(name, str) else "" for name in names]
    if budget is not None:
        texts = rule_texts(lists)
        text = sum(1 + (len(rule) >> FOUR) for rule in texts)
        budget.spend(text * (2 + len(paths)) + len(texts) * sum(len(p) >> FOUR for p in paths))
    who, of = (value if isinstance(value, str) else "" for value in (subject, vo))
    return _User.of(who, of, paths).admitted(lists) if lists else UNDEFINED


def rule_texts(lists: Sequence[Value]) -> list[str]:
    """Return the rules of nested lists in their order."""
    found: list[str] = []
    waiting = [*reversed(lists)]
    while waiting:
        item = waiting.pop()
        if isinstance(item, str):
            found.append(item)
        elif isinstance(item, list):
            waiting += reversed(item)
    return found


class _User(NamedTuple):
    """A user as rules of access name one, in lower case."""

    subject: str
    vos: frozenset[str]
    groups: tuple[str, ...]
    odd: bool

    @classmethod
    def of(cls, subject: str, vo: str, names: Sequence[str]) -> _User:
        paths = [name.strip().lower() for name in names]
        sound = [path for path in paths if FQAN.fullmatch(path)]
        vos = {vo.strip().lower(), *(path.split("/", 2)[1] for path in sound)} - {""}
        groups = tuple(_with_role(path).lower() for path in sound)
        return cls(subject.strip().lower(), frozenset(vos), groups, len(sound) < len(paths))

    def admitted(self, rules: Sequence[Value], *, every: bool = True) -> bool | UndefinedType:
        """Whether rules admit the user; of lists, whether every one does, or any."""
        if not any(isinstance(item, list) for item in rules):
            texts = [rule.strip().lower() for rule in rules if isinstance(rule, str)]
            if any(map(self._denied, texts)):
                return False
            return True if any(map(self._is, texts)) else UNDEFINED
        each = [self.admitted(r, every=not every) for r in rules if isinstance(r, list)]
        order = (False, UNDEFINED, True) if every else (True, False, UNDEFINED)
        return next(verdict for verdict in order if verdict in each)

    def _denied(self, rule: str) -> bool:
        kind, colon, whom = rule.partition(":")
        if not colon or kind.strip() != "deny":
            return False
        whom = whom.strip()
        if whom.startswith("/"):
            if self.subject == whom or self._in(whom) or whom[1:].removesuffix("/*") in self.vos:
                return True
            return self.odd and "/cn=" not in whom
        if not whom.startswith(("vo:", "voms:")) and whom != "all":
            whom = f"vo:{whom}"
        return self._is(whom) or (self.odd and whom != "all")

    def _is(self, whom: str) -> bool:
        kind, _, name = whom.partition(":")
        if kind == "vo":
            return name.strip() in self.vos
        if kind == "voms" or FQAN.fullmatch(whom):
            return self._in(name.strip() if kind == "voms" else whom)
        return whom == "all" or bool(self.subject and whom == self.subject)

    def _in(self, group: str) -> bool:
        pattern = _with_role(group).lower()
        return any(_covers(pattern, path) for path in self.groups)


def _parts(name: str) -> tuple[str, str]:
    kind, slash, rest = name.strip().partition("/")
    return kind.strip().lower(), slash + rest


def _with_role(path: str) -> str:
    path = _ROLE.sub("/Role=", _CAPABILITY.sub("", path))
    path = path.rstrip("/")
    return path if path.endswith("*") or _ROLE.search(path) else f"{path}/Role=NULL"


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
