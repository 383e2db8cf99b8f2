"""Undamaged output of providers refuses nobody whom it names, and what transports do opens nothing.

A case is a site of `tests.glue.providers` with random VOs, and the same as it may arrive: with
entries twice or in another order, with a stale copy of an entry, or with a rule cut off.
"""

from __future__ import annotations

import io
import random
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Final

import attrs

from matchmaker import glue, parse_ad
from matchmaker.broker import AUTHORISED, NOT_DENIED
from matchmaker.classad import ClassAd, parse_expr
from matchmaker.classad.ad import first_text
from matchmaker.glue.access import of_ad
from tests.attack.run import Attack, main
from tests.attack.sites import SITES
from tests.glue import providers

JOBS: Final = tuple(
    parse_ad(f"[ {text} ]")
    for text in (
        'VirtualOrganisation = "alpha"',
        'VirtualOrganisation = "alpha"; FQAN = "/alpha"',
        'VirtualOrganisation = "alpha"; FQAN = {"/alpha", "/alpha/Role=banned"}',
        'VirtualOrganisation = "alpha"; FQAN = "/alpha/Role=pilot"',
        'VirtualOrganisation = "alpha"; CertificateSubject = "/O=grid/CN=Eve Mallory"',
        'VirtualOrganisation = "bravo"; FQAN = "/bravo"',
        'VirtualOrganisation = "bravo"; FQAN = "/bravo/Role=pilot"',
        'CertificateSubject = "/O=grid/CN=Ada Lovelace"; VirtualOrganisation = "zulu"',
        'VirtualOrganisation = "zulu"; FQAN = "/zulu"',
    )
)
_CHECKS: Final = (parse_expr(AUTHORISED), parse_expr(NOT_DENIED))

Admitted = dict[str, frozenset[int]]


@lru_cache(maxsize=1 << 14)
def admitted(access: str) -> frozenset[int]:
    """The jobs, by number, that the attributes of access of an ad, as text, admit."""
    ad = parse_ad(access)
    return frozenset(
        number
        for number, job in enumerate(JOBS)
        if all(check.eval(my=job, target=ad) is True for check in _CHECKS)
    )


def of_ads(ads: Iterable[ClassAd]) -> Admitted:
    """The jobs that each queue admits by itself or by one of its views.

    Raises ValueError for two queues of one name, of which no pool can be made.
    """
    jobs: Admitted = {}
    names: set[str] = set()
    for ad in ads:
        if (name := str(ad.eval("CEid"))) in names:
            raise ValueError(f"{name} is there twice")
        names.add(name)
        ident = (first_text(ad, ("GlueCEUniqueID",)) or name).lower()
        jobs[ident] = jobs.get(ident, frozenset()) | admitted(str(ClassAd(of_ad(ad))))
    return jobs


def more(before: Admitted, found: Admitted) -> str | None:
    """Says which queue admits more than it did; one that was not there, more than all did."""
    anywhere = frozenset().union(*before.values())
    for ident, numbers in found.items():
        if new := numbers - before.get(ident, anywhere):
            return f"{ident} admits {', '.join(str(JOBS[number]) for number in sorted(new))}"
    return None


def read(data: bytes) -> glue.Glue | None:
    """What a dump describes; None where it is refused whole."""
    try:
        return glue.read(io.BytesIO(data))
    except ValueError:
        return None


@lru_cache(maxsize=SITES)
def whole(data: bytes) -> Admitted:
    """The jobs that each queue of a whole dump admits."""
    return of_ads(glue.read(io.BytesIO(data)).computing_elements())


# The users of `providers`, by what their certificates say. None is named by a rule on another.
VOS: Final = ("atlas", "cms", "zulu", "ops", "lhcb")
USERS: Final[Mapping[str, tuple[str, ...]]] = {
    "alice": ("VO:atlas", "VOMS:/atlas"),
    "production": ("VO:atlas", "VOMS:/atlas", "VOMS:/atlas/Role=production"),
    "pilot": ("VO:cms", "VOMS:/cms", "VOMS:/cms/Role=pilot"),
    "carol": ("VO:cms", "VOMS:/cms"),
    "ada": ("VO:zulu", "VOMS:/zulu", "/O=Grid/CN=Ada Lovelace"),
    "oscar": ("VO:ops", "VOMS:/ops"),
}
"""The rules that name each user."""

NAMING: Final = tuple(sorted({rule for rules in USERS.values() for rule in rules} | {"VO:lhcb"}))


def named(rules: Iterable[str]) -> frozenset[str]:
    """The users whom one of several rules names, by their texts alone."""
    folded = {rule.lower() for rule in rules}
    return frozenset(
        user
        for user, theirs in USERS.items()
        if "all" in folded or any(rule.lower() in folded for rule in theirs)
    )


@attrs.frozen(slots=True)
class Case:
    """A site, whom it names, and what arrives of it.

    Attributes:
        text: what its provider prints.
        users: whom a rule names, and no rule denies.
        arrives: the same as LDIF may come; the text where it is of another form.
        exact: whether what arrives says the same.
    """

    text: str
    users: frozenset[str]
    arrives: str
    exact: bool = True


def some(chance: random.Random, rules: Iterable[str] = VOS) -> list[str]:
    """A few VOs or rules, some in capitals."""
    known = list(rules)
    found = chance.sample(known, chance.randint(1, 3))
    return [each.upper() if "/" not in each and chance.random() < 0.2 else each for each in found]


def _arc(chance: random.Random) -> tuple[str, list[str]]:
    cluster = some(chance) if chance.random() < 0.6 else []
    queues = {
        f"q{n}": None if cluster and chance.random() < 0.5 else some(chance)
        for n in range(chance.randint(1, 3))
    }
    text = providers.arc("arc.s.org", queues, cluster, rest=chance.random() < 0.7)
    # The queue's own share is at an endpoint that admits all VOs of the cluster.
    vos = [*cluster, *(vo for its in queues.values() for vo in its or ())]
    return text, [f"VO:{vo}" for vo in vos]


def _htcondor(chance: random.Random) -> tuple[str, list[str]]:
    vos = some(chance)
    text = providers.htcondor_ce("ce.s.org", vos, access=chance.random() < 0.7)
    if chance.random() < 0.3:
        text += providers.dcache("se.s.org", some(chance))
    return text, [f"VO:{vo}" for vo in vos]


def _cream(chance: random.Random) -> tuple[str, list[str]]:
    rules = some(chance, NAMING)
    shares = {f"s{n}": rule for n, rule in enumerate(rules)}
    return providers.cream("cream.s.org", {"long": shares, "short": shares}, rules), rules


def _old(chance: random.Random) -> tuple[str, list[str]]:
    rules = some(chance, NAMING)
    views = {f"v{n}": (rule,) for n, rule in enumerate(rules) if chance.random() < 0.5}
    return providers.cream_glue1("cream.s.org", rules, views), rules


def _unicore(chance: random.Random) -> tuple[str, list[str]]:
    rules = some(chance, (*NAMING, "ALL"))
    return providers.unicore("ux.s.org", rules), rules


_PROVIDERS: Final[tuple[Callable[[random.Random], tuple[str, list[str]]], ...]] = (
    _arc, _htcondor, _cream, _old, _unicore,
)  # fmt: skip


def make(chance: random.Random) -> Case:
    """A site, and what arrives of it."""
    text, rules = chance.choice(_PROVIDERS)(chance)
    users = named(rules)
    if text.startswith("<"):
        return Case(text, users, text)
    entries = [each for each in text.split("\n\n") if each.strip()]
    what = chance.randrange(4)
    if what == 0:
        entries.insert(chance.randrange(len(entries)), chance.choice(entries))
    elif what == 1:
        chance.shuffle(entries)
    elif what == 2:
        place = chance.randrange(len(entries))
        lines = [each for each in entries[place].split("\n") if "Rule: " not in each]
        entries.insert(chance.randrange(len(entries)), "\n".join(lines))
    else:
        # A rule on a VO that is cut off names another VO, or none.
        places = [n for n, each in enumerate(entries) if "Rule: vo:" in each.replace("VO", "vo")]
        if places:
            place = chance.choice(places)
            lines = entries[place].split("\n")
            at = next(n for n, line in enumerate(lines) if "Rule: vo:" in line.replace("VO", "vo"))
            lines[at] = lines[at][: -chance.randint(1, 3)]
            entries[place] = "\n".join(lines)
            return Case(text, users, "\n\n".join(entries) + "\n", exact=False)
    return Case(text, users, "\n\n".join(entries) + "\n")


def taken(text: str) -> frozenset[str]:
    """The users whom a description admits somewhere."""
    ads = glue.read(io.BytesIO(text.encode())).computing_elements()
    jobs = {user: parse_ad(said) for user, said in providers.USERS.items()}
    return frozenset(
        user
        for user, job in jobs.items()
        if any(all(check.eval(my=job, target=ad) is True for check in _CHECKS) for ad in ads)
    )


def judge(case: Case) -> str | None:
    """Says who is refused though a rule names them, or admitted though none does."""
    for text, exact in ((case.text, True), (case.arrives, case.exact)):
        found = taken(text)
        if extra := found - case.users:
            return f"{', '.join(sorted(extra))} admitted, whom no rule names"
        if exact and (missing := case.users - found):
            return f"{', '.join(sorted(missing))} refused, whom a rule names"
    return None


def smaller(case: Case) -> Iterable[Case]:
    """What arrives, without an entry that is there twice."""
    entries = case.arrives.split("\n\n")
    for number in range(len(entries)):
        if case.text.count(entries[number]) < case.arrives.count(entries[number]):
            kept = "\n\n".join(entries[:number] + entries[number + 1 :])
            yield attrs.evolve(case, arrives=kept)


def show(case: Case) -> str:
    """What the provider prints, whom it names, and what arrives."""
    return f"{case.text}--- names {sorted(case.users)}, arrives as\n{case.arrives}"


ATTACK = Attack("access", make, judge, smaller, show, nightly=30_000, smoke=300)

if __name__ == "__main__":
    sys.exit(main(ATTACK))
