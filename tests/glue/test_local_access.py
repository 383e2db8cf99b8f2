"""A queue that a batch system keeps for some admits those alone, and nobody where in doubt."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from matchmaker import broker, glue, parse_ad
from matchmaker.classad import UNDEFINED, ClassAd
from matchmaker.glue.access import RULES
from tests.strategies import ads

VOS = ["cms", "atlas", "/lhcb/Role=pilot", "DENY:/cms/Role=bad"]


def rules_of(lists: Any, vos: list[str], local: dict[str, list[str]] | None = None) -> Any:
    [ad] = glue.admit([ClassAd({"Name": "q", "LocalAccess": lists})], vos, local)
    return ad.eval(RULES)


def lists(**kinds: list[str]) -> list[ClassAd]:
    return [ClassAd(kinds)]


@pytest.mark.parametrize(
    ("access", "local", "admitted"),
    [
        (lists(AllowedGroups=["cms", "ops"]), {}, ["VO:cms"]),
        (lists(AllowedGroups=["cms"], AllowedAccounts=["atlas"]), {}, []),
        (lists(AllowedGroups=["grid"], AllowedAccounts=["lhc"]), {"cms": ["grid", "lhc"]},
         ["VO:cms"]),
        (lists(DeniedAccounts=["cms"]), {}, ["VO:atlas", "VOMS:/lhcb/Role=pilot"]),
        (lists(DeniedAccounts=["evil"]), {"atlas": ["evil"]},
         ["VO:cms", "VOMS:/lhcb/Role=pilot"]),
        (lists(AllowedGroups=["lhcb"]), {}, ["VOMS:/lhcb/Role=pilot"]),
        (lists(AllowedGroups=["plt"]), {"/lhcb/Role=pilot": ["plt"]}, ["VOMS:/lhcb/Role=pilot"]),
        ([*lists(AllowedUsers=["cms"]), *lists(AllowedGroups=["atlas"])], {},
         ["VO:cms", "VO:atlas"]),
        (lists(AllowedUsers=[]), {}, []),
    ],
)  # fmt: skip
def test_local_names(access: Any, local: dict[str, list[str]], admitted: list[str]) -> None:
    denial = "DENY:/cms/Role=bad"
    wanted = [*admitted, denial] if admitted else ["DENY:ALL"]
    assert rules_of(access, VOS, local) == wanted


@pytest.mark.parametrize(
    "access",
    ["cms", 7, [], ["cms"], UNDEFINED, [ClassAd()], [ClassAd({"AllowedGroups": "cms"})],
     [ClassAd({"AllowedGroups": ["cms", 5]})], [ClassAd({"AllowedGroups": ["cms"], "Who": ["x"]})],
     [ClassAd({"DeniedGroups": UNDEFINED})]],
)  # fmt: skip
def test_lists_that_are_none_admit_nobody(access: Any) -> None:
    assert rules_of(access, ["cms"]) == ["DENY:ALL"]


@given(ads())
def test_whatever_the_lists_are_nobody_is_admitted_who_is_not_named(ad: ClassAd) -> None:
    assert rules_of([ad], ["a VO that nobody names".replace(" ", "-")]) == ["DENY:ALL"]


def test_without_vos_a_restricted_queue_admits_nobody() -> None:
    queue = ClassAd({"CEid": "ce:1/cream-slurm-q", "LocalAccess": lists(AllowedGroups=["cms"])})
    [ad] = glue.place([queue])
    assert ad.eval(RULES) == ["DENY:ALL"]
    job = parse_ad('[ VirtualOrganisation = "cms"; Rank = 1 ]')
    assert not broker.choose(job, [ad]).ranked
    [ad] = glue.place([queue], vos=["cms"])
    assert broker.choose(job, [ad]).ranked


def test_rules_of_an_admins_own_stay() -> None:
    queue = ClassAd({"LocalAccess": lists(AllowedGroups=["cms"]), RULES: ["VO:ops"]})
    [ad] = glue.admit([queue], ["cms"])
    assert ad.eval(RULES) == ["VO:ops"]
    with pytest.raises(ValueError, match="a local name of 'lhcb', which is not among the VOs"):
        glue.admit([queue], ["cms"], {"lhcb": ["x"]})
