"""Hostile shapes of jobs, slots and texts, each of any size, and every call that meets them.

A shape says what grows with its size: a chain, a text, the attributes of an ad, the ads of a pool.
``test_shapes.py`` holds that each call takes work in proportion.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from typing import Any, Final

import attrs

from matchmaker import (
    ClassAd,
    ParseError,
    Pool,
    batch,
    broker,
    clauses,
    dumps,
    lint,
    match,
    nodes,
    parse_ad,
    parse_ads,
    reduce,
    refusal,
    trace,
)
from matchmaker.batch import NoFlagsError
from matchmaker.matching.columns.saved import load, save
from matchmaker.reduction import ReductionError


@attrs.frozen(slots=True)
class Case:
    """The text of a job's ad and those of the slots that it meets."""

    job: str
    slots: tuple[str, ...]


def some(count: int, text: str, joined: str = "; ") -> str:
    """A text once for each number, joined."""
    return joined.join(text.replace("#", str(n)) for n in range(count))


PLAIN: Final = tuple(
    f'[ Name = "s{n}"; Cpus = {n % 5}; Memory = {1000 * n}; Arch = "X86_64"; L = {{ "a", "b" }} ]'
    for n in range(20)
)

Shape = Callable[[int], Case]


def requiring(make: Callable[[int], str], more: Callable[[int], str] = lambda n: "") -> Shape:
    """A job of a hostile requirement, and perhaps other attributes, among plain slots."""
    return lambda n: Case(f"[ Requirements = {make(n)}; {more(n)} ]", PLAIN)


def ranking(make: Callable[[int], str]) -> Shape:
    """A job of a hostile rank."""
    return lambda n: Case(f"[ Requirements = TARGET.Cpus > 1; Rank = {make(n)} ]", PLAIN)


def among(make: Callable[[int], str], job: str = "TARGET.Cpus > 1") -> Shape:
    """A plain job, and one slot that is hostile among plain ones."""
    return lambda n: Case(
        f'[ Cpus = 1; Owner = "ana"; Requirements = {job} ]', (*PLAIN, f'[ Name = "h"; {make(n)} ]')
    )


def many(make: Callable[[int, int], str], job: Callable[[int], str]) -> Shape:
    """As many slots as the size says, each by its number and the size."""
    return lambda n: Case(
        f"[ {job(n)} ]", tuple(f'[ Name = "s{k}"; {make(k, n)} ]' for k in range(n))
    )


def chain(operator: str, operand: str) -> Callable[[int], str]:
    """A chain of one operator."""
    return lambda n: some(n, operand, f" {operator} ")


def doubled(text: str) -> Callable[[int], str]:
    """Attributes each of which names the next twice: `a0` takes two to the power of their number.

    `text` has a # for the next name. There are no more of them than may lead into each other.
    """
    return lambda n: "; ".join(
        [f"a{k} = " + text.replace("#", f"a{k + 1}") for k in range(min(n, 60))]
        + [f'a{min(n, 60)} = "xy"']
    )


SHAPES: Final[dict[str, Shape]] = {
    # Chains of operators in a requirement.
    "&& of one name": requiring(chain("&&", "TARGET.Cpus > 0")),
    "&& of other names": requiring(chain("&&", "TARGET.b# > 0")),
    "|| of one name": requiring(chain("||", "TARGET.Cpus > #")),
    "|| of other names": requiring(chain("||", "TARGET.b# > 0")),
    "names as conditions": requiring(chain("&&", "TARGET.b#")),
    "?: of names": requiring(chain("?:", "TARGET.b#")),
    "+ of one name": requiring(lambda n: f"{chain('+', 'TARGET.Cpus')(n)} > 0"),
    "+ of other names": requiring(lambda n: f"{chain('+', 'TARGET.b#')(n)} > 0"),
    "+ of the job's names": requiring(
        lambda n: f"{chain('+', 'MY.b#')(n)} > TARGET.Cpus", lambda n: some(n, "b# = #")
    ),
    "< of one name": requiring(chain("<", "TARGET.Cpus")),
    "== of texts": requiring(chain("==", 'TARGET.Arch == "x#"')),
    "=?= of one name": requiring(chain("=?=", "TARGET.Cpus")),
    "& of one name": requiring(chain("&", "TARGET.Cpus")),
    "!= of values": requiring(chain("&&", "TARGET.Cpus != #")),
    "ranges joined by ||": requiring(
        chain("||", "(TARGET.Cpus > # && TARGET.Cpus < #1 && TARGET.Memory > #)")
    ),
    "|| in &&": requiring(chain("&&", "(TARGET.Cpus > # || TARGET.Memory < #)")),
    "?: with conditions": requiring(
        lambda n: some(n, "(TARGET.Cpus > # ? TARGET.Memory : TARGET.Cpus)", " + ") + " > 1"
    ),
    "a ladder of ? and :": requiring(
        lambda n: some(min(n, 90), "TARGET.Cpus == # ? # : ", "") + "TARGET.Memory > 1"
    ),
    "parentheses": requiring(
        lambda n: some(n, f"{'(' * 60}TARGET.Cpus{')' * 60}", " + ") + " > 1"
    ),
    "minus signs": requiring(lambda n: some(n, f"{'-' * 60}TARGET.Cpus", " + ") + " > 1"),
    "negations": requiring(chain("&&", f"{'!' * 60}TARGET.Cpus")),
    # Calls, lists and texts.
    "a long list": requiring(lambda n: f"member(TARGET.Cpus, {{ {some(n, '#', ', ')} }})"),
    "a list of names": requiring(lambda n: f"member(1, {{ {some(n, 'TARGET.b#', ', ')} }})"),
    "a list of lists": requiring(
        lambda n: f"member(TARGET.Cpus, {{ {some(n, '{ #, { TARGET.Cpus } }', ', ')} }}[0])"
    ),
    "a long string list": requiring(
        lambda n: f'stringListMember(TARGET.Arch, "{some(n, "a#", ",")}")'
    ),
    "many string lists": requiring(
        lambda n: some(n, 'stringListIMember(TARGET.Arch, "a,b,c,#")', " || ")
    ),
    "calls in calls": requiring(
        lambda n: some(n, f"{'strcat(' * 30}TARGET.Arch{')' * 30} == TARGET.Arch", " && ")
    ),
    "a call of many arguments": requiring(
        lambda n: f'strcat({some(n, "TARGET.Arch", ", ")}) == "x"'
    ),
    "patterns": requiring(lambda n: some(n, 'regexp("^x#.*y", TARGET.Arch)', " || ")),
    "patterns that fail late": requiring(
        lambda n: some(n, 'regexp("(x+x+)+y#", "xxxxxxxxxxxx")', " || ")
    ),
    "a long pattern": requiring(
        lambda n: f'regexp("{some(min(n, 400), "a#|", "")}b", TARGET.Arch)'
    ),
    "a long text": requiring(lambda n: f'TARGET.Arch == "{"x" * (40 * n)}"'),
    "escapes in a text": requiring(
        lambda n: f"TARGET.Arch == {chr(34)}{chr(92) * 80 * n}{chr(34)}"
    ),
    "eval of texts": requiring(lambda n: some(n, 'eval("TARGET.Cpus + #") > 0', " && ")),
    "replaceAll of texts": requiring(
        lambda n: f'replaceAll("x", "{"x" * 20 * n}", "yy") == TARGET.Arch'
    ),
    "split of texts": requiring(lambda n: f'size(split("{"a," * 20 * n}")) > TARGET.Cpus'),
    "unknown functions": requiring(chain("||", "nosuch#(TARGET.Cpus)")),
    "calls of a wrong number of arguments": requiring(chain("||", "size(TARGET.Cpus, #)")),
    "a subscript of a list": requiring(lambda n: f"{{ {some(n, '#', ', ')} }}[TARGET.Cpus] > 0"),
    "times": requiring(chain("||", 'absTime("2026-01-01T00:00:#Z") < TARGET.Cpus')),
    "unbalanced": requiring(lambda n: "(" * n + "TARGET.Cpus"),
    "no expression": requiring(chain(" ", "TARGET.Cpus = = #")),
    # Ads within ads.
    "a nested ad of many attributes": requiring(
        lambda n: f"[ {some(n, 'b# = TARGET.Cpus')} ].b0 > 0"
    ),
    "countMatches over many ads": requiring(
        lambda n: "countMatches(i > 3, MY.A) > TARGET.Cpus",
        lambda n: f"A = {{ {some(n, '[ i = #; j = i ]', ', ')} }}",
    ),
    "evalInEachContext over many ads": requiring(
        lambda n: "size(evalInEachContext(i + TARGET.Cpus, MY.A)) > 0",
        lambda n: f"A = {{ {some(n, '[ i = # ]', ', ')} }}",
    ),
    "nested ads of a slot": among(
        lambda n: f"GPUs = {{ {some(n, '[ Mem = #; Cap = 1.# ]', ', ')} }}",
        "countMatches(Mem > 3, TARGET.GPUs) > 0",
    ),
    # References.
    "names that double": requiring(lambda n: "MY.a0 == TARGET.Arch", doubled("strcat(#, #)")),
    "sums that double": requiring(lambda n: "MY.a0 > TARGET.Cpus", doubled("# + #")),
    "conditions that double": requiring(lambda n: "MY.a0 > TARGET.Cpus", doubled("(# ? # : #)")),
    "a path of names": requiring(
        lambda n: "MY.b0 > TARGET.Cpus",
        lambda n: "; ".join(f"b{k} = b{k + 1}" for k in range(min(n, 250))),
    ),
    "circles": requiring(
        lambda n: some(n, "MY.b# > TARGET.Cpus", " || "),
        lambda n: "; ".join(f"b{k} = b{(k + 1) % n} + b{(k + 7) % n}" for k in range(n)),
    ),
    "names through the slot": requiring(
        lambda n: some(n, "MY.b# > 0", " || "), lambda n: some(n, "b# = TARGET.Cpus + #")
    ),
    "a path of selections": requiring(lambda n: f"TARGET{'.b' * min(n, 150)} is 1"),
    "paths of selections": requiring(chain("||", f"TARGET{'.b#' * 50} is 1")),
    # Ads of many attributes.
    "a job of many attributes": requiring(lambda n: "TARGET.Cpus > 1", lambda n: some(n, "b# = #")),
    "a job of many expressions": requiring(
        lambda n: "TARGET.Cpus > 1 && MY.b0", lambda n: some(n, "b# = TARGET.Cpus + c#")
    ),
    "a job that names one attribute often": requiring(
        lambda n: "TARGET.Cpus > 1", lambda n: some(n, "Cpus = #")
    ),
    "a slot of many attributes": among(lambda n: some(n, "b# = #")),
    "a slot of many expressions": among(lambda n: some(n, "b# = TARGET.Cpus + c#")),
    "a slot that requires much": among(
        lambda n: f"Requirements = {chain('&&', 'TARGET.Cpus > 0')(n)}"
    ),
    "a slot that requires what differs": among(
        lambda n: f"Requirements = {chain('||', 'TARGET.b# > 0')(n)}"
    ),
    "a slot that doubles": among(lambda n: f"{doubled('# + #')(n)}; Requirements = a0 > 1"),
    "a slot of patterns": among(
        lambda n: "Requirements = " + some(n, 'regexp("(x+x+)+y#", "xxxxxxxxxx")', " || ")
    ),
    "a slot whose amounts are computed": among(
        lambda n: f"Cpus = {chain('+', 'TARGET.Cpus')(n)}; PartitionableSlot = true"
    ),
    "a slot of one long text": among(lambda n: f'Arch = "{"x" * 60 * n}"', 'TARGET.Arch != "y"'),
    "a hostile name": lambda n: Case(
        "[ Requirements = TARGET.Cpus > 1 ]", (*PLAIN, f'[ Name = "{"x" * 30 * n}"; Cpus = 3 ]')
    ),
    # Many slots.
    "slots that are alike": many(
        lambda k, n: "Cpus = 4", lambda n: "Requirements = TARGET.Cpus > 1"
    ),
    "slots of attributes of their own": many(
        lambda k, n: f"b{k} = {k}", lambda n: f"Requirements = {chain('?:', 'TARGET.b#')(n)}"
    ),
    "slots of requirements of their own": many(
        lambda k, n: f"Requirements = TARGET.Cpus > {k}", lambda n: "Cpus = 20"
    ),
    "slots that lead through the job": many(
        lambda k, n: f"Cpus = TARGET.b{k}; Requirements = Cpus > 1",
        lambda n: f"{some(n, 'b# = TARGET.Memory + #')}; Requirements = TARGET.Cpus > 1",
    ),
    "slots of values of their own": many(
        lambda k, n: f'Cpus = {k}; Arch = "a{k}"; Load = {k}.5',
        lambda n: "Requirements = "
        + chain("||", "(TARGET.Cpus > # && TARGET.Load < #)")(min(n, 30)),
    ),
    "slots that nothing suits": many(
        lambda k, n: f"b{k % 7} = {k}",
        lambda n: f"Requirements = {some(12, 'TARGET.b# > 100000', ' && ')}",
    ),
    # Ranks.
    "a rank of one name": ranking(chain("+", "TARGET.Cpus")),
    "a rank of other names": ranking(chain("+", "TARGET.b#")),
    "a rank of conditions": ranking(
        lambda n: some(n, "(TARGET.Cpus > # ? # : 0)", " + ")
    ),
    "a rank of patterns": ranking(
        lambda n: some(n, 'ifThenElse(regexp("^x#", TARGET.Arch), 1, 0)', " + ")
    ),
}  # fmt: skip


def quiet(call: Callable[[], Any], *expected: type[Exception]) -> None:
    """Makes a call that may refuse its input."""
    with suppress(ParseError, ValueError, *expected):
        call()


def ads_of(texts: Iterable[str]) -> list[ClassAd]:
    """The ads that can be read."""
    found = []
    for text in texts:
        try:
            found.append(parse_ad(text))
        except ParseError:
            continue
    return found


@attrs.frozen(slots=True)
class Met:
    """A case that has been read."""

    text: str
    job: ClassAd
    slots: list[ClassAd]
    pool: Pool

    @classmethod
    def of(cls, case: Case) -> Met:
        """The ads of a case; an empty one for a job that cannot be read."""
        slots = ads_of(case.slots)
        job = ads_of([case.job]) or [ClassAd()]
        return cls(case.job, job[0], slots, Pool(slots))


def host(name: str) -> str:
    """The scope of every attribute."""
    return "host"


def paired(case: Met) -> None:
    slot = case.slots[-1]
    match(case.job, slot), match(slot, case.job)
    str(refusal(case.job, slot)), str(refusal(slot, case.job))
    list(map(str, clauses(case.job, slot)))
    str(trace("MY.Requirements", case.job, slot))


def flagged(case: Met) -> None:
    reduced = reduce(case.job, ClassAd(), host)
    reduced.explain(steps=True)
    quiet(lambda: batch.flags(reduced, "slurm"), NoFlagsError)
    quiet(lambda: batch.flags(reduced, "lsf", inventory=case.slots), NoFlagsError)
    quiet(lambda: batch.flags(reduced, "htcondor", inventory=case.slots), NoFlagsError)


def brokered(case: Met) -> None:
    found = broker.choose(case.job, case.slots)
    list(map(str, found.refused))
    hosts = broker.Hosts(nodes=case.slots, mapping=batch.load_mapping("slurm"))
    quiet(lambda: broker.route(case.job, case.slots, hosts), NoFlagsError)
    list(broker.choose_many([case.job, case.job], case.slots))


def chosen(case: Met) -> None:
    list(map(str, nodes.choose(case.job, case.slots).refused))
    nodes.in_queue(case.slots, "long")


def read_back(ad: ClassAd, way: str) -> list[ClassAd]:
    return list(parse_ads(dumps(ad, format=way), format=way))


def converted(case: Met) -> None:
    for way in ("new", "old", "json", "xml"):
        for ad in (case.job, case.slots[-1]):
            quiet(partial(read_back, ad, way))


def loaded(case: Met) -> None:
    file = io.BytesIO()
    save(case.pool._store.parts(), case.pool.key, file)
    load(io.BytesIO(file.getvalue()), "saved pool")
    Pool(ads_of(map(str, case.slots)))


CALLS: Final[dict[str, Callable[[Met], object]]] = {
    "parse": lambda case: ads_of([case.text]),
    "pair": paired,
    "match": lambda case: case.pool.match(case.job),
    "top": lambda case: case.pool.top(case.job, 3),
    "match_many": lambda case: list(case.pool.match_many([case.job, case.job.copy(), ClassAd()])),
    "assign": lambda case: str(case.pool.assign([case.job, case.job.copy()])),
    "explain": lambda case: str(case.pool.explain(case.job)),
    "explain_pair": lambda case: str(case.pool.explain_pair(case.job, case.pool.keys()[-1])),
    "reduce": lambda case: quiet(lambda: reduce(case.job, case.slots[-1], host), ReductionError),
    "flags": lambda case: quiet(lambda: flagged(case), ReductionError, NoFlagsError),
    "broker": brokered,
    "nodes": chosen,
    "lint": lambda case: (lint(case.text), lint(str(case.slots[-1]), targets=[case.job])),
    "convert": converted,
    "load": loaded,
}
"""Every call that takes ads of strangers."""
