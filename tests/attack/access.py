"""No damage to a dump makes a queue accept a job that it refused before.

A case is one of `sites`, and the same dump with the damage of `damage`.
"""

from __future__ import annotations

import io
import random
import sys
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

import attrs

from matchmaker import glue, parse_ad
from matchmaker.broker import AUTHORISED, NOT_DENIED
from matchmaker.classad import ClassAd, parse_expr
from matchmaker.classad.ad import first_text
from matchmaker.glue.access import CLOSED, RULES, denials
from tests.attack.damage import damage
from tests.attack.run import Attack, main
from tests.attack.sites import ADMITTING, DENYING, SITES, site

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


@attrs.frozen(slots=True)
class Case:
    """A dump, and the same dump damaged."""

    whole: bytes
    damaged: bytes


Admitted = dict[str, frozenset[int]]


@lru_cache(maxsize=1 << 14)
def admitted(rules: tuple[str, ...] | None) -> frozenset[int]:
    """The jobs, by number, that a list of rules admits."""
    ad = ClassAd({RULES: list(rules)} if rules is not None else {})
    return frozenset(
        number
        for number, job in enumerate(JOBS)
        if all(check.eval(my=job, target=ad) is True for check in _CHECKS)
    )


def of_ads(ads: Iterable[ClassAd]) -> tuple[Admitted, set[str]]:
    """The jobs that each queue admits by itself or by one of its views, and all rules.

    Raises ValueError for two queues of one name, of which no pool can be made.
    """
    jobs: Admitted = {}
    known: set[str] = set()
    names: set[str] = set()
    for ad in ads:
        if (name := str(ad.eval("CEid"))) in names:
            raise ValueError(f"{name} is there twice")
        names.add(name)
        rules = ad.eval(RULES)
        texts = tuple(str(rule) for rule in rules) if isinstance(rules, list) else None
        known.update(texts if texts is not None else ("ALL",))
        ident = (first_text(ad, ("GlueCEUniqueID",)) or name).partition("/urn:share")[0].lower()
        jobs[ident] = jobs.get(ident, frozenset()) | admitted(texts)
    return jobs, known


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
    return of_ads(glue.read(io.BytesIO(data)).computing_elements())[0]


KNOWN: Final = frozenset((*ADMITTING, *DENYING, *denials(DENYING), CLOSED, "ALL"))


def make(chance: random.Random) -> Case:
    """A random site, damaged."""
    form, data = site(chance.randrange(SITES))
    return Case(data, damage(form, data, chance))


def judge(case: Case) -> str | None:
    """Says which queue admits more than it did."""
    before, found = whole(case.whole), read(case.damaged)
    if found is None:
        return None
    jobs, rules = of_ads(found.computing_elements())
    return None if rules - KNOWN or silent(case) else more(before, jobs)


def silent(case: Case) -> bool:
    """Whether a denial lost its first word, and so became a rule that admits."""

    def counts(data: bytes, rule: str) -> tuple[int, int]:
        denials = data.count(rule.encode())
        return denials, data.count(rule.removeprefix("DENY:").encode()) - denials

    for rule in DENYING:
        denials, rules = counts(case.whole, rule)
        left, more = counts(case.damaged, rule)
        if left < denials and more > rules:
            return True
    return False


def smaller(case: Case) -> Iterable[Case]:
    """The same damage with fewer lines, in both dumps alike."""
    lines, damaged = case.whole.split(b"\n\n"), case.damaged.split(b"\n\n")
    for entry in lines:
        kept = b"\n\n".join(each for each in lines if each != entry)
        if entry in damaged and b"Rule" in kept:
            yield Case(kept, b"\n\n".join(each for each in damaged if each != entry))


def show(case: Case) -> str:
    """Both dumps."""
    return f"--- whole\n{case.whole.decode()}--- damaged\n{case.damaged!r}"


ATTACK = Attack("access", make, judge, smaller, show, nightly=100_000, smoke=1_500)

if __name__ == "__main__":
    sys.exit(main(ATTACK))
