"""The flags that each batch system is expected to get: one entry for a system, read by all tests.

A new system has its entry here; ``test_every_system`` names the part that is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import attrs

from matchmaker import ClassAd
from tests.property import languages


@attrs.frozen(kw_only=True)
class Expected:
    """Expectations of one system.

    Attributes:
        flags: requirements with the arguments that they become by the mapping of the examples.
        largest: for each request its largest amount in our units, and the words for it.
        gigabytes: the entry of a minimum of memory, counted in gigabytes.
        carried: the directive that carries a policy.
        answers: commands that show a job, and their answers about one that carries a policy.
        safe: a pattern of the words of its flags.
        selects: judges whether flags select a node with some features, by the system's manual.
    """

    flags: Mapping[str, str] = attrs.Factory(dict)
    largest: Mapping[str, tuple[int, str]] = attrs.Factory(dict)
    gigabytes: str = ""
    carried: str = ""
    answers: tuple[tuple[str, str], ...] = ()
    safe: str = ""
    selects: Callable[[list[str], ClassAd, set[str]], bool] | None = None


def flux(argv: list[str], node: ClassAd, features: set[str]) -> bool:
    assert argv[:1] == ["batch"]
    words = [word.partition("=")[::2] for word in argv[1:]]
    assert len(dict(words)) == len(words), "an option twice"
    text = dict(words).get("--requires")
    return text is None or languages.flux(text, str(node.eval("Name")), features)


SYSTEMS: Mapping[str, Expected] = {
    "slurm": Expected(
        largest={
            "memory": (10**12, "--mem=1000000000000M"),
            "cpus": (65_000, "--cpus-per-task=65000"),
            "disk": (4 * 10**9, "--tmp=4000000000M"),
            "gpus": (65_000, "--gres=gpu:65000"),
            "wall": (35_000_000 * 60, "--time=35000000"),
        },
        gigabytes='flag = "--mem={value}G"',
        carried="--comment={word}",
        answers=(("scontrol", "JobId=7 JobName=x Comment={word} StdErr=/dev/null"),),
        safe=r"--[a-z-]+=[A-Za-z0-9&|().,_:-]+",
    ),
    "pbspro": Expected(
        largest={
            "memory": (10**12, "-l select=1:mem=1000000000000mb"),
            "cpus": (65_000, "-l select=1:ncpus=65000"),
            "gpus": (65_000, "-l select=1:ngpus=65000"),
            "wall": (2 * 10**9, "-l walltime=2000000000"),
        },
        gigabytes='term = "mem={value}gb"',
        carried="-v CLASSAD_POLICY={word}",
        answers=(
            ("qstat", "Job Id: 7\n    Variable_List = A={start}\n\t{rest}"),
            ("qstat", "Job Id: 7\n    Variable_List = A={word}\n    comment = x"),
        ),
        safe=r"-l|(select|walltime)=[A-Za-z0-9:=_.-]+",
    ),
    "torque": Expected(
        largest={
            "memory": (10**12, "-l mem=1000000000000mb"),
            "cpus": (65_000, "-l nodes=1:ppn=65000"),
            "disk": (10**12, "-l file=1000000000000mb"),
            "gpus": (65_000, "-l nodes=1:gpus=65000"),
            "wall": (2 * 10**9, "-l walltime=2000000000"),
        },
        gigabytes='flag = ["-l", "mem={value}gb"]',
        carried="-v CLASSAD_POLICY={word}",
        answers=(("qstat", "Job Id: 7\n    Variable_List = A=b,\n\tC={word}\n    etime = Mon"),),
        safe=r"-l|[a-z]+=[A-Za-z0-9:=_.-]+",
    ),
    "lsf": Expected(
        largest={
            "memory": (10**12, "-R rusage[mem=1000000000000]"),
            "cpus": (65_000, "-R span[hosts=1] -n 65000"),
            "disk": (10**12, "-R rusage[tmp=1000000000000]"),
            "gpus": (65_000, "-gpu num=65000"),
            "wall": (35_000_000 * 60, "-W 35000000"),
        },
        gigabytes='term = "maxmem>={value}"',
        carried="-Jd {word}",
        answers=(("bjobs", "{word}"),),
        safe=r"-[RmnWJ]|-gpu|(select|rusage|span)\[[A-Za-z0-9_=<>&|!()]+\]|[A-Za-z0-9_. =]+",
    ),
    "sge": Expected(
        largest={
            "memory": (10**9, "-l h_vmem=1000000000M"),
            "wall": (2 * 10**9, "-l h_rt=2000000000"),
        },
        gigabytes='term = "mem_total={value}G"',
        carried="-ac classad_policy={word}",
        answers=(("qstat", "job_number: 7\ncontext:     classad_policy={word}"),),
        safe=r"-l|[a-z0-9_]+=[A-Za-z0-9()|!.*_=,-]+",
    ),
    "flux": Expected(
        flags={
            "!other.GlueHostNetworkAdapterOutboundIP": "batch --requires=-outbound",
            'other.GlueHostOperatingSystemRelease == "5.2"': "batch --requires=el5",
        },
        largest={
            "cpus": (65_000, "batch --nslots=1 --cores-per-slot=65000"),
            "gpus": (65_000, "batch --nslots=1 --gpus-per-slot=65000"),
            "wall": (2 * 10**9, "batch --time-limit=2000000000s"),
        },
        carried="--setattr=user.classad_policy={word}",
        answers=(("flux", '{"attributes": {"user": {"classad_policy": "{word}"}}}'),),
        safe=r"batch|--[a-z-]+=[A-Za-z0-9&|().,_:-]+",
        selects=flux,
    ),
    "htcondor": Expected(
        largest={
            "memory": (10**12, "-append request_memory = 1000000000000"),
            "cpus": (65_000, "-append request_cpus = 65000"),
            "disk": (976_562_500_000, "-append request_disk = 1000000000000000"),
            "gpus": (65_000, "-append request_gpus = 65000"),
        },
        carried='+ClassAdPolicy = "{word}"',
        answers=(("condor_q", "{word}"),),
    ),
    "blah": Expected(),
    "kubernetes": Expected(),
}
