"""Reduction as the founding talk wants it, and where others get it wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from matchmaker import (
    ClassAd,
    Reduction,
    ReductionError,
    Verdict,
    broker,
    glue,
    parse_ad,
    parse_expr,
    reduce,
)
from matchmaker.classad.nodes import Attr, Binary
from matchmaker.classad.operators import truth
from matchmaker.classad.walks import postorder
from matchmaker.reduction import phrase

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"

TERNARY = (
    "other.GlueHostBenchmarkSI00 > 500 ? other.GlueCEPolicyMaxCPUTime > 1000"
    " : other.GlueCEPolicyMaxCPUTime > 2000"
)


def reduction(requirement: str, queue: str = "[]", job: str = "[]") -> Reduction:
    ad = parse_ad(job)
    ad["Requirements"] = parse_expr(requirement)
    return reduce(ad, parse_ad(queue), glue.scope)


def accepts(made: Reduction, **host: object) -> bool:
    return truth(made.residual.eval(made.job, ClassAd(host))) is True


# --- the talk's example ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cpu_time", "verdict", "residual"),
    [
        ("1500", "residual", "other.GlueHostBenchmarkSI00 > 500"),
        ("3000", "residual", "other.GlueHostBenchmarkSI00 is a number"),
        ("500", "never", "false"),
        ("undefined", "never", "false"),
    ],
)
def test_the_talks_example(cpu_time: str, verdict: str, residual: str) -> None:
    made = reduction(TERNARY, f"[ GlueCEPolicyMaxCPUTime = {cpu_time} ]")
    assert made.verdict == verdict
    assert phrase(made.residual) == residual


def test_the_talks_example_without_the_attribute_at_all() -> None:
    assert reduction(TERNARY, "[]").verdict is Verdict.NEVER


@pytest.mark.parametrize(("cpu_time", "most"), [("1000", None), ("1001", 500), ("2000", 500)])
def test_the_talks_example_at_its_limits(cpu_time: str, most: int | None) -> None:
    made = reduction(TERNARY, f"[ GlueCEPolicyMaxCPUTime = {cpu_time} ]")
    assert made.verdict is (Verdict.NEVER if most is None else Verdict.RESIDUAL)
    assert accepts(made, GlueHostBenchmarkSI00=501) is (most is not None)
    assert not accepts(made, GlueHostBenchmarkSI00=500)


def test_the_queues_own_word_on_its_hosts_does_not_count() -> None:
    queue = "[ GlueCEPolicyMaxCPUTime = 1500; GlueHostBenchmarkSI00 = 9999 ]"
    made = reduction(TERNARY, queue)
    assert str(made.residual) == "other.GlueHostBenchmarkSI00 > 500"


def test_a_number_is_an_integer_a_real_or_a_boolean_and_nothing_else() -> None:
    made = reduction(TERNARY, "[ GlueCEPolicyMaxCPUTime = 3000 ]")
    for good in (0, 500, 501, -1.5, float("nan"), True, False):
        assert accepts(made, GlueHostBenchmarkSI00=good), good
    for bad in ("600", "", [600]):
        assert not accepts(made, GlueHostBenchmarkSI00=bad), bad
    assert not accepts(made)
    assert not truth(made.residual.eval(target=parse_ad("[ GlueHostBenchmarkSI00 = error ]")))


def test_a_boolean_host_counts_as_a_number_on_either_branch() -> None:
    made = reduction(
        "other.GlueHostBenchmarkSI00 >= 1 ? other.GlueCEPolicyMaxCPUTime > 1000 : false",
        "[ GlueCEPolicyMaxCPUTime = 3000 ]",
    )
    assert accepts(made, GlueHostBenchmarkSI00=True)
    assert not accepts(made, GlueHostBenchmarkSI00=False)


def test_a_text_host_is_no_number_and_a_number_is_no_text() -> None:
    made = reduction('other.GlueHostOperatingSystemName == "SL" ? true : 1 < 2')
    assert phrase(made.residual) == "isString(other.GlueHostOperatingSystemName)"
    assert accepts(made, GlueHostOperatingSystemName="Debian")
    assert not accepts(made, GlueHostOperatingSystemName=4)
    assert not accepts(made)


def test_the_talks_ce_leaves_the_job_to_any_host_with_a_number() -> None:
    job = parse_ad((EXAMPLES / "job.jdl").read_text())
    ce = glue.unwrap(parse_ad((EXAMPLES / "atlfarm006.ad").read_text()))
    made = reduce(job, ce, glue.scope)
    assert phrase(made.residual) == (
        "(other.GlueHostBenchmarkSI00 is a number) && other.GlueHostMainMemoryRAMSize >= 1000 &&"
        ' Member("GLITE_1_2", other.GlueHostApplicationSoftwareRunTimeEnvironment)'
    )
    assert [str(fate.verdict) for fate in made.fates] == ["residual", "always", *["residual"] * 2]


def test_the_examples_winner_leaves_fast_hosts() -> None:
    job = parse_ad((EXAMPLES / "job.jdl").read_text())
    site = glue.read_ldif(EXAMPLES / "site.ldif")
    chosen = broker.choose(job, site).chosen
    assert chosen is not None
    made = reduce(job, chosen.ad, glue.scope)
    assert str(made.fates[0].residual) == "other.GlueHostBenchmarkSI00 > 500"


# --- verdicts -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("requirement", "verdict"),
    [
        ("true", "always"),
        ("7", "always"),
        ("other.GlueCEStateFreeCPUs > 3", "always"),
        ("other.GlueCEStateFreeCPUs > 4", "never"),
        ("other.GlueCEStateWaitingJobs > 4", "never"),
        ('other.GlueCEStateFreeCPUs == "4"', "never"),
        ('"text"', "never"),
        ("other.GlueHostMainMemoryRAMSize > 4", "residual"),
        ("other.GlueCEStateFreeCPUs > 4 && other.GlueHostMainMemoryRAMSize > 4", "never"),
        ("other.GlueHostMainMemoryRAMSize > 4 && other.GlueCEStateFreeCPUs > 4", "never"),
        ("other.GlueCEStateFreeCPUs > 3 || other.GlueHostMainMemoryRAMSize > 4", "always"),
        ("other.GlueHostMainMemoryRAMSize > 4 || other.GlueCEStateFreeCPUs > 3", "residual"),
        ("isUndefined(other.GlueHostMainMemoryRAMSize) || 1 < 2", "always"),
    ],
)
def test_verdicts(requirement: str, verdict: str) -> None:
    made = reduction(requirement, "[ GlueCEStateFreeCPUs = 4 ]")
    assert made.verdict == verdict
    if verdict != "residual":
        assert str(made.residual) == ("true" if verdict == "always" else "false")


def test_clauses_that_contradict_each_other_are_never_true_and_it_is_said() -> None:
    made = reduction("other.GlueHostMainMemoryRAMSize > 5 && other.GlueHostMainMemoryRAMSize < 3")
    assert (made.verdict, str(made.residual)) == (Verdict.NEVER, "false")
    assert "the clauses contradict each other" in made.explain()


def test_a_job_without_requirements_requires_nothing() -> None:
    made = reduce(ClassAd(), ClassAd(), glue.scope)
    assert (made.verdict, str(made.residual)) == (Verdict.ALWAYS, "true")


def test_another_attribute_can_be_reduced() -> None:
    job = parse_ad("[ Requirements = false; Prefers = other.GlueHostMainMemoryRAMSize > 4 ]")
    made = reduce(job, ClassAd(), glue.scope, attribute="prefers")
    assert str(made.residual) == "other.GlueHostMainMemoryRAMSize > 4"


def test_fates_settle_each_clause() -> None:
    made = reduction(
        "other.GlueCEStateFreeCPUs > 3 && other.GlueHostMainMemoryRAMSize > 4 &&"
        " other.GlueCEStateWaitingJobs < 1",
        "[ GlueCEStateFreeCPUs = 4 ]",
    )
    assert [(str(f.verdict), str(f.residual)) for f in made.fates] == [
        ("always", "true"),
        ("residual", "other.GlueHostMainMemoryRAMSize > 4"),
        ("never", "undefined"),
    ]
    assert made.verdict is Verdict.NEVER


def test_explain_says_what_became_of_everything() -> None:
    text = reduction(
        "other.GlueCEStateFreeCPUs > 3 && other.GlueHostMainMemoryRAMSize > MY.Want &&"
        " isUndefined(other.Nothing)",
        "[ GlueCEStateFreeCPUs = 4 ]",
        "[ Want = 1000 ]",
    ).explain()
    for line in (
        "  other.GlueCEStateFreeCPUs: 4, a fact of the queue or the job",
        "  other.GlueHostMainMemoryRAMSize: of the host",
        "  MY.Want: 1000, a fact of the queue or the job",
        "  other.Nothing: absent, so undefined",
        "  settled: true on this queue",
        "  left to the host: other.GlueHostMainMemoryRAMSize > 1000",
        "verdict: residual",
        "residual: other.GlueHostMainMemoryRAMSize > 1000",
    ):
        assert line in text.split("\n")


# --- where a host's ad must not be mistaken for the job's -----------------------------------------


def test_the_residual_does_not_see_the_jobs_names() -> None:
    # The job has a memory of its own, which a bare name in the residual would find first.
    made = reduction(
        "other.GlueHostMainMemoryRAMSize > 1000", job="[ GlueHostMainMemoryRAMSize = 1 ]"
    )
    assert accepts(made, GlueHostMainMemoryRAMSize=2000)
    assert all(node.base is not None for node in postorder(made.residual)
               if isinstance(node, Attr) and node.name != "other")  # fmt: skip


def test_a_shadowed_bare_name_is_the_jobs() -> None:
    assert reduction(
        "GlueHostMainMemoryRAMSize > 1000", job="[ GlueHostMainMemoryRAMSize = 2000 ]"
    ).verdict is Verdict.ALWAYS  # fmt: skip


def test_words_for_ads_in_a_row() -> None:
    made = reduction(
        "other.target.Want == 3 && other.target.GlueHostMainMemoryRAMSize is undefined",
        "[ Want = 4 ]",
        "[ Want = 3 ]",
    )
    assert made.verdict is Verdict.ALWAYS


def test_circles_are_undefined_as_in_evaluation() -> None:
    job = parse_ad("[ a = b; b = a; Requirements = a || other.GlueHostMainMemoryRAMSize > 1 ]")
    made = reduce(job, ClassAd(), glue.scope)
    assert str(made.residual) == "other.GlueHostMainMemoryRAMSize > 1"


@pytest.mark.parametrize(
    "requirement",
    [
        "eval(other.GlueHostMainMemoryRAMSize) > 1",
        "other is other",
        "size(other) > 1",
        "[ a = other.GlueHostMainMemoryRAMSize ].a > 1",
        "countMatches(GlueHostMainMemoryRAMSize > 1, { other }) > 0",
    ],
)
def test_what_no_plain_condition_can_stand_for_is_refused(requirement: str) -> None:
    with pytest.raises(ReductionError):
        reduction(requirement)


def test_the_whole_ad_of_a_circle_of_clauses_is_bounded() -> None:
    names = "; ".join(f"a{i} = a{i - 1} && !a{i - 1}" for i in range(1, 60))
    with pytest.raises(ReductionError):
        reduction("a59", job=f"[ a0 = other.GlueHostMainMemoryRAMSize > 1; {names} ]")


# --- what the unwinding of requirements into submit attributes gets wrong elsewhere ---------------

RAM = "other.GlueHostMainMemoryRAMSize"


def test_strict_bounds_stay_strict() -> None:
    for text, at_limit in ((f"{RAM} > 5", False), (f"{RAM} >= 5", True), (f"5 < {RAM}", False),
                           (f"{RAM} < 5", False), (f"{RAM} <= 5", True)):  # fmt: skip
        assert accepts(reduction(text), GlueHostMainMemoryRAMSize=5) is at_limit


def test_a_negation_is_not_inverted() -> None:
    made = reduction(f"!({RAM} >= 1024)")
    assert accepts(made, GlueHostMainMemoryRAMSize=1000)
    assert not accepts(made, GlueHostMainMemoryRAMSize=1024)
    assert not accepts(made, GlueHostMainMemoryRAMSize=2048)


def test_an_alternative_stays_an_alternative() -> None:
    made = reduction(f"{RAM} >= 1024 || other.GlueHostNetworkAdapterOutboundIP")
    assert isinstance(made.residual, Binary)
    assert made.residual.operator == "||"
    assert accepts(made, GlueHostMainMemoryRAMSize=10, GlueHostNetworkAdapterOutboundIP=True)
    assert accepts(made, GlueHostMainMemoryRAMSize=2048, GlueHostNetworkAdapterOutboundIP=False)
    assert not accepts(made, GlueHostMainMemoryRAMSize=10, GlueHostNetworkAdapterOutboundIP=False)


def test_two_bounds_both_hold() -> None:
    for text in (f"{RAM} >= 1024 && {RAM} >= 2048", f"{RAM} >= 2048 && {RAM} >= 1024"):
        made = reduction(text)
        assert not accepts(made, GlueHostMainMemoryRAMSize=1024)
        assert accepts(made, GlueHostMainMemoryRAMSize=2048)


def test_not_equal_reals_booleans_and_patterns_are_kept() -> None:
    for text in (
        f"{RAM} != 5",
        f"{RAM} > 5.5",
        "other.GlueHostNetworkAdapterOutboundIP == true",
        'regexp("^Xeon", other.GlueHostProcessorModel)',
        f"{RAM} / other.GlueHostArchitectureSMPSize >= 512",
    ):
        assert reduction(text).residual is parse_expr(text)


def test_equality_and_identity_are_kept_and_told_apart() -> None:
    system = "other.GlueHostOperatingSystemName"
    for text, small in ((f'{system} == "SL"', True), (f'{system} =?= "SL"', False)):
        made = reduction(text)
        assert accepts(made, GlueHostOperatingSystemName="SL")
        assert accepts(made, GlueHostOperatingSystemName="sl") is small
    for text in (f"{RAM} == 5", f"{RAM} =?= 5"):
        assert accepts(reduction(text), GlueHostMainMemoryRAMSize=5)
        assert not accepts(reduction(text), GlueHostMainMemoryRAMSize=6)
        assert not accepts(reduction(text))


def test_every_tag_that_is_asked_for_is_kept() -> None:
    tags = "other.GlueHostApplicationSoftwareRunTimeEnvironment"
    made = reduction(f'Member("A", {tags}) && !Member("B", {tags})')
    accepted = [
        held for held in (["A"], ["A", "B"], ["B"], [])
        if accepts(made, GlueHostApplicationSoftwareRunTimeEnvironment=held)
    ]  # fmt: skip
    assert accepted == [["A"]]


def test_the_two_sides_of_a_connective_are_not_exchanged() -> None:
    # HTCondor's flatten does so, and an error on the left then no longer counts.
    first = reduction(f"{RAM} > 5 || other.GlueCEStateFreeCPUs > 3", "[ GlueCEStateFreeCPUs = 4 ]")
    second = reduction(f"other.GlueCEStateFreeCPUs > 3 || {RAM} > 5", "[ GlueCEStateFreeCPUs = 4 ]")
    assert (first.verdict, second.verdict) == (Verdict.RESIDUAL, Verdict.ALWAYS)
    assert not accepts(first, GlueHostMainMemoryRAMSize="much")
    negated = "!({} && {})".format(f"{RAM} > 5", "other.GlueCEStateFreeCPUs > 4")
    assert not accepts(
        reduction(negated, "[ GlueCEStateFreeCPUs = 4 ]"), GlueHostMainMemoryRAMSize="much"
    )


def test_true_false_and_undefined_are_three_answers() -> None:
    # To the gLite broker each of them is an empty string.
    told = [reduction(text) for text in ("true", "false", "other.GlueCEPolicyMaxCPUTime > 10", RAM)]
    assert [str(made.verdict) for made in told] == ["always", "never", "never", "residual"]
    assert [str(made.residual) for made in told] == ["true", "false", "false", RAM]


def test_what_the_queue_lacks_of_a_host_stays_and_what_it_lacks_of_itself_does_not() -> None:
    made = reduction(f"{RAM} > 5 && isUndefined(other.GlueCEPolicyMaxCPUTime)")
    assert str(made.residual) == f"{RAM} > 5"


def test_nothing_of_an_attributes_quoted_name_gets_lost() -> None:
    name = "GlueHost'; rm -rf ~; '"
    made = reduce(
        ClassAd({"Requirements": Binary(">=", Attr(Attr(None, "other", False), name, False),
                                        parse_expr("5"))}),
        ClassAd(),
        lambda _: "host",
    )  # fmt: skip
    assert parse_expr(str(made.residual)) is made.residual
    assert accepts(made, **{name: 6})


def test_the_queues_facts_are_never_left_as_host_conditions() -> None:
    made = reduction(f"other.GlueCEPolicyMaxCPUTime > 10 || {RAM} > 5", "[]")
    assert str(made.residual) == f"{RAM} > 5"


def test_undefined_and_true_are_not_mixed_up() -> None:
    assert reduction("other.GlueCEPolicyMaxCPUTime > 10", "[]").verdict is Verdict.NEVER
    assert reduction("!(other.GlueCEPolicyMaxCPUTime > 10)", "[]").verdict is Verdict.NEVER
    assert reduction("isUndefined(other.GlueCEPolicyMaxCPUTime)").verdict is Verdict.ALWAYS


def test_an_alternative_of_thousands_of_hosts_is_reduced() -> None:
    text = " || ".join(f'other.GlueHostName == "wn{i}"' for i in range(1000))
    made = reduction(text)
    assert accepts(made, GlueHostName="wn999")
    assert not accepts(made, GlueHostName="wn1000")


@pytest.mark.parametrize("word", ["other", "Other", "target", "my"])
def test_a_job_may_call_an_attribute_by_the_word_for_the_other_ad(word: str) -> None:
    # In such a job the word means the attribute, and the residual must still mean the host.
    scope_word = "other" if word == "target" else "TARGET"
    job = parse_ad(f"[ {word} = [ x = 1 ]; Requirements = {scope_word}.GlueHostBenchmarkSI00 > 5 ]")
    made = reduce(job, ClassAd(), glue.scope)
    for speed, wanted in ((9, True), (1, False)):
        host = ClassAd({"GlueHostBenchmarkSI00": speed})
        assert truth(job.eval("Requirements", target=host)) is wanted
        assert truth(made.residual.eval(job, host)) is wanted
