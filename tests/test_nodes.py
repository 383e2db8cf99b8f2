from __future__ import annotations

import random
from itertools import product
from pathlib import Path

import pytest

from matchmaker import ClassAd, nodes, parse_ad, parse_ads, parse_expr, read_ads

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"

HOSTS = """
[ Name = "wn1"; Cpus = 2; Speed = 400 ]
[ Name = "wn2"; Cpus = 4; Speed = 600 ]
[ Name = "wn3"; Cpus = 4; Speed = 600; Requirements = other.Owner == "ana" ]
[ Name = "wn4"; Cpus = 8 ]
"""


def chosen(job: str, requirements: str | None = None) -> list[str]:
    wanted = parse_expr(requirements) if requirements is not None else None
    return [c.name for c in nodes.choose(parse_ad(job), parse_ads(HOSTS), wanted).ranked]


def test_by_the_jobs_own_requirements() -> None:
    assert chosen('[ Owner = "ana"; Requirements = other.Cpus >= 4 ]') == ["wn2", "wn3", "wn4"]
    assert chosen("[]") == ["wn1", "wn2", "wn4"]


def test_a_residual_stands_in_the_place_of_the_requirements() -> None:
    job = '[ Owner = "ana"; Requirements = other.GlueCEStateFreeCPUs > 0 ]'
    assert chosen(job) == []
    assert chosen(job, "other.Speed > 500") == ["wn2", "wn3"]
    assert chosen(job, "true") == ["wn1", "wn2", "wn3", "wn4"]
    assert chosen(job, "false") == []


def test_the_job_keeps_its_requirements() -> None:
    job = parse_ad("[ Requirements = other.Cpus >= 4 ]")
    nodes.choose(job, parse_ads(HOSTS), parse_expr("true"))
    assert str(job) == "[ Requirements = other.Cpus >= 4 ]"


def test_a_nodes_own_requirements_count_too() -> None:
    found = nodes.choose(parse_ad('[ Owner = "ben" ]'), parse_ads(HOSTS), parse_expr("true"))
    assert [(r.name, r.by) for r in found.refused] == [("wn3", "resource")]


def test_a_rank_of_queues_says_nothing_of_hosts() -> None:
    job = "[ Rank = other.GlueCEStateFreeCPUs ]"
    assert chosen(job) == ["wn1", "wn2", "wn4"]


def test_a_node_that_takes_no_jobs_now_is_refused() -> None:
    states = '[ Name = "up"; Available = true ] [ Name = "old" ] [ Available = false ]'
    hiding = parse_ad("[ TARGET = 1; other = my; my = [ Available = true ] ]")
    for job, requirements in product((ClassAd(), hiding), (None, parse_expr("true"))):
        found = nodes.choose(job, parse_ads(states), requirements)
        assert sorted(candidate.name for candidate in found.ranked) == ["old", "up"]
        [refusal] = found.refused
        assert refusal.by == "broker"
        assert refusal.clause is not None
        assert refusal.clause.expression is parse_expr(nodes.AVAILABLE)


def test_a_job_that_is_no_ad_is_refused() -> None:
    with pytest.raises(TypeError, match="an ad was expected, not str"):
        nodes.choose("[]", [])  # type: ignore[arg-type]


def test_best_first() -> None:
    assert chosen('[ Owner = "ana"; Rank = other.Cpus ]') == ["wn4", "wn2", "wn3", "wn1"]


def test_equals_by_chance_where_asked() -> None:
    job = ClassAd()
    orders = {
        tuple(c.name for c in nodes.choose(job, parse_ads(HOSTS), tie=random.Random(s)).ranked)
        for s in range(40)
    }
    assert len(orders) == 6


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ('[ Name = "a"; Machine = "b" ]', "a"),
        ('[ Machine = "b"; GlueHostName = "c" ]', "b"),
        ('[ GlueHostName = "c"; GlueHostUniqueID = "d" ]', "c"),
        ('[ GlueHostUniqueID = "d" ]', "d"),
        ('[ Name = ""; Machine = "b" ]', "b"),
        ("[ Name = 7 ]", "node 1"),
        ("[]", "node 1"),
    ],
)
def test_names(text: str, name: str) -> None:
    assert [found for found, _ in nodes.named([parse_ad(text)])] == [name]


def test_no_nodes_no_choice() -> None:
    found = nodes.choose(ClassAd(), [])
    assert found.chosen is None


def test_the_examples_nodes() -> None:
    job = parse_ad((EXAMPLES / "job.jdl").read_text())
    residual = parse_expr(
        "other.GlueHostBenchmarkSI00 > 500 && other.GlueHostMainMemoryRAMSize >= 1000 &&"
        ' member("GLITE_1_2", other.GlueHostApplicationSoftwareRunTimeEnvironment)'
    )
    found = nodes.choose(job, read_ads(EXAMPLES / "nodes.ad"), residual)
    assert (len(found.ranked), len(found.refused)) == (22, 25)
    reasons = " ".join(refused.reason for refused in found.refused)
    for word in ("is false", "is undefined", "is error"):
        assert word in reasons
