"""Ten cases that an administrator predicts from the rule in docs/glue.md, and random sites.

`CASES` is the table of that page: what a site publishes of a queue, the user, and the prediction.
The second half publishes one truth in every provider's shape.
"""

from __future__ import annotations

import io
import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from matchmaker import broker, glue, parse_ad
from tests.glue import providers
from tests.glue.providers import entry

PAGE: Final = Path(__file__).resolve().parents[2] / "docs" / "glue.md"
PILOT: Final = '[ VirtualOrganisation = "cms"; FQAN = { "/cms/Role=pilot", "/cms" } ]'
ADA: Final = '[ VirtualOrganisation = "zulu"; FQAN = "/zulu"; CertificateSubject = "/O=g/CN=Ada" ]'

CASES: Final = {
    "share `vo:cms`, endpoint without a policy": ("vo:cms", None, PILOT, "admitted"),
    "share `VO:CMS`, endpoint `VO:atlas`, `VO:cms`": (
        "VO:CMS", "VO:atlas VO:cms", PILOT, "admitted"),
    "share `VO:cms`, endpoint `VO:atlas`": ("VO:cms", "VO:atlas", PILOT, "refused"),
    "share without a policy, endpoint `ALL`, `DENY:VO:CMS`": (
        None, "ALL DENY:VO:CMS", PILOT, "refused"),
    "share `VOMS:/cms/Role=pilot`, endpoint `VO:cms`": (
        "VOMS:/cms/Role=pilot", "VO:cms", PILOT, "admitted"),
    "share `VO:cms`, `DENY:/cms/Role=pilot`": ("VO:cms DENY:/cms/Role=pilot", None, PILOT,
                                               "refused"),
    "share `VO:cms`, `EGEE`": ("VO:cms EGEE", None, PILOT, "refused"),
    "neither has a policy": (None, None, PILOT, "unknown"),
    "share `/O=g/CN=Ada`, endpoint `VO:zulu`": ("/O=g/CN=Ada", "VO:zulu", ADA, "admitted"),
    "share `VO:zulu`; another source: `VO:cms`": ("VO:zulu|VO:cms", None, ADA, "refused"),
}  # fmt: skip
"""The rules of share and endpoint, None without a policy; behind a bar what another source says."""


def described(share: str | None, endpoint: str | None) -> glue.Glue:
    """A queue with policies of these rules."""
    place = "GLUE2ServiceID=s,o=glue"
    text = entry(place, ["GLUE2ComputingService"])
    text += entry(f"GLUE2EndpointID=e,{place}", ["GLUE2ComputingEndpoint"])
    text += entry(f"GLUE2ShareID=q,{place}", ["GLUE2ComputingShare"])
    for of, kind, rules in (("ShareID=q", "Mapping", share), ("EndpointID=e", "Access", endpoint)):
        if rules is not None:
            said = (f"GLUE2PolicyRule: {rule}" for rule in rules.split())
            dn = f"GLUE2PolicyID=p,GLUE2{of},{place}"
            text += entry(dn, [f"GLUE2{kind}Policy"], "GLUE2PolicyID: p", *said)
    return glue.read(io.BytesIO(text.encode()))


def predicted(sources: list[glue.Glue], user: str) -> str:
    """What the broker says of a user at the one queue of sources."""
    queues = broker.merged((str(number), each) for number, each in enumerate(sources))
    if broker.choose(parse_ad(user), queues, rules=broker.Rules(access="known")).ranked:
        return "admitted"
    return "unknown" if broker.choose(parse_ad(user), queues).ranked else "refused"


@pytest.mark.parametrize("case", CASES)
def test_ten_predictions(case: str) -> None:
    share, endpoint, user, answer = CASES[case]
    first, _, other = (share or "").partition("|")
    sources = [described(first if share is not None else None, endpoint)]
    sources += [described(other, None)] if other else []
    assert predicted(sources, user) == predicted(sources[::-1], user) == answer


def test_the_page_has_the_ten_predictions() -> None:
    page = PAGE.read_text(encoding="utf-8")
    for case, (_, _, user, answer) in CASES.items():
        assert f"| {case} | {'a pilot of `cms`' if user == PILOT else 'Ada'} | {answer} |" in page


# One truth in every shape

VOS: Final = ("atlas", "cms", "zulu", "ops")


def arc(vos: list[str], chance: random.Random) -> str:
    cluster = vos if chance.random() < 0.5 else vos[:1]
    return providers.arc("h.s.org", {"q": vos, "r": None}, cluster, rest=chance.random() < 0.7)


SHAPES: Final[Mapping[str, Callable[[list[str], random.Random], str]]] = {
    "arc": arc,
    "arc, XML": lambda vos, _: providers.arc_xml("h.s.org", {"q": vos}),
    "arc, JSON": lambda vos, _: providers.arc_json(providers.arc_xml("h.s.org", {"q": vos})),
    "arc, GLUE 1.3": lambda vos, _: providers.arc_glue1("h.s.org", vos, {"q": vos}),
    "htcondor-ce": lambda vos, chance: providers.htcondor_ce(
        "h.s.org", vos, access=chance.random() < 0.5
    ),
    "cream": lambda vos, _: providers.cream(
        "h.s.org", {"q": {vo: f"VO:{vo}" for vo in vos}}, [f"VO:{vo}" for vo in vos]
    ),
    "cream, GLUE 1.3": lambda vos, chance: providers.cream_glue1(
        "h.s.org",
        [f"VO:{vo}" for vo in vos],
        {vo: [f"VO:{vo}"] for vo in vos if chance.random() < 0.7},
    ),
    "nikhef": lambda vos, _: providers.nikhef("h.s.org", [f"VO:{vo}" for vo in vos]),
    "unicore": lambda vos, _: providers.unicore("h.s.org", [f"VO:{vo}" for vo in vos]),
}


@pytest.mark.parametrize("shape", SHAPES)
@given(
    vos=st.lists(st.sampled_from(VOS), min_size=1, max_size=3, unique=True),
    case=st.sampled_from((str.lower, str.upper, str.title)),
    seed=st.integers(0, 1 << 16),
)
@settings(max_examples=8, deadline=None)
def test_whom_a_site_names_is_admitted_and_nobody_else(
    shape: str, vos: list[str], case: Callable[[str], str], seed: int
) -> None:
    text = SHAPES[shape]([case(vo) for vo in vos], random.Random(seed))
    found = glue.read(io.BytesIO(text.encode()))
    for user, said in providers.USERS.items():
        job = parse_ad(said)
        named = str(job.eval("VirtualOrganisation")).lower() in vos
        rules = broker.Rules(access="known")
        assert bool(broker.choose(job, found, rules=rules).ranked) is named, user


@pytest.mark.parametrize("shape", ["cream", "cream, GLUE 1.3", "unicore"])
@given(
    denied=st.sampled_from(VOS),
    spelt=st.sampled_from(("DENY:VO:{}", "deny:vo:{}", "DENY:/{}", "DENY:VOMS:/{}/*", "DENY:{}")),
    case=st.sampled_from((str.lower, str.upper)),
)
@settings(max_examples=15, deadline=None)
def test_whom_a_site_denies_is_refused(
    shape: str, denied: str, spelt: str, case: Callable[[str], str]
) -> None:
    rules = ["ALL", spelt.format(case(denied))]
    text = {
        "cream": lambda: providers.cream("h.s.org", {"q": {"all": "ALL"}}, rules),
        "cream, GLUE 1.3": lambda: providers.cream_glue1("h.s.org", rules, {"v": ["ALL"]}),
        "unicore": lambda: providers.unicore("h.s.org", rules),
    }[shape]()
    found = glue.read(io.BytesIO(text.encode()))
    for user, said in providers.USERS.items():
        job = parse_ad(said)
        is_denied = str(job.eval("VirtualOrganisation")).lower() == denied
        assert bool(broker.choose(job, found).ranked) is not is_denied, user
