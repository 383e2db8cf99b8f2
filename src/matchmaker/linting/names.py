"""Rules about names: of attributes and of functions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from typing import Final

from matchmaker._diagnostics import NOTE
from matchmaker._limits import LINT_LIMITS as LIMITS
from matchmaker.classad.functions import FUNCTIONS, instead, unknown
from matchmaker.classad.nodes import MY_SCOPES, AdExpr, Attr, Binary, Call, scope_of
from matchmaker.classad.operators import MIRRORED
from matchmaker.classad.printer import quote, unparse_name
from matchmaker.classad.walks import SPECIAL
from matchmaker.linting.kinds import Facts, KnownNames
from matchmaker.linting.model import (
    AdScope,
    Definition,
    LintSite,
    NodePlace,
    Report,
    commented_out,
    role_of,
)


def unknown_attribute(site: LintSite, facts: Facts, known: KnownNames) -> Iterator[Report]:
    """A name that neither the ad nor a target nor the schema has."""
    node = site.place.node
    role = role_of(site)
    if not isinstance(node, Attr) or not role:
        return
    own = role != "target"
    if own and site.scope.find(node.folded) is not None:
        return
    if role != "my" and known.has(node.folded):
        return
    if role == "my" and node.folded in known.schema:
        return
    host = _host_name(site) if role == "bare" else ""
    if host:
        message = f"no attribute is named {node.name}; a text such as {host} is written in quotes"
        yield _top(site).report(message, f'"{host}"')
        return
    like = known.suggestion(node.name, site.scope, role, _scope_words(site))
    outside = known.has_targets or bool(known.schema)
    # The ad of a single expression is not known.
    inside = bool(site.scope.definitions)
    sure = (inside or role == "target") and (outside or role == "my")
    guarded = node.folded in site.guards
    if not like and (guarded or not sure):
        return
    message = _missing(role, known).format(node.name)
    if like:
        message += f"; did you mean {like}?"
    # A schema may name all attributes of one side of a match, and none of the other.
    complete = inside if role == "my" else outside
    grave = complete if like else known.has_targets and role != "my"
    fix, severity = unparse_name(like) if like else "", "" if grave and not guarded else NOTE
    yield site.report(message, fix, severity, site.place.names[0])


def foreign_word(site: LintSite, facts: Facts, known: KnownNames) -> Iterator[Report]:
    """A name that nothing known has, and that is text or a constant in other languages."""
    node = site.place.node
    if not isinstance(node, Attr) or role_of(site) != "bare":
        return
    if site.scope.find(node.folded) is not None or known.has(node.folded):
        return
    name = site.place.names[0]
    if node.folded in _NOTHING:
        message = f"{node.name} is an attribute, which nothing has: test with =?= undefined"
        yield site.report(message, "undefined", at=name)
    above = site.above.place.node if site.above is not None else None
    if (
        site.piece.text[name.start] == "'"
        and isinstance(above, Binary)
        and above.operator in MIRRORED
    ):
        message = (
            f"'{node.name}' in single quotes is an attribute, which nothing has: text takes double"
            " quotes"
        )
        yield site.report(message, quote(node.name, '"'), at=name)


_NOTHING: Final = frozenset({"null", "none", "nil"})


def _missing(role: str, known: KnownNames) -> str:
    if role == "my" or not (known.has_targets or known.schema):
        return "this ad has no attribute {}"
    if role == "target":
        return ("no target has an" if known.has_targets else "the schema has no") + " attribute {}"
    other = "any target" if known.has_targets else "the schema"
    return f"neither this ad nor {other} has an attribute {{}}"


def _scope_words(site: LintSite) -> Iterable[str]:
    """The words that may be meant by a name from which something is selected."""
    above = site.above
    selected = above is not None and isinstance(above.place.node, Attr)
    return SPECIAL.values() if selected else ()


def _host_name(site: LintSite) -> str:
    """The text ``a.b.c`` of a host name, if a bare name begins one."""
    names = [site.place.names[0].text]
    at = site.above
    while at is not None and isinstance(at.place.node, Attr):
        names.append(at.place.names[-1].text)
        at = at.above
    return ".".join(names) if len(names) > 2 else ""


def _top(site: LintSite) -> LintSite:
    at = site
    while at.above is not None and isinstance(at.above.place.node, Attr):
        at = at.above
    return at


def unknown_function(site: LintSite, facts: Facts, known: KnownNames) -> Iterator[Report]:
    """A call of an unknown function: always an error."""
    node = site.place.node
    if not isinstance(node, Call) or node.function.lower() in FUNCTIONS:
        return
    name, called = site.place.names[0], node.function
    yield site.report(unknown(called), instead(called[:60]), at=name)


def wrong_arity(site: LintSite, facts: Facts, known: KnownNames) -> Iterator[Report]:
    """A call with too many or too few arguments: always an error."""
    node = site.place.node
    if isinstance(node, Call):
        function = FUNCTIONS.get(node.function.lower())
        if function is not None and not function.accepts(len(node.arguments)):
            yield site.report(
                f"{function.name}() takes {function.arity}, not {len(node.arguments)}"
            )


# --- of an ad as a whole --------------------------------------------------------------------------


def shadowed(scope: AdScope) -> Iterator[Report]:
    """An attribute that is set again further down: only the last one counts.

    Ads of jobs that the scheduler has written repeat attributes, and nobody mends that.
    """
    if scope.last.keys() >= _OF_A_JOB:
        return
    for definition in scope.definitions:
        last = scope.last[definition.folded]
        if last is not definition:
            start, end, fix = commented_out(definition)
            yield Report(
                definition.name_piece, start, end,
                f"{definition.name.text} is set again below, so that this has no effect:"
                " remove one of them", fix,
            )  # fmt: skip


_OF_A_JOB: Final = frozenset({"clusterid", "procid"})


def circular(scope: AdScope) -> Iterator[Report]:
    """An attribute that leads back to itself, which makes it undefined."""
    graph: dict[str, dict[str, NodePlace]] = {}
    for folded, definition in scope.last.items():
        uses = _uses(definition, scope.last)
        own = uses.pop(folded, None)
        if own is not None:
            yield Report(
                definition.piece, own.start, own.end,
                f"{definition.name.text} is defined by itself: here it is undefined"
                f" (TARGET.{definition.name.text} is the other ad's)",
            )  # fmt: skip
        graph[folded] = uses
    for _ in range(LIMITS.circles):
        try:
            TopologicalSorter(graph).prepare()
        except CycleError as error:
            circle: list[str] = error.args[1]
            # Each stands after one that it leads to.
            first, back = circle[1], circle[0]
            place = graph[first].pop(back)
            names = [scope.last[folded].name.text for folded in circle]
            yield Report(
                scope.last[first].piece, place.start, place.end,
                f"{names[0]} leads back to itself ({' <- '.join(names)}): there it is undefined",
            )  # fmt: skip
        else:
            return


def _uses(definition: Definition, names: Mapping[str, Definition]) -> dict[str, NodePlace]:
    """The attributes of the same ad that a definition evaluates, with the first place of each.

    An ad within is not evaluated with the one around it.
    """
    found: dict[str, NodePlace] = {}
    stack = [definition.value]
    while stack:
        place = stack.pop()
        node = place.node
        if isinstance(node, Attr):
            scope = scope_of(node)
            bare = node.base is None and not node.absolute
            if node.folded in names and (bare or (scope in MY_SCOPES and scope not in names)):
                found.setdefault(node.folded, place)
        if not isinstance(node, AdExpr):
            stack.extend(reversed(place.parts))
    return found
