from __future__ import annotations

import pytest

from matchmaker import ClassAd, Value, parse_ad
from matchmaker.glue.access import ALSO, RULES
from matchmaker.glue.query import admits, full_name, parse_query, short_names, value_of
from matchmaker.glue.schema import attribute

AD = parse_ad("""[ CEid = "ce.s.grid:8443/cream-slurm-long"; LRMSType = "slurm"; QueueName = "long";
  GlueCEStateFreeCPUs = 12; GlueCEStateWaitingJobs = undefined; GlueHostBenchmarkSI00 = 620.5;
  GlueHostOperatingSystemName = "ScientificSL"; GlueHostNetworkAdapterOutboundIP = true;
  GlueHostApplicationSoftwareRunTimeEnvironment = { "ROOT-6", "VO-cms-CMSSW", "a,b" };
  GlueCEAccessControlBaseRule = { "VO:cms", "VOMS:/atlas/Role=production", "DENY:/lhcb" };
  GLUE2 = [ Computing = [ Share = [ MaxCPUTime = 172800 ] ] ] ]""")


@pytest.mark.parametrize(
    ("query", "holds"),
    [
        ("", True),
        ("FreeCPUs=12", True),
        ("freecpus>=12", True),
        ("GlueCEStateFreeCPUs > 12", False),
        ("FreeCPUs!=12", False),
        ("FreeCPUs!=11", True),
        ("FreeCPUs=twelve", False),
        ("FreeCPUs<1e2,LRMS=SLURM", True),
        ("FreeCPUs<1e2,LRMS=pbs", False),
        ("SI00>600", True),
        ("OS=scientific*", True),
        ("OS=*6*", False),
        ("OS=[s]cientific*", False),
        ("OS>r", True),
        ("Tag=VO-cms-*", True),
        ("Tag=ROOT", False),
        ("Tag!=ROOT", True),
        ("Tag!=ROOT-6", False),
        ('Tag="a,b"', True),
        ("OutboundIP=true", True),
        ("OutboundIP=no", False),
        ("OutboundIP>false", False),
        ("WaitingJobs=0", False),
        ("WaitingJobs!=0", False),
        ("NoSuchThing=1", False),
        ("GLUE2.Computing.Share.MaxCPUTime>=100000", True),
        ("GLUE2.Computing.Nothing.At.All=1", False),
    ],
)
def test_queries(query: str, holds: bool) -> None:
    assert all(condition.holds(AD) for condition in parse_query(query)) is holds


@pytest.mark.parametrize(
    "query", ["FreeCPUs", "=1", "a=1,,b=2", "a b=1", "FreeCPUs=", 'a="1', "a=1;b=2=", "f(x)=1"]
)
def test_what_is_no_query(query: str) -> None:
    if query == "a=1;b=2=":  # one condition, whose text is odd
        assert not parse_query(query)[0].holds(AD)
        return
    with pytest.raises(ValueError, match="a query is"):
        parse_query(query)


def test_short_names_lead_to_attributes() -> None:
    assert full_name("EstRespTime") == "GlueCEStateEstimatedResponseTime"
    assert full_name("unknown") == "unknown"
    known = {"CEid", "LRMSType", "QueueName"}
    for short, name in short_names().items():
        assert name in known or attribute(name) is not None, short
    assert value_of(AD, "Tag") == ["ROOT-6", "VO-cms-CMSSW", "a,b"]


@pytest.mark.parametrize(
    ("vo", "admitted"),
    [("cms", True), ("CMS", True), ("atlas", True), ("lhcb", False), ("", False)],
)
def test_who_is_admitted(vo: str, admitted: bool) -> None:
    assert admits(AD, vo) is admitted
    assert admits(ClassAd({RULES: ["ALL"]}), vo)
    # As for the broker: no rules are no limits, rules that are none admit nobody.
    assert admits(ClassAd(), vo)
    assert not admits(ClassAd({RULES: list[Value]()}), vo)
    assert not admits(ClassAd({RULES: "VO:cms"}), vo)
    # Each list counts.
    assert not admits(ClassAd({RULES: ["ALL"], ALSO: [["VO:ops"]]}), vo)


def test_all_is_a_word_of_rules_and_a_name_of_organisations() -> None:
    assert admits(ClassAd({RULES: ["all"]}), "cms")
    assert not admits(ClassAd({RULES: ["VO:all"]}), "cms")
    assert admits(ClassAd({RULES: ["VO:all"]}), "ALL")


def test_an_attribute_that_the_ad_has_goes_before_a_short_name() -> None:
    ad = parse_ad('[ LRMSType = "slurm"; GlueCEInfoLRMSType = "pbs" ]')
    assert value_of(ad, "LRMSType") == "slurm"
    del ad["LRMSType"]
    assert value_of(ad, "LRMSType") == "pbs"
