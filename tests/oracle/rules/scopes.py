"""HTCondor's scopes where they are not ours: the ad around a match, and what is unresolved."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from matchmaker import ClassAd, Expr, parse_ad
from matchmaker.classad import reference as evaluation
from matchmaker.classad.functions import control, patterns
from matchmaker.classad.nodes import AdExpr, Attr, ListExpr
from matchmaker.classad.operators import ascii_fold, truth
from matchmaker.classad.state import CallScope
from matchmaker.classad.values import UNDEFINED, ErrorType, Value
from matchmaker.classad.walks import children
from tests.oracle.answers import REFUSED
from tests.oracle.emulation import NoValueError, Rules, Wrapper
from tests.oracle.rules.lists import Listed, written
from tests.oracle.rules.names import Match, meant

AROUND: Final = """[
    lCtx = [ ad = .LEFT; my = .LEFT; other = .RIGHT; target = .RIGHT ];
    rCtx = [ ad = .RIGHT; my = .RIGHT; other = .LEFT; target = .LEFT ];
    leftRankValue = LEFT.rank; rightRankValue = RIGHT.rank;
    leftMatchesRight = RIGHT.requirements; rightMatchesLeft = LEFT.requirements;
    symmetricMatch = RIGHT.requirements && LEFT.requirements
]"""
"""The ad that HTCondor makes around the two ads of a match, here without them."""


def _surround(my: ClassAd, target: ClassAd) -> tuple[ClassAd, ClassAd]:
    around = parse_ad(AROUND)
    left, right = my.copy(), target.copy()
    for ad, name, context in ((left, "LEFT", "lCtx"), (right, "RIGHT", "rCtx")):
        node = around.expr(context)
        assert isinstance(node, AdExpr)
        ad.parent = ClassAd.from_expression(node, around)
        around._held[ascii_fold(context)] = ad.parent
        around[name] = UNDEFINED
        around._held[ascii_fold(name)] = ad
    return left, right


def _found_in_match(inner: Wrapper, node: Attr, state: Any, ad: ClassAd | None) -> Value:
    if node.absolute and ad is not None and node.folded in _SPECIAL:
        # Of the ad around both, which is nobody's TARGET.
        held = node.folded in ad.root._held
        return inner(node, state, ad) if held else evaluation._special(node.folded, state, ad.root)
    bare = node.base is None and not node.absolute and node.folded not in _SPECIAL
    if bare and isinstance(state, Match) and evaluation._defining(ad, node.folded) is None:
        # A function may evaluate it in an ad of a list of the match's ads, one deeper.
        below = ad is not None and ad is state.context and state.other(ad) is None
        other = state.other(ad.parent if ad is not None and below else ad)
        scope = evaluation._defining(other, node.folded)
        if scope is None:
            return UNDEFINED
        return evaluation._attribute_of(scope, node.folded, state)
    value: Value = inner(node, state, ad)
    return value


_SPECIAL: Final = frozenset(evaluation._SPECIAL)


def _found_in_other(inner: Wrapper, node: Attr, state: Any, ad: ClassAd | None) -> Value:
    """What we do: a bare name that no ad around has is looked up in the other, if outermost."""
    bare = node.base is None and not node.absolute and node.folded not in _SPECIAL
    if not bare or evaluation._defining(ad, node.folded) is not None:
        value: Value = inner(node, state, ad)
        return value
    outermost = ad is None or ad.parent is None or ad is state.context
    other = state.opposite(ad) if outermost else None
    if other is None or node.folded not in other._held:
        return UNDEFINED
    return evaluation._attribute_of(other, node.folded, state)


OUR_OUTERMOST: Final = Rules(nodes={Attr: _found_in_other})
OUTERMOST: Final = Rules(surround=_surround, state=Match, nodes={Attr: _found_in_match})

# --- what an attribute needs from outside its ad --------------------------------------------------


class _Unknown(Exception):  # noqa: N818 - ends a search
    """The search for names has come upon something that it does not know."""


def _unresolved(inner: Wrapper, arguments: tuple[Expr, ...], scope: CallScope) -> Any:
    start = arguments[0]
    if not isinstance(start, Attr):
        return inner(arguments, scope)
    found = meant(start, scope)
    if found is None:
        return UNDEFINED
    expression, ad = found
    names: dict[str, str] = {}
    try:
        _collect(expression, scope.within(ad), names, 50)
    except _Unknown:
        names = {}
    wanted = [names[key].removeprefix("target.") for key in sorted(names)]
    wanted = [name[7:] if name[:7].lower() == "target." else name for name in wanted]
    if len(arguments) == 1:
        return ",".join(wanted)
    pattern = scope.eval(arguments[1])
    if not isinstance(pattern, str):
        raise NoValueError(REFUSED)
    compiled = patterns._compiled(pattern, "i")
    if isinstance(compiled, ErrorType):
        return compiled
    return any(match[0] for name in wanted for match in compiled.finditer(name))


UNRESOLVED: Final = Rules(functions={"unresolved": _unresolved})


def _collect(node: Expr, scope: CallScope, names: dict[str, str], depth: int) -> None:
    if not depth:
        raise _Unknown
    if not isinstance(node, Attr):
        for child in children(node):
            _collect(child, scope, names, depth - 1)
        return
    start = scope.ad
    if node.base is not None:
        base = scope.eval(node.base)
        if base is UNDEFINED:
            full = f"{written(node.base)}.{node.name}"
            names.setdefault(full.lower(), full)
            return
        if not isinstance(base, ClassAd):
            raise _Unknown
        start = base
    elif node.absolute and start is not None:
        start = start.root
    holder = evaluation._defining(start, node.folded)
    if holder is not None:
        _collect(holder.expr(node.name), scope.within(holder), names, depth - 1)
    elif node.folded not in _SPECIAL:
        names.setdefault(node.folded, node.name)
    else:
        value = evaluation._special(node.folded, scope.budget, start)
        if isinstance(value, ClassAd):
            _collect(value.expression(), scope.within(value), names, depth - 1)


def _unresolved_in_ad(inner: Wrapper, arguments: tuple[Expr, ...], scope: CallScope) -> Any:
    """What we do: the names that the attribute of an ad leads to within the ad, and not further."""
    name = arguments[0]
    if not isinstance(name, Attr):
        return inner(arguments, scope)
    ad = scope.ad if name.base is None else scope.eval(name.base)
    pattern = scope.eval(arguments[1]) if len(arguments) > 1 else ""
    if not isinstance(ad, ClassAd) or name.absolute or name.name not in ad:
        return UNDEFINED
    wanted: dict[str, str] = {}
    _lead_out(ad.expr(name.name), ad, wanted, {ad.expr(name.name)})
    names = [wanted[key] for key in sorted(wanted)]
    if len(arguments) == 1:
        return ",".join(names)
    if not isinstance(pattern, str):
        return ErrorType()
    compiled = patterns._compiled(pattern, "i")
    if isinstance(compiled, ErrorType):
        return compiled
    return any(compiled.search(name) for name in names)


def _dotted(node: Expr) -> str:
    """A name after others, as ``a.b.c``; nothing for what does not begin with a name."""
    if not isinstance(node, Attr):
        return ""
    if node.base is None:
        return node.name
    before = _dotted(node.base)
    return f"{before}.{node.name}" if before else ""


def _lead_out(root: Expr, ad: ClassAd, wanted: dict[str, str], seen: set[Expr]) -> None:
    """Adds the names in an expression that its ad does not define; follows those it does."""
    local: set[str] = set()
    paths: list[str] = []

    def walk(node: Expr) -> None:
        if isinstance(node, AdExpr):
            local.update(map(ascii_fold, node.names))
        path = _dotted(node)
        if path:
            paths.append(path)
        else:
            for child in children(node):
                walk(child)

    walk(root)
    for path in paths:
        scoped, _, rest = path.partition(".")
        if rest and scoped.lower() in ("target", "other"):
            wanted.setdefault(f"target.{rest.lower()}", rest)
            continue
        own = rest if rest and scoped.lower() in ("my", "self") else path
        first = own.split(".")[0]
        if first in ad and ad.expr(first) not in seen:
            seen.add(ad.expr(first))
            _lead_out(ad.expr(first), ad, wanted, seen)
        elif first not in ad and ascii_fold(first) not in local:
            wanted.setdefault(own.lower(), own)


OUR_UNRESOLVED: Final = Rules(functions={"unresolved": _unresolved_in_ad})

# --- a name that is looked up moves the place from which all that follows is looked up ------------


_HERE: Final[Any] = object()
"""The place where an expression stands."""


def _placed(inner: Wrapper, node: Attr, state: Any, ad: ClassAd | None) -> Value:
    """A name as it is looked up from the place where the evaluation has come to."""
    place = getattr(state, "place", _HERE)
    state.place = _HERE
    value: Value = inner(node, state, ad if place is _HERE else place)
    state.place = place
    return value


def _moved(name: Expr, scope: CallScope) -> tuple[Expr, Any]:
    """What a name as an argument stands for, and the place where it is, or one without names."""
    if not isinstance(name, Attr) or scope.ad is None:
        return name, _HERE
    found = meant(name, scope)
    if found is not None:
        return found
    start = scope.ad if name.base is None else scope.eval(name.base)
    if not isinstance(start, ClassAd):
        return name, _HERE
    surrounded = start.parent is not None or scope.budget.opposite(start) is not None
    return name, ClassAd() if surrounded else start


def _in_each(arguments: tuple[Expr, ...], scope: CallScope) -> Any:
    """evalInEachContext(x, L): L is evaluated in the ad where the name x is found, or in none."""
    state: Any = scope.budget
    before = getattr(state, "place", _HERE)
    scope = scope if before is _HERE else scope.within(before)
    node, place = _moved(arguments[0], scope)
    there = scope if place is _HERE else scope.within(place)
    state.place = _HERE
    if isinstance(arguments[1], ListExpr):
        # An ad that is written in the list keeps the ad in which it stands.
        ads: Value = [
            (scope if isinstance(item, AdExpr) else there).eval(item) for item in arguments[1].items
        ]
    else:
        ads = there.eval(arguments[1])
    value: Value = UNDEFINED if ads is UNDEFINED else ErrorType()
    if isinstance(ads, list):
        seen = ads.called_from(there.ad) if isinstance(ads, Listed) else ads
        value = [control._in_context(node, ad, scope) for ad in seen]
    state.place = before if place is _HERE else place
    return value


def _here_in_each(arguments: tuple[Expr, ...], scope: CallScope) -> Any:
    """What we do: L is evaluated where the call stands, and x where it is found."""
    items = arguments[1].items if isinstance(arguments[1], ListExpr) else None
    ads = scope.eval(arguments[1]) if items is None else list(map(scope.eval, items))
    if not isinstance(ads, list):
        return UNDEFINED if ads is UNDEFINED else ErrorType()
    node = _stands_for(arguments[0], scope)
    return [control._in_context(node, ad, scope) for ad in ads]


def _stands_for(node: Expr, scope: CallScope) -> Expr:
    """The expression that a name stands for: of the ad it is a name of, or of those around it."""
    if not isinstance(node, Attr):
        return node
    start: Any = scope.ad
    if node.base is not None:
        start = scope.eval(node.base)
    elif node.absolute and start is not None:
        start = start.root
    holder = evaluation._defining(start, node.folded) if isinstance(start, ClassAd) else None
    alone = node.base is None and not node.absolute
    if holder is None and alone and (start is None or start.parent is None):
        other = scope.budget.opposite(start)
        holder = other if other is not None and node.folded in other._held else None
    return holder.expr(node.name) if holder is not None else node


def _each(values: Callable[[tuple[Expr, ...], CallScope], Any]) -> Wrapper:
    return lambda inner, arguments, scope: values(arguments, scope)


def _count(values: Callable[[tuple[Expr, ...], CallScope], Any]) -> Wrapper:
    """countMatches(x, L) by the values of x in each ad of L."""

    def wrapper(inner: Wrapper, arguments: tuple[Expr, ...], scope: CallScope) -> Any:
        found = values(arguments, scope)
        if not isinstance(found, list):
            return 0 if found is UNDEFINED else found
        return sum(truth(value) is True for value in found)

    return wrapper


def _looked_up(inner: Wrapper, arguments: tuple[Expr, ...], scope: CallScope) -> Any:
    value = inner(arguments, scope)
    state: Any = scope.budget
    place = _moved(arguments[0], scope)[1]
    state.place = getattr(state, "place", _HERE) if place is _HERE else place
    return value


PLACES: Final = Rules(
    nodes={Attr: _placed},
    functions={
        "evalineachcontext": _each(_in_each), "countmatches": _count(_in_each),
        "unresolved": _looked_up,
    },
)  # fmt: skip
OUR_PLACES: Final = Rules(
    functions={"evalineachcontext": _each(_here_in_each), "countmatches": _count(_here_in_each)}
)
