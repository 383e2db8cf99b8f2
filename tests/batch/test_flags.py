from __future__ import annotations

from pathlib import Path

import pytest

from matchmaker import (
    ClassAd,
    Reduction,
    batch,
    glue,
    is_error,
    parse_ad,
    parse_ads,
    parse_expr,
    reduce,
)
from matchmaker.batch import Fit, MappingError, NoFlagsError, NoHostError, Submission
from matchmaker.batch.flags.submission import contradictions
from matchmaker.classad.nodes import Attr, Binary, Literal
from tests.batch.farm import CPUS, RAM, TAGS

SITE = """
[attributes.GlueHostApplicationSoftwareRunTimeEnvironment]
kind = "member"
features = { "GLITE_1_2" = "glite12", "APP1" = "app1" }

[attributes.GlueHostOperatingSystemName]
kind = "eq"
features = { "SL" = "sl" }
"""


def reduction(requirement: str, job: str = "[]") -> Reduction:
    ad = parse_ad(job)
    ad["Requirements"] = parse_expr(requirement)
    return reduce(ad, ClassAd(), glue.scope)


def planned(requirement: str, nodes: str | None = None, mapping: Path | None = None) -> Submission:
    inventory = list(parse_ads(nodes)) if nodes is not None else None
    return batch.flags(reduction(requirement), "slurm", mapping, inventory)


@pytest.fixture
def site(tmp_path: Path) -> Path:
    path = tmp_path / "site.toml"
    path.write_text(SITE)
    return path


# --- one clause at a time -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("requirement", "argv", "verdict"),
    [
        (f"{RAM} >= 1000", ["--mem=1000M"], "exact"),
        (f"{RAM} > 1000", ["--mem=1001M"], "exact"),
        (f"1000 <= {RAM}", ["--mem=1000M"], "exact"),
        (f"1000 < {RAM}", ["--mem=1001M"], "exact"),
        (f"!({RAM} < 1000)", ["--mem=1000M"], "exact"),
        (f"!({RAM} <= 1000)", ["--mem=1001M"], "exact"),
        (f"{RAM} >= 999.5", ["--mem=1000M"], "exact"),
        (f"{RAM} > 999.5", ["--mem=1000M"], "exact"),
        (f"{RAM} > 1000.0", ["--mem=1001M"], "exact"),
        (f"{CPUS} >= 4", ["--mincpus=4"], "exact"),
        (f"{RAM} == 1000", ["--mem=1000M"], "necessary"),
        (f"{RAM} is 1000", ["--mem=1000M"], "necessary"),
        (f"{RAM} < 1000", [], "necessary"),
        (f"{RAM} <= 1000", [], "necessary"),
        (f"!({RAM} >= 1000)", [], "necessary"),
        (f"!({RAM} > 1000)", [], "necessary"),
        (f"{RAM} != 1000", [], "necessary"),
        (f"{RAM} isnt 1000", [], "necessary"),
        (f"!({RAM} == 1000)", [], "necessary"),
        (f"{RAM}", ["--mem=1M"], "exact"),
        (f"{RAM} >= true", ["--mem=1M"], "exact"),
        (f'{RAM} >= "1000"', [], "necessary"),
        (f"{RAM} >= {CPUS}", [], "necessary"),
        (f"{RAM} / 2 >= 500", [], "necessary"),
        (f"{RAM} >= 1000 || {CPUS} >= 4", [], "necessary"),
        (f"!({RAM} >= 1000 && {CPUS} >= 4)", [], "necessary"),
        (f"{RAM} >= 1000 ? {CPUS} >= 4 : {CPUS} >= 8", ["--mincpus=4"], "necessary"),
        (f"member(4, {RAM})", [], "necessary"),
        (f"isInteger({RAM})", [], "necessary"),
        ("other.GlueHostBenchmarkSI00 > 500", [], "necessary"),
        (f'member("GLITE_1_2", {TAGS})', [], "necessary"),
        ("true", [], "exact"),
        ("1 < 2", [], "exact"),
    ],
)
def test_a_clause_becomes_its_flag_or_none(requirement: str, argv: list[str], verdict: str) -> None:
    submission = planned(requirement)
    assert list(submission.argv) == argv
    assert submission.verdict == verdict
    assert bool(submission.dropped) == (verdict != "exact")


@pytest.mark.parametrize(
    ("requirement", "argv"),
    [
        (f"{RAM} >= 1000 && {RAM} >= 2000", ["--mem=2000M"]),
        (f"{RAM} >= 2000 && {RAM} >= 1000", ["--mem=2000M"]),
        (f"{RAM} > 2000 && {RAM} >= 2000", ["--mem=2001M"]),
        (f"{RAM} >= 1000 && {CPUS} >= 4", ["--mem=1000M", "--mincpus=4"]),
        (f"{RAM} >= 0 && {CPUS} > -3", []),
        (f"{RAM} >= -5 && {RAM} >= 10", ["--mem=10M"]),
    ],
)
def test_clauses_together(requirement: str, argv: list[str]) -> None:
    submission = planned(requirement)
    assert list(submission.argv) == argv
    assert submission.verdict is Fit.EXACT


@pytest.mark.parametrize("bound", ["1e300", "9223372036854775807", 'real("INF")', 'real("NaN")'])
def test_a_number_that_is_no_size_is_dropped(bound: str) -> None:
    submission = planned(f"{RAM} >= {bound}")
    assert submission.argv == ()
    assert submission.verdict is Fit.NECESSARY


def test_what_cannot_be_said_is_named_and_the_rest_is_said() -> None:
    submission = planned(f"{RAM} >= 1000 && {RAM} < 4000 && other.GlueHostBenchmarkSI00 > 500")
    assert submission.argv == ("--mem=1000M",)
    assert submission.verdict is Fit.NECESSARY
    assert [str(d.clause) for d in submission.dropped] == [
        f"{RAM} < 4000",
        "other.GlueHostBenchmarkSI00 > 500",
    ]
    assert all(d.reason for d in submission.dropped)


def test_a_constant_is_not_among_what_was_dropped() -> None:
    submission = planned("other.GlueHostNetworkAdapterOutboundIP && true")
    assert [str(d.clause) for d in submission.dropped] == ["other.GlueHostNetworkAdapterOutboundIP"]


def test_what_is_no_reduction_is_refused() -> None:
    with pytest.raises(TypeError, match="a reduction was expected, not NoneType; reduce"):
        batch.flags(None, "slurm")  # type: ignore[arg-type]


def test_directives_carry_the_same_flags() -> None:
    submission = planned(f"{RAM} >= 1000 && {CPUS} >= 4")
    assert submission.directives == ("#SBATCH --mem=1000M", "#SBATCH --mincpus=4")
    assert submission.lrms == "slurm"


def test_names_are_compared_without_case() -> None:
    assert planned("TARGET.gluehostMAINmemoryRAMSIZE >= 5").argv == ("--mem=5M",)


def test_only_attributes_of_the_host_itself_count() -> None:
    # A name inside something of the host's is another matter than the host's own.
    assert planned("other.GlueHostStorage.GlueHostMainMemoryRAMSize >= 5").argv == ()


# --- a table that others get wrong ----------------------------------------------------------------


@pytest.mark.parametrize(
    "requirement",
    [
        f"!({RAM} >= 1024)",
        f"{RAM} >= 1024 || other.GlueHostNetworkAdapterOutboundIP",
        f"other.GlueHostNetworkAdapterOutboundIP || {RAM} >= 1024",
        f"{RAM} < 1024",
        f"{RAM} != 1024",
        f"other.GlueHostBenchmarkSI00 > 500 ? {RAM} > 1000 : {RAM} < 2000",
        f"ifThenElse({CPUS} > 2, {RAM} > 1000, true)",
        f"({RAM} >= 1024) == false",
        f"({RAM} >= 1024) is false",
        f"!!!({RAM} >= 1024)",
        f"({RAM} ?: 4096) >= 1024",
        f"-{RAM} >= -1024",
    ],
)
def test_no_minimum_comes_out_of_what_is_none(requirement: str) -> None:
    submission = planned(requirement)
    assert submission.argv == ()
    assert submission.verdict is Fit.NECESSARY


def test_the_talks_job_asks_for_no_cpu_time_of_a_host() -> None:
    wanted = (
        "other.GlueHostBenchmarkSI00 > 500 ? other.GlueCEPolicyMaxCPUTime > 1000"
        " : other.GlueCEPolicyMaxCPUTime > 2000"
    )
    job = parse_ad(f"[ Requirements = {wanted} ]")
    made = reduce(job, parse_ad("[ GlueCEPolicyMaxCPUTime = 1500 ]"), glue.scope)
    submission = batch.flags(made)
    assert submission.argv == ()
    assert [str(d.clause) for d in submission.dropped] == ["other.GlueHostBenchmarkSI00 > 500"]


# --- features of a site ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("requirement", "argv", "verdict"),
    [
        (f'member("GLITE_1_2", {TAGS})', ["--constraint=glite12"], "exact"),
        (f'Member("GLITE_1_2", {TAGS}) && member("APP1", {TAGS})',
         ["--constraint=glite12&app1"], "exact"),
        (f'member("APP1", {TAGS}) && member("APP1", {TAGS})', ["--constraint=app1"], "exact"),
        ('other.GlueHostOperatingSystemName == "SL"', ["--constraint=sl"], "exact"),
        ('other.GlueHostOperatingSystemName is "SL"', ["--constraint=sl"], "necessary"),
        ('other.GlueHostOperatingSystemName != "SL"', [], "necessary"),
        ('other.GlueHostOperatingSystemName >= "SL"', [], "necessary"),
        ('!(other.GlueHostOperatingSystemName == "SL")', [], "necessary"),
        (f'member("APP9", {TAGS})', [], "necessary"),
        (f'!member("APP1", {TAGS})', [], "necessary"),
        (f'member("APP1", {TAGS}) || member("GLITE_1_2", {TAGS})',
         ["--constraint=app1|glite12"], "exact"),
        (f"member(1, {TAGS})", [], "necessary"),
        (f'{TAGS} == "APP1"', [], "necessary"),
        ('member("SL", other.GlueHostOperatingSystemName)', [], "necessary"),
        (f"{TAGS}", [], "necessary"),
        (f'{RAM} >= 10 && member("APP1", {TAGS})', ["--mem=10M", "--constraint=app1"], "exact"),
    ],
)  # fmt: skip
def test_features(site: Path, requirement: str, argv: list[str], verdict: str) -> None:
    submission = planned(requirement, mapping=site)
    assert list(submission.argv) == argv
    assert submission.verdict == verdict


def test_a_bad_mapping_is_not_taken(site: Path) -> None:
    site.write_text("x = 1")
    with pytest.raises(MappingError):
        planned("true", mapping=site)
    with pytest.raises(ValueError, match="unknown batch system"):
        batch.flags(reduction("true"), "nonesuch")


# --- flags that may err the other way -------------------------------------------------------------


def sure(requirement: str, mapping: Path | None = None) -> Submission:
    return batch.flags(reduction(requirement), "slurm", mapping, want=Fit.SUFFICIENT)


def test_one_alternative_makes_sure() -> None:
    submission = sure(f"{RAM} >= 1000 || other.GlueHostBenchmarkSI00 > 500")
    assert submission.argv == ("--mem=1000M",)
    assert submission.verdict is Fit.SUFFICIENT
    assert [str(d.clause) for d in submission.dropped] == ["other.GlueHostBenchmarkSI00 > 500"]


def test_an_alternative_behind_one_that_may_fail_does_not_make_sure() -> None:
    # Where SI00 is a text, the first alternative is an error, and so is the whole.
    requirement = f"other.GlueHostBenchmarkSI00 > 500 || {RAM} >= 1000"
    node = parse_ad('[ GlueHostBenchmarkSI00 = "fast"; GlueHostMainMemoryRAMSize = 2000 ]')
    assert is_error(parse_expr(requirement).eval(target=node))
    with pytest.raises(NoFlagsError):
        sure(requirement)


@pytest.mark.parametrize(
    "requirement",
    [
        "other.GlueHostBenchmarkSI00 > 500",
        f"{RAM} < 1000",
        f"{RAM} == 1000",
        f"!({RAM} >= 1000)",
        f"{RAM} >= 1000 && other.GlueHostBenchmarkSI00 > 500",
        f"({RAM} >= 1000 && {RAM} < 2000) || {RAM} < 3000",
    ],
)
def test_where_nothing_makes_sure_there_are_no_flags(requirement: str) -> None:
    with pytest.raises(NoFlagsError, match="no flags that make sure"):
        sure(requirement)


def test_what_is_exact_is_exact_whatever_was_wanted() -> None:
    requirement = f"{RAM} >= 1000 && {CPUS} > 3"
    for want in Fit:
        submission = batch.flags(reduction(requirement), want=want)
        assert submission.argv == ("--mem=1000M", "--mincpus=4")
        assert submission.verdict is Fit.EXACT


def test_nothing_is_called_exact_that_drops_something() -> None:
    try:
        submission = batch.flags(reduction(f"{RAM} < 1000"), want=Fit.EXACT)
    except ValueError:
        return  # to refuse is as good
    assert submission.verdict is not Fit.EXACT


# --- with an inventory ----------------------------------------------------------------------------

NODES = """
[ Name = "n1"; GlueHostMainMemoryRAMSize = 1000; GlueHostBenchmarkSI00 = 400 ]
[ Name = "n2"; GlueHostMainMemoryRAMSize = 2000; GlueHostBenchmarkSI00 = 600 ]
[ Name = "n3"; GlueHostMainMemoryRAMSize = 4000 ]
[ Name = "n4"; GlueHostMainMemoryRAMSize = 4000; GlueHostBenchmarkSI00 = "fast" ]
"""


def test_refused_nodes_are_excluded_by_name_and_nothing_is_dropped() -> None:
    submission = planned(f"{RAM} >= 1000 && other.GlueHostBenchmarkSI00 > 500", NODES)
    assert submission.argv == ("--mem=1000M", "--exclude=n1,n3,n4")
    assert submission.excluded == ("n1", "n3", "n4")
    assert submission.verdict is Fit.EXACT
    assert submission.dropped == ()


def test_an_inventory_of_good_nodes_excludes_none() -> None:
    submission = planned(f"{RAM} >= 1000", NODES)
    assert submission.argv == ("--mem=1000M",)
    assert submission.excluded == ()


def test_a_node_that_refuses_the_job_is_excluded() -> None:
    nodes = '[ Name = "a"; Requirements = other.Owner == "ana" ] [ Name = "b" ]'
    made = reduction("true", '[ Owner = "ben" ]')
    submission = batch.flags(made, inventory=parse_ads(nodes))
    assert submission.excluded == ("a",)


@pytest.mark.parametrize(
    "facts",
    [
        "Ok = TARGET.Load < 5",
        "Ok = Deep; Deep = TARGET.Load < 5",
        "Ok = TARGET.Low",
        "Ok = other.Load + Zero < 5; Zero = 0",
        "Ok = Parts.Light; Parts = [ Light = TARGET.Load < 5 ]",
        'Ok = TARGET["Load"] < 5',
    ],
)
def test_nodes_are_told_apart_by_what_they_reach_through_the_job(facts: str) -> None:
    nodes = [
        parse_ad(f'[ Name = "n{n}"; Load = {n}; Low = Load < 5; Requirements = TARGET.Ok ]')
        for n in (1, 9)
    ]
    submission = batch.flags(reduction("true", f"[ {facts} ]"), inventory=nodes)
    assert submission.excluded == ("n9",)


def test_a_node_is_too_small_for_what_the_job_requests() -> None:
    nodes = """[ Name = "n1"; GlueHostMainMemoryRAMSize = 4000 ]
        [ Name = "n2"; GlueHostMainMemoryRAMSize = 16000 ] [ Name = "n3" ]"""
    made = reduction(f"{RAM} >= 2000", "[ RequestMemory = 8000 ]")
    submission = batch.flags(made, inventory=parse_ads(nodes))
    assert submission.argv == ("--mem=8000M", "--exclude=n1,n3")
    assert submission.certificate is not None
    assert submission.certificate.accepted == 1
    values = [submission.condition.eval(target=ad) for ad in parse_ads(nodes)]
    assert [value is True for value in values] == [False, True, False]
    with pytest.raises(NoHostError, match="8000"):
        batch.flags(made, inventory=list(parse_ads(nodes))[:1])


def test_a_node_that_does_not_say_how_much_it_has_is_taken_for_large_enough() -> None:
    made = reduction("true", "[ RequestMemory = 8000; RequestDisk = 1024; RequestGPUs = 1 ]")
    nodes = list(parse_ads('[ Name = "n1" ] [ Name = "n2"; GPUs = 0 ]'))
    submission = batch.flags(made, inventory=nodes)
    assert (submission.excluded, submission.verdict) == (("n2",), Fit.EXACT)


def test_a_request_without_a_flag_is_checked_again_on_the_node() -> None:
    made = reduction("true", "[ RequestCpus = 4 ]")
    submission = batch.flags(made, "sge")
    assert submission.dropped[0].reason == "sge has no flag for processors"
    assert submission.recheck is not None
    small, large = (parse_ad(f"[ GlueHostArchitectureSMPSize = {n} ]") for n in (2, 4))
    assert submission.recheck.eval(target=small) is False
    assert submission.recheck.eval(target=large) is True


@pytest.mark.parametrize("whole", ["MY", "TARGET.other", "MY.self"])
def test_nodes_that_look_at_a_whole_ad_are_each_judged(whole: str) -> None:
    wanted = f'Requirements = MY.A > 0 && {whole}["Cpus"] > 4'
    nodes = f'[ Name = "a"; A = 1; Cpus = 2; {wanted} ] [ Name = "b"; A = 1; Cpus = 8; {wanted} ]'
    submission = batch.flags(reduction("true"), inventory=parse_ads(nodes))
    assert submission.excluded == ("a",)


def test_where_no_node_is_left_there_is_nothing_to_submit() -> None:
    with pytest.raises(NoHostError, match=r"is not true of [1-4] of 4"):
        planned(f"{RAM} >= 9000", NODES)
    with pytest.raises(NoHostError, match="the inventory has no nodes"):
        planned(f"{RAM} >= 9000", "")


def test_a_requirement_that_is_never_true_has_no_flags() -> None:
    with pytest.raises(NoHostError, match="no host"):
        planned("false")


@pytest.mark.parametrize(
    "name",
    [
        "--wrap=id",
        "a b",
        "a,b",
        "n[1-3]",
        "a\\nb",
        "-x",
        "",
        "a;b",
        "$(id)",
        "é",
        "../hosts",
        "a/b",
    ],
)
def test_a_node_without_a_plain_name_is_an_error_and_not_a_flag(name: str) -> None:
    nodes = f'[ Name = "{name}" ] [ Name = "good"; GlueHostMainMemoryRAMSize = 9 ]'
    with pytest.raises(ValueError, match="node 1 of the inventory"):
        planned(f"{RAM} >= 5", nodes)


@pytest.mark.parametrize("name", ["7", "undefined", '{ "a" }', "nothing"])
def test_a_node_whose_name_is_no_text_is_an_error(name: str) -> None:
    nodes = f'[ Name = {name} ] [ Name = "good"; GlueHostMainMemoryRAMSize = 9 ]'
    with pytest.raises(ValueError, match="node 1 of the inventory"):
        planned(f"{RAM} >= 5", nodes)


@pytest.mark.parametrize("attribute", ["Name", "Machine", "GlueHostName", "GlueHostUniqueID"])
def test_a_node_is_excluded_by_the_name_that_it_is_chosen_by(attribute: str) -> None:
    nodes = f'[ {attribute} = "n1" ] [ Name = "n2"; GlueHostMainMemoryRAMSize = 9 ]'
    assert planned(f"{RAM} >= 5", nodes).excluded == ("n1",)


def test_a_name_shared_by_a_good_and_a_bad_node_excludes_no_good_one() -> None:
    nodes = """
    [ Name = "n1"; GlueHostMainMemoryRAMSize = 1 ] [ Name = "n1"; GlueHostMainMemoryRAMSize = 9 ]
    [ Name = "n2"; GlueHostMainMemoryRAMSize = 9 ]
    """
    try:
        submission = planned(f"{RAM} >= 5", nodes)
    except ValueError:
        return  # to refuse such an inventory is as good
    assert "n1" not in submission.excluded


def test_hostile_names_and_values_stay_out_of_the_flags(site: Path) -> None:
    nasty = "GlueHostMainMemoryRAMSize;id\n--wrap=id"
    clause = Binary(">=", Attr(Attr(None, "other", False), nasty, False), Literal(5))
    text = Binary("==", Attr(Attr(None, "other", False), "GlueHostOperatingSystemName", False),
                  Literal("SL\n#SBATCH --wrap=id"))  # fmt: skip
    job = ClassAd({"Requirements": Binary("&&", clause, text)})
    submission = batch.flags(reduce(job, ClassAd(), lambda _: "host"), "slurm", site)
    assert submission.argv == ()
    assert submission.directives == ()
    assert len(submission.dropped) == 2


def test_a_submission_for_a_loaded_mapping(site: Path) -> None:
    mapping = batch.load_mapping("slurm", site)
    submission = batch.flags(reduction(f'member("APP1", {TAGS})'), mapping=mapping)
    assert submission.argv == ("--constraint=app1",)


# --- directives of job scripts against the flags --------------------------------------------------

SUBMITTED = "[ RequestMemory = 2000; MaxWallTime = 90 ]"


@pytest.mark.parametrize(
    ("lrms", "directive", "found"),
    [
        ("slurm", "#SBATCH --partition=short",
         ["line 2 has --partition=short, and the flags --partition=long"]),
        ("slurm", "#SBATCH -p short", ["line 2 has -p short, and the flags --partition=long"]),
        ("slurm", "#SBATCH -pshort", ["line 2 has -pshort, and the flags --partition=long"]),
        ("slurm", "#SBATCH --partition short # quick",
         ["line 2 has --partition short, and the flags --partition=long"]),
        ("slurm", "#SBATCH --mem=5G -p long", ["line 2 has --mem=5G, and the flags --mem=2000M"]),
        ("slurm", "#SBATCH --partition=long --job-name=x", []),
        ("slurm", "# SBATCH -p short", []),
        ("slurm", "#SBATCH --job-name='x", []),
        ("pbspro", "#PBS -q short", ["line 2 has -q short, and the flags -q long"]),
        ("pbspro", "#PBS -l walltime=60,cput=5",
         ["line 2 has -l walltime=60, and the flags -l walltime=5400"]),
        ("sge", "#$ -l h_rt=5400", []),
        ("sge", "#$ -l h_rt=60 -q long", ["line 2 has -l h_rt=60, and the flags -l h_rt=5400"]),
        ("lsf", "#BSUB -q short -R select[x]",
         ["line 2 has -q short, and the flags -q long"]),
    ],
)  # fmt: skip
def test_a_script_that_contradicts_its_flags(lrms: str, directive: str, found: list[str]) -> None:
    anywhere = reduce(parse_ad(SUBMITTED), parse_ad("[]"), lambda name: "host")
    made = batch.flags(anywhere, lrms, queue="long")
    script = f"#!/bin/sh\n{directive}\nsleep 1\n"
    assert contradictions(script, made, batch.load_mapping(lrms)) == found
