"""The theorem of reduction on all words of the language, not on comparisons alone.

Requirements of versions, patterns, lists, string lists, nested ads, arithmetic and names of every
scope, in every letter case, some of which shadow others. Many are refused, which is right only for
those that look at whole ads; for the rest the residual is true exactly when the requirement is.
"""

from __future__ import annotations

import random

import pytest

from matchmaker import ClassAd, ReductionError, Verdict, parse_expr, reduce
from matchmaker.classad.operators import truth
from matchmaker.reduction import bounds

CHUNKS = 8
CASES = 150

HOST = ("HostA", "HostB", "HostList", "HostVersion", "HostTags", "HostAd")
FACTS = ("FactA", "FactB", "FactList", "FactAd", "FactTags")
JOB = ("WantA", "WantB", "WantAd", "HostB", "FactB")
SHADOWS = (
    "other", "target", "my", "self", "parent", "root", "toplevel", "CurrentTime", "Requirements",
)  # fmt: skip

CONSTANTS = (
    *("0", "1", "2", "5", "-1", "1.5", "2.0", "-0.0", 'real("NaN")', "9223372036854775807"),
    *("true", "false", '"a"', '"A"', '""', '"8.10.2"', '"8.9"', '"a,b,C"', '"^a"', '"5"'),
    *("undefined", "error", "{ }", '{ "a", "B" }', "{ 1, undefined }", "[ x = 1; HostA = 2 ]"),
    *('relTime("00:10:00")', 'absTime("2020-01-01T00:00:00+00:00")'),
)
SHAPES = (
    *("({0} && {1})", "({0} || {1})", "!({0})", "({0} ? {1} : {2})") * 3,
    *("({0} > {1})", "({0} <= {1})", "({0} == {1})", "({0} != {1})", "({0} < {3})", "({3} == {0})")
    * 2,
    *("({0} is {1})", "({0} isnt {1})", "({0} ?: ({1}))", "ifThenElse({0}, {1}, {2})"),
    *("({0} + {1})", "({0} - {1})", "({0} * {1})", "({0} / {1})", "({0} % {1})", "-({0})"),
    *("isUndefined({0})", "isError({0})", "isString({0})", "isInteger({0})", "isList({0})"),
    *("member({0}, {1})", "identicalMember({0}, {1})", "stringListMember({0}, {1})"),
    *("stringListIMember({0}, {1})", "regexp({0}, {1})", "versionGT({0}, {1})", "size({0})"),
    *("versioncmp({0}, {1})", "strcat({0}, {1})", "toUpper({0})", "sum({0})", "split({0})"),
    *("{{ {0}, {1} }}", "{0}[0]", '{0}["x"]', "[ x = {0} ].x", "noSuch({0})", "eval({0})"),
)


class Chance(random.Random):
    """Random requirements and ads."""

    def name(self) -> str:
        kind = self.random()
        words: tuple[str, ...]
        if kind < 0.5:
            name, words = self.choice(HOST), ("other.", "TARGET.", "target.", "")
        elif kind < 0.75:
            name, words = self.choice(FACTS), ("other.", "Target.", "")
        elif kind < 0.92:
            name, words = self.choice(JOB), ("MY.", "self.", "", ".")
        else:
            name = self.choice((*HOST, *JOB, "Missing", "CurrentTime", "FactAd.x", "WantAd.HostA",
                                "HostAd.x", "HostAd.FactA", "HostAd.parent.FactB"))  # fmt: skip
            words = ("other.target.", "my.other.", "other.my.", "root.", "", "MY.", "other.",
                     *(f"{self.cased(shadow)}." for shadow in SHADOWS))  # fmt: skip
        return self.choice(words) + self.cased(name)

    def cased(self, name: str) -> str:
        return self.choice((name, name, name, name.upper(), name.lower()))

    def text(self, depth: int) -> str:
        if depth == 0 or self.random() < 0.12:
            return self.name() if self.random() < 0.65 else self.choice(CONSTANTS)
        parts = [self.text(depth - 1) for _ in range(3)]
        return self.choice(SHAPES).format(*parts, self.choice(CONSTANTS))

    def ad(self, names: tuple[str, ...], expressions: float) -> ClassAd:
        made = ClassAd()
        for name in names:
            if self.random() < 0.65:
                deep = self.random() < expressions
                made[self.cased(name)] = parse_expr(self.text(2) if deep else self.plain(name))
        if expressions and self.random() < 0.2:
            # An attribute named like a scope, which may lead anywhere.
            made[self.cased(self.choice(SHADOWS))] = parse_expr(self.text(self.randint(0, 1)))
        return made

    def plain(self, name: str) -> str:
        """A value, more often than not of the kind that the name promises."""
        if self.random() < 0.4:
            return self.choice(CONSTANTS)
        kind = name.removeprefix("Host").removeprefix("Fact").removeprefix("Want")
        return {"List": '{ "a", "B" }', "Version": '"8.10.2"', "Tags": '"a,b,C"'}.get(
            kind, "[ x = 2 ]" if kind == "Ad" else self.choice(CONSTANTS[:10])
        )


def scope(name: str) -> str:
    return "host" if name.lower().startswith("host") else "policy"


@pytest.mark.parametrize("seed", range(CHUNKS))
def test_residual_is_true_exactly_when_the_requirement_is(seed: int) -> None:
    chance = Chance(seed)
    verdicts = dict.fromkeys(Verdict, 0)
    for _ in range(CASES):
        job, queue = chance.ad(JOB, 0.3), chance.ad((*FACTS, *HOST), 0.25)
        job["Requirements"] = parse_expr(chance.text(chance.randint(1, 4)))
        try:
            made = reduce(job, queue, scope)
        except ReductionError:
            continue
        verdicts[made.verdict] += 1
        assert parse_expr(str(made.residual)) is made.residual
        found = bounds(made.residual)
        for _ in range(5):
            host = chance.ad(HOST, 0)
            both = ClassAd((name, e) for name, e in queue.items() if scope(name) != "host")
            both.update(host)
            wanted = truth(job.eval("Requirements", target=both)) is True
            about = (made.explain(), str(job), str(queue), str(host))
            assert (truth(made.residual.eval(job, host)) is True) == wanted, about
            assert made.verdict is Verdict.RESIDUAL or (made.verdict is Verdict.ALWAYS) == wanted
            assert found.accepts(host, job) == wanted, about
    assert min(verdicts.values()) >= 3, verdicts
    assert sum(verdicts.values()) > CASES // 2
