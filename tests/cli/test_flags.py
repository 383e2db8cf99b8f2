"""``classad flags`` and its kin beyond the flags: steps, checks, submission, policies."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import pytest

from matchmaker import batch
from matchmaker.batch.check import check
from tests.cli.conftest import Run

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
JOB = str(EXAMPLES / "job.jdl")
SITE = ("--ldif", str(EXAMPLES / "site.ldif"))


def test_every_step_is_explained(classad: Run) -> None:
    done = classad("flags", JOB, "--lrms", "slurm", *SITE, "--explain")
    assert done.status == 0
    lines = done.out.splitlines()
    assert any(line.startswith("requirement: (other.GlueHostBenchmarkSI00 > 500") for line in lines)
    assert "  other.GlueCEPolicyMaxCPUTime: 1440, a fact of the queue or the job" in lines
    assert "  with the facts: other.GlueHostBenchmarkSI00 > 500 ? true : false" in lines
    assert re.search(
        r"^other.GlueHostMainMemoryRAMSize >= 1000 +in the flags$", done.out, re.MULTILINE
    )
    assert re.search(r"^other.GlueHostBenchmarkSI00 > 500 +no flag for", done.out, re.MULTILINE)


def test_reduce_explains_each_step_too(classad: Run) -> None:
    queue = ("--queue", "ce.lyon.grid:2119/jobmanager-sge-long")
    short, long = (
        classad("reduce", JOB, *SITE, *queue, *more).out for more in ((), ("--explain",))
    )
    assert "=>" in long
    assert "=>" not in short


@pytest.mark.parametrize(("policy", "status"), [("strict", 1), ("lenient", 0), ("reject-never", 0)])
def test_policies(classad: Run, policy: str, status: int) -> None:
    done = classad("flags", JOB, "--lrms", "slurm", *SITE, "--policy", policy, "--json")
    assert done.status == status
    if status:
        assert "no exact flags" in done.err
    else:
        assert (json.loads(done.out)["recheck"] is None) == (policy == "reject-never")


def test_a_lenient_site_is_shown_what_the_job_checks_again(classad: Run) -> None:
    queue = ("--queue", "ce.lyon.grid:2119/jobmanager-sge-long", "--lrms", "sge")
    done = classad("flags", JOB, *queue, *SITE, "--policy", "lenient")
    assert re.search(
        r"^recheck +.*isInteger\(other.GlueHostBenchmarkSI00\)", done.out, re.MULTILINE
    )
    # What is read by people alone is in words.
    assert re.search(r"^dropped +other.GlueHostBenchmarkSI00 is a number: ", done.out, re.MULTILINE)
    plain = classad("flags", JOB, *queue, *SITE, "--policy", "reject-never")
    assert "recheck" not in plain.out


def test_what_an_inventory_says_is_not_said_to_be_in_a_flag(classad: Run) -> None:
    nodes = ("--nodes", str(EXAMPLES / "nodes.ad"))
    done = classad("flags", JOB, "--lrms", "slurm", *SITE, *nodes, "--explain")
    assert re.search(r"SI00 > 500 +in the flags, or by the nodes that are left out", done.out)


def test_the_policy_that_travels_is_shown(classad: Run) -> None:
    argv = ("flags", JOB, "--lrms", "slurm", *SITE, "--forward-policy")
    shown = classad(*argv)
    assert re.search(r"^policy +other.GlueCEPolicyMaxCPUTime > 1000", shown.out, re.MULTILINE)
    assert json.loads(classad(*argv, "--json").out)["policy"].startswith("other.GlueCEPolicyMax")
    queue = ("--queue", "ce01.cnaf.grid:8443/cream-slurm-egee")
    anywhere = ("flags", "-", *argv[2:], *queue)
    assert "policy       nothing to forward" in classad(*anywhere, stdin="[ ]").out


def test_the_certificate_is_data(classad: Run) -> None:
    nodes = ("--nodes", str(EXAMPLES / "nodes.ad"))
    data = json.loads(classad("flags", JOB, "--lrms", "slurm", *SITE, *nodes, "--json").out)
    found = data["certificate"]
    assert (found["nodes"], found["accepted"]) == (47, 22)
    assert found["classes"] < 20
    assert found["wrongly_included"] == found["wrongly_excluded"] == []


# --- mappings -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path", sorted((EXAMPLES / "mappings").glob("*.toml")), ids=lambda path: path.stem
)
def test_the_examples_of_mappings_are_without_mistakes(classad: Run, path: Path) -> None:
    lrms = path.stem.partition("-")[0]
    assert batch.load_mapping(lrms, path).rules
    done = classad("flags", "--lrms", lrms, "--check-mapping", "--mapping", str(path))
    assert (done.status, done.err) == (0, "")
    assert done.out.endswith(": 0 findings\n")


def test_every_batch_system_has_an_example() -> None:
    told = {path.stem.partition("-")[0] for path in (EXAMPLES / "mappings").glob("*.toml")}
    assert told | {"blah"} == set(batch.known_lrms())


SPEED = "[attributes.GlueHostBenchmarkSI00]\n"
SYSTEM = "[attributes.GlueHostOperatingSystemName]\n"


@pytest.mark.parametrize(
    ("mapping", "message"),
    [
        ('[attributes.GlueCEPolicyMaxCPUTime]\nkind = "min"\nflag = "--x={value}"',
         "the GLUE schema has it for queues"),
        ('[attributes.gluehostmainmemoryramsize]\nkind = "min"\nflag = "--mem={value}M"',
         "differs from GlueHostMainMemoryRAMSize in case alone"),
        (f'{SPEED}kind = "bucket"\nbuckets = {{ a = [1, 5], b = [5, 9] }}', "a and b overlap"),
        (f'{SPEED}kind = "bucket"\nbuckets = {{ a = [1, 9], b = 3, c = 5 }}', "a and c overlap"),
        (f'{SYSTEM}kind = "eq"\nfeatures = {{ SL = "a", sl = "b" }}', "has two features"),
        (f'{SYSTEM}kind = "eq"\nvalues = ["a"]\n{SPEED}kind = "bucket"\nbuckets = {{ a = 1 }}',
         "stands for a value of GlueHostOperatingSystemName, too"),
        ("[requests.Ram]\nflag = '--mem={value}M'",
         "requests.Ram: it writes --mem, as requests.memory does: a job that has both gets one"),
        (("[requests.Ram]\nflag = '--mem-per-cpu={value}M'\nper_cpu = true\n[requests]\nmemory = "
          "{ flag = '--mem-per-cpu={value}M', per_cpu = true }"),
         "requests.Ram: it writes --mem, as requests.memory does"),
        ("[requests]\nA = { flag = '--nice={value}' }\nB = { flag = '--nice={value}' }",
         "requests.B: it writes --nice, as requests.A does"),
    ],
)  # fmt: skip
def test_mistakes_in_a_mapping_are_found(
    classad: Run, tmp_path: Path, mapping: str, message: str
) -> None:
    path = tmp_path / "site.toml"
    path.write_text(mapping)
    done = classad("flags", "--lrms", "slurm", "--check-mapping", "--mapping", str(path))
    assert done.status == 1
    assert message in done.out
    found = check(batch.load_mapping("slurm", path))
    data = classad("flags", "--lrms", "slurm", "--check-mapping", "--mapping", str(path), "--json")
    assert len(json.loads(data.out)) >= len(found)


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ('[ Name = "n1"; GlueHostOperatingSystemName = "SL"; Features = { } ]',
         "n1 has a value that feature sl stands for, but not the feature in Features"),
        ('[ Name = "n1"; GlueHostOperatingSystemName = "Debian"; Features = { "sl" } ]',
         "n1 has feature sl in Features, but no value that it stands for"),
        ('[ Name = "n1"; GlueHostOperatingSystemName = "Debian" ]', "no node has a value for"),
        ('[ Name = "n1"; GlueHostOperatingSystemName = 5 ]',
         "n1 has a value that the rule does not foresee, such as 5"),
        ('[ Name = "n1"; GlueHostOperatingSystemName = "SL" ] [ Name = "n2" ]',
         "n2 has an undefined value: no such attribute"),
    ],
)  # fmt: skip
def test_a_mapping_is_held_against_an_inventory(
    classad: Run, tmp_path: Path, nodes: str, message: str
) -> None:
    path, inventory = tmp_path / "site.toml", tmp_path / "nodes.ad"
    path.write_text('[attributes.GlueHostOperatingSystemName]\nkind = "eq"\nfeatures = {SL = "sl"}')
    inventory.write_text(nodes)
    done = classad(
        "flags", "--lrms", "slurm", "--check-mapping", "--mapping", str(path),
        "--nodes", str(inventory),
    )  # fmt: skip
    assert done.status == 1
    assert f"GlueHostOperatingSystemName: {message}" in done.out


def test_models_of_gpus_are_held_against_nodes_that_have_some(classad: Run, tmp_path: Path) -> None:
    """The mapping of idiom 5, against what Slurm says of its nodes."""
    site, saved, nodes = tmp_path / "site.toml", tmp_path / "scontrol", tmp_path / "nodes.ad"
    site.write_text(
        '[attributes.GPUModel]\nkind = "eq"\nvalues = ["a100", "v100"]\nterm = "{model}"\n'
        '[requests]\ngpus = {}\n[flags]\ngpu = ["--gres=gpu:{model}:{gpus}", "--gres=gpu:{gpus}"]\n'
    )
    lines = ["Gres=gpu:a100:2", "Gres=gpu:v100:1", "Gres=(null)"]

    def checked(lines: list[str]) -> tuple[int, str]:
        saved.write_text("".join(
            f"NodeName=n{number} CPUTot=4 RealMemory=4000 {line} State=IDLE\n"
            for number, line in enumerate(lines, 1)
        ))  # fmt: skip
        classad("nodes", "--lrms", "slurm", "--saved", str(saved), "--write", str(nodes))
        given = ("--lrms", "slurm", "--mapping", str(site), "--nodes", str(nodes))
        done = classad("flags", "--check-mapping", *given)
        return done.status, done.out

    status, out = checked(lines)
    assert (status, out.endswith(": 0 findings\n")) == (0, True), out
    status, out = checked([*lines, "Gres=gpu:4"])
    assert (status, "GPUModel: n4 has an undefined value" in out) == (1, True), out
    status, out = checked([*lines, "Gres=gpu:a100:1,gpu:v100:1"])
    assert "GPUModel: n4 has a value that the rule does not foresee, such as {" in out


def test_the_packages_table_is_shown_with_the_names_that_a_site_replaces(
    classad: Run, tmp_path: Path
) -> None:
    for lrms in batch.known_lrms():
        done = classad("flags", "--show-mapping", lrms)
        assert (done.status, done.err) == (0, "")
        # What is printed is a mapping: the table itself below names in comments.
        path = tmp_path / f"{lrms}.toml"
        path.write_text(done.out)
        assert tomllib.loads(done.out)["lrms"] == lrms
    done = classad("flags", "--show-mapping", "slurm", "--json")
    found = {each["name"]: each["templates"] for each in json.loads(done.out)}
    assert found["flags.queue"] == ["--partition={queue}"]
    assert found["requests.cpus"] == ["--cpus-per-task={value}"]
    assert found["attributes.GlueHostMainMemoryRAMSize"] == ["--mem={value}M"]
    assert found.keys() >= {"flags.features", "requests.wall", "requests.queue"}
    done = classad("flags", "--show-mapping", "slurn")
    assert (done.status, "known: blah, " in done.err) == (2, True)


def test_flags_without_a_job_is_a_mistake(classad: Run) -> None:
    done = classad("flags", "--lrms", "slurm")
    assert done.status == 2
    assert "JOB" in done.err


# --- submitting and policies ----------------------------------------------------------------------


def played(folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, text: str) -> None:
    """A command of a batch system, played by a script."""
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=":")


def test_nothing_is_submitted_without_being_asked_for(
    classad: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = tmp_path / "said"
    played(tmp_path, monkeypatch, "sbatch", f'printf "%s\\n" "$@" > {said}')
    assert classad("flags", JOB, "--lrms", "slurm", *SITE).status == 0
    assert not said.exists()
    done = classad("flags", JOB, "--lrms", "slurm", *SITE, "--submit=--wrap=id")
    assert done.status == 0
    assert said.read_text().splitlines() == [
        "--mem=1000M", "--partition=egee", "./--wrap=id",
    ]  # fmt: skip


def test_a_script_without_a_name_is_a_mistake(classad: Run) -> None:
    done = classad("flags", JOB, "--lrms", "slurm", *SITE, "--submit", "")
    assert (done.status, done.out) == (2, "")
    assert "--submit" in done.err


def test_a_batch_system_that_refuses_is_a_no(
    classad: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    played(tmp_path, monkeypatch, "sbatch", "exit 7")
    assert classad("flags", JOB, "--lrms", "slurm", *SITE, "--submit", "job.sh").status == 1


@pytest.mark.parametrize("status", [0, 7])
def test_what_the_command_says_stands_within_the_json(
    classad: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    played(tmp_path, monkeypatch, "sbatch", f"echo '{{ \"job\"'; echo no >&2; exit {status}")
    done = classad("flags", JOB, "--lrms", "slurm", *SITE, "--submit", "job.sh", "--json")
    data = json.loads(done.out)
    assert data["argv"] == ["--mem=1000M", "--partition=egee"]
    assert data["submitted"] == {"status": status, "output": '{ "job"\n', "errors": "no\n"}
    assert (done.status, done.err) == (1 if status else 0, "")


@pytest.mark.parametrize(("lrms", "words"), [("blah", "no command"), ("slurm", "not installed")])
def test_what_cannot_be_submitted_with_is_refused_before_anything(
    classad: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lrms: str, words: str
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    done = classad("flags", JOB, "--lrms", lrms, *SITE, "--submit", "job.sh", "--json")
    assert (done.status, done.out) == (2, "")
    assert words in done.err


def test_a_policy_travels_with_the_job_and_is_read_back(
    classad: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = json.loads(
        classad("flags", JOB, "--lrms", "slurm", *SITE, "--forward-policy", "--json").out
    )
    (comment,) = [word for word in data["argv"] if word.startswith("--comment=")]
    word = comment.partition("=")[2]
    played(tmp_path, monkeypatch, "scontrol", f"echo JobId=7 Comment={word} Name=x")
    done = classad("policy", "slurm", "7")
    assert (done.status, done.out) == (0, "other.GlueCEPolicyMaxCPUTime > 1000\n")
    assert json.loads(classad("policy", "slurm", "7", "--json").out)["job"] == "7"
    played(tmp_path, monkeypatch, "scontrol", "echo JobId=7 Comment=none")
    assert classad("policy", "slurm", "7").status == 1
    assert classad("policy", "slurm", "--", "-x").status == 2
    assert classad("policy", "nonesuch", "7").status == 2


def test_a_local_submit_script_reads_its_variables_from_standard_input(classad: Run) -> None:
    text = 'declare -- GlueHostMainMemoryRAMSize_Min="2000"\n'
    done = classad("blah-local-submit-attributes", "--lrms", "slurm", stdin=text)
    assert (done.status, done.out) == (0, "#SBATCH --mem=2000M\n")


@pytest.mark.parametrize(
    ("lrms", "text", "message"),
    [
        ("blah", 'declare -- A="1"\n', "behind BLAH"),
        ("slurm", "A=1\n", "declare -p"),
        ("x", "", "'x'"),
    ],
)
def test_a_local_submit_script_says_what_it_needs(
    classad: Run, lrms: str, text: str, message: str
) -> None:
    done = classad("blah-local-submit-attributes", "--lrms", lrms, stdin=text)
    assert done.status == 2
    assert message in done.err


# --- the queue, the script and attributes of hosts ------------------------------------------------


def test_a_script_that_contradicts_its_flags_is_warned_of(
    classad: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    played(tmp_path, monkeypatch, "sbatch", "exit 0")
    script = tmp_path / "job.sh"
    script.write_text("#!/bin/sh\n#SBATCH -p short\n")
    done = classad("flags", JOB, "--lrms", "slurm", *SITE, "--submit", str(script))
    assert done.status == 0
    assert done.err == (f"classad: {script}: line 2 has -p short, and the flags --partition=egee\n")
    script.write_text("#!/bin/sh\n#SBATCH -p egee\n")
    assert classad("flags", JOB, "--lrms", "slurm", *SITE, "--submit", str(script)).err == ""


def test_lines_that_a_script_lacks_are_named(
    classad: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    played(tmp_path, monkeypatch, "sbatch", "exit 0")
    site, script = tmp_path / "site.toml", tmp_path / "job.sh"
    site.write_text('lines.profile = "module load gcc"\n')
    script.write_text("#!/bin/sh\n")
    words = ("flags", JOB, "--lrms", "slurm", *SITE, "--mapping", str(site))
    assert "script       module load gcc" in classad(*words).out
    assert json.loads(classad(*words, "--json").out)["lines"] == ["module load gcc"]
    done = classad(*words, "--submit", str(script))
    assert done.err == f"classad: {script}: it lacks the line module load gcc\n"
    script.write_text("#!/bin/sh\nmodule load gcc\n")
    assert classad(*words, "--submit", str(script)).err == ""


OWN = '[ Requirements = other.Scratch >= 50 && other.GlueCEStateStatus == "Production" ]'


def test_attributes_of_the_mapping_and_named_ones_are_of_hosts(
    classad: Run, tmp_path: Path
) -> None:
    job, site = tmp_path / "job.ad", tmp_path / "site.toml"
    job.write_text(OWN)
    site.write_text('[attributes.scratch]\nkind = "min"\nflag = "--tmp={value}G"\nunit = 1\n')
    queue = ("--queue", "ce01.cnaf.grid:8443/cream-slurm-egee")
    words = ("flags", str(job), "--lrms", "slurm", *SITE, *queue, "--json")
    assert classad(*words).status == 1
    known = json.loads(classad(*words, "--mapping", str(site)).out)
    assert known["residual"] == "other.Scratch >= 50"
    assert "--tmp=50G" in known["argv"]
    named = json.loads(classad(*words, "--host-attribute", "SCRATCH").out)
    assert [each["reason"] for each in named["dropped"]] == ["no flag for Scratch"]
    reduced = classad("reduce", str(job), *SITE, *queue, "--host-attribute", "Scratch")
    assert "other.Scratch >= 50" in reduced.out


# --- what BLAH's variables say --------------------------------------------------------------------

BLAH_SITE = """
ignore = ["Flavour"]
[requests]
wall = { flag = "--time={value:hms}" }
Walltime = { kind = "time", flag = "--time-min={value:hms}" }
TestJob = { kind = "present" }
Group = { kind = "text", pattern = "[a-z]+", flag = "--account={value}" }
[flags]
qos = [{ with = "TestJob", flag = "--qos=test" }, "--qos=normal"]
queue = []
partition = ["--partition={queue}", "--partition=batch"]
[lines]
gpu = { with = "TestJob", line = "module load test" }
"""


@pytest.mark.parametrize(
    ("variables", "status", "out", "err"),
    [
        ('declare -- CondorCE="1"\ndeclare -- Walltime="3600"\n', 0,
         "#SBATCH --time-min=01:00:00\n#SBATCH --qos=normal\n#SBATCH --partition=batch\n", ""),
        ('declare -- CondorCE="1"\ndeclare -- Flavour="\\"x\\""\ndeclare -- bls_opt_queue="long"\n',
         0, "#SBATCH --qos=normal\n#SBATCH --partition=long\n", ""),
        ('declare -- walltime="\\"00:30:00\\""\n', 0,
         "#SBATCH --time-min=00:30:00\n#SBATCH --qos=normal\n#SBATCH --partition=batch\n",
         "classad: walltime is Walltime of the mapping\n"),
        ('declare -- TestJob="1"\ndeclare -- Group="\\"atlas\\""\n', 0,
         ("#SBATCH --account=atlas\n#SBATCH --qos=test\n#SBATCH --partition=batch\n"
          "module load test\n"), ""),
        ('declare -- Group="\\"a;id\\""\n', 1, "#SBATCH --refused-by-classad\n",
         ("classad: slurm has no exact flags: Group: 'a;id' is not allowed for Group: the pattern "
          "[a-z]+ and at most 64 letters, digits and ._@/-, the first a letter or digit\n")),
        ('declare -- Walltime_Min="60"\n', 1, "#SBATCH --refused-by-classad\n",
         "classad: not carried: Walltime_Min: no flag for it, or no value that can be read\n"),
        ('declare -- Other="5"\n', 1, "#SBATCH --refused-by-classad\n",
         "classad: not carried: Other: no flag for it, or no value that can be read\n"),
        ('declare -- Walltime="60"\ndeclare -- WALLTIME="90"\n', 1,
         "#SBATCH --refused-by-classad\n",
         ("classad: not carried: WALLTIME: no flag for it, or no value that can be read\n"
          "classad: WALLTIME is Walltime of the mapping\n")),
    ],
)  # fmt: skip
def test_variables_of_blah_that_are_requests(  # noqa: PLR0917
    classad: Run, tmp_path: Path, variables: str, status: int, out: str, err: str
) -> None:
    site = tmp_path / "site.toml"
    site.write_text(BLAH_SITE)
    done = classad(
        "blah-local-submit-attributes", "--lrms", "slurm", "--mapping", str(site), "--strict",
        stdin=variables,
    )  # fmt: skip
    assert (done.status, done.out, done.err) == (status, out, err)


@pytest.mark.parametrize("command", ["flags", "broker"])
def test_flags_that_name_no_queue_say_so(classad: Run, tmp_path: Path, command: str) -> None:
    """The verdict holds for the chosen queue; without its name a job goes to the default one."""
    path = tmp_path / "queue.ad"
    job = "[ Requirements = other.Up && other.GlueHostMainMemoryRAMSize >= 1000 ]"
    for ident, named in (("x", None), ("ce:9619/condorce-slurm-gpu", "--partition=gpu")):
        path.write_text(f'[ CEid = "{ident}"; Up = true; GlueHostMainMemoryRAMSize = 2000 ]')
        done = classad(command, "-", "--ce", path, "--lrms", "slurm", stdin=job)
        assert done.status == 0
        assert ("no flag names the queue: x does not say" in done.err) == (named is None)
        assert named is None or named in done.out
    # HTCondor has no queues to name.
    path.write_text('[ CEid = "x"; Up = true; GlueHostMainMemoryRAMSize = 2000 ]')
    assert classad(command, "-", "--ce", path, "--lrms", "htcondor", stdin=job).err == ""


@pytest.mark.parametrize("more", [("job.ad",), ("--submit", "job.sh")])
def test_a_check_of_the_mapping_takes_no_job(classad: Run, more: tuple[str, ...]) -> None:
    done = classad("flags", *more, "--lrms", "slurm", "--check-mapping")
    assert (done.status, done.out) == (2, "")
    assert "--check-mapping is about the mapping, and takes neither JOB nor --submit" in done.err


def test_one_excluded_node_is_one(classad: Run, tmp_path: Path) -> None:
    job, nodes = tmp_path / "job.ad", tmp_path / "nodes.ad"
    job.write_text("[ Requirements = other.GlueHostMainMemoryRAMSize <= 3000 ]")
    nodes.write_text(
        '[ Name = "n1"; Queues = { "q" }; LRMSType = "slurm"; GlueHostMainMemoryRAMSize = 9 ]'
        '[ Name = "n2"; Queues = { "q" }; LRMSType = "slurm"; GlueHostMainMemoryRAMSize = 9000 ]'
    )
    done = classad("flags", str(job), "--lrms", "slurm", "--nodes", str(nodes))
    assert "1 node by name, from the inventory" in done.out
