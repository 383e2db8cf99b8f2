"""Orders as their owners write them: JDL, lines of scripts, variables, options."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from matchmaker import parse_ad
from matchmaker.delegation.commands import Commands
from matchmaker.delegation.control import OwnOptions, invocation_of, load_control, own_options
from matchmaker.delegation.delegate import Delegator
from matchmaker.delegation.record import Invocation, RefusedError
from tests.delegation.world import MemoryLedger

SLURM = load_control("slurm")
HERE = Path("/home/ana")


def slurm(
    script: str = "", environment: dict[str, str] | None = None, given: str = "", found: str = ""
) -> OwnOptions:
    text = f"#!/bin/sh\n{script}\necho hello\n".encode()
    return own_options(SLURM, text, environment or {}, given.split(), found.split())


# --- options --------------------------------------------------------------------------------------


def test_lines_variables_and_options_count_in_the_batch_systems_order() -> None:
    made = slurm(
        "#SBATCH --time=1 -A line --mail-user='a b'\n#SBATCH -n2",
        {"SBATCH_TIMELIMIT": "2", "SBATCH_ACCOUNT": "variable", "HOME": "/"},
        "--time=3",
    )
    assert made.words == ("--mail-user=a b", "-n", "2", "--time=3")
    assert made.passing == ("--account=variable",)
    assert made.left_out == (
        "line 2: -A line: SBATCH_ACCOUNT has --account=variable",
        "line 2: --time=1: SBATCH_TIMELIMIT has --time=2",
        "SBATCH_TIMELIMIT: --time=2: the command line has --time=3",
    )


def test_only_lines_before_the_first_command_count() -> None:
    """As for sbatch itself; and another word is no line of options."""
    made = slurm("# a comment\n#SBATCHES --mem=1\n\n#SBATCH -n 2 # two\ntrue\n#SBATCH -n 3")
    assert made.words == ("-n", "2")
    sge = own_options(load_control("sge"), b"#!/bin/sh\ntrue\n#$ -l h_rt=5,arch=x -V\n", {}, [])
    assert sge.words == ("-l", "h_rt=5", "-l", "arch=x", "-V")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("--job-name=sim", "the batch system knows the job by its key"),
        ("-Jsim", "the batch system knows the job by its key"),
        ("--requeue", "never again by the batch system"),
        ("--parsable", "for classad alone"),
    ],
)
def test_what_has_no_effect_is_said(line: str, said: str) -> None:
    made = slurm(f"#SBATCH {line}")
    assert made.words == ()
    (left,) = made.left_out
    assert left.startswith("line 2: ")
    assert said in left


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("--array=1-9", "line 2: --array=1-9: a key is one job"),
        ("-a 1-9", "line 2: -a 1-9: a key is one job"),
        ("--begin=now+1hour", "hand it over later"),
        ("-H", "hand it over later"),
        ("--wrap=true", "the job's script is what is submitted"),
        ("-M other", "by its own ledger and --cluster"),
        ("--no-such-option=5", "line 2: '--no-such-option=5' is none of the options"),
        ("-t", "line 2: the option -t lacks its value"),
        ("--mail-user='a", "line 2: No closing quotation"),
    ],
)
def test_what_a_job_with_a_key_cannot_have_is_refused_by_name(line: str, said: str) -> None:
    with pytest.raises(RefusedError) as raised:
        slurm(f"#SBATCH {line}")
    assert said in str(raised.value)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("SBATCH_ARRAY_INX", "1-9", "SBATCH_ARRAY_INX: --array=1-9: a key is one job"),
        ("SLURM_CLUSTERS", "b", "by its own ledger"),
        ("SBATCH_NEW_THING", "x", "SBATCH_NEW_THING=x: no option of slurm is known"),
    ],
)
def test_a_variable_is_never_dropped_without_a_word(name: str, value: str, said: str) -> None:
    with pytest.raises(RefusedError) as raised:
        slurm(environment={name: value})
    assert said in str(raised.value)
    assert slurm(environment={"SBATCH_JOB_NAME": "x"}).left_out
    assert slurm(environment={"SBATCH_EXCLUSIVE": ""}).passing == ("--exclusive",)


def test_what_the_requirements_need_counts_before_lines() -> None:
    made = slurm(
        "#SBATCH --mem-per-cpu=5M\n#SBATCH -p short -c 4", found="--mem=9M --partition=long -c 4"
    )
    assert made.words == ()
    assert made.left_out == (
        "line 2: --mem-per-cpu=5M: the job's requirements ask for --mem=9M",
        "line 3: -p short: the job's requirements ask for --partition=long",
    )
    with pytest.raises(RefusedError, match=r"--mem=5M: the job's requirements ask for --mem=9M"):
        slurm(given="--mem=5M", found="--mem=9M")


@pytest.mark.parametrize("lrms", ["slurm", "sge", "pbspro", "torque", "lsf", "htcondor"])
def test_each_option_of_a_table_has_one_fate(lrms: str) -> None:
    control = load_control(lrms)
    orders, options = control.orders, control.options
    every = {*options.none, *options.one, *options.two}
    long = {orders.letters.get(name, name) for name in every}
    assert not orders.refused.keys() & long, "refused, and honoured"
    assert not orders.left.keys() & orders.refused.keys()
    assert set(orders.variables.values()) <= {*long, *orders.left, *orders.refused, "--batch"}
    for reason in (*orders.left.values(), *orders.refused.values()):
        assert reason


@pytest.mark.parametrize("lrms", ["pbspro", "torque"])
def test_no_order_poses_as_another(lrms: str) -> None:
    script = b"#!/bin/sh\n#PBS -v A=1,CLASSAD_JOB=mm-other-1\n"
    with pytest.raises(RefusedError, match=r"line 2: .*by this variable the job's key is known"):
        own_options(load_control(lrms), script, {}, [])


# --- the job's ad ---------------------------------------------------------------------------------


def test_a_description_says_how_its_program_is_called(tmp_path: Path) -> None:
    (tmp_path / "run.sh").write_text("#!/bin/sh\n")
    job = parse_ad("""[
        Executable = "run.sh"; Arguments = "-n 5 'a b'"; StdInput = "in"; StdOutput = "out";
        StdError = "err"; Environment = { "A=1", "B=x=y z" };
        InputSandbox = { "run.sh", "data.txt" }; OutputSandbox = { "out" }; RetryCount = 3
    ]""")
    found = invocation_of(job, tmp_path, "/work")
    assert found.script == str(tmp_path / "run.sh")
    call = found.invocation
    assert call.arguments == ("-n", "5", "a b")
    assert (call.stdin, call.stdout, call.stderr, call.directory) == ("in", "out", "err", "/work")
    assert [line.partition(":")[0] for line in found.left_out] == [
        "RetryCount", "InputSandbox", "OutputSandbox",
    ]  # fmt: skip
    other = invocation_of(job, tmp_path, "/work", script="my.sh", arguments=["x"])
    assert other.script == "my.sh"
    assert other.invocation.arguments == ("x",)
    assert "the script my.sh takes its place" in other.left_out[1]


@pytest.mark.parametrize(
    ("text", "exports"),
    [
        ("Environment = \"A=1 B='2 3'\"", (("A", "1"), ("B", "2 3"))),
        ('Environment = [ A = "1"; C = "" ]', (("A", "1"), ("C", ""))),
        ('Env = { "A=" }', (("A", ""),)),
        ("", ()),
    ],
)
def test_variables(text: str, exports: tuple[tuple[str, str], ...]) -> None:
    job = parse_ad(f"[ {text} ]")
    assert invocation_of(job, HERE, "").invocation.exports == exports


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("Executable = 5", "Executable of the job must be a text"),
        ('Executable = { "a", "b" }', "Executable of the job must be one text"),
        ('Executable = "none.sh"', "there is no file /home/ana/none.sh"),
        ('Arguments = "a \'b"', "Arguments of the job: No closing quotation"),
        ("Arguments = { 1 }", "Arguments of the job must be a text or a list of texts"),
        ('Environment = "A"', "NAME=value was expected, not 'A'"),
        ('Environment = { "A;id=1" }', "NAME=value was expected"),
        ('StdOutput = "a\\nb"', "a line break or null byte"),
        ('JobType = "Parametric"', "a key is one job of one program"),
        ('Prologue = "setup.sh"', "do it within the script"),
    ],
)
def test_what_cannot_be_read_is_said(text: str, error: str) -> None:
    with pytest.raises(ValueError, match=r".") as raised:
        invocation_of(parse_ad(f"[ {text} ]"), HERE, "")
    assert error in str(raised.value)


def test_lines_and_variables_count_for_whoever_hands_over(tmp_path: Path) -> None:
    """Not for the command alone; from another environment the order is the same."""
    sbatch = tmp_path / "sbatch"
    sbatch.write_text("#!/bin/sh\necho 17\n")
    sbatch.chmod(0o755)
    ledger = MemoryLedger()
    made = Delegator(
        cast("Any", ledger), Commands(SLURM, environment={"PATH": f"{tmp_path}:/usr/bin:/bin"}),
        tmp_path / "spool",
    )  # fmt: skip
    script = b"#!/bin/sh\n#SBATCH --time=5 --qos=long\n"
    job, variables = parse_ad("[]"), {"SBATCH_TIMELIMIT": "9"}
    first = made.submit(job, script, ["-n2"], key="k", environment=variables)
    assert ledger.payloads["k"].words == ("--time=9", "--qos=long", "-n", "2")
    assert made.submit(job, script, ["-n2"], key="k", environment={}) == first
    with pytest.raises(RefusedError, match="a key is one job"):
        made.submit(job, b"#!/bin/sh\n#SBATCH -a 1-2\n", key="other")
    with pytest.raises(ValueError, match="'a b' is no name of a variable"):
        made.submit(job, script, key="other", invocation=Invocation(exports=(("a b", "1"),)))
    assert ledger.find("other") is None


def test_a_value_that_may_be_missing_is_in_the_same_word() -> None:
    """``--propagate FILE`` makes sbatch submit FILE in place of the job's script."""
    with pytest.raises(RefusedError, match="'/tmp/x' is none of the options"):
        slurm(given="--propagate /tmp/x")
    assert slurm(given="--propagate=STACK").words == ("--propagate=STACK",)


@pytest.mark.parametrize(("lrms", "variable"), [("slurm", "SLURM_UMASK"), ("lsf", "LSB_SUB_HOST")])
def test_jobs_are_handed_over_from_within_a_job(lrms: str, variable: str) -> None:
    """The variables that a batch system sets in its jobs are no options."""
    made = own_options(load_control(lrms), b"#!/bin/sh\n", {variable: "0022"}, [])
    assert made.words == made.passing == made.left_out == ()
