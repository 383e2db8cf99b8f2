"""Reduction against evaluation on hosts: no verdict, residual, fate or box may be wrong.

Ads here name their attributes like scopes, nest ads in values of all three sides, lead to each
other in circles, and differ in what only ``is`` tells apart. Every reduction that is not refused is
compared with the requirement itself, evaluated on the queue's ad with each host's attributes.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Final

import attrs

from matchmaker import ClassAd, Expr, ReductionError, Verdict, parse_expr, reduce, reduce_many
from matchmaker.classad.nodes import Attr, Literal
from matchmaker.classad.operators import truth
from matchmaker.classad.walks import children, postorder, rebuild
from matchmaker.reduction import bounds
from tests.attack.run import Attack, main

HOST: Final = ("Ha", "Hb", "Hs", "Hl", "Hd")
QUEUE: Final = ("Qa", "Qb", "Qs", "Ql", "Qd")
JOB: Final = ("Wa", "Wb", "Wd")
WORDS: Final = ("my", "self", "target", "other", "parent", "root", "toplevel")
INNER: Final = ("x", "y", "Ha", "Qa", "Wa", "my", "other", "parent", "Hd")
PREFIXES: Final = {
    "h": ("other.", "TARGET.", "other.my.", "my.other.", "", "TARGET.self.", "root.other."),
    "q": ("other.", "TARGET.", "other.my.", "my.other.", "", "other.toplevel.", "self.target."),
    "w": ("MY.", "self.", ".", "", "other.target.", "TARGET.other.", "parent.", "root."),
}
NUMBERS: Final = ("0", "1", "2", "3", "-1", "1.0", "2.5", "0.0", "-0.0", "true", "false")
TEXTS: Final = ('"a"', '"A"', '"b"', '""', '"a,b"', '"3"', '"1.2"')
ODD: Final = (
    "undefined", "error", 'real("NaN")', 'real("INF")', "9007199254740993", "9223372036854775807",
    'absTime("2020-01-01T00:00:00Z")', 'absTime("2020-01-01T01:00:00+01:00")', 'relTime("1")',
)  # fmt: skip
RELATIONS: Final = ("<", "<=", ">", ">=", "==", "!=", "is", "isnt")
CALLS: Final = (
    "isUndefined({0})", "isError({0})", "isString({0})", "isInteger({0})", "isReal({0})",
    "isBoolean({0})", "isList({0})", "isClassAd({0})", "size({0})", "int({0})", "string({0})",
    "bool({0})", "floor({0})", "debug({0})", "member({0}, {1})", "identicalMember({0}, {1})",
    "strcat({0}, {1})", "regexp({0}, {1})", "max({{ {0}, {1} }})", "split({0})",
    'anyCompare(">", {{ {0}, 1 }}, {1})', "stringListMember({0}, {1})", "substr({0}, {1})",
    "ifThenElse({0}, {1}, {2})", "versionGT({0}, {1})", "toUpper({0})", "quantize({0}, {1})",
    "pow({0}, {1})",
)  # fmt: skip
LOOKING: Final = (
    "unparse({0})", "unresolved({0})", "eval({0})", "noSuch({0})", "countMatches({0}, {1})",
    "evalInEachContext({0}, {{ [ x = 1; Ha = 2 ] }})", "[ x = {0} ].x", "({0}).x",
    "anyMatch({{ [ x = 1; Ha = 2 ] }}, {0})", "whichMatch({{ [ Ha = 2 ] }}, {0})[0].Ha",
)  # fmt: skip
TESTS: Final = (
    "isUndefined({0})", "isError({0})", "({0} is {1})", "({0} isnt {1})", "({0} ?: {1})",
    "!isUndefined({0})", "isString({0})", "isClassAd({0})", "isInteger({0})",
)  # fmt: skip
TWINS: Final = (
    ("1", "1.0", "true"), ("0", "0.0", "-0.0", "false"), ('"a"', '"A"'), ("{ 1 }", "{ 1.0 }"),
    ('absTime("2020-01-01T00:00:00Z")', 'absTime("2020-01-01T01:00:00+01:00")'),
    ("[ x = 1 ]", "[ x = true ]"), ("{ { 0.0 } }", "{ { -0.0 } }"), ('real("NaN")', "undefined"),
    ('{ absTime("2020-01-01T00:00:00Z") }', '{ absTime("2020-01-01T01:00:00+01:00") }'),
)  # fmt: skip


def by_letter(name: str) -> str:
    """The scope of most cases: a host's attributes begin with h."""
    return "host" if name[:1] in "hH" else "policy"


def by_exclusion(name: str) -> str:
    """A scope that takes for a host's what is neither a queue's nor a job's."""
    return "policy" if name[:1] in "qQwW" else "host"


def with_a_word(name: str) -> str:
    """A scope that takes one scope's word for a host's attribute."""
    return "host" if name[:1] in "hH" or name.lower() == "my" else "policy"


SCOPES: Final[tuple[Callable[[str], str], ...]] = (*(by_letter,) * 8, by_exclusion, with_a_word)


@attrs.frozen(slots=True, eq=False)
class Case:
    """A job, two queues that may be alike, and hosts."""

    job: ClassAd
    queues: tuple[ClassAd, ...]
    hosts: tuple[ClassAd, ...]
    scope: Callable[[str], str]


class Maker:
    """Makes random ads."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        # A word that some ad may hide, and how often names lead into nested ads.
        self.word = chance.choice(WORDS) if chance.random() < 0.5 else ""
        self.nesting = chance.choice((0.02, 0.02, 0.3))
        self.looking = chance.random() < 0.1

    def cased(self, name: str) -> str:
        return name if self.chance.random() < 0.8 else name.swapcase()

    def name(self) -> str:
        """A reference: words, a name, and sometimes what is behind it."""
        choice, some = self.chance.choice, self.chance.random
        if self.word and some() < 0.3:
            text = choice(("", "", "other.", "MY.")) + self.cased(self.word) + "." + choice(INNER)
        else:
            names = choice((HOST, HOST, HOST, QUEUE, QUEUE, JOB))
            prefix = choice(PREFIXES[names[0][0].lower()][: choice((2, 2, 9))])
            text = prefix + self.cased(choice(names))
        while some() < self.nesting:
            kind = some()
            if kind < 0.7:
                text += "." + self.cased(choice(INNER))
            else:
                text += choice(('["x"]', '["Ha"]', "[0]", "[1]"))
        return text

    def constant(self) -> str:
        kind = self.chance.random()
        return self.chance.choice(NUMBERS if kind < 0.6 else TEXTS if kind < 0.85 else ODD)

    def value(self, name: str) -> str:
        """A constant, a list or an ad, mostly of the type that the name promises."""
        kind = name[1:] if self.chance.random() < 0.75 else self.chance.choice("absld")
        if kind == "a":
            return self.chance.choice(NUMBERS)
        if kind == "s":
            return self.chance.choice(TEXTS)
        if kind == "l":
            return "{ " + ", ".join(self.constant() for _ in range(self.chance.randrange(3))) + " }"
        if kind == "d":
            inside = self.chance.sample(INNER, self.chance.randrange(3))
            return "[ " + "; ".join(f"{each} = {self.constant()}" for each in inside) + " ]"
        return self.constant()

    def atom(self) -> str:
        kind, choice = self.chance.random(), self.chance.choice
        if kind < 0.1:
            return self.name()
        if kind < 0.45:
            return choice(TESTS).format(self.name(), self.constant())
        other = self.constant() if self.chance.random() < 0.7 else self.name()
        sides = (self.name(), other) if self.chance.random() < 0.8 else (other, self.name())
        return f"({sides[0]} {choice(RELATIONS)} {sides[1]})"

    def condition(self, depth: int) -> str:
        kind = self.chance.random()
        if depth == 0 or kind < 0.2:
            return self.atom()
        if kind < 0.62:
            operator = self.chance.choice(("&&", "&&", "||"))
            return f"({self.condition(depth - 1)} {operator} {self.condition(depth - 1)})"
        if kind < 0.7:
            return f"!{self.condition(depth - 1)}"
        if kind < 0.8:
            parts = [self.condition(depth - 1) for _ in range(3)]
            if self.chance.random() < 0.3:
                parts[2] = parts[1]
            return f"({parts[0]} ? {parts[1]} : {parts[2]})"
        return self.term(depth)

    def term(self, depth: int) -> str:
        kind = self.chance.random()
        if depth == 0 or kind < 0.25:
            return self.name() if self.chance.random() < 0.7 else self.constant()
        parts = [
            self.condition(depth - 1) if self.chance.random() < 0.5 else self.term(depth - 1)
            for _ in range(3)
        ]
        if kind < 0.65:
            return self.chance.choice(LOOKING if self.looking else CALLS).format(*parts)
        if kind < 0.8:
            return f"({parts[0]} {self.chance.choice('+-*/%')} {parts[1]})"
        if kind < 0.9:
            return f"({parts[0]} {self.chance.choice(('?:', *RELATIONS))} ({parts[1]}))"
        shapes = ("{{ {0}, {1} }}[0]", "{{ {0}, {1} }}", "(-{0})")
        return self.chance.choice(shapes).format(*parts)

    def ad(self, names: Iterable[str], formulas: float) -> ClassAd:
        """An ad of some of the names, each a value or a formula; it may hide scopes."""
        made = ClassAd()
        for name in names:
            if self.chance.random() < 0.6:
                formula = self.chance.random() < formulas
                made[self.cased(name)] = parse_expr(self.term(2) if formula else self.value(name))
        if formulas and self.word and self.chance.random() < 0.5:
            held = self.chance.choice((self.name(), self.name(), self.term(1), self.value("d")))
            made[self.cased(self.word)] = parse_expr(held)
        return made

    def case(self) -> Case:
        job = self.ad(JOB, 0.4)
        depth = self.chance.randint(0, 3)
        clauses = [self.condition(depth) for _ in range(self.chance.choice((1, 1, 2, 3)))]
        job["Requirements"] = parse_expr(" && ".join(clauses))
        queue = self.ad((*QUEUE, *HOST[:2]), 0.35)
        twin = queue.copy()
        name = self.chance.choice(QUEUE)
        queue[name], twin[name] = map(parse_expr, self.chance.sample(self.chance.choice(TWINS), 2))
        scope = self.chance.choice(SCOPES)
        names = (*HOST, "my") if scope is with_a_word else HOST
        names = (*HOST, "CurrentTime") if scope is by_exclusion else names
        hosts = tuple(self.ad(names, 0) for _ in range(4))
        return Case(job, (queue, twin, queue.copy()), hosts, scope)


def make(chance: random.Random) -> Case:
    """A random case."""
    return Maker(chance).case()


def of_host(case: Case, queue: ClassAd, host: ClassAd) -> ClassAd:
    """The ad that a requirement meets: the queue's facts with one host's attributes."""
    both = ClassAd((name, held) for name, held in queue.items() if case.scope(name) != "host")
    both.update(host)
    return both


def is_true(expression: Expr, job: ClassAd, other: ClassAd) -> bool:
    """Whether an expression of the job is true of another ad."""
    return truth(expression.eval(job, other)) is True


def judge(case: Case) -> str | None:
    """What is wrong with the reductions of a case."""
    try:
        together = reduce_many(case.job, case.queues, case.scope)
    except ReductionError:
        together = None
    for number, queue in enumerate(case.queues):
        try:
            made = reduce(case.job, queue, case.scope)
        except ReductionError:
            continue
        if together is not None and together[number].residual is not made.residual:
            return (
                f"reduce_many of queue {number}: {together[number].residual}, not {made.residual}"
            )
        if any(not _is_right(node, case) for node in postorder(made.residual)):
            return f"the residual names more than the host: {made.residual}"
        if parse_expr(str(made.residual)) is not made.residual:
            return f"the residual does not print back: {made.residual}"
        found = bounds(made.residual)
        for host in case.hosts:
            both = of_host(case, queue, host)
            wanted = truth(case.job.eval("Requirements", target=both)) is True
            answers = {
                "the residual": is_true(made.residual, case.job, host) is wanted,
                "the verdict": made.verdict is not (Verdict.NEVER if wanted else Verdict.ALWAYS),
                "the bounds": found.accepts(host, case.job) is wanted,
                "a fate": wanted or made.verdict is Verdict.NEVER or not all(
                    is_true(fate.residual, case.job, host) for fate in made.fates
                ),
                "the necessary box": not wanted or (
                    found.necessary is not None and found.necessary.accepts(host, case.job)
                ),
                "the sufficient box": wanted or found.sufficient is None or (
                    not found.sufficient.accepts(host, case.job)
                ),
            }  # fmt: skip
            wrong = [what for what, right in answers.items() if not right]
            if wrong:
                return (
                    f"{', '.join(wrong)} of queue {number} for the host {host}, where the "
                    f"requirement is {wanted}:\n{made.explain()}"
                )
    return None


def _is_right(node: Expr, case: Case) -> bool:
    """Whether a name in a residual is the host's, a word, or behind an attribute of the host."""
    if not isinstance(node, Attr) or node.folded == "currenttime":
        return True
    if node.base is None:
        return node.name in ("other", "TARGET")
    behind = node.base not in (Attr(None, "other", False), Attr(None, "TARGET", False))
    return behind or case.scope(node.name) == "host"


def smaller(case: Case) -> Iterator[Case]:
    """Cases with less in them: fewer hosts, queues and attributes, then shorter expressions."""
    for hosts in _fewer(case.hosts):
        yield attrs.evolve(case, hosts=hosts)
    for queues in _fewer(case.queues):
        yield attrs.evolve(case, queues=queues)
    for job in _smaller_ads(case.job):
        if "Requirements" in job:
            yield attrs.evolve(case, job=job)
    for queues in _with_less(case.queues):
        yield attrs.evolve(case, queues=queues)
    for hosts in _with_less(case.hosts):
        yield attrs.evolve(case, hosts=hosts)


def _fewer(ads: tuple[ClassAd, ...]) -> Iterator[tuple[ClassAd, ...]]:
    if len(ads) > 1:
        for place in range(len(ads)):
            yield ads[:place] + ads[place + 1 :]


def _with_less(ads: tuple[ClassAd, ...]) -> Iterator[tuple[ClassAd, ...]]:
    for place, ad in enumerate(ads):
        for less in _smaller_ads(ad):
            yield (*ads[:place], less, *ads[place + 1 :])


def _smaller_ads(ad: ClassAd) -> Iterator[ClassAd]:
    for name in list(ad):
        less = ad.copy()
        del less[name]
        yield less
    for name, held in ad.expressions().items():
        for simpler in _smaller_expressions(held):
            less = ad.copy()
            less[name] = simpler
            yield less


def _smaller_expressions(node: Expr) -> Iterator[Expr]:
    if isinstance(node, Literal):
        return
    parts = children(node)
    yield from parts
    yield Literal(1)
    for place, part in enumerate(parts):
        for simpler in _smaller_expressions(part):
            yield rebuild(node, (*parts[:place], simpler, *parts[place + 1 :]))


def show(case: Case) -> str:
    """A case as text."""
    queues = "\n".join(f"queue {number}: {queue}" for number, queue in enumerate(case.queues))
    hosts = "\n".join(f"host: {host}" for host in case.hosts)
    return f"scope: {case.scope.__name__}\njob: {case.job}\n{queues}\n{hosts}"


ATTACK: Final = Attack("verdicts", make, judge, smaller, show, nightly=200_000, smoke=600)

if __name__ == "__main__":
    sys.exit(main(ATTACK))
