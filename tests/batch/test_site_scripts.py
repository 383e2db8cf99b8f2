"""Submit scripts of ARC, DIRAC, TARDIS, Pegasus, BOSCO and HTCondor-CE, as mappings.

Each mapping says what such a script does: which of the job's values it reads, how it computes and
cleans them, and which options it writes. None is a copy of one. ``tests/services`` submits with
them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import attrs
import pytest

from matchmaker.batch import Fit, Submission
from matchmaker.batch.flags.requests import Submitter
from tests.batch.test_forms import planned

SUBMITTER: Final = Submitter("ada", ("cms", "dteam"))


@attrs.frozen
class SiteScript:
    """A script as a mapping, with jobs and the arguments that they give."""

    name: str
    lrms: str
    mapping: str
    cases: tuple[tuple[str, tuple[str, ...]], ...]

    def planned(self, folder: Path, job: str, queue: str = "long") -> Submission:
        """The flags for a job that ``SUBMITTER`` submits to a queue."""
        return planned(folder, self.mapping, job, self.lrms, queue=queue, submitter=SUBMITTER)


ARC = SiteScript("ARC", "slurm", """
[requests]
nice = { value = "100 - MY.Priority", flag = "--nice={value}" }
cpus = { value = "MY.Count", flag = "--ntasks={value}" }
memory = { value = "MY.Memory * (MY.Count ?: 1)", flag = "--mem-per-cpu={value}M", per_cpu = true }
PerNode = { flag = "--ntasks-per-node={value}" }
Exclusive = { kind = "present", flag = "--exclusive" }

[requests.wall]
value = "MY.WallTime ?: (real(MY.CPUTime) / (MY.Count ?: 1))"
flag = "--time={value}"
unit = 60

[requests.name]
kind = "text"
value = '''
  substr(replaceAll("[^A-Za-z0-9]",
    strcat(regexp("^[A-Za-z]", MY.JobName) ? "" : "N", MY.JobName), "_"), 0, 15)
'''
pattern = "[A-Za-z0-9_]+"
flag = "--job-name={value}"

[flags]
nodes = "--nodes=1"
""", (
    ('Priority = 30; Count = 2; Memory = 500; CPUTime = 7300; JobName = "7 seas: a name"',
     ("--mem-per-cpu=500M", "--ntasks=2", "--time=61", "--nice=70", "--job-name=N7_seas__a_name",
      "--partition=long", "--nodes=1")),
    ('WallTime = 60; CPUTime = 7300; Count = 2; PerNode = 1; Exclusive = true; JobName = "run"',
     ("--ntasks=2", "--time=1", "--ntasks-per-node=1", "--exclusive", "--job-name=run",
      "--partition=long", "--nodes=1")),
))  # fmt: skip

DIRAC = SiteScript("DIRAC", "slurm", """
[requests]
Account = { kind = "text", pattern = "[a-z]+", flag = "--account={value}" }
NumberOfNodes = { kind = "text", pattern = "[0-9]+(-[0-9]+)?" }
cpus = { value = "MY.NumberOfProcessors ?: 1", flag = "--cpus-per-task={value}" }
gpus = { value = "MY.NumberOfGPUs", flag = "--gpus-per-task={value}" }

[flags]
nodes = ["--nodes={NumberOfNodes}", "--nodes=1"]
tasks = "--ntasks-per-node=1"
export = "--export=PATH"
""", (
    ('NumberOfProcessors = 2; NumberOfNodes = "1-2"; Account = "lhcb"',
     ("--cpus-per-task=2", "--account=lhcb", "--partition=long", "--nodes=1-2",
      "--ntasks-per-node=1", "--export=PATH")),
    ("NumberOfGPUs = 1",
     ("--cpus-per-task=1", "--gpus-per-task=1", "--partition=long", "--nodes=1",
      "--ntasks-per-node=1", "--export=PATH")),
))  # fmt: skip

TARDIS = SiteScript("TARDIS", "slurm", """
[requests]
cpus = { value = "MY.Cores" }
memory = { value = "MY.Memory * 1000" }          # gigabytes, as a real
wall = { value = "MY.Walltime * 60" }
Drone = { kind = "text", value = "toLower(MY.DroneUuid)", pattern = "[a-z0-9-]+" }

[flags]
tasks = "--ntasks={cpus}"
memory = "--mem={memory}M"
time = "--time={wall:hms}"
nodes = "--nodes=1"
export = "--export=TardisDroneCores={cpus},TardisDroneMemory={memory},TardisDroneUuid={Drone}"

[attributes]
GlueHostMainMemoryRAMSize = { kind = "min", flag = "{memory}" }
""", (
    ('Cores = 2; Memory = 1.5; Walltime = 90; DroneUuid = "Site-AbC123"',
     ("--partition=long", "--ntasks=2", "--mem=1500M", "--time=01:30:00", "--nodes=1",
      "--export=TardisDroneCores=2,TardisDroneMemory=1500,TardisDroneUuid=site-abc123")),
))  # fmt: skip

PEGASUS = SiteScript("Pegasus", "slurm", """
[requests]
nodes = { value = "MY.NODES ?: ceiling(real(MY.CORES) / MY.PROCS)", flag = "--nodes={value}" }
CORES = { flag = "--ntasks={value}" }
PROCS = { flag = "--ntasks-per-node={value}" }
WALLTIME = { kind = "time", flag = "{wall}" }
wall = { flag = "{wall}" }
memory = { value = "MY.TOTAL_MEMORY", flag = "--mem={value}M" }
QUEUE = { kind = "text", values = ["batch", "long"] }
PROJECT = { kind = "text", pattern = "[a-z]+[0-9]*", flag = "--account={value}" }
PASSENV = { kind = "present", value = "MY.PASSENV == 1", flag = "--export=ALL" }

[requests.name]
kind = "text"
value = 'replaceAll("[^A-Za-z0-9_.-]", MY.JOBNAME, "-")'
pattern = ".*"
flag = "--job-name={value}"

[flags]
queue = ["--partition={QUEUE}", "--partition={queue}"]
time = "--time={wall:hms}"
""", (
    (('CORES = 3; PROCS = 2; WALLTIME = "01:30:00"; QUEUE = "long"; PROJECT = "hep7"; PASSENV = 1;'
      ' TOTAL_MEMORY = 1000; JOBNAME = "stage in (1)"'),
     ("--mem=1000M", "--nodes=2", "--ntasks=3", "--ntasks-per-node=2", "--account=hep7",
      "--export=ALL", "--job-name=stage-in--1-", "--partition=long", "--time=01:30:00")),
    ("NODES = 1", ("--nodes=1", "--partition=long")),
))  # fmt: skip

BOSCO = SiteScript("BOSCO", "torque", """
[requests]
nodes = { value = "MY.NODES ?: ceiling(real(MY.CORES) / MY.PROCS)" }
PROCS = {}
PASSENV = { kind = "present", flag = "-V" }

# A limit as hours and minutes, "1:30", or in seconds.
[requests.wall]
value = '''
  isString(MY.WALLTIME)
    ? 60 * (60 * int(split(MY.WALLTIME, ":")[0]) + int(split(MY.WALLTIME, ":")[1]))
    : MY.WALLTIME
'''
flag = ["-l", "walltime={value}"]

# PBS takes names of fifteen characters.
[requests.name]
kind = "text"
value = 'substr(replaceAll("[^A-Za-z0-9]", MY.JOBNAME, "_"), 0, 15)'
pattern = "[A-Za-z].*"
flag = ["-N", "{value}"]

[flags]
features = [
  ["-l", "nodes={nodes}:ppn={PROCS}:{features}"], ["-l", "nodes={nodes}:ppn={PROCS}"],
  ["-l", "nodes={nodes}"], ["-l", "nodes=1:{features}"],
]
""", (
    ('CORES = 9; PROCS = 4; WALLTIME = "1:30"; JOBNAME = "a long name indeed"; PASSENV = 1',
     ("-l", "walltime=5400", "-V", "-N", "a_long_name_ind", "-l", "nodes=3:ppn=4", "-q", "long")),
    ("NODES = 2; WALLTIME = 90", ("-l", "walltime=90", "-l", "nodes=2", "-q", "long")),
))  # fmt: skip

CE_ROUTE = SiteScript("HTCondor-CE", "htcondor", """
[requests]
cpus = { value = "MY.xcount ?: MY.RequestCpus ?: 1", term = ["request_cpus", "=", "{value}"] }
user = { kind = "text", from = "user" }
group = { kind = "text", from = "group", values = { cms = "analysis", atlas = "prod" } }

# At least 2000 MB for each core.
[requests.memory]
value = "quantize(max({MY.maxMemory ?: 0, 2000 * (MY.xcount ?: 1)}), 128)"
term = ["request_memory", "=", "{value}"]

[requests.subgroup]
kind = "text"
value = '(MY.xcount ?: 1) > 1 ? "mcore" : "score"'
values = ["mcore", "score"]

[requests.JobPrio]
kind = "number"
value = "2 * MY.Priority"
term = ["priority", "=", "{value}"]

[flags]
accounting = [
  ["+AccountingGroup", "=", '"group_{group}.{subgroup}.{user}"'],
  ["+AccountingGroup", "=", '"group_others.{user}"'],
]
""", (
    ("xcount = 8; maxMemory = 1000; Priority = 5",
     ("request_memory = 16000", "request_cpus = 8", "priority = 10",
      '+AccountingGroup = "group_analysis.mcore.ada"')),
    ("maxMemory = 2500",
     ("request_memory = 2560", "request_cpus = 1",
      '+AccountingGroup = "group_analysis.score.ada"')),
))  # fmt: skip

CE_SLURM = SiteScript("HTCondor-CE to Slurm", "slurm", """
[requests]
cpus = { value = "MY.xcount", flag = "--cpus-per-task={value}" }

# The partition by the wall time, in minutes.
[requests.partition]
kind = "bucket"
value = "MY.maxWallTime"
buckets = { batch = [0, 120], long = [121, inf] }

# The organisation of a name such as /cms/Role=pilot.
[requests.account]
kind = "text"
value = 'regexps("^/([a-z]+)(/.*)?$", MY.x509UserProxyFirstFQAN, "\\\\1")'
values = { cms = "hep_cms", atlas = "hep_atlas" }
flag = "--account={value}"

[requests.wall]
value = "60 * (MY.maxWallTime ?: 1440)"
flag = "--time={value}"
unit = 60

[flags]
queue = ["--partition={partition}", "--partition={queue}"]
""", (
    ('xcount = 2; maxWallTime = 200; x509UserProxyFirstFQAN = "/cms/Role=pilot/Capability=NULL"',
     ("--cpus-per-task=2", "--time=200", "--account=hep_cms", "--partition=long")),
    ('x509UserProxyFirstFQAN = "/atlas"',
     ("--time=1440", "--account=hep_atlas", "--partition=long")),
))  # fmt: skip

SCRIPTS: Final = (ARC, DIRAC, TARDIS, PEGASUS, BOSCO, CE_ROUTE, CE_SLURM)


def given(made: Submission) -> tuple[str, ...]:
    """The arguments; for HTCondor the lines of the submit file."""
    return made.directives if made.lrms == "htcondor" else made.argv


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.name)
def test_a_script_is_written_whole_as_a_mapping(tmp_path: Path, script: SiteScript) -> None:
    for job, argv in script.cases:
        made = script.planned(tmp_path, job)
        assert (given(made), made.verdict, made.dropped) == (argv, Fit.EXACT, ())
