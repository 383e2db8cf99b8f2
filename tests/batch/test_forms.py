"""Flags of several values, defaults, constants, presence, texts, times, lines, and who submits."""

from __future__ import annotations

from pathlib import Path

import pytest

from matchmaker import ClassAd, batch, parse_ad, reduce
from matchmaker.batch import Fit, MappingError, NoFlagsError, Submission, load_mapping
from matchmaker.batch.flags.requests import Submitter
from matchmaker.classad.walks import conjuncts

GPU = """
[attributes.GPUs]
kind = "min"
flag = "{gpus}"
[attributes.GPUType]
kind = "eq"
features = { "NVIDIA A100" = "a100", "Tesla V100" = "v100" }
term = "{type}"
[requests]
gpus = {}
[flags]
gpu = ["--gres=gpu:{type}:{gpus}", "--gres=gpu:{gpus}", "--gres=gpu:{type}:1"]
"""


def planned(
    folder: Path, site: str, job: str = "", lrms: str = "slurm", **options: object
) -> Submission:
    path = folder / "site.toml"
    path.write_text(site)
    ad = parse_ad(f"[ {job} ]")
    reduction = reduce(ad, ClassAd(), lambda name: "host")
    return batch.flags(reduction, lrms, path, **options)  # type: ignore[arg-type]


def reasons(made: Submission) -> list[str]:
    return [each.reason for each in made.dropped]


# --- one flag from several values -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("job", "argv", "verdict"),
    [
        ('Requirements = other.GPUType == "NVIDIA A100" && other.GPUs >= 2',
         ["--gres=gpu:a100:2"], "exact"),
        ('Requirements = other.GPUType == "nvidia a100"; RequestGPUs = 3',
         ["--gres=gpu:a100:3"], "exact"),
        ("Requirements = other.GPUs > 2; RequestGPUs = 2", ["--gres=gpu:3"], "exact"),
        ("RequestGPUs = 2", ["--gres=gpu:2"], "exact"),
        ('Requirements = other.GPUType == "NVIDIA A100"', ["--gres=gpu:a100:1"], "exact"),
        ('Requirements = other.GPUType == "H100" && other.GPUs >= 2', ["--gres=gpu:2"],
         "necessary"),
        ('Requirements = other.GPUType != "NVIDIA A100" && other.GPUs >= 2', ["--gres=gpu:2"],
         "necessary"),
        ('Requirements = (other.GPUType == "NVIDIA A100" || other.GPUType == "Tesla V100")',
         [], "necessary"),
        ("Requirements = other.GPUs >= 2 && other.GPUs < 4", ["--gres=gpu:2"], "necessary"),
    ],
)  # fmt: skip
def test_values_of_several_attributes_and_requests_in_one_flag(
    tmp_path: Path, job: str, argv: list[str], verdict: str
) -> None:
    made = planned(tmp_path, GPU, job)
    assert list(made.argv) == argv
    assert made.verdict == verdict
    assert (made.recheck is None) == (verdict == "exact")


def test_a_slot_without_a_complete_form_is_dropped_and_checked_again(tmp_path: Path) -> None:
    site = GPU.replace(', "--gres=gpu:{gpus}", "--gres=gpu:{type}:1"', "")
    made = planned(tmp_path, site, "RequestGPUs = 2; Requirements = other.GPUs >= 2")
    assert made.argv == ()
    assert reasons(made) == ["no form of [flags] has the slot {gpus} in this case",
                             "no form of [flags] has the slot {gpus} in this case"]  # fmt: skip
    assert str(made.recheck) == "other.GPUs >= 2 && (isUndefined(other.GPUs) || other.GPUs >= 2)"
    with pytest.raises(NoFlagsError):
        planned(tmp_path, site, "Requirements = other.GPUs >= 2", want=Fit.SUFFICIENT)


BESIDE = """
[attributes.A]
kind = "min"
flag = "{a}"
[attributes.B]
kind = "min"
flag = "{b}"
[requests]
gpus = { flag = "{g}" }
cpus = { flag = "{c}" }
[flags]
b = [{ with = "a", flag = "--bb={b}" }]
c = [{ with = "g", flag = "--cpus-per-task={c}" }]
"""


@pytest.mark.parametrize(
    "job",
    ["Requirements = other.A >= 3 && other.B >= 5", "RequestGPUs = 1; RequestCpus = 6"],
)
def test_what_only_stands_with_a_dropped_slot_is_dropped_too(tmp_path: Path, job: str) -> None:
    made = planned(tmp_path, BESIDE, job)
    assert (made.argv, len(made.dropped)) == ((), 2)
    assert made.recheck is not None
    assert set(conjuncts(made.recheck)) == {each.clause for each in made.dropped}
    assert set(conjuncts(made.condition)) == {each.clause for each in made.dropped}
    with pytest.raises(NoFlagsError):
        planned(tmp_path, BESIDE, job, want=Fit.SUFFICIENT)


SHARES = """
[requests]
memory = { flag = "--mem-per-cpu={value}M", per_cpu = true }
cpus = { flag = "{c}" }
gpus = { flag = "{g}" }
[flags]
c = [{ with = "g", flag = "--cpus-per-task={c}" }]
g = ["--gpus={g}"]
"""


def test_a_share_of_each_processor_stands_only_with_the_processors(tmp_path: Path) -> None:
    made = planned(tmp_path, SHARES, "RequestMemory = 8000; RequestCpus = 4; RequestGPUs = 1")
    assert "--mem-per-cpu=2000M" in made.argv
    assert "--cpus-per-task=4" in made.argv
    made = planned(tmp_path, SHARES, "RequestMemory = 8000; RequestCpus = 4")
    assert (made.argv, len(made.dropped)) == ((), 2)
    assert made.recheck is not None
    assert set(conjuncts(made.recheck)) == {each.clause for each in made.dropped}
    made = planned(tmp_path, SHARES, "RequestMemory = 8000; RequestCpus = 1")
    assert made.argv == ("--mem-per-cpu=8000M",)


@pytest.mark.parametrize(
    ("job", "argv"),
    [
        ("RequestMemory = 4000; RequestCpus = 4", ("-l", "pmem=1000mb", "-l", "nodes=1:ppn=4")),
        ("RequestMemory = 4000", ("-l", "pmem=4000mb")),
    ],
)
def test_a_condition_asks_for_no_more_processors_than_there_are_shares(
    tmp_path: Path, job: str, argv: tuple[str, ...]
) -> None:
    site = '[requests.memory]\nflag = ["-l", "pmem={value}mb"]\nper_cpu = true\n'
    cpus = f"other.{CPUS} >= 8"
    made = planned(tmp_path, site, f"{job}; Requirements = {cpus}", lrms="torque")
    assert (made.argv, str(made.recheck)) == (argv, cpus)
    # A node has room for the whole job, and Torque cannot leave the others out.
    nodes = [ClassAd({"Name": "n1", CPUS: 8, RAM: 5000}), ClassAd({"Name": "n2", CPUS: 4})]
    made = planned(tmp_path, site, f"{job}; Requirements = {cpus}", lrms="torque", inventory=nodes)
    assert made.argv == argv
    assert made.certificate is not None
    assert made.certificate.wrongly_included == ("n2",)
    made = planned(tmp_path, site, f"Requirements = {cpus}", lrms="torque")
    assert (made.argv, made.verdict) == (("-l", "nodes=1:ppn=8"), Fit.EXACT)


def test_shares_are_of_processors_in_the_unit_of_their_flag(tmp_path: Path) -> None:
    site = """
    [requests]
    memory = { flag = "--mem-per-cpu={value}M", per_cpu = true }
    cpus = { flag = "--cpus-per-task={value}", unit = 4 }
    Scratch = { flag = "--scratch={value}M", per_cpu = true }
    """
    made = planned(tmp_path, site, "RequestMemory = 4001; RequestCpus = 5; Scratch = 9")
    assert made.argv == ("--mem-per-cpu=2001M", "--cpus-per-task=2", "--scratch=5M")
    assert f"other.{RAM} >= 4002" in str(made.condition)


@pytest.mark.parametrize("request_", ["cpus = {", "wall = {", 'T = { kind = "time",'])
def test_processors_and_times_are_not_shared(tmp_path: Path, request_: str) -> None:
    site = f"[requests]\n{request_} flag = '--x={{value}}', per_cpu = true }}\n"
    with pytest.raises(MappingError, match="found True"):
        planned(tmp_path, site, "")


RAM, CPUS = "GlueHostMainMemoryRAMSize", "GlueHostArchitectureSMPSize"


def shared(of: str, request: str = "", flag: str = "{s}", unit: int = 1) -> str:
    """A mapping that fills one flag from two sources."""
    form = '[flags]\ns = "--s={s}"\n' if flag == "{s}" else ""
    rule = f'kind = "min"\nflag = "{flag}"\nunit = {unit}\n'
    attributes = "".join(f"[attributes.{name}]\n{rule}" for name in of.split())
    asked = f'[requests]\n{request} = {{ flag = "{flag}" }}\n' if request else ""
    return attributes + asked + form


@pytest.mark.parametrize("flag", ["{s}", "--s={value}"])
@pytest.mark.parametrize(
    ("sources", "job", "number", "dropped"),
    [
        ((RAM, "memory", 1024), f"RequestMemory = 3000; Requirements = other.{RAM} >= 4096", 3000,
         f"other.{RAM} >= 4096"),
        (("A B", "", 1), "Requirements = other.A >= 3 && other.B >= 5", 3, "other.B >= 5"),
        (("A", "N", 1), "N = 7; Requirements = other.A >= 3", 7, "other.A >= 3"),
        (("A", "memory", 1), "RequestMemory = 7; Requirements = other.A >= 3", 7, "other.A >= 3"),
    ],
)  # fmt: skip
def test_a_flag_does_not_stand_for_two_things(  # noqa: PLR0917
    tmp_path: Path, flag: str, sources: tuple[str, str, int], job: str, number: int, dropped: str
) -> None:
    of, request, unit = sources
    made = planned(tmp_path, shared(of, request, flag, unit), job)
    assert (made.argv, made.verdict) == ((f"--s={number}",), Fit.NECESSARY)
    assert str(made.recheck) == dropped
    assert "in one way only" in reasons(made)[0]


@pytest.mark.parametrize("flag", ["{s}", "--s={value}"])
def test_two_numbers_of_one_thing_are_joined_by_the_larger(tmp_path: Path, flag: str) -> None:
    site = shared(RAM, "memory", flag)
    for asked, least in ((3000, 4096), (5000, 4096)):
        job = f"RequestMemory = {asked}; Requirements = other.{RAM} >= {least}"
        made = planned(tmp_path, site, job)
        assert (made.argv, made.verdict) == ((f"--s={max(asked, least)}",), Fit.EXACT)


def test_requests_of_two_things_do_not_share_a_flag(tmp_path: Path) -> None:
    site = """
    [requests]
    memory = { flag = "{s}" }
    cpus = { flag = "{s}" }
    [flags]
    s = "--s={s}"
    """
    made = planned(tmp_path, site, "RequestMemory = 10; RequestCpus = 20")
    assert (made.argv, made.verdict) == (("--s=10",), Fit.NECESSARY)
    assert reasons(made) == ["request memory sets the same flag"]
    assert made.recheck is not None
    assert str(made.recheck).endswith("GlueHostArchitectureSMPSize >= 20")


def test_nodes_by_name_are_a_term_that_other_forms_are_chosen_for(tmp_path: Path) -> None:
    site = """
    exclude = "!({hosts})"
    [requests]
    cpus = { flag = "{c}" }
    [flags]
    c = [{ with = "features", flag = "--named" }, "--cpus-per-task={c}"]
    """
    nodes = parse_nodes('[ Name = "n1"; B = 5 ]', '[ Name = "n2"; B = 1 ]')
    job = "RequestCpus = 6; Requirements = other.B > 2"
    made = planned(tmp_path, site, job, inventory=nodes)
    assert sorted(made.argv) == ["--constraint=!(n2)", "--named"]
    assert made.verdict is Fit.NECESSARY
    assert reasons(made) == ["no form of [flags] has the slot {c} in this case"]
    made = planned(tmp_path, site, job, inventory=nodes[:1])
    assert (made.argv, made.verdict) == (("--cpus-per-task=6",), Fit.EXACT)


def test_an_inventory_judges_what_the_chosen_form_carries(tmp_path: Path) -> None:
    nodes = parse_nodes('[ Name = "n1"; GPUs = 4; GPUType = "NVIDIA A100" ]',
                        '[ Name = "n2"; GPUs = 4; GPUType = "Tesla V100" ]',
                        '[ Name = "n3"; GPUs = 1; GPUType = "NVIDIA A100" ]')  # fmt: skip
    site = GPU.replace(', "--gres=gpu:{gpus}"', "") + 'exclude = ""\n'
    site = 'exclude = ""\n' + site.replace('exclude = ""\n', "")
    wanted = 'Requirements = other.GPUType == "NVIDIA A100" && other.GPUs >= 2'
    made = planned(tmp_path, site, wanted, inventory=nodes)
    assert made.argv == ("--gres=gpu:a100:2",)
    assert made.certificate is not None
    assert made.certificate.exact
    # Only the size is required: there is no form for it alone, so every node may be chosen.
    made = planned(tmp_path, site.replace(', "--gres=gpu:{type}:1"', ""),
                "Requirements = other.GPUs >= 2", inventory=nodes)  # fmt: skip
    assert made.argv == ()
    assert made.certificate is not None
    assert made.certificate.wrongly_included == ("n3",)


def parse_nodes(*texts: str) -> list[ClassAd]:
    return [parse_ad(text) for text in texts]


@pytest.mark.parametrize(
    ("job", "argv"),
    [
        ("NODES = 2; RequestCpus = 8", ["-l", "nodes=2:ppn=8"]),
        ("RequestCpus = 8", ["-l", "nodes=1:ppn=8"]),
        ("NODES = 2", ["-l", "nodes=2"]),
        ("", []),
    ],
)
def test_nodes_and_processors_of_torque(tmp_path: Path, job: str, argv: list[str]) -> None:
    site = """
    requests.NODES = {}
    [flags]
    features = [
      ["-l", "nodes={NODES}:{features}"], ["-l", "nodes=1:{features}"], ["-l", "nodes={NODES}"],
    ]
    """
    assert list(planned(tmp_path, site, job, "torque").argv) == argv


@pytest.mark.parametrize(
    ("job", "argv"),
    [
        ('PE = "mpi"; RequestCpus = 16', ["-pe", "mpi", "16"]),
        ("RequestCpus = 16", ["-pe", "smp", "16"]),
        ('PE = "mpi; id"; RequestCpus = 16', ["-pe", "smp", "16"]),
    ],
)
def test_a_parallel_environment_by_name(tmp_path: Path, job: str, argv: list[str]) -> None:
    site = """
    [requests]
    cpus = {}
    PE = { kind = "text", values = ["mpi", "openmp"] }
    [flags]
    pe = [["-pe", "{PE}", "{cpus}"], ["-pe", "smp", "{cpus}"]]
    """
    assert list(planned(tmp_path, site, job, "sge").argv) == argv


def test_features_that_the_chosen_form_has_no_slot_for_are_dropped(tmp_path: Path) -> None:
    site = """
    requests.NODES = {}
    [flags]
    features = [["-l", "nodes={NODES}"], ["-l", "nodes=1:{features}"]]
    [attributes.Tags]
    kind = "member"
    features = { A = "a" }
    """
    wanted = 'Requirements = member("A", other.Tags); RequestCpus = 2'
    made = planned(tmp_path, site, wanted, "torque")
    assert (made.argv, made.verdict) == (("-l", "nodes=1:ppn=2:a"), Fit.EXACT)
    made = planned(tmp_path, site, f"NODES = 2; {wanted}", "torque")
    assert (made.argv, made.verdict) == (("-l", "nodes=2"), Fit.NECESSARY)
    assert reasons(made) == ["no form of [flags] has the slot {features} in this case"] * 2
    assert str(made.recheck).startswith('member("A", other.Tags) && (isUndefined(')


def test_nodes_by_name_need_a_form_with_the_terms(tmp_path: Path) -> None:
    site = 'requests.X = {}\nflags.features = ["--nodes={X}", "--requires={features}"]\n'
    nodes = parse_nodes('[ Name = "n1"; Ok = true ]', '[ Name = "n2"; Ok = false ]')
    made = planned(tmp_path, site, "Requirements = other.Ok", "flux", inventory=nodes)
    assert made.argv == ("batch", "--requires=(-host:n2)")
    with pytest.raises(MappingError, match=r"has the slot \{features\} in this case"):
        planned(tmp_path, site, "Requirements = other.Ok; X = 1", "flux", inventory=nodes)


# --- constants, defaults and presence -------------------------------------------------------------


def test_a_form_without_slots_is_a_constant_or_a_default(tmp_path: Path) -> None:
    site = """
    [flags]
    queue = ["--partition={queue}", "--partition=batch"]
    whole = "--exclusive"
    """
    assert planned(tmp_path, site).argv == ("--partition=batch", "--exclusive")
    assert planned(tmp_path, site, queue="long").argv == ("--partition=long", "--exclusive")
    assert planned(tmp_path, site).directives == (
        "#SBATCH --partition=batch",
        "#SBATCH --exclusive",
    )
    # A site's file takes a flag away again.
    assert planned(tmp_path, "flags.queue = []", queue="long") == planned(tmp_path, "")


@pytest.mark.parametrize(
    ("job", "argv"),
    [
        ("TestJob = 1", ["--qos=test"]), ("TestJob = true", ["--qos=test"]),
        ('TestJob = "yes"', ["--qos=test"]), ("TestJob = false", ["--qos=normal"]),
        ("TestJob = 0", ["--qos=normal"]), ("TestJob = undefined", ["--qos=normal"]),
        ("", ["--qos=normal"]),
    ],
)  # fmt: skip
def test_presence(tmp_path: Path, job: str, argv: list[str]) -> None:
    site = """
    requests.TestJob = { kind = "present" }
    flags.qos = [{ with = "TestJob", flag = "--qos=test" }, "--qos=normal"]
    """
    made = planned(tmp_path, site, job)
    assert (list(made.argv), made.verdict) == (argv, Fit.EXACT)


def test_presence_as_a_flag_alone(tmp_path: Path) -> None:
    site = 'requests.TestJob = { kind = "present", flag = "--requeue" }'
    assert planned(tmp_path, site, "TestJob = 1").argv == ("--requeue",)
    assert planned(tmp_path, site).argv == ()
    with pytest.raises(ValueError, match="TestJob of the job must be a boolean"):
        planned(tmp_path, site, "TestJob = error")


def test_requests_that_set_one_flag_differently_are_dropped_and_named(tmp_path: Path) -> None:
    site = """
    [requests]
    A = { kind = "text", pattern = "[a-z]+", flag = "{account}" }
    B = { kind = "text", pattern = "[a-z]+", flag = "{account}" }
    [flags]
    account = "--account={account}"
    """
    made = planned(tmp_path, site, 'A = "x"; B = "y"')
    assert made.argv == ("--account=x",)
    assert [(str(d.clause), d.reason) for d in made.dropped] == [
        ("B", "request A sets the same flag")
    ]
    assert planned(tmp_path, site, 'A = "x"; B = "x"').verdict is Fit.EXACT


# --- times, texts, who submits --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("job", "argv"),
    [
        ("MaxWallTime = 90", ["--time=01:30:00"]),
        ("MaxWallTime = 6000", ["--time=100:00:00"]),
        ("", ["--time=24:00:00"]),
    ],
)
def test_wall_time_in_hours_minutes_and_seconds(tmp_path: Path, job: str, argv: list[str]) -> None:
    site = """
    requests.wall = {}
    flags.time = ["--time={wall:hms}", "--time=24:00:00"]
    """
    assert list(planned(tmp_path, site, job).argv) == argv


@pytest.mark.parametrize(
    ("value", "flag"),
    [("3600", "60"), ('"01:00:01"', "61"), ('"1-00:00:00"', "1440"), ("59.5", "1")],
)
def test_a_time_of_the_job_is_seconds_or_hms(tmp_path: Path, value: str, flag: str) -> None:
    site = 'requests.Walltime = { kind = "time", flag = "--time={value}", unit = 60 }'
    assert planned(tmp_path, site, f"Walltime = {value}").argv == (f"--time={flag}",)


@pytest.mark.parametrize("value", ['"1:60:00"', '"soon"', "true", "-1", '"01:00:00;id"', "{ 1 }"])
def test_anything_else_is_no_time(tmp_path: Path, value: str) -> None:
    site = 'requests.Walltime = { kind = "time", flag = "--time={value}", unit = 60 }'
    with pytest.raises(ValueError, match="Walltime of the job must be"):
        planned(tmp_path, site, f"Walltime = {value}")


ACCOUNT = """
[requests.AccountingGroup]
kind = "text"
pattern = "group_.*"
flag = "--account={value}"
most = 20
"""


def test_a_text_that_the_site_allows(tmp_path: Path) -> None:
    made = planned(tmp_path, ACCOUNT, 'AccountingGroup = "group_atlas.prod"')
    assert (made.argv, made.verdict) == (("--account=group_atlas.prod",), Fit.EXACT)


@pytest.mark.parametrize(
    "text",
    ["other", "xgroup_a", "group_a;id", "group_$(id)", "group_`id`", "group_a b", "group_a\\nb",
     "group_'", 'group_\\"', "group_a|b", "group_a&b", "group_*", "group_a#b", "group_" + "a" * 20,
     "group_a\\\\", "group_é", "group_a+b", "group_a:b", "group_a,b", "group_a=b", "group_{x}",
     "group_a>b", "group_~"],
)  # fmt: skip
def test_any_other_text_is_dropped_and_named(tmp_path: Path, text: str) -> None:
    made = planned(tmp_path, ACCOUNT, f'AccountingGroup = "{text}"')
    assert made.argv == ()
    assert str(made.dropped[0].clause) == "AccountingGroup"
    assert "is not allowed for AccountingGroup: the pattern group_.* and at most 20" in str(
        made.dropped[0].reason
    )
    with pytest.raises(NoFlagsError, match="is not allowed"):
        planned(tmp_path, ACCOUNT, f'AccountingGroup = "{text}"', want=Fit.EXACT)


def test_a_pattern_that_takes_too_long_allows_nothing(tmp_path: Path) -> None:
    site = ACCOUNT.replace("group_.*", "(a+a+)+b").replace("most = 20", "most = 200")
    made = planned(tmp_path, site, f'AccountingGroup = "{"a" * 199}"')
    assert (made.argv, len(made.dropped)) == ((), 1)


def test_values_of_a_text_are_a_sites_own_words(tmp_path: Path) -> None:
    site = """
    [requests.VO]
    kind = "text"
    values = { "atlas" = "hep_atlas", "lhcb/prod" = "hep_lhcb", "ops" = "" }
    flag = "--account={value}"
    """
    assert planned(tmp_path, site, 'VO = "ATLAS"').argv == ("--account=hep_atlas",)
    assert planned(tmp_path, site, 'VO = "lhcb/prod"').argv == ("--account=hep_lhcb",)
    assert planned(tmp_path, site, 'VO = "ops"').verdict is Fit.EXACT
    assert reasons(planned(tmp_path, site, 'VO = "cms"')) == ["'cms' is none of the values of VO"]


def test_who_submits(tmp_path: Path) -> None:
    site = """
    [requests]
    user = { kind = "text", from = "user", flag = "--comment={value}" }
    account = { kind = "text", from = "group", values = { cms = "hep", bio = "life" } }
    [flags]
    account = ["--account={account}", "--account=guests"]
    """
    origin = Submitter("pilot01", ("pilots", "cms"))
    assert planned(tmp_path, site, submitter=origin).argv == ("--comment=pilot01", "--account=hep")
    assert planned(tmp_path, site).argv == ("--account=guests",)
    # Another group is not refused; what the job says of itself does not count.
    other = planned(tmp_path, site, submitter=Submitter("pilot01", ("physics",)))
    assert (other.argv[1:], other.verdict) == (("--account=guests",), Fit.EXACT)
    assert planned(tmp_path, site, 'user = "root"; group = "bio"').argv == ("--account=guests",)
    made = planned(tmp_path, site, submitter=Submitter("x;id", ("cms",)))
    assert made.argv == ("--account=hep",)
    assert "'x;id' is not allowed for user" in reasons(made)[0]


@pytest.mark.parametrize("queue", ["a,b", "a;b", "-x", "a b", "a\nb", "x" * 65])
def test_a_queue_without_a_plain_name_has_no_flag(tmp_path: Path, queue: str) -> None:
    made = planned(tmp_path, "", queue=queue)
    assert made.argv == ()
    assert str(made.dropped[0].clause) == "queue"


@pytest.mark.parametrize(
    ("lrms", "argv"),
    [("slurm", ["--partition=long"]), ("pbspro", ["-q", "long"]), ("torque", ["-q", "long"]),
     ("lsf", ["-q", "long"]), ("sge", ["-q", "long"])],
)  # fmt: skip
def test_the_chosen_queue_is_a_flag(tmp_path: Path, lrms: str, argv: list[str]) -> None:
    assert list(planned(tmp_path, "", "", lrms, queue="long").argv) == argv


# --- lines ----------------------------------------------------------------------------------------


def test_a_job_may_name_the_queue_that_is_chosen(tmp_path: Path) -> None:
    site = """
[requests.Queue]
kind = "text"
values = ["batch", "long"]
[flags]
queue = ["--partition={Queue}", "--partition={queue}", "--partition=batch"]
"""
    made = planned(tmp_path, site, 'Queue = "long"', queue="long")
    assert (made.argv, made.verdict, reasons(made)) == (("--partition=long",), "exact", [])
    # The verdict is about the chosen queue; the flags are for another.
    made = planned(tmp_path, site, 'Queue = "batch"', queue="long")
    assert (made.argv, made.verdict) == (("--partition=batch",), "necessary")
    assert reasons(made) == ["no form of [flags] has the slot {queue} in this case"]


def test_lines_that_are_no_directives(tmp_path: Path) -> None:
    site = """
    requests.CUDA = { kind = "text", pattern = "[0-9.]+" }
    [lines]
    profile = 'for file in /etc/profile.d/*.sh; do . "$file"; done; echo ${HOME}'
    cuda = ["module load cuda/{CUDA}", { with = "gpus", line = "module load cuda" }]
    [requests.gpus]
    [flags]
    gpu = "--gres=gpu:{gpus}"
    """
    profile = 'for file in /etc/profile.d/*.sh; do . "$file"; done; echo ${HOME}'
    assert planned(tmp_path, site).lines == (profile,)
    assert planned(tmp_path, site, "RequestGPUs = 1").lines == (profile, "module load cuda")
    made = planned(tmp_path, site, 'RequestGPUs = 1; CUDA = "12.2"')
    assert made.lines == (profile, "module load cuda/12.2")
    assert (made.argv, made.verdict) == (("--gres=gpu:1",), Fit.EXACT)
    assert planned(tmp_path, site, 'CUDA = "12;id"').lines == (profile,)


def test_a_line_alone_carries_no_request_of_a_resource(tmp_path: Path) -> None:
    site = 'requests.gpus = {}\nlines.n = "export N={gpus}"\n'
    made = planned(tmp_path, site, "RequestGPUs = 2")
    assert made.verdict is Fit.NECESSARY
    assert reasons(made) == ["no form of [flags] has the slot {gpus} in this case"]


def test_lines_of_htcondors_submit_file(tmp_path: Path) -> None:
    site = """
    requests.Project = { kind = "text", pattern = "[A-Za-z]+" }
    [flags]
    project = [["+ProjectName", "=", '"{Project}"'], ["+ProjectName", "=", '"osg"']]
    """
    made = planned(tmp_path, site, 'Project = "LIGO"; RequestCpus = 2', "htcondor")
    assert made.directives == ("request_cpus = 2", '+ProjectName = "LIGO"')
    assert planned(tmp_path, site, "", "htcondor").directives == ('+ProjectName = "osg"',)


# --- errors ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[flags]\ngpu = '--gres=gpu:{gpu}'",
         r"\[flags\] gpu: expected slots that are filled"),
        ("[requests]\ngpus = {}\n[flags]\ngpu = '--gres=gpu:{gpsu}'", "did you mean gpus"),
        ("[flags]\nx = ['-l', 'a={queue}']", "words of one form stand in a list of their own"),
        ("[flags]\nx = 'exclusive'", r"\[flags\] x: expected an option"),
        ("[flags]\nx = '--a;b'", r"\[flags\] x: expected an option"),
        ("[flags]\nx = '--a={queue:hex}'", r"\[flags\] x: expected an option"),
        ("[flags]\nx = { flag = '--a' }", r"\[flags\] x: .* found \{'flag'"),
        ("[flags]\nx = '--mem=5G'", r"\[flags.x\]: expected an option that \[attributes.GlueHostM"),
        ("[flags]\nx = '--time=60'", r"\[requests.wall\] does not set in another way"),
        ("[flags]\nx = '--exclude=wn9'",
         r"\[flags.x\]: .* \[exclude\] does not set in another way.* \(exclude = \"\" in this"),
        ("[requests.X]\nflag = '--exclude=wn{value}'", r"\[exclude\]: .* \[requests.X\] does not"),
        ("[flags]\nx = [['-p', 'long']]", r"\[flags.x\]: expected the long option, --partition"),
        ("[requests.X]\nflag = '-c{value}'", r"\[requests.X\]: .* --cpus-per-task, found '-c"),
        ("[requests]\nmemory = {}", r"\[requests.memory\] flag: expected flag, term, or a form"),
        ("[requests.X]\nkind = 'text'\nflag = '--a={value}'", r"\[requests.X\] pattern: expected"),
        ("[requests.X]\nkind = 'text'\npattern = '('\nflag = '--a={value}'",
         "expected a regular expression"),
        ("[requests.X]\nkind = 'text'\nvalues = { a = 'b;c' }\nflag = '--a={value}'",
         r"\[requests.X\] values: expected words of letters"),
        ("[requests.X]\nkind = 'word'", r"\[requests.X\] kind: expected 'number', 'time'"),
        ("[requests.X]\nfrom = 'host'\nkind = 'text'", r"\[requests.X\] from: expected 'job'"),
        ("[requests.X]\npattern = 'a'\nflag = '--a={value}'", r"\[requests.X\] pattern: expected"),
        ("[requests.X]\nflag = '--a={x}'", r"\[requests.X\] flag: expected flag, an option"),
        ("[requests.X]\nflag = '--a'", r"\[requests.X\] flag: expected flag, an option"),
        ("[flags]\nx = '--a={queue:hms}'", r"\[flags\] x: expected \{queue\}, which is no number"),
        ("[lines]\nx = 5", r"\[lines\] x: expected a line of ASCII"),
        ('[lines]\nx = "a\\nb"', r"\[lines\] x: expected a line of ASCII"),
        ("[lines]\nx = 'echo {features}'", r"\[lines\] x: expected slots that are filled"),
        (("[attributes.X]\nkind = 'eq'\nvalues = ['a', 'b']\nterm = '{x}'\njoin = '|'\n"
          "[flags]\nx = '--x={x}'\n[lines]\nx = 'echo {x}'"), r"\[lines\] x: expected slots"),
        ("[lines]\nx = 'echo {nothing}'", r"\[lines\] x: expected slots that are filled"),
        ("[attributes.X]\nkind = 'eq'\nfeatures = { a = 'b' }\nflag = '--x={value}'",
         r"\[attributes.X\] flag: expected flag without features"),
        ("[attributes.X]\nkind = 'eq'\nfeatures = { a = 'b' }\nvalues = ['a']",
         r"\[attributes.X\] values: expected features or values, not both"),
        ("[attributes.X]\nkind = 'min'\nflag = '--a={value}'\n[attributes.x]\nkind = 'shell'",
         r"\[attributes\] x: expected each attribute once: X is the same"),
        ("[attributes.X]\nkind = 'min'\nflag = '--a={value}'\nterm = 'a={value}'", "not both"),
        ("ignore = 'CondorCE'", "ignore: expected a list of words"),
    ],
)  # fmt: skip
def test_an_error_names_file_table_and_key(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "site.toml"
    path.write_text(text)
    with pytest.raises(MappingError, match=words) as caught:
        load_mapping("slurm", path)
    assert str(caught.value).startswith(f"{path}: ")
    assert ", found " in str(caught.value)


def test_a_site_that_names_nodes_in_its_own_way_may_share_an_option(tmp_path: Path) -> None:
    path = tmp_path / "site.toml"
    path.write_text("exclude = ['-q', '{hosts}']")
    assert load_mapping("sge", path).exclude == "-q {hosts}"


@pytest.mark.parametrize(
    ("lrms", "form"),
    [("pbspro", "['-q', 'long']"), ("torque", "['-q', 'long']"), ("sge", "['-q', 'long']"),
     ("lsf", "['-q', 'long']"), ("lsf", "['-W', '60']")],
)  # fmt: skip
def test_no_option_of_one_dash_undoes_another(tmp_path: Path, lrms: str, form: str) -> None:
    path = tmp_path / "site.toml"
    path.write_text(f"[flags]\nx = [{form}]")
    with pytest.raises(MappingError, match="does not set in another way"):
        load_mapping(lrms, path)


@pytest.mark.parametrize(
    ("lrms", "forms"),
    [("pbspro", "[['-W', 'a=1']]\ny = [['-W', 'b=2']]"), ("pbspro", "[['-v', 'A=1']]\ny = '-V'"),
     ("lsf", "[['-R', 'rusage[a=1]']]"), ("sge", "[['-P', 'hep']]")],
)  # fmt: skip
def test_what_may_be_repeated_is_no_collision(tmp_path: Path, lrms: str, forms: str) -> None:
    path = tmp_path / "site.toml"
    path.write_text(f"[flags]\nx = {forms}")
    assert load_mapping(lrms, path).flags["x"]


def test_a_minimum_of_nothing_excludes_no_node(tmp_path: Path) -> None:
    # A minimum of 0 is not written, so that nothing keeps a node without a proper size out.
    nodes = [ClassAd({"Name": "n1", RAM: 0, "A": 1}), ClassAd({"Name": "n2", RAM: -1, "A": 0})]
    rule = f"[attributes.{RAM}]\nkind = 'min'\nflag = '--m={{value}}'\nunit = 4\n"
    for site, size, more in (("", 0, ""), (rule, 1, f" && other.{RAM} >= 0.5")):
        nodes[0][RAM] = size
        job = f"Requirements = other.A > 0{more}"
        made = planned(tmp_path, f'exclude = ""\n{site}', job, inventory=nodes)
        assert made.argv == ()
        assert made.certificate is not None
        assert made.certificate.wrongly_included == ("n2",)


@pytest.mark.parametrize("size", ['"much"', "error", "{ 9 }"])
def test_room_that_no_number_states_is_unknown(tmp_path: Path, size: str) -> None:
    nodes = [parse_ad(f'[ Name = "n1"; {RAM} = 9; A = 1 ]'),
             parse_ad(f'[ Name = "n2"; {RAM} = {size}; A = 0 ]')]  # fmt: skip
    job = "RequestMemory = 9; Requirements = other.A > 0"
    made = planned(tmp_path, 'exclude = ""\n', job, inventory=nodes)
    assert made.certificate is not None
    assert made.certificate.wrongly_included == ("n2",)
    # By name it is left out.
    assert planned(tmp_path, "", job, inventory=nodes).verdict is Fit.EXACT


@pytest.mark.parametrize("hiding", [f"[ {RAM} = 1000000; A = 9 ]", "3"])
def test_an_attribute_of_the_job_does_not_stand_for_the_host(tmp_path: Path, hiding: str) -> None:
    nodes = [ClassAd({"Name": "n1", RAM: 2000, "A": 1}), ClassAd({"Name": "n2", RAM: 9000, "A": 1})]
    job = f"other = {hiding}; RequestMemory = 4000; Requirements = TARGET.A == 1"
    made = planned(tmp_path, "", job, inventory=nodes)
    assert (made.argv, made.verdict) == (("--mem=4000M", "--exclude=n1"), Fit.EXACT)
    # BLAH has no request for memory, which is checked again.
    made = planned(tmp_path, "", job, lrms="blah", inventory=nodes)
    assert made.certificate is not None
    assert made.certificate.wrongly_included == ("n1",)
    assert made.recheck is not None
    ad = parse_ad(f"[ {job} ]")
    assert [made.recheck.eval(ad, node) for node in nodes] == [False, True]


def test_a_flag_of_a_number_is_not_called_a_feature(tmp_path: Path) -> None:
    site = '[attributes.X]\nkind = "eq"\nflag = "--x={value}"\n'
    made = planned(tmp_path, site, "Requirements = other.X is 3")
    assert reasons(made) == ["a flag does not distinguish kinds of numbers"]
