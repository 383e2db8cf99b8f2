"""What our flags select on a real Grid Engine master, against what the residual accepts."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from matchmaker import ClassAd, batch, glue, parse_expr, reduce
from matchmaker.batch import Fit, Mapping, NoFlagsError, NoHostError, Submission
from matchmaker.batch.flags.render import directive, refusal
from matchmaker.batch.policy import carry, decoded
from matchmaker.classad.operators import truth
from tests.batch.farm import CPUS, OS, RAM, SI00, TAGS, random_nodes
from tests.services.gridengine import Complex, GridEngine, QueueOf, RefusedError

pytestmark = pytest.mark.service

# A minimum and a maximum are complexes of their own; processors at least are a site's complex.
SITE = """
exclude = ["-q", "!({hosts})"]

[attributes.GlueHostMainMemoryRAMSize]
kind = "range"
min = "mem_total={value}M"
max = "mem_most={value}M"

[attributes.GlueHostArchitectureSMPSize]
kind = "min"
term = "cores={value}"

[attributes.GlueHostBenchmarkSI00]
kind = "bucket"
term = "si={value}"
join = "|"
buckets = { si400 = [400, 499], si500 = [500, 599], si600 = [600, inf] }
complete = true

[attributes.GlueHostOperatingSystemName]
kind = "eq"
term = "os={value}"
join = "|"
negate = "!"
features = { "SL" = "sl", "Debian" = "deb", "CentOS" = "cent" }

[attributes.GlueHostApplicationSoftwareRunTimeEnvironment]
kind = "member"
term = "{value}=TRUE"
features = { "APP1" = "app1", "APP2" = "app2" }
"""

COMPLEXES = [
    Complex("os", "RESTRING", "=="),
    Complex("si", "RESTRING", "=="),
    Complex("app1", "BOOL", "=="),
    Complex("app2", "BOOL", "=="),
    Complex("cores", "INT", "<="),
    Complex("mem_most", "MEMORY", ">="),
]


NODES = random_nodes(
    1997, 16, tags=["APP1", "APP2"], speeds=[400, 499, 500, 620, None],
    systems=["SL", "Debian", "CentOS"],
)  # fmt: skip


@pytest.fixture(scope="module")
def oracle(gridengine: Callable[[], GridEngine]) -> GridEngine:
    engine = gridengine()
    queues = []
    for ad in NODES:
        ram = ad.eval("GlueHostMainMemoryRAMSize")
        name = str(ad.eval("GlueHostOperatingSystemName"))
        tags = ad.eval("GlueHostApplicationSoftwareRunTimeEnvironment")
        assert isinstance(tags, list)
        values = {
            "mem_total": f"{ram}M",
            "mem_most": f"{ram}M",
            "cores": str(ad.eval("GlueHostArchitectureSMPSize")),
            "os": {"SL": "sl", "Debian": "deb", "CentOS": "cent"}[name],
        }
        speed = ad.eval("GlueHostBenchmarkSI00")
        if isinstance(speed, int):
            values["si"] = {4: "si400", 5: "si500", 6: "si600"}[speed // 100]
        values |= {str(tag).lower(): "TRUE" for tag in tags}
        queues.append(QueueOf(str(ad.eval("Name")), values))
    engine.configure(COMPLEXES, queues)
    return engine


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Mapping:
    path: Path = tmp_path_factory.mktemp("site") / "sge.toml"
    path.write_text(SITE)
    return batch.load_mapping("sge", path)


def accepted(requirement: str) -> set[str]:
    condition = parse_expr(requirement)
    return {str(ad.eval("Name")) for ad in NODES if truth(condition.eval(target=ad)) is True}


def planned(
    requirement: str, site: Mapping, *, nodes: bool = False, want: Fit = Fit.NECESSARY
) -> Submission | None:
    reduction = reduce(ClassAd({"Requirements": parse_expr(requirement)}), ClassAd(), glue.scope)
    try:
        return batch.flags(reduction, "sge", site, NODES if nodes else None, want)
    except NoHostError:
        return None


def condition(chance: random.Random) -> str:
    kind = chance.randrange(8)
    if kind < 2:
        bound = chance.choice([0, 511, 512, 1000, 1023.5, 1024, 2047, 2048, 4096, 4097])
        return f"{RAM} {chance.choice(['>', '>=', '<', '<=', '==', '!='])} {bound}"
    if kind == 2:
        return f"{CPUS} {chance.choice(['>', '>=', '<', '=='])} {chance.choice([0, 1, 2, 4, 8])}"
    if kind < 5:
        return f"{SI00} {chance.choice(['>', '>=', '<', '!='])} {chance.choice([400, 499, 500])}"
    if kind == 5:
        return f'{OS} {chance.choice(["==", "!="])} "{chance.choice(["sl", "Debian", "CentOS"])}"'
    tag = chance.choice(["APP1", "APP2"])
    return f'{chance.choice(["", "", "!"])}member("{tag}", {TAGS})'


def requirement(seed: int) -> str:
    chance = random.Random(seed)
    clauses = []
    for _ in range(chance.randint(1, 3)):
        a, b, c = (condition(chance) for _ in range(3))
        shapes = [a, a, a, a, f"({a} || {b})", f"!({a} && {b})", f"({a} ? {b} : {c})", f"!({a})"]
        clauses.append(chance.choice(shapes))
    return " && ".join(clauses)


def hold(selected: set[str], wanted: set[str], verdict: Fit, about: object) -> None:
    if verdict is Fit.EXACT:
        assert selected == wanted, about
    elif verdict is Fit.NECESSARY:
        assert selected >= wanted, about
    else:
        assert selected <= wanted, about


def test_flags_select_what_the_verdict_says(oracle: GridEngine, site: Mapping) -> None:
    fits = []
    for seed in range(100):
        text = requirement(seed)
        submission = planned(text, site)
        if submission is None:
            assert not accepted(text), text
            continue
        fits.append(submission.verdict)
        about = (text, submission.argv)
        hold(oracle.selected(submission.argv), accepted(text), submission.verdict, about)
    assert fits.count(Fit.EXACT) >= 30
    assert fits.count(Fit.NECESSARY) >= 20


def test_flags_that_make_sure_select_accepted_hosts_only(oracle: GridEngine, site: Mapping) -> None:
    made = 0
    for seed in range(150, 200):
        text = requirement(seed)
        try:
            submission = planned(text, site, want=Fit.SUFFICIENT)
        except NoFlagsError:
            continue
        if submission is not None:
            made += submission.verdict is Fit.SUFFICIENT
            about = (text, submission.argv)
            hold(oracle.selected(submission.argv), accepted(text), submission.verdict, about)
    assert made >= 5


def test_flags_for_an_inventory_select_exactly(oracle: GridEngine, site: Mapping) -> None:
    for seed in range(250, 290):
        text = requirement(seed)
        submission = planned(text, site, nodes=True)
        if submission is None:
            assert not accepted(text)
            continue
        assert submission.verdict is Fit.EXACT
        assert submission.certificate is not None
        assert submission.certificate.exact
        assert oracle.selected(submission.argv) == accepted(text), (text, submission.argv)


# --- traps ----------------------------------------------------------------------------------------


def test_a_host_is_excluded_by_its_name(oracle: GridEngine) -> None:
    every = {str(ad.eval("Name")) for ad in NODES}
    assert oracle.selected(["-l", "hostname=!(wn1|wn2)"]) == every
    assert oracle.selected(["-l", "hostname=!(localhost|wn2)"]) == set()


HOSTS = ("wn1.a.grid", "wn2.a.grid", "wn10.a.grid", "short")


@pytest.fixture(scope="module")
def grid(gridengine: Callable[..., GridEngine]) -> GridEngine:
    """A master that knows hosts by several names, in one queue."""
    engine = gridengine(HOSTS)
    for name in HOSTS:
        engine.add_host(name)
    engine.configure([], [QueueOf("grid", settings={"hostlist": " ".join(HOSTS)})])
    return engine


def left(engine: GridEngine, argv: tuple[str, ...]) -> set[str]:
    return {line.partition("@")[2] for line in engine.run(["qselect", *argv]).split()}


@pytest.mark.parametrize("names", [HOSTS, ("wn1", "wn2", "wn10", "short.a.grid"),
                                   ("WN1.a.grid", "Wn2", "wn10.a.grid", "SHORT.b")])  # fmt: skip
def test_hosts_are_excluded_by_their_names_with_or_without_a_domain(
    grid: GridEngine, names: tuple[str, ...]
) -> None:
    # Names are compared as text there: alone, a name without its domain keeps nothing out.
    assert left(grid, ("-l", "hostname=!(wn1|wn2)")) == set(HOSTS)
    for bad in ({0}, {1, 2}, {3}, {0, 1, 3}):
        nodes = [ClassAd({"Name": n, "X": int(i not in bad)}) for i, n in enumerate(names)]
        job = ClassAd({"Requirements": parse_expr("other.X > 0")})
        made = batch.flags(reduce(job, ClassAd(), lambda _: "host"), "sge", inventory=nodes)
        assert made.verdict is Fit.EXACT
        assert left(grid, made.argv) == {HOSTS[i] for i in range(4) if i not in bad}


@pytest.mark.parametrize(
    "word", ["plain", "a b", "a  b", "a$b", "$(id)", "`id`", "a;b&c|d", "(a)[b]*!~", "-z", "<a>%j",
             "a'b", 'a"b', "a\\b", "a#b", " #x", "a\tb", "=x", "é"],
)  # fmt: skip
def test_a_line_of_a_job_script_reads_back_as_the_argument_or_is_refused(
    oracle: GridEngine, site: Mapping, word: str
) -> None:
    flag = ("-ac", f"p={word}")
    try:
        line = directive(flag, site)
    except batch.MappingError:
        assert set(word) & set("\"'\\#`$\t")
        return
    assert oracle.submitted([], [line])["context"] == oracle.submitted(flag)["context"]


@pytest.mark.parametrize(
    "text", [f"{OS} == 'SL'".replace("'", '"'), f"{RAM} >= 1000 && {CPUS} > 3"]
)
def test_the_lines_of_a_job_script_ask_for_the_same(
    oracle: GridEngine, site: Mapping, text: str
) -> None:
    made = planned(text, site, nodes=True)
    assert made is not None
    one, other = oracle.submitted(made.argv), oracle.submitted([], made.directives)
    names = ("hard resource_list", "hard_queue_list")
    assert [one.get(n) for n in names] == [other.get(n) for n in names] != [None, None]


@pytest.mark.parametrize("seconds", [1, 2_000_000_000])
def test_times_are_kept_as_they_are(oracle: GridEngine, seconds: int) -> None:
    made = batch.flags(
        reduce(ClassAd(), ClassAd(), glue.scope), "sge", resources=batch.Resources(wall=seconds)
    )
    assert oracle.submitted(made.argv)["hard resource_list"] == f"h_rt={seconds}"


def test_of_one_complex_asked_for_twice_the_last_counts_and_so_ours_ask_once(
    oracle: GridEngine, site: Mapping
) -> None:
    twice = oracle.selected(["-l", "mem_total=4096M,mem_total=1000M"])
    assert twice > oracle.selected(["-l", "mem_total=4096M"])
    submission = planned(f"{RAM} >= 4096 && {RAM} >= 1000", site)
    assert submission is not None
    assert submission.argv == ("-l", "mem_total=4096M")


def test_false_does_not_match_what_is_not_there_and_so_is_never_asked_for(
    oracle: GridEngine, site: Mapping
) -> None:
    without = accepted(f'!member("APP1", {TAGS})')
    assert oracle.selected(["-l", "app1=FALSE"]) == set() != without
    submission = planned(f'!member("APP1", {TAGS})', site)
    assert submission is not None
    assert (submission.argv, submission.verdict) == ((), Fit.NECESSARY)


def test_a_refusal_is_a_line_that_no_job_is_taken_with(oracle: GridEngine) -> None:
    with pytest.raises(RefusedError, match="refused-by-classad"):
        oracle.submitted([], [refusal(batch.load_mapping("sge"))])


def test_an_unknown_complex_is_a_usage_error(oracle: GridEngine) -> None:
    with pytest.raises(RefusedError, match="nonesuch"):
        oracle.selected(["-l", "nonesuch=3"])


@pytest.mark.parametrize(
    "text",
    [
        "other.GlueCEPolicyMaxCPUTime > 1000 && other.GlueCEPolicyMaxWallTime > 9",
        r'other.GlueCEPolicyX == "\" \n#$ -l x=y, classad1:AAAA $(id) é"',
        f'other.GlueCEPolicyX == "{"x" * 2000}"',
    ],
)
def test_a_queued_job_carries_the_policy(oracle: GridEngine, site: Mapping, text: str) -> None:
    policy = parse_expr(text)
    submission = planned(f"{RAM} >= 1000", site)
    assert submission is not None
    made = carry(submission, policy, site)
    for argv, lines in ((made.argv, ()), ((), made.directives)):
        assert decoded(str(oracle.submitted(argv, lines))) is policy
