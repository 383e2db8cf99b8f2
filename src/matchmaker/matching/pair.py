"""Match two ads: their requirements of each other, the left one's rank of the right, and reasons.

Many ads at once are in ``pool``; ordering by rank is in ``ranking``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Final, NamedTuple

import attrs

from matchmaker._limits import CLASSAD_LIMITS as LIMITS
from matchmaker.classad.ad import ClassAd, an_ad
from matchmaker.classad.errors import shorten
from matchmaker.classad.evaluate import Allowance, evaluate_attribute
from matchmaker.classad.functions import Trait
from matchmaker.classad.nodes import MY_SCOPES, TRUE, Attr, Call, Expr, scope_of
from matchmaker.classad.operators import ascii_fold, truth
from matchmaker.classad.printer import brief, unparse_value
from matchmaker.classad.values import UNDEFINED, Value, is_error
from matchmaker.classad.walks import WORDS, conjuncts, fold, names_of, postorder, rebuild

REQUIREMENTS: Final = "Requirements"
RANK: Final = "Rank"

FOLDED_REQUIREMENTS: Final = "requirements"
FOLDED_RANK: Final = "rank"


def with_scopes(job: ClassAd) -> ClassAd:
    """The job without attributes named like scopes, for expressions that are not its own.

    In the job's own expressions such a name hides the scope. It must hide no queue from the broker,
    and from the policy of a cycle neither the job's requests nor its owner.

    >>> print(with_scopes(ClassAd(Owner="ada", other=1, My=2)))
    [ Owner = "ada" ]
    """
    if WORDS.isdisjoint(job._held):
        return job
    return ClassAd(
        (name, held) for name, held in job.expressions().items() if ascii_fold(name) not in WORDS
    )


class Match(NamedTuple):
    """The outcome for two ads.

    ``left`` and ``right`` are the values of their requirements as conditions (true, false,
    UNDEFINED or ERROR); ``rank`` is the left ad's rank of the right one, UNDEFINED if it has none.
    A match is as true as ``matched``: ``if match(job, slot):``.
    """

    matched: bool
    left: Value
    right: Value
    rank: Value

    def __bool__(self) -> bool:
        return self.matched


# What Match(…) does, in half the time: a tenth of that of a match.
_match: Final[Callable[[tuple[bool, Value, Value, Value]], Match]] = partial(tuple.__new__, Match)


@attrs.frozen(slots=True)
class Clause:
    """One clause of a requirement and its value for one pair.

    ``facts`` are the first names that it rests on, with their values; ``more`` is the number of
    other names. If the clause is the name of an attribute of the same ad, ``definition`` is its
    expression.
    """

    expression: Expr
    value: Value
    facts: tuple[tuple[str, Value], ...] = ()
    definition: Expr | None = None
    more: int = 0

    @property
    def found(self) -> list[str]:
        """The facts as texts, and how many more there are."""
        texts = [f"{name} = {value_text(value)}" for name, value in self.facts]
        return [*texts, f"{self.more:,} more"] if self.more else texts

    def __str__(self) -> str:
        """Return the clause, its value and the values it depends on, on one line.

        >>> from matchmaker import parse_ad
        >>> job = parse_ad("[Requirements = TARGET.Memory > 100]")
        >>> print(refusal(job, parse_ad("[Memory = 50]")))
        TARGET.Memory > 100 is false (Memory = 50)
        """
        text = f"{brief(self.expression)} is {value_text(self.value)}"
        if self.definition is not None:
            text += f": {brief(self.definition)}"
        return f"{text} ({', '.join(self.found)})" if self.facts else text


def match(left: ClassAd, right: ClassAd) -> Match:
    """Whether two ads match: the requirements of each are true of the other. Never raises on ads.

    A number other than 0 is true; UNDEFINED, ERROR, a string, a list are not. An ad without
    Requirements accepts everything. (Raman et al. 1998, section 3; HTCondor manual, "ClassAd
    Mechanism".)

    >>> from matchmaker import parse_ad
    >>> job = parse_ad("[Want = 2; Requirements = TARGET.Cpus >= MY.Want; Rank = TARGET.Cpus]")
    >>> match(job, parse_ad("[Cpus = 4; Requirements = TARGET.Want < 3]"))
    Match(matched=True, left=True, right=True, rank=4)
    """
    try:
        mine = evaluate_attribute(left, FOLDED_REQUIREMENTS, right, True)
        theirs = evaluate_attribute(right, FOLDED_REQUIREMENTS, left, True)
        if mine is not True or theirs is not True:
            mine, theirs = truth(mine), truth(theirs)
        rank = evaluate_attribute(left, FOLDED_RANK, right)
    except AttributeError:
        given = an_ad(left), an_ad(right)
        if given[0] is left and given[1] is right:
            raise
        return match(*given)
    return _match((mine is True and theirs is True, mine, theirs, rank))


def clauses(ad: ClassAd, other: ClassAd) -> list[Clause]:
    """The clauses of an ad's requirements, each with its value for the other ad.

    The requirements are true exactly when every clause is. All clauses together may take the steps
    of one evaluation, as the requirements may: a clause beyond that is ERROR.

    >>> from matchmaker import parse_ad
    >>> [str(c) for c in clauses(parse_ad("[a = 1; Requirements = a < b && other.c]"),
    ...                          parse_ad("[b = 0]"))]
    ['a < b is false (a = 1, b = 0)', 'other.c is undefined (c = undefined)']
    """
    ad, other = an_ad(ad), an_ad(other)
    return list(_clauses(ad, other)) if REQUIREMENTS in ad else []


def _clauses(ad: ClassAd, other: ClassAd) -> Iterator[Clause]:
    return clauses_of(ad.expr(REQUIREMENTS), ad, other, Allowance())


def clauses_of(
    condition: Expr, ad: ClassAd, other: ClassAd, allowance: Allowance
) -> Iterator[Clause]:
    """The clauses of any condition of an ad, as :func:`clauses` gives those of its requirements.

    A clause beyond the allowance is ERROR.
    """
    facts = Allowance()
    for clause in conjuncts(condition):
        definition = None
        if isinstance(clause, Attr) and (clause.base is None or scope_of(clause) in MY_SCOPES):
            definition = ad.expr(clause.name, None)
        value = truth(allowance.value(clause, ad, other))
        found, more = _facts(definition if definition is not None else clause, ad, other, facts)
        yield Clause(clause, value, found, definition, more)


def rank_clause(ad: ClassAd, other: ClassAd) -> Clause:
    """The rank that an ad gives another, with the attributes that it rests on.

    >>> from matchmaker import parse_ad
    >>> job = parse_ad("[ Rank = other.Free - other.Waiting ]")
    >>> print(rank_clause(job, parse_ad("[Free = 1]")))
    other.Free - other.Waiting is undefined (Free = 1, Waiting = undefined)
    """
    rank = ad.expr(RANK)
    facts, more = _facts(rank, ad, other, Allowance())
    return Clause(rank, ad.eval(RANK, target=other), facts, more=more)


def refusal(ad: ClassAd, other: ClassAd) -> Clause | None:
    """The first clause of an ad's requirements that is not true of the other, or None."""
    if REQUIREMENTS not in ad:
        return None
    return next((clause for clause in _clauses(ad, other) if clause.value is not True), None)


def _facts(
    clause: Expr, ad: ClassAd, other: ClassAd, allowance: Allowance
) -> tuple[tuple[tuple[str, Value], ...], int]:
    """The first attributes that a clause names, each once with its value, and how many more."""
    found: dict[str, tuple[str, Value]] = {}
    # A condition of a list's elements has a value for each of them, and none for the two ads.
    plain: dict[Expr, Expr] = {}
    for call in each_calls(clause)[: LIMITS.facts]:
        counted, listed = (allowance.value(node, ad, other) for node in (call, call.arguments[1]))
        found.setdefault(brief(call).lower(), (brief(call), counted))
        plain[call] = call.arguments[1]
        if isinstance(listed, list):
            size = f"size({brief(call.arguments[1])})"
            found.setdefault(size.lower(), (size, len(listed)))
            plain[call] = TRUE
    if plain:
        clause = fold(
            clause, lambda node, parts: plain[node] if node in plain else rebuild(node, parts)
        )
    paths = names_of(clause).paths
    # Of other.storage.CloseSEs the whole is of interest, not its beginnings.
    for place, path in enumerate(paths):
        if len(found) >= LIMITS.facts or not allowance.left:
            return tuple(found.values()), len(paths) - place
        scoped = path.scope and len(path.names) == 2
        name = path.names[1] if scoped else path.text
        value = allowance.value(path.node, ad, other)
        if name.lower() in found and value_text(found[name.lower()][1]) != value_text(value):
            # The same name in both ads: TARGET.Cpus >= MY.Cpus.
            name = path.text
        found.setdefault(name.lower(), (name, value))
    return tuple(found.values()), 0


_EACH: Final = frozenset({"countmatches", "evalineachcontext"})


def each_calls(node: Expr) -> list[Call]:
    """The calls in an expression that ask each ad of a list for the value of an expression."""
    if Trait.REFLECTIVE not in names_of(node).traits:
        return []
    return [
        part
        for part in postorder(node)
        if isinstance(part, Call) and part.function.lower() in _EACH and len(part.arguments) == 2
    ]


def value_text(value: Value) -> str:
    """A value in a few words, for people."""
    if isinstance(value, list):
        return shorten("{" + ", ".join(value_text(item) for item in value) + "}")
    if isinstance(value, ClassAd):
        return shorten(str(value))
    if is_error(value) and value.reason:
        return f"error: {value.reason}"
    if value is UNDEFINED:
        return "undefined"
    return shorten(unparse_value(value))
