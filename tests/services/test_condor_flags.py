"""What our submit descriptions match in a real HTCondor pool, against what the residual accepts."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from matchmaker import ClassAd, batch, parse_ad, parse_ads, parse_expr, reduce
from matchmaker.batch import Fit, NoFlagsError, NoHostError, Submission
from matchmaker.batch.flags.render import refusal
from matchmaker.batch.policy import carry, decoded
from matchmaker.broker import grid_lines
from matchmaker.broker.submit_file import read_submit_file
from matchmaker.classad.formats.old import old_text
from matchmaker.classad.operators import truth
from matchmaker.classad.printer import unparse_value
from tests.batch.test_site_scripts import CE_ROUTE
from tests.services import test_gridengine_flags, test_slurm_flags
from tests.services.condor import Machine, Pool, RefusedError

pytestmark = pytest.mark.service

RAM = "other.GlueHostMainMemoryRAMSize"
CPUS = "other.GlueHostArchitectureSMPSize"
SI00 = "other.GlueHostBenchmarkSI00"
OS = "other.GlueHostOperatingSystemName"
TAGS = "other.GlueHostApplicationSoftwareRunTimeEnvironment"

# As HTCondor's own daemons advertise them; all else under its own name.
NAMES = {
    "GlueHostMainMemoryRAMSize": "DetectedMemory",
    "GlueHostArchitectureSMPSize": "DetectedCpus",
}

# What every machine of a pool says of itself, and what condor_submit asks of each besides.
EVERY = {
    "MyType": '"Machine"', "State": '"Unclaimed"', "Activity": '"Idle"', "Requirements": "START",
    "START": "TARGET.RequestMemory <= MY.Memory", "Arch": '"X86_64"', "OpSys": '"LINUX"',
    "Disk": "100000000", "Memory": "3000", "Cpus": "8", "GPUs": "1", "HasFileTransfer": "true",
    "MyAddress": '"<127.0.0.1:9>"', "FileSystemDomain": '"test"',
}  # fmt: skip

# Texts that a submit file or an old ClassAd could take for something else.
TEXTS = (
    "SL", "Debian", "CentOS", "it's", 'say "x"', r"a\b", r"a\\b", "$(HOME)", "$ENV(HOME)", "$x",
    "a, b # c", "a\\", "\\", "a\nb", "a\\\nqueue 9", "a\tb", "$(DOLLAR)", '\\"',
    "$$(Name)", "$$", "x == 1", "été", "%s", "@=end", "TARGET.Name",
)  # fmt: skip


def inventory() -> list[ClassAd]:
    """The machines of the tests of other batch systems, and some that are stranger."""
    ads = [*test_slurm_flags.NODES]
    chance = random.Random(1988)
    for number, ad in enumerate(test_gridengine_flags.NODES):
        copy = ClassAd(ad.items())
        copy["Name"] = f"sge{number}"
        ads.append(copy)
    for number, text in enumerate(TEXTS):
        ad = ClassAd({"Name": f"text{number}", "GlueHostOperatingSystemName": text})
        memory = chance.choice(["512", "2048.5", '"much"', "true"])
        ad["GlueHostMainMemoryRAMSize"] = parse_expr(memory)
        ad["GlueHostArchitectureSMPSize"] = parse_expr(chance.choice(["2 * 2", "error", "NoSuch"]))
        ads.append(ad)
    return ads


NODES = inventory()


@pytest.fixture(scope="module")
def oracle(condor: Callable[[Iterable[Machine]], Pool]) -> Pool:
    pool = condor([])
    machines = [
        {**EVERY, **{NAMES.get(n, n): old_text(str(e)) for n, e in ad.expressions().items()}}
        for ad in NODES
    ]  # fmt: skip
    pool.advertise([{"Machine": ad["Name"], **ad} for ad in machines])
    return pool


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("site") / "htcondor.toml"
    path.write_text('others = "same"\n')
    return path


def planned(
    requirement: str, site: Path | None, want: Fit = Fit.NECESSARY, job: str = "[]"
) -> tuple[Submission | None, set[str]]:
    """What HTCondor is asked for, and the machines that the requirement is true of."""
    ad = parse_ad(job)
    ad["Requirements"] = parse_expr(requirement)
    reduction = reduce(ad, ClassAd(), lambda name: "host")
    good = {
        str(node.eval("Name")) for node in NODES
        if truth(reduction.residual.eval(target=node)) is True
    }  # fmt: skip
    try:
        return batch.flags(reduction, "htcondor", site, want=want), good
    except NoHostError:
        return None, good


def hold(oracle: Pool, requirement: str, site: Path | None) -> Fit | None:
    """Checks that HTCondor matches what the verdict says; the verdict."""
    submission, good = planned(requirement, site)
    if submission is None:
        assert not good, requirement
        return None
    matched = oracle.matched(submission.argv)
    about = (requirement, submission.directives, submission.dropped)
    if submission.verdict is Fit.EXACT:
        assert matched == good, about
    else:
        assert submission.verdict is Fit.NECESSARY
        assert matched >= good, about
    return submission.verdict


def text(chance: random.Random) -> str:
    return unparse_value(chance.choice(TEXTS))


def condition(chance: random.Random) -> str:
    """What other batch systems are asked in the tests, and what only a ClassAd can say."""
    number = chance.choice([0, 1, 2, 4, 512, 1000.5, 2048, 4096])
    relation = chance.choice(["<", "<=", ">", ">=", "==", "!=", "is", "isnt"])
    pattern = chance.choice([r"^s", r"^.L$", r"\\w\\\\\\w", r"^\\$\\(", r'"', r"[|(]", r"^$", "é"])
    return chance.choice(
        [
            test_slurm_flags.condition(chance),
            test_gridengine_flags.condition(chance),
            f"{OS} {relation} {text(chance)}",
            f'regexp("{pattern.replace(chr(34), chr(92) + chr(34))}", {OS}, "i")',
            f"{chance.choice([RAM, CPUS, SI00, OS])} {relation} {number}",
            f"{RAM} / {CPUS} {relation} {number}",
            f"{RAM} * 2 - {SI00} {relation} -{number}",
            f"({SI00} ?: {number}) {relation} 450",
            f"({RAM} > 1000) {chance.choice(['==', 'is', '!='])} ({CPUS} > 2)",
            f"ifThenElse({CPUS} > 2, {RAM} > 1000, {SI00} >= 500)",
            f"isUndefined({SI00})",
            f"isString({chance.choice([RAM, SI00, OS])})",
            f"{SI00} is {chance.choice(['undefined', 'error'])}",
            f"size({TAGS}) {relation} 1",
            f'{TAGS}[0] {relation} "{chance.choice(["APP1", "app1"])}"',
            f"strcat({OS}, {text(chance)}) {relation} {text(chance)}",
            f"({CPUS} & 1) == 0 || {CPUS} << 2 > 9",
        ]
    )


def requirement(seed: int) -> str:
    chance = random.Random(seed)

    def tree(depth: int) -> str:
        kind = chance.randrange(6) if depth else 5
        if kind < 3:
            word = (" && ", " || ", " ? ")[kind]
            rest = f" : {tree(depth - 1)}" if kind == 2 else ""
            return f"({tree(depth - 1)}{word}{tree(depth - 1)}{rest})"
        return f"!({tree(depth - 1)})" if kind == 3 else condition(chance)

    return " && ".join(tree(2) for _ in range(chance.randint(1, 2)))


def test_submit_descriptions_match_what_the_verdict_says(oracle: Pool, site: Path) -> None:
    fits = [hold(oracle, requirement(seed), site) for seed in range(150)]
    assert fits.count(Fit.EXACT) >= 90
    assert fits.count(Fit.NECESSARY) >= 3


def test_without_the_pools_names_the_rest_is_dropped(oracle: Pool) -> None:
    fits = [hold(oracle, test_slurm_flags.requirement(seed), None) for seed in range(30)]
    assert fits.count(Fit.EXACT) >= 7
    assert fits.count(Fit.NECESSARY) >= 7


def test_descriptions_that_make_sure_match_accepted_machines_only(oracle: Pool, site: Path) -> None:
    made = 0
    for seed in range(300, 330):
        try:
            submission, good = planned(requirement(seed), site, Fit.SUFFICIENT)
        except NoFlagsError:
            continue
        if submission is not None:
            made += 1
            assert oracle.matched(submission.argv) <= good, (seed, submission.argv)
    assert made >= 18


def test_strange_texts_arrive_unharmed(oracle: Pool, site: Path) -> None:
    for each in TEXTS:
        fit = hold(oracle, f"{SI00} > 600 || {OS} is {unparse_value(each)}", site)
        unsaid = "$$" in each or "$(DOLLAR" in each or "\t" in each
        assert fit is (Fit.NECESSARY if unsaid else Fit.EXACT), each


def test_lines_of_a_file_say_the_same_as_arguments(oracle: Pool, site: Path) -> None:
    for seed in range(400, 410):
        submission, _ = planned(requirement(seed), site, job="[ RequestMemory = 64 ]")
        if submission is not None:
            by_lines = oracle.matched([], *submission.directives)
            assert by_lines == oracle.matched(submission.argv), submission


def test_requests_arrive_in_htcondors_units(oracle: Pool, site: Path) -> None:
    job = "[ RequestMemory = 2999; RequestCpus = 3; RequestDisk = 5000; RequestGPUs = 1 ]"
    submission, good = planned(f"{RAM} > 1000", site, job=job)
    assert submission is not None
    ad = parse_ad(oracle.job(submission.argv))
    names = ("RequestMemory", "RequestCpus", "RequestDisk", "RequestGPUs")
    assert [ad.eval(name) for name in names] == [2999, 3, 5120, 1]
    assert oracle.matched(submission.argv) == good != set()
    # More than any slot has.
    submission, _ = planned(f"{RAM} > 1000", site, job="[ RequestMemory = 3001 ]")
    assert submission is not None
    assert oracle.matched(submission.argv) == set()


def test_the_policy_is_an_attribute_of_the_job(oracle: Pool, site: Path) -> None:
    policy = parse_expr(r'other.GlueCEPolicyMaxCPUTime > 1000 && other.X != "a\nqueue 9 $(HOME)\\"')
    submission, _ = planned(f"{RAM} > 1000", site)
    assert submission is not None
    ad = parse_ad(oracle.job(carry(submission, policy, batch.load_mapping("htcondor", site)).argv))
    assert decoded(str(ad.eval("ClassAdPolicy"))) is policy


# --- traps ----------------------------------------------------------------------------------------


def test_a_backslash_of_new_classads_is_two_in_a_submit_file(oracle: Pool, site: Path) -> None:
    wanted = f'regexp("^a\\\\\\\\b", {OS})'
    assert hold(oracle, wanted, site) is Fit.EXACT
    literally = f"requirements = {wanted.replace('other.', 'TARGET.')}"
    assert oracle.matched(["-append", literally]) != planned(wanted, site)[1]


def test_two_macros_for_a_dollar_are_none(oracle: Pool) -> None:
    ad = oracle.job(["-append", 'requirements = TARGET.A == "$(DOLLAR)$(DOLLAR)(x)"'])
    assert '"$$(DOLLAR)(x)"' in ad


def test_a_refusal_is_a_line_that_no_job_is_taken_with(oracle: Pool) -> None:
    with pytest.raises(RefusedError, match="Failed to parse"):
        oracle.job([], refusal(batch.load_mapping("htcondor")))


def test_a_line_that_is_no_expression_is_refused(oracle: Pool) -> None:
    with pytest.raises(RefusedError, match="Parse error"):
        oracle.matched(["-append", "requirements = TARGET.A >"])


# --- a whole route --------------------------------------------------------------------------------


def test_a_route_of_a_compute_element_as_a_mapping(oracle: Pool, tmp_path: Path) -> None:
    """HTCondor has the computed amounts, and the accounting group by who submits."""
    expected = [
        {"RequestMemory": 16000, "RequestCpus": 8, "JobPrio": 10,
         "AccountingGroup": "group_analysis.mcore.ada"},
        {"RequestMemory": 2560, "RequestCpus": 1, "JobPrio": 0,
         "AccountingGroup": "group_analysis.score.ada"},
    ]  # fmt: skip
    for (job, _), values in zip(CE_ROUTE.cases, expected, strict=True):
        made = CE_ROUTE.planned(tmp_path, job)
        [ad] = parse_ads(oracle.job(made.argv), format="old")
        assert {name: ad.eval(name) for name in values} == values


def test_lines_for_a_queue_of_a_grid_are_taken(oracle: Pool) -> None:
    job = parse_ad("[ RequestCpus = 8; RequestMemory = 12000; MaxWallTime = 1440 ]")
    queue = ClassAd(CEid="ce.hill.example:9619/condorce-condor-atlas")
    [ad] = parse_ads(oracle.job((), *grid_lines(job, queue)))
    assert ad["JobUniverse"] == 9
    assert ad["GridResource"] == "condor ce.hill.example ce.hill.example:9619"
    wanted = {"remote_queue": "atlas", "xcount": 8, "maxMemory": 12000, "maxWallTime": 1440}
    assert {name: ad[name] for name in wanted} == wanted
    queue = ClassAd(CEid="arc.hill.example:2811/nordugrid-SLURM-grid")
    [ad] = parse_ads(oracle.job((), *grid_lines(job, queue)))
    assert ad["GridResource"] == "arc https://arc.hill.example:443/arex/rest/1.0"
    assert ad["ArcResources"] == (
        "<QueueName>grid</QueueName><SlotRequirement><NumberOfSlots>8</NumberOfSlots>"
        "<SlotsPerHost>8</SlotsPerHost></SlotRequirement>"
        "<IndividualPhysicalMemory>1572864000</IndividualPhysicalMemory><WallTime>86400</WallTime>"
    )


@pytest.mark.parametrize(
    "lines",
    [
        ("request_memory = 12 GB", "request_disk = 3 MB", "request_cpus = 8"),
        ("request_memory = 1.5G", "request_disk = 1.5K", "n = 2", "request_cpus = $(n) * 2"),
        ("request_memory = 700K", "request_gpus = 1", '+Vo = "a b"', "MY.Rate = 1.5"),
        ('+Vo = "C:\\new \\"x\\""', "requirements = TARGET.A > 3", "rank = TARGET.B"),
        ("accounting_group = g.h", "priority = 7", "+L = {1, 2}"),
    ],
)
def test_a_submit_file_is_read_as_condor_submit_reads_it(
    oracle: Pool, lines: tuple[str, ...]
) -> None:
    [its] = parse_ads(oracle.job((), "universe = grid", "grid_resource = condor a a", *lines))
    ours = read_submit_file("\n".join((*lines, "queue")))
    assert set(ours) <= set(its)
    # condor_submit asks of a machine what the job requests besides.
    assert str(its.expr("Requirements")).startswith(str(ours.pop("Requirements", "")))
    assert {name: its.expr(name) for name in ours} == {name: ours.expr(name) for name in ours}
