"""Values of requests that expressions compute, and words by buckets."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from matchmaker import ClassAd, batch
from matchmaker._limits import CLASSAD_LIMITS as LIMITS
from matchmaker.batch import Fit, MappingError, NoFlagsError
from matchmaker.batch.flags.requests import Submitter, request_names
from tests.batch.test_forms import planned, reasons

NICE = "[requests.nice]\nvalue = '100 - MY.Priority'\nflag = '--nice={value}'\n"
NAME = """
[requests.name]
kind = "text"
value = 'substr(replaceAll("[^A-Za-z0-9]", JobName, "_"), 0, 15)'
pattern = "[A-Za-z0-9_]+"
flag = "--job-name={value}"
"""
NODES = """
[requests.nodes]
value = 'ceiling(real(MY.Cores) / MY.Procs)'
flag = "--nodes={value}"
"""
TIME = "[requests.wall]\nvalue = 'CPUTime / Count'\nflag = '--time={value}'\nunit = 60\n"


@pytest.mark.parametrize(
    ("site", "job", "argv"),
    [
        (NICE, "Priority = 30", ("--nice=70",)),
        (NICE, "Priority = 99.5", ("--nice=1",)),
        (NICE, "Priority = 100", ()),
        (NICE, "", ()),
        (NODES, "Cores = 7; Procs = 2", ("--nodes=4",)),
        (NODES, "Cores = 8; Procs = 2", ("--nodes=4",)),
        (NODES, "Cores = 8", ()),
        (NODES, "Procs = 2", ()),
        (NODES.replace("ceiling", "quantize").replace(")'", ", 2)'"), "Cores = 8", ()),
        (TIME, "CPUTime = 7205; Count = 2", ("--time=61",)),
        (NAME, 'JobName = "my first job, of many"', ("--job-name=my_first_job__o",)),
        (NAME, 'JobName = "7"', ("--job-name=7",)),
        (NAME, 'JobName = "x\ny; id"', ("--job-name=x_y__id",)),
    ],
)
def test_a_value_is_computed_from_the_job(
    tmp_path: Path, site: str, job: str, argv: tuple[str, ...]
) -> None:
    made = planned(tmp_path, site, job)
    assert (made.argv, made.verdict, made.dropped) == (argv, Fit.EXACT, ())


@pytest.mark.parametrize(
    ("site", "job", "reason"),
    [
        (NICE, "Priority = 130",
         "the value 100 - MY.Priority must be a number, 0 or more, not -30"),
        (NICE, 'Priority = "high"', "the value 100 - MY.Priority is an error: "),
        (NODES, "Cores = 8; Procs = 0", "the value ceiling(real(MY.Cores) / MY.Procs) is an error"),
        (TIME, "CPUTime = 7205; Count = 0", "the value CPUTime / Count is an error: "),
        (TIME, "CPUTime = -5; Count = 1", "must be a number, 0 or more, not -5"),
        (NAME, "JobName = { 1 }", "is an error"),
        (TIME.replace("CPUTime / Count", "MY.JobName"), 'JobName = "a"',
         'must be a number, 0 or more, not "a" (of a text: kind = "text")'),
        (TIME.replace("CPUTime / Count", "MY.Wall ?: (CPUTime / Count)"), "CPUTime = 5; Count = 0",
         "the value MY.Wall ?: (CPUTime / Count) is an error: integer division by zero"),
        (NAME.replace('"[A-Za-z0-9_]+"', '"[a-z]+"'), 'JobName = "UP"',
         "'UP' is not allowed for name: the pattern [a-z]+"),
    ],
)  # fmt: skip
def test_a_value_that_no_flag_can_have_is_dropped_and_named(
    tmp_path: Path, site: str, job: str, reason: str
) -> None:
    made = planned(tmp_path, site, job)
    assert (made.argv, made.verdict) == ((), Fit.NECESSARY)
    assert reason in reasons(made)[0]
    with pytest.raises(NoFlagsError):
        planned(tmp_path, site, job, want=Fit.EXACT)


def test_nothing_of_a_computed_text_leaves_its_word(tmp_path: Path) -> None:
    """A site may well allow any text: quoting is not left to its pattern."""
    site = NAME.replace('"[A-Za-z0-9_]+"', '".*"')
    site = site.replace('replaceAll("[^A-Za-z0-9]", JobName, "_")', "JobName")
    for text in ("a b", "$(id)", "x;id", "-x", "a\\nb", "a'b", "`id`", "a#b"):
        made = planned(tmp_path, site, f'JobName = "{text}"')
        assert made.argv == (), text
        assert "is not allowed for name" in reasons(made)[0]


def test_a_computed_amount_is_part_of_what_a_host_must_have(tmp_path: Path) -> None:
    """The theorem holds: what is set aside is a condition on the host, however it was computed."""
    site = """
    requests.cpus = { value = 'ceiling(MY.Cores / 2.0)', flag = "--cpus-per-task={value}" }
    requests.memory = { value = 'MY.PerCore * MY.Cores', flag = "--mem={value}M" }
    """
    job = "Cores = 5; PerCore = 2000; Requirements = other.GlueHostMainMemoryRAMSize >= 4000"
    made = planned(tmp_path, site, job)
    assert made.argv == ("--mem=10000M", "--cpus-per-task=3")
    assert made.verdict is Fit.EXACT
    for cpus, memory, good in ((3, 10000, True), (2, 10000, False), (3, 9999, False)):
        host = ClassAd({"GlueHostArchitectureSMPSize": cpus, "GlueHostMainMemoryRAMSize": memory})
        assert made.condition.eval(target=host) is good
    # Amounts that a caller gives are not computed.
    made = planned(tmp_path, site, job, resources=batch.Resources(cpus=1))
    assert made.argv == ("--cpus-per-task=1", "--mem=4000M")


def test_a_share_of_each_processor_follows_computed_processors(tmp_path: Path) -> None:
    site = """
    requests.cpus = { value = 'MY.Cores', flag = "--cpus-per-task={value}" }
    requests.memory = { flag = "--mem-per-cpu={value}M", per_cpu = true }
    """
    made = planned(tmp_path, site, "Cores = 4; RequestMemory = 8000")
    assert made.argv == ("--mem-per-cpu=2000M", "--cpus-per-task=4")


def test_who_submits_where_is_no_attribute_of_the_job(tmp_path: Path) -> None:
    site = """
    [requests.account]
    kind = "text"
    value = 'strcat(TARGET.Group, ".", TARGET.User, ".", TARGET.Queue)'
    pattern = "[a-z.]+"
    flag = "--account={value}"
    """
    made = planned(
        tmp_path, site, 'User = "root"; Group = "wheel"; Queue = "fast"',
        submitter=Submitter("joe", ("cms", "dteam")), queue="long",
    )  # fmt: skip
    assert "--account=cms.joe.long" in made.argv
    # Without a queue the text is unknown, and so is the flag.
    assert planned(tmp_path, site, submitter=Submitter("joe", ("cms",))).argv == ()


PARTITION = """
[requests.partition]
kind = "bucket"
value = "Walltime"
buckets = { short = [0, 7200], long = [7201, 172800], month = [172801, inf] }
[flags]
queue = ["--partition={partition}", "--partition={queue}"]
"""


@pytest.mark.parametrize(
    ("job", "argv"),
    [
        ("Walltime = 7200", ("--partition=short",)),
        ("Walltime = 7200.5", ("--partition=long",)),
        ('Walltime = "03:00:00"', ("--partition=long",)),
        ("Walltime = 9999999", ("--partition=month",)),
        ("", ()),
    ],
)
def test_a_number_gives_a_word_by_its_bucket(
    tmp_path: Path, job: str, argv: tuple[str, ...]
) -> None:
    made = planned(tmp_path, PARTITION, job)
    assert (made.argv, made.verdict) == (argv, Fit.EXACT)


def test_another_queue_than_the_chosen_one_is_named(tmp_path: Path) -> None:
    made = planned(tmp_path, PARTITION, "Walltime = 60", queue="long")
    assert (made.argv, made.verdict) == (("--partition=short",), Fit.NECESSARY)
    assert [str(each.clause) for each in made.dropped] == ["queue"]
    made = planned(tmp_path, PARTITION, "Walltime = 60", queue="short")
    assert (made.argv, made.verdict) == (("--partition=short",), Fit.EXACT)


@pytest.mark.parametrize(
    "flags", ["queue = '--partition=long'", "queue = []\npart = ['--partition=long']"]
)
def test_a_queue_that_a_site_writes_for_every_job_is_not_the_chosen_one(
    tmp_path: Path, flags: str
) -> None:
    """Nodes are those of the chosen queue, so that flags for another are not exact."""
    made = planned(tmp_path, f"[flags]\n{flags}", queue="gpu")
    assert (made.argv, made.verdict) == (("--partition=long",), Fit.NECESSARY)
    assert [str(each.clause) for each in made.dropped] == ["queue"]
    made = planned(tmp_path, f"[flags]\n{flags}", queue="long")
    assert (made.argv, made.verdict) == (("--partition=long",), Fit.EXACT)
    assert planned(tmp_path, f"[flags]\n{flags}").verdict is Fit.EXACT


def test_a_number_in_no_bucket_is_dropped_and_named(tmp_path: Path) -> None:
    made = planned(tmp_path, PARTITION.replace("inf", "200000"), "Walltime = 200001", queue="long")
    assert (made.argv, made.verdict) == (("--partition=long",), Fit.NECESSARY)
    assert reasons(made) == ["200001 is in none of the buckets of partition"]


@pytest.mark.parametrize(
    ("seconds", "text"), [(5400, "1:30"), (5401, "1:31"), (59, "0:01"), (360000, "100:00")]
)
def test_hours_and_minutes_are_rounded_up(tmp_path: Path, seconds: int, text: str) -> None:
    site = "requests.wall = {}\nflags.time = [['-W', '{wall:hm}']]\n"
    made = planned(tmp_path, site, f"MaxWallTime = {seconds / 60!r}", "lsf")
    assert made.argv == ("-W", text)


def test_hours_and_minutes_are_read_by_an_expression(tmp_path: Path) -> None:
    site = """
    [requests.wall]
    value = '60 * (60 * int(split(WALLTIME, ":")[0]) + int(split(WALLTIME, ":")[1]))'
    flag = "--time={value}"
    unit = 60
    """
    made = planned(tmp_path, site, 'WALLTIME = "1:30"')
    assert (made.argv, made.verdict) == (("--time=90",), Fit.EXACT)
    assert planned(tmp_path, site, 'WALLTIME = "90"').verdict is Fit.NECESSARY


def test_a_presence_may_be_computed(tmp_path: Path) -> None:
    site = "requests.x = { kind = 'present', value = 'Nodes > 1', flag = '--exclusive' }\n"
    assert planned(tmp_path, site, "Nodes = 2").argv == ("--exclusive",)
    assert planned(tmp_path, site, "Nodes = 1").argv == ()


def test_the_attributes_of_expressions_are_those_that_a_script_would_read(tmp_path: Path) -> None:
    path = tmp_path / "site.toml"
    path.write_text(TIME + NODES + PARTITION)
    names = request_names(batch.load_mapping("slurm", path))
    assert {"CPUTime", "Count", "Cores", "Procs", "Walltime"} <= set(names)
    assert not {"MaxWallTime", "nodes", "partition"} & set(names)


def test_the_values_of_a_hostile_job_share_one_allowance(tmp_path: Path) -> None:
    each = "[requests.r{0}]\nvalue = 'MY.Cores + {0}'\nflag = '--r{0}={{value}}'\n"
    rows = "; ".join(f"A{n} = {' + '.join([f'A{n + 1}'] * 100)}" for n in range(3))
    job = f"Cores = {' + '.join(['A0'] * 100)}; {rows}; A3 = 1"
    made = planned(tmp_path, "".join(each.format(n) for n in range(40)), job)
    steps = [int(re.findall("([0-9]+) steps", reason)[0]) for reason in reasons(made)]
    assert len(steps) == 40
    assert sum(steps) <= LIMITS.question + 40 * LIMITS.question_each


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("value = '1 +'", r"\[requests.X\] value: expected an expression \(line 1, column"),
        ("value = 'len(MY.Name)'", r"there is no function len\(\); did you mean size\(\)\?"),
        ("value = 5", r"value: expected an expression as text, such as '100 - MY.Priority'"),
        ("value = 'TARGET.Memory'",
         "value: expected of TARGET Queue, User or Group alone, as no host is known yet"),
        ("value = 'TARGET.Usr'", "did you mean User"),
        ("kind = 'text'\nfrom = 'user'\nvalue = 'a'",
         "from: expected value or from; in value, TARGET.User is the user"),
        ("kind = 'bucket'", r"\[requests.X\] buckets: expected a table"),
        ("kind = 'text'\nvalue = 'a'", r"\[requests.X\] pattern: expected pattern"),
    ],
)  # fmt: skip
def test_an_error_in_a_value_names_its_place(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "site.toml"
    path.write_text(f"[requests.X]\nflag = '--x={{value}}'\n{text}")
    with pytest.raises(MappingError, match=words):
        batch.load_mapping("slurm", path)


# --- one flag for two amounts ---------------------------------------------------------------------

PER_CPU = '[requests.memory]\nflag = "--mem-per-cpu={value}M"\nper_cpu = true\n'


def test_memory_of_the_host_is_not_asked_for_beside_that_of_each_processor(tmp_path: Path) -> None:
    """Sbatch takes one of ``--mem`` and ``--mem-per-cpu``."""
    job = "RequestMemory = 2000; RequestCpus = 4; Requirements = other.{} >= 4000"
    made = planned(tmp_path, PER_CPU, job.format("GlueHostMainMemoryRAMSize"))
    assert made.argv == ("--mem-per-cpu=500M", "--cpus-per-task=4")
    assert made.verdict is Fit.NECESSARY
    assert reasons(made) == [
        "slurm can be asked for --mem in one way only: --mem-per-cpu={value}M is set"
    ]


def test_processors_of_the_host_bring_no_share_of_the_memory(tmp_path: Path) -> None:
    """Slurm wants ``--mem-per-cpu`` for each of ``--mincpus``: 16 GB, and no node had as much."""
    job = "RequestMemory = 2001; Requirements = other.GlueHostArchitectureSMPSize >= 8"
    made = planned(tmp_path, PER_CPU, job)
    assert (made.argv, made.verdict) == (("--mem-per-cpu=2001M",), Fit.NECESSARY)
    assert reasons(made) == [
        "slurm can be asked for --mincpus in one way only: as many as there are shares"
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('[attributes.GlueHostMainMemoryRAMSize]\nkind = "min"\nflag = "--mem-per-cpu={value}M"\n',
         "GlueHostMainMemoryRAMSize.: expected an option for the whole host, and not for each"),
        (f'{PER_CPU}[attributes.Ram]\nkind = "min"\nflag = "--mem-per-cpu={{value}}M"\n',
         r"\[attributes.Ram\]: .* in which \[requests.memory\] has a share"),
        ('[requests.memory]\nflag = "--mem-per-cpu={value}M"\n',
         r"\[requests.memory\]: .*; per_cpu = true makes it one"),
        ('[requests.Each]\nflag = "--mem-per-cpu={value}M"\n',
         r"\[requests.Each\]: expected an option that \[requests.memory\] does not set in another"),
    ],
)  # fmt: skip
def test_an_amount_of_the_host_in_an_option_for_each_processor_is_refused(
    tmp_path: Path, text: str, words: str
) -> None:
    path = tmp_path / "site.toml"
    path.write_text(text)
    with pytest.raises(MappingError, match=words):
        batch.load_mapping("slurm", path)


# --- what a site replaces -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lrms", "text", "words", "mended"),
    [
        ("slurm", "flags.part = '--partition=batch'",
         ("flags.queue = [] in this file removes that of the package; "
          "classad flags --show-mapping slurm shows it"),
         "flags.queue = []\n"),
        ("slurm", "flags.cores = ['--cpus-per-task={cpus}', '--cpus-per-task=2']",
         "; requests.cpus = {} fills it in place of '--cpus-per-task={value}', found '{cpus}'",
         "requests.cpus = {}\n"),
        ("slurm", "flags.cores = '--cpus-per-task=2'",
         "requests.cpus = {} with a form of {cpus} in [flags] replaces that of the package", None),
        ("slurm", "flags.memory = '--mem=5G'",
         "another [attributes.GlueHostMainMemoryRAMSize] in this file replaces that of the package",
         None),
        ("slurm", "flags.a = '--mail=x'\nflags.b = '--mail=y'",
         "[flags.a] does not set in another way, '--mail=x', found", None),
    ],
)  # fmt: skip
def test_a_collision_with_the_packages_table_says_what_to_replace(
    tmp_path: Path, lrms: str, text: str, words: str, mended: str | None
) -> None:
    path = tmp_path / "site.toml"
    path.write_text(text)
    with pytest.raises(MappingError) as caught:
        batch.load_mapping(lrms, path)
    assert words in str(caught.value)
    if mended is not None:
        path.write_text(mended + text)
        batch.load_mapping(lrms, path)
