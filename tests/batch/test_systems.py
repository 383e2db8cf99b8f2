"""What each batch system is asked for, and the traps of each."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from matchmaker import ClassAd, batch, glue, parse_ad, parse_ads, parse_expr, reduce
from matchmaker._limits import BatchLimits
from matchmaker.batch import (
    Fit,
    MappingError,
    NoFlagsError,
    NoHostError,
    Resources,
    Strictness,
    Submission,
)
from matchmaker.batch.flags.expression import submit_text
from matchmaker.classad.walks import conjuncts
from tests.batch.farm import CPUS, OS, OUT, RAM, SI00, TAGS
from tests.batch.systems import SYSTEMS

FEATURES = """
[attributes.GlueHostApplicationSoftwareRunTimeEnvironment]
kind = "member"
features = { "A" = "a", "B" = "b", "C" = "c", "D" = "d" }

[attributes.GlueHostOperatingSystemName]
kind = "eq"
features = { "SL" = "sl", "Debian" = "deb", "CentOS" = "cent" }

[attributes.GlueHostBenchmarkSI00]
kind = "bucket"
buckets = { si300 = [1, 399], si600 = [400, 899], si900 = [900, inf] }

[attributes.GlueHostNetworkAdapterOutboundIP]
kind = "bool"
features = { true = "outbound" }
"""

COMPLEXES = (
    FEATURES.replace('kind = "eq"', 'kind = "eq"\nterm = "os={value}"\njoin = "|"\nnegate = "!"')
    .replace('kind = "member"', 'kind = "member"\nterm = "{value}=TRUE"')
    .replace('kind = "bool"', 'kind = "bool"\nterm = "{value}=TRUE"')
    .replace('kind = "bucket"', 'kind = "bucket"\nterm = "si={value}"\njoin = "|"')
)


def planned(
    requirement: str,
    lrms: str,
    site: str = "",
    *,
    nodes: str | None = None,
    job: str = "[]",
    want: Fit = Fit.NECESSARY,
    policy: Strictness | None = None,
    folder: Path,
) -> Submission:
    path = folder / f"{lrms}.toml"
    path.write_text(site)
    ad = parse_ad(job)
    ad["Requirements"] = parse_expr(requirement)
    reduction = reduce(ad, ClassAd(), glue.scope)
    inventory = None if nodes is None else list(parse_ads(nodes))
    return batch.flags(reduction, lrms, path, inventory, want, policy=policy)


# --- what each system says of the same ------------------------------------------------------------


@pytest.mark.parametrize(
    ("lrms", "site", "requirement", "argv", "verdict"),
    [
        # Slurm: one level of parentheses; no maximum and no negation.
        ("slurm", FEATURES, f'member("A", {TAGS}) || {OS} == "SL"', ["--constraint=a|sl"], "exact"),
        ("slurm", FEATURES, f'(member("A", {TAGS}) || member("B", {TAGS})) && {OUT}',
         ["--constraint=outbound&(a|b)"], "exact"),
        ("slurm", FEATURES, f'{OUT} && {OS} == "SL" || {OS} == "Debian" && member("A", {TAGS})',
         ["--constraint=(outbound&sl)|(deb&a)"], "exact"),
        ("slurm", FEATURES, f'member("B", {TAGS}) && ({OUT} && {OS} == "SL" || {OS} == "CentOS")',
         ["--constraint=(b&outbound&sl)|(b&cent)"], "exact"),
        ("slurm", FEATURES, f"{SI00} > 399", ["--constraint=si600|si900"], "exact"),
        ("slurm", FEATURES, f"{SI00} > 500", ["--constraint=si600|si900"], "necessary"),
        ("slurm", FEATURES, f"!{OUT}", [], "necessary"),
        ("slurm", FEATURES, f'{OS} != "SL"', [], "necessary"),
        ("slurm", FEATURES, f'{OS} == "SL" || {RAM} > 9', [], "necessary"),
        ("slurm", FEATURES, f'({OS} == "SL" || {OS} == "Debian") && {RAM} > 9',
         ["--mem=10M", "--constraint=deb|sl"], "exact"),
        # PBS Pro: one chunk, all of it.
        ("pbspro", FEATURES, f'{RAM} > 1999 && {CPUS} >= 4 && {OS} == "sl"',
         ["-l", "select=1:mem=2000mb:ncpus=4:sl=True"], "exact"),
        ("pbspro", COMPLEXES, f'{OUT} && member("A", {TAGS})',
         ["-l", "select=1:outbound=TRUE:a=TRUE"], "exact"),
        ("pbspro", FEATURES, f"{RAM} < 2000", [], "necessary"),
        ("pbspro", FEATURES, f'{OS} == "SL" || {OS} == "Debian"', [], "necessary"),
        # Torque: properties beside processors; memory is the job's.
        ("torque", FEATURES, f'{RAM} >= 2000 && {CPUS} >= 4 && member("A", {TAGS})',
         ["-l", "mem=2000mb", "-l", "nodes=1:ppn=4:a"], "exact"),
        # LSF: everything.
        ("lsf", FEATURES, f"{RAM} >= 2000 && {RAM} < 4000",
         ["-R", "select[maxmem>=2000&&maxmem<=3999]"], "exact"),
        ("lsf", FEATURES, f"{RAM} >= 2000 || {CPUS} > 3", ["-R", "select[maxmem>=2000||ncpus>=4]"],
         "exact"),
        ("lsf", FEATURES, f'!{OUT} && {OS} != "SL"', ["-R", "select[!outbound&&!sl]"], "exact"),
        ("lsf", FEATURES, f"{RAM} != 2000", ["-R", "select[maxmem<=1999||maxmem>=2001]"], "exact"),
        ("lsf", FEATURES, f'({OUT} && {RAM} > 9 || {OS} == "SL") && member("A", {TAGS})',
         ["-R", "select[a&&((outbound&&maxmem>=10)||sl)]"], "exact"),
        # Grid Engine: each complex once, with alternatives of texts.
        ("sge", COMPLEXES, f"{RAM} >= 2000 && {RAM} > 3000", ["-l", "mem_total=3001M"], "exact"),
        ("sge", COMPLEXES, f'{OS} == "SL" || {OS} == "debian"', ["-l", "os=deb|sl"], "exact"),
        ("sge", COMPLEXES, f'{OS} != "SL" && {OS} != "Debian"', ["-l", "os=!(deb|sl)"], "exact"),
        ("sge", COMPLEXES, f'{OS} != "SL"', ["-l", "os=!sl"], "exact"),
        ("sge", COMPLEXES, f"{CPUS} == 4", ["-l", "num_proc=4"], "exact"),
        ("sge", COMPLEXES, f"{CPUS} >= 4", [], "necessary"),
        ("sge", COMPLEXES, f"{SI00} >= 400 && {OUT}", ["-l", "si=si600|si900,outbound=TRUE"],
         "exact"),
        # A complex that is false does not match hosts without it: false is never asked for.
        ("sge", COMPLEXES, f"!{OUT}", [], "necessary"),
        ("sge", COMPLEXES, f"{RAM} < 2000", [], "necessary"),
        # Flux: any combination of properties, no sizes.
        ("flux", FEATURES, f'!{OUT} && ({OS} == "SL" || member("A", {TAGS}))',
         ["batch", "--requires=-outbound&(sl|a)"], "exact"),
        ("flux", FEATURES, f"{OUT} && {RAM} > 9", ["batch", "--requires=outbound"], "necessary"),
        # HTCondor: the expression itself.
        ("htcondor", "", f"{RAM} > 2000 || {CPUS} != 3",
         ["-append", "requirements = TARGET.DetectedMemory > 2000 || TARGET.DetectedCpus != 3"],
         "exact"),
        ("htcondor", 'others = "same"', f"{CPUS} > 5 ? {RAM} > 9 : true",
         ["-append", "requirements = TARGET.DetectedCpus > 5 ? TARGET.DetectedMemory > 9 : true"],
         "exact"),
        ("htcondor", "", f"{RAM} > 9 && {SI00} > 500",
         ["-append", "requirements = TARGET.DetectedMemory > 9"], "necessary"),
    ],
)  # fmt: skip
def test_the_strongest_condition_that_a_system_can_be_told(  # noqa: PLR0917
    tmp_path: Path, lrms: str, site: str, requirement: str, argv: list[str], verdict: str
) -> None:
    submission = planned(requirement, lrms, site, folder=tmp_path)
    assert list(submission.argv) == argv
    assert submission.verdict == verdict
    assert bool(submission.dropped) == (verdict != "exact")
    assert (submission.recheck is None) == (verdict == "exact")


@pytest.mark.parametrize(
    ("lrms", "requirement", "words"),
    [
        (lrms, requirement, words)
        for lrms, known in SYSTEMS.items()
        for requirement, words in known.flags.items()
    ],
)
def test_the_flags_of_an_example(lrms: str, requirement: str, words: str) -> None:
    example = f"examples/mappings/{lrms}-site.toml"
    job = ClassAd(Requirements=parse_expr(requirement))
    made = batch.flags(reduce(job, ClassAd(), glue.scope), lrms, mapping=example)
    assert " ".join(made.argv) == words


def test_kubernetes_is_given_one_list_of_terms_with_what_all_must_have(tmp_path: Path) -> None:
    site = """
    [attributes.GlueHostMainMemoryRAMSize]
    kind = "range"
    min = '{"key":"ram","operator":"Gt","values":["{value:below}"]}'
    max = '{"key":"ram","operator":"Lt","values":["{value:above}"]}'
    """
    platform = "other.GlueHostArchitecturePlatformType"
    requirement = f'({RAM} < 500 || {RAM} >= 2000) && {platform} != "x86_64"'
    (line,) = planned(requirement, "kubernetes", site, folder=tmp_path).directives
    key, _, text = line.partition(": ")
    arch = {"key": "kubernetes.io/arch", "operator": "NotIn", "values": ["amd64"]}
    low = {"key": "ram", "operator": "Lt", "values": ["500"]}
    high = {"key": "ram", "operator": "Gt", "values": ["1999"]}
    terms = [{"matchExpressions": [low, arch]}, {"matchExpressions": [high, arch]}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    assert (key, json.loads(text)) == ("affinity", {"nodeAffinity": required})


def test_a_word_with_what_a_script_reader_breaks_up_is_quoted_in_lsf(tmp_path: Path) -> None:
    submission = planned(f"{RAM} >= 2000 || {CPUS} > 3", "lsf", folder=tmp_path)
    assert submission.directives == ('#BSUB -R "select[maxmem>=2000||ncpus>=4]"',)


def test_htcondors_macros_are_not_expanded_in_texts(tmp_path: Path) -> None:
    submission = planned(f'{OS} == "$(HOME)$x"', "htcondor", 'others = "same"', folder=tmp_path)
    line = 'TARGET.GlueHostOperatingSystemName == "$(DOLLAR)(HOME)$(DOLLAR)x"'
    assert submission.directives == (f"requirements = {line}",)


@pytest.mark.parametrize(
    ("text", "written"), [(r"el\\d+", r"el\d+"), (r"say \"x\"", r"say \"x\""), ("it's", "it's")]
)
def test_htcondors_submit_file_takes_a_backslash_as_it_is(
    tmp_path: Path, text: str, written: str
) -> None:
    submission = planned(f'{OS} == "{text}"', "htcondor", 'others = "same"', folder=tmp_path)
    assert submission.verdict is Fit.EXACT
    line = f'TARGET.GlueHostOperatingSystemName == "{written}"'
    assert submission.directives == (f"requirements = {line}",)


@pytest.mark.parametrize(
    ("clause", "reason"),
    [(f'{OS} == "{text}"', reason) for text, reason in (
        ("\\t", "characters"),
        ("\\101\\177", "characters"),
        ("$$(x)", "macro"), ("a$$", "macro"), ("$(DOLLAR)", "macro"),
    )],
)  # fmt: skip
def test_what_htcondors_submit_file_cannot_write_is_dropped_and_named(
    tmp_path: Path, clause: str, reason: str
) -> None:
    text = f"{clause} && {RAM} > 5"
    submission = planned(text, "htcondor", 'others = "same"', folder=tmp_path)
    assert submission.directives == ("requirements = TARGET.DetectedMemory > 5",)
    assert submission.verdict is Fit.NECESSARY
    assert submission.recheck == parse_expr(clause)
    assert reason in submission.dropped[0].reason


@pytest.mark.parametrize("function", ["$EVAL(", "$INT(", "$F(", "$Fqpd(x ", "$ENV(", "$(a:"])
def test_a_macro_function_that_arises_across_clauses_is_dropped(
    tmp_path: Path, function: str
) -> None:
    text = f'{OS} != "{function}" && other.GlueHostOperatingSystemRelease == "$x"'
    submission = planned(text, "htcondor", 'others = "same"', folder=tmp_path)
    assert str(submission.recheck) == 'other.GlueHostOperatingSystemRelease == "$x"'
    with pytest.raises(ValueError, match="macro"):
        submit_text(parse_expr(text))


@pytest.mark.parametrize("text", ["\\n", "\\r\\nqueue 9"])
def test_htcondors_submit_file_stays_one_line(tmp_path: Path, text: str) -> None:
    submission = planned(f'{OS} == "{text}"', "htcondor", 'others = "same"', folder=tmp_path)
    assert all(line.isprintable() for line in submission.directives)


@pytest.mark.parametrize("name", ["'a b'", "'true'", "'it\\'s'", "'x\"y'"])
def test_htcondors_submit_file_takes_plain_names_only(name: str) -> None:
    with pytest.raises(ValueError, match="plain word"):
        submit_text(parse_expr(f"TARGET.{name} > 3"))


# --- contradictions, and what the mapping's word rules out ----------------------------------------


@pytest.mark.parametrize("lrms", batch.known_lrms())
@pytest.mark.parametrize(
    "requirement",
    [f"{RAM} > 4000 && {RAM} < 2000", f'{OS} == "SL" && {OS} == "Debian"',
     f"{RAM} > 5 && {RAM} < 3 || {RAM} == 1 && {RAM} == 2"],
)  # fmt: skip
def test_contradictory_bounds_are_said_to_be_of_no_host(
    tmp_path: Path, lrms: str, requirement: str
) -> None:
    with pytest.raises(NoHostError):
        planned(requirement, lrms, FEATURES if lrms == "slurm" else "", folder=tmp_path)


def test_alternatives_that_other_clauses_rule_out_are_struck_off(tmp_path: Path) -> None:
    requirement = f"({RAM} > 4000 || {RAM} < 1000 && {SI00} > 5) && {RAM} > 2000"
    submission = planned(requirement, "slurm", folder=tmp_path)
    assert (submission.argv, submission.verdict) == (("--mem=4001M",), Fit.EXACT)


def test_an_explosion_of_alternatives_stays_short(tmp_path: Path) -> None:
    requirement = " && ".join(
        f'(member("{a}", {TAGS}) && {OUT} || member("{b}", {TAGS}) && {OS} == "SL")'
        for a in "ABCD" for b in "ABCD" if a != b
    )  # fmt: skip
    submission = planned(requirement, "slurm", FEATURES, folder=tmp_path)
    assert len(" ".join(submission.argv)) < 4000
    assert submission.verdict is Fit.NECESSARY
    assert submission.recheck == parse_expr(requirement)
    for want in (Fit.SUFFICIENT, Fit.EXACT):
        with pytest.raises(NoFlagsError, match="too many"):
            planned(requirement, "slurm", FEATURES, want=want, folder=tmp_path)
    nodes = """[ Name = "n1"; GlueHostNetworkAdapterOutboundIP = true;
        GlueHostApplicationSoftwareRunTimeEnvironment = { "A", "B", "C", "D" } ]
        [ Name = "n2"; GlueHostNetworkAdapterOutboundIP = true;
        GlueHostApplicationSoftwareRunTimeEnvironment = { "A" } ]"""
    exact = planned(requirement, "slurm", FEATURES, nodes=nodes, folder=tmp_path)
    assert (exact.verdict, exact.excluded) == (Fit.EXACT, ("n2",))


# --- units and rounding ---------------------------------------------------------------------------

GIGABYTES = """
[attributes.GlueHostMainMemoryRAMSize]
kind = "min"
flag = "--mem={value}G"
unit = 1024
"""


@pytest.mark.parametrize(
    ("requirement", "want", "argv", "verdict"),
    [
        (f"{RAM} >= 2048", Fit.NECESSARY, ["--mem=2G"], "exact"),
        (f"{RAM} >= 3000", Fit.NECESSARY, ["--mem=2G"], "necessary"),
        (f"{RAM} >= 3000", Fit.SUFFICIENT, ["--mem=3G"], "sufficient"),
        (f"{RAM} > 2048", Fit.NECESSARY, ["--mem=2G"], "necessary"),
        (f"{RAM} > 2048", Fit.SUFFICIENT, ["--mem=3G"], "sufficient"),
        (f"{RAM} >= 1000", Fit.NECESSARY, [], "necessary"),
    ],
)
def test_rounding_errs_to_the_safe_side(
    tmp_path: Path, requirement: str, want: Fit, argv: list[str], verdict: str
) -> None:
    submission = planned(requirement, "slurm", GIGABYTES, want=want, folder=tmp_path)
    assert list(submission.argv) == argv
    assert submission.verdict == verdict


def test_a_sites_rounding_holds_where_it_is_on_the_safe_side(tmp_path: Path) -> None:
    down = GIGABYTES + 'rounding = "down"'
    assert planned(f"{RAM} >= 3000", "slurm", down, folder=tmp_path).argv == ("--mem=2G",)
    with pytest.raises(NoFlagsError, match="rounds"):
        planned(f"{RAM} >= 3000", "slurm", down, want=Fit.SUFFICIENT, folder=tmp_path)


# --- the job's own requests -----------------------------------------------------------------------

REQUESTS = "[ RequestMemory = 3000; RequestCpus = 4; RequestDisk = 5000001; MaxWallTime = 90 ]"


@pytest.mark.parametrize(
    ("lrms", "argv", "lacks"),
    [
        ("slurm", ["--mem=3000M", "--cpus-per-task=4", "--tmp=4883M", "--time=90"], []),
        ("pbspro", ["-l", "walltime=5400", "-l", "select=1:mem=3000mb:ncpus=4"], ["disk"]),
        ("torque", ["-l", "mem=3000mb", "-l", "file=4883mb", "-l", "walltime=5400",
                    "-l", "nodes=1:ppn=4"], []),
        ("lsf", ["-R", "rusage[mem=3000]", "-R", "span[hosts=1]", "-n", "4",
                 "-R", "rusage[tmp=4883]", "-W", "90"], []),
        ("sge", ["-l", "h_vmem=3000M,h_rt=5400"], ["processors", "disk"]),
        ("htcondor", ["-append", "request_memory = 3000", "-append", "request_cpus = 4",
                      "-append", "request_disk = 5000192"], ["wall time"]),
        ("blah", [], ["memory", "processors", "disk", "wall time"]),
    ],
)  # fmt: skip
def test_what_the_job_asks_for_itself(
    tmp_path: Path, lrms: str, argv: list[str], lacks: list[str]
) -> None:
    submission = planned("true", lrms, job=REQUESTS, folder=tmp_path)
    assert list(submission.argv) == argv
    assert [dropped.reason for dropped in submission.dropped] == [
        f"{lrms} has no flag for {word}" for word in lacks
    ]
    assert submission.verdict is (Fit.NECESSARY if lacks else Fit.EXACT)
    for want in (Fit.EXACT, Fit.SUFFICIENT) if lacks else ():
        with pytest.raises(NoFlagsError):
            planned("true", lrms, job=REQUESTS, want=want, folder=tmp_path)


def test_requests_of_htcondor_are_lines_of_its_submit_file(tmp_path: Path) -> None:
    job = "[ RequestMemory = 2000; RequestCpus = 2; RequestDisk = 5000; RequestGPUs = 1 ]"
    submission = planned("true", "htcondor", job=job, folder=tmp_path)
    assert submission.directives == (
        "request_memory = 2000",
        "request_cpus = 2",
        "request_disk = 5120",
        "request_gpus = 1",
    )
    assert submission.verdict is Fit.EXACT


def test_the_larger_of_a_request_and_a_condition_counts(tmp_path: Path) -> None:
    for bound, flag in ((2000, "--mem=3000M"), (4000, "--mem=4000M")):
        job = "[ RequestMemory = 3000 ]"
        assert planned(f"{RAM} >= {bound}", "slurm", job=job, folder=tmp_path).argv == (flag,)


@pytest.mark.parametrize(
    "value", ['"much"', "-1", "1e300", 'real("NaN")', "true", "error", "{ 1 }"]
)
def test_a_request_that_is_no_size_is_an_error(value: str) -> None:
    with pytest.raises(ValueError, match="RequestMemory of the job must be a size"):
        Resources.of(parse_ad(f"[ RequestMemory = {value} ]"))


def test_wall_time_is_rounded_up_to_the_systems_unit(tmp_path: Path) -> None:
    ad = ClassAd({"Requirements": True})
    made = reduce(ad, ClassAd(), glue.scope)
    assert batch.flags(made, "slurm", resources=Resources(wall=61)).argv == ("--time=2",)
    assert batch.flags(made, "sge", resources=Resources(wall=61)).argv == ("-l", "h_rt=61")


# --- policies -------------------------------------------------------------------------------------


def test_policies(tmp_path: Path) -> None:
    wanted = f"{RAM} >= 5 && {SI00} > 500"
    lenient = planned(wanted, "slurm", policy=Strictness.LENIENT, folder=tmp_path)
    assert (lenient.verdict, str(lenient.recheck)) == (Fit.NECESSARY, f"{SI00} > 500")
    lax = planned(wanted, "slurm", policy=Strictness.REJECT_NEVER, folder=tmp_path)
    assert (lax.argv, lax.recheck, len(lax.dropped)) == (lenient.argv, None, 1)
    with pytest.raises(NoFlagsError, match="no exact flags"):
        planned(wanted, "slurm", policy=Strictness.STRICT, folder=tmp_path)
    for policy in Strictness:
        with pytest.raises(NoHostError):
            planned("false", "slurm", policy=policy, folder=tmp_path)


def test_the_recheck_decides_what_the_flags_leave_open(tmp_path: Path) -> None:
    submission = planned(f"{RAM} >= 5 && {SI00} > 500", "slurm", folder=tmp_path)
    assert submission.recheck is not None
    for speed, good in ((400, False), (501, True), ("fast", False)):
        node = ClassAd({"GlueHostBenchmarkSI00": speed})
        assert (submission.recheck.eval(target=node) is True) == good


# --- inventories ----------------------------------------------------------------------------------

NODES = """
[ Name = "n1"; GlueHostMainMemoryRAMSize = 1000; GlueHostBenchmarkSI00 = 400 ]
[ Name = "n2"; GlueHostMainMemoryRAMSize = 2000; GlueHostBenchmarkSI00 = 600 ]
[ Name = "n3"; GlueHostMainMemoryRAMSize = 4000; GlueHostBenchmarkSI00 = 900 ]
[ Name = "n4"; GlueHostMainMemoryRAMSize = 4000; GlueHostBenchmarkSI00 = 900 ]
"""


@pytest.mark.parametrize(
    ("lrms", "argv"),
    [
        ("slurm", ["--exclude=n1,n2"]),
        ("lsf", ["-m", "n3 n4"]),
        ("sge", ["-l", "hostname=!(n1|n1.*|n2|n2.*)"]),
        # It cannot name hosts; but no other has so much memory.
        ("pbspro", ["-l", "select=1:mem=4000mb"]),
        ("torque", ["-l", "mem=4000mb"]),
    ],
)
def test_exactly_the_good_nodes(tmp_path: Path, lrms: str, argv: list[str]) -> None:
    submission = planned(f"{SI00} > 700", lrms, nodes=NODES, folder=tmp_path)
    assert list(submission.argv) == argv
    assert submission.verdict is Fit.EXACT
    certificate = submission.certificate
    assert certificate is not None
    assert certificate.exact
    assert (certificate.nodes, certificate.classes, certificate.accepted) == (4, 3, 2)


def test_the_certificate_names_what_would_be_selected_wrongly(tmp_path: Path) -> None:
    submission = planned(f"{SI00} < 700", "pbspro", nodes=NODES, folder=tmp_path)
    assert submission.verdict is Fit.NECESSARY
    assert submission.certificate is not None
    assert submission.certificate.wrongly_included == ("n3", "n4")
    assert submission.certificate.wrongly_excluded == ()
    for want in (Fit.EXACT, Fit.SUFFICIENT):
        with pytest.raises(NoFlagsError, match="n3"):
            planned(f"{SI00} < 700", "pbspro", nodes=NODES, want=want, folder=tmp_path)


@pytest.mark.parametrize(
    "values",
    [
        # A node that will do has half a MB less than a whole number says, or one that will not has
        # no number at all: mem= cannot tell them apart.
        ("5.5", "5"), ("9", '"x"'), ("9", "undefined"),
    ],
)  # fmt: skip
def test_what_flags_select_wrongly_of_an_inventory_is_checked_again(
    tmp_path: Path, values: tuple[str, str]
) -> None:
    nodes = "".join(
        f'[ Name = "{name}"; GlueHostMainMemoryRAMSize = {value} ]'
        for name, value in zip(("good", "bad"), values, strict=True)
    )
    submission = planned(
        f"{RAM} > 5", "pbspro", nodes=nodes, policy=Strictness.LENIENT, folder=tmp_path
    )
    assert submission.certificate is not None
    assert submission.certificate.wrongly_included == ("bad",)
    assert submission.verdict is Fit.NECESSARY
    assert [each.reason for each in submission.dropped] == ["bad of the inventory would be wrong"]
    assert str(submission.recheck) == f"{RAM} > 5"


def test_blah_is_asked_for_nothing_that_a_good_node_of_an_inventory_lacks(tmp_path: Path) -> None:
    nodes = """[ Name = "good"; GlueHostMainMemoryRAMSize = 5.5; GlueHostBenchmarkSI00 = 9 ]
               [ Name = "bad"; GlueHostMainMemoryRAMSize = 5; GlueHostBenchmarkSI00 = 9 ]"""
    submission = planned(f"{RAM} > 5 && {SI00} > 8", "blah", nodes=nodes, folder=tmp_path)
    assert submission.directives == ('CERequirements = "other.GlueHostBenchmarkSI00 >= 9"',)
    assert submission.verdict is Fit.NECESSARY
    assert submission.certificate is not None
    assert submission.certificate.wrongly_included == ("bad",)
    assert submission.certificate.wrongly_excluded == ()


def test_blah_keeps_no_unwilling_node_out_and_htcondor_does(tmp_path: Path) -> None:
    nodes = '[ Name = "good" ] [ Name = "unwilling"; Requirements = false ]'
    for lrms, verdict, wrong in (("blah", Fit.NECESSARY, ("unwilling",)),
                                 ("htcondor", Fit.EXACT, ())):  # fmt: skip
        submission = planned("true", lrms, nodes=nodes, folder=tmp_path)
        assert submission.certificate is not None
        assert (submission.verdict, submission.certificate.wrongly_included) == (verdict, wrong)


def test_equal_nodes_are_one_class_and_a_node_of_its_own_is_none_of_it(tmp_path: Path) -> None:
    nodes = """
    [ Name = "a"; GlueHostMainMemoryRAMSize = 5 ] [ Name = "b"; GlueHostMainMemoryRAMSize = 5 ]
    [ Name = "c"; GlueHostMainMemoryRAMSize = Base; Base = 5 ]
    [ Name = "d"; GlueHostMainMemoryRAMSize = Base; Base = 1 ]
    [ Name = "e"; GlueHostMainMemoryRAMSize = eval("4 + 1") ]
    [ Name = "f"; GlueHostMainMemoryRAMSize = eval("4 + 1") ]
    [ Name = "g"; GlueHostMainMemoryRAMSize = 5; Requirements = TARGET.Owner == "ana" ]
    """
    submission = planned(f"{RAM} >= 5", "slurm", nodes=nodes, folder=tmp_path)
    assert submission.excluded == ("d", "g")
    assert submission.certificate is not None
    assert submission.certificate.classes == 6


def test_a_list_of_nodes_too_long_for_a_word_names_only_those_that_nothing_else_keeps_out(
    tmp_path: Path,
) -> None:
    names = [f"node{number:05}.a-long-domain-name.example.org" for number in range(3000)]
    nodes = "\n".join(
        f'[ Name = "{name}"; GlueHostMainMemoryRAMSize = {1 if number % 3 else 9};'
        f" GlueHostBenchmarkSI00 = {number % 100} ]"
        for number, name in enumerate(names)
    )
    submission = planned(f"{RAM} > 5 && {SI00} != 0", "slurm", nodes=nodes, folder=tmp_path)
    assert submission.verdict is Fit.EXACT
    assert submission.argv[0] == "--mem=6M"
    assert len(submission.excluded) == 10
    assert submission.certificate is not None
    assert submission.certificate.exact


# --- the administrator's own code -----------------------------------------------------------------

DRIVES = """
import matchmaker
seen = []

def speed(constraint):
    seen.append(constraint)
    if constraint.least is None:
        return None
    return [f"--licenses=speed:{constraint.least}"]

def text(constraint):
    return "--one-string"

def raises(constraint):
    return {}[constraint.attribute]

def leaves(constraint):
    raise SystemExit(0)

def script(constraint):
    return ["script.sh"]

def nothing(constraint):
    return []

def features(constraint):
    return ["--mem=1M"]
"""


@pytest.fixture
def own_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "site_flags.py").write_text(DRIVES)
    monkeypatch.syspath_prepend(str(tmp_path))
    return '[attributes.GlueHostBenchmarkSI00]\nkind = "python"\ncall = "site_flags:speed"\n'


def test_a_python_function_receives_typed_constraints(tmp_path: Path, own_code: str) -> None:
    submission = planned(f"{SI00} > 500 && {RAM} >= 9", "slurm", own_code, folder=tmp_path)
    assert submission.argv == ("--mem=9M", "--licenses=speed:501")
    assert submission.verdict is Fit.EXACT
    declined = planned(f"{SI00} < 500", "slurm", own_code, folder=tmp_path)
    assert (declined.argv, declined.verdict) == ((), Fit.NECESSARY)
    assert declined.dropped[0].reason == "site_flags:speed cannot say it"


@pytest.mark.parametrize(
    "call", ["site_flags:text", "site_flags:raises", "site_flags:none", "no_such_module:f",
             "site_flags:leaves", "site_flags:script", "site_broken:f", "site_leaves:f"]
)  # fmt: skip
def test_a_function_that_is_none_or_gives_no_words_is_an_error(
    tmp_path: Path, own_code: str, call: str
) -> None:
    (tmp_path / "site_broken.py").write_text("def (:")
    (tmp_path / "site_leaves.py").write_text("raise SystemExit(0)")
    site = own_code.replace("site_flags:speed", call)
    with pytest.raises(MappingError, match=call):
        planned(f"{SI00} > 500", "slurm", site, folder=tmp_path)


def test_a_function_may_have_nothing_to_say_and_says_it_by_the_mappings_names(
    tmp_path: Path, own_code: str
) -> None:
    quiet = own_code.replace("site_flags:speed", "site_flags:nothing")
    submission = planned(f"{SI00} > 500", "slurm", quiet, folder=tmp_path)
    assert (submission.argv, submission.directives) == ((), ())
    named = own_code.replace("site_flags:speed", "site_flags:raises")
    with pytest.raises(MappingError, match="KeyError: 'GlueHostBenchmarkSI00'"):
        planned("other.gluehostBENCHMARKsi00 > 500", "slurm", named, folder=tmp_path)


def test_own_code_does_not_undo_a_flag_of_the_mapping(tmp_path: Path, own_code: str) -> None:
    site = own_code.replace("site_flags:speed", "site_flags:features")
    with pytest.raises(MappingError, match="--mem in two ways, --mem=9M and --mem=1M"):
        planned(f"{SI00} > 500 && {RAM} >= 9", "slurm", site, folder=tmp_path)


def test_bounds_with_no_whole_number_between_them_are_not_told(
    tmp_path: Path, own_code: str
) -> None:
    submission = planned(f"{SI00} > 1.5 && {SI00} < 1.6", "slurm", own_code, folder=tmp_path)
    assert (submission.argv, submission.verdict) == ((), Fit.NECESSARY)
    for more in ("", f" && ({SI00} < 3 || {RAM} > 5)"):
        wanted = f"{SI00} > 1.5 && {SI00} < 1.6{more}"
        written = planned(wanted, "blah", folder=tmp_path)
        assert (written.directives, written.verdict) == ((), Fit.NECESSARY)
        assert written.recheck is not None
        assert set(conjuncts(written.recheck)) == set(conjuncts(parse_expr(wanted)))


def program(folder: Path, text: str) -> str:
    path = folder / "site-flags"
    path.write_text(text)
    path.chmod(0o755)
    return (
        f'shell = "{path}"\n'
        '[attributes.GlueHostBenchmarkSI00]\nkind = "shell"\n'
        '[attributes.GlueHostOperatingSystemName]\nkind = "shell"\n'
        '[attributes.GlueHostApplicationSoftwareRunTimeEnvironment]\nkind = "shell"\n'
    )


def test_a_program_receives_blahs_variables_and_prints_directives(tmp_path: Path) -> None:
    site = program(
        tmp_path,
        '#!/bin/sh\n[ -z "$HOME" ] || exit 3\n'
        'echo "#SBATCH --licenses=speed:$GlueHostBenchmarkSI00_Min"\n'
        'echo "#SBATCH --comment=$GlueHostOperatingSystemName"\n',
    )
    spelled = "other.gluehostbenchmarksi00"
    submission = planned(f'{spelled} > 500 && {OS} == "SL"', "slurm", site, folder=tmp_path)
    assert submission.argv == ("--licenses=speed:501", "--comment=sl")
    assert submission.verdict is Fit.EXACT


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("#!/bin/sh\nexit 3\n", "exit status 3"),
        ("#!/bin/sh\necho rm -rf /\n", "which is no #SBATCH"),
        ("#!/bin/sh\nhead -c 100000 /dev/zero | tr '\\\\0' x\n", "too much output"),
        ("#!/bin/sh\nprintf '#SBATCH -x\\033[2J'\n", "which is no #SBATCH"),
        ("#!/bin/sh\nexec yes\n", "too much output"),
        ("#!/bin/sh\necho '#SBATCH --x=\"a'\n", "site-flags: it printed .*which is no #SBATCH"),
        ("#!/bin/sh\necho '#SBATCH '\n", "site-flags: it printed .*which is no #SBATCH"),
        ("#!/bin/sh\necho '#SBATCH script.sh'\n", "site-flags: it printed .*no #SBATCH"),
        ("no program", "site-flags: "),
    ],
)
def test_a_program_that_misbehaves_is_an_error(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(MappingError, match=words):
        planned(f"{SI00} > 500", "slurm", program(tmp_path, text), folder=tmp_path)


def test_a_program_that_does_not_end_is_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("matchmaker.batch.site_code.LIMITS", BatchLimits(site_seconds=0.2))
    with pytest.raises(MappingError, match="did not end"):
        planned(f"{SI00} > 5", "slurm", program(tmp_path, "#!/bin/sh\nsleep 30\n"), folder=tmp_path)


@pytest.mark.parametrize("text", ["$(id)", "--wrap", "a'b", "x;y", "`id`", "a\\nb", "é", ""])
def test_no_hostile_text_reaches_the_program(tmp_path: Path, text: str) -> None:
    site = program(tmp_path, "#!/bin/sh\neval echo $GlueHostOperatingSystemName >&2\n")
    submission = planned(f'{OS} == "{text}"', "slurm", site, folder=tmp_path)
    assert (submission.argv, submission.verdict) == ((), Fit.NECESSARY)


@pytest.mark.parametrize("want", [Fit.NECESSARY, Fit.SUFFICIENT, Fit.EXACT])
@pytest.mark.parametrize("kind", ["python", "shell"])
def test_an_alternative_of_the_sites_own_code_is_lost_and_not_unsaid(
    tmp_path: Path, own_code: str, kind: str, want: Fit
) -> None:
    site = own_code if kind == "python" else program(tmp_path, "#!/bin/sh\n")
    clause = f"{SI00} >= 5 || other.GlueHostMainMemoryVirtualSize > 3"
    if want is not Fit.NECESSARY:
        with pytest.raises(NoFlagsError, match="GlueHostBenchmarkSI00"):
            planned(clause, "slurm", site, want=want, folder=tmp_path)
        return
    submission = planned(f"{RAM} >= 9 && ({clause})", "slurm", site, want=want, folder=tmp_path)
    assert (submission.argv, submission.verdict) == (("--mem=9M",), Fit.NECESSARY)
    assert [str(each.clause) for each in submission.dropped] == [clause]
    assert str(submission.recheck) == clause


@pytest.mark.parametrize(
    "other", ["isUndefined({0})", "isString({0})", 'member("x", {0})', '{0} == "x"', "isList({0})"]
)
def test_a_function_is_told_no_bound_that_a_host_that_will_do_lies_beyond(
    tmp_path: Path, own_code: str, other: str
) -> None:
    wanted = f"{other.format(SI00)} || {SI00} >= 500"
    submission = planned(wanted, "slurm", own_code, folder=tmp_path)
    assert (submission.argv, submission.verdict) == ((), Fit.NECESSARY)
    assert submission.dropped
