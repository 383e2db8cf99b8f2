"""What each reader was tested with: an output for each version that it declares.

They are made by hand, in the shapes of manuals and of the systems' own sources.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from tests.batch.description import outputs
from tests.batch.description import slurm_shapes as slurm

PBS_TEXT_NODES = """\
wn1
     Mom = wn1.cnaf.grid
     Port = 15002
     pbs_version = 22.05.11
     ntype = PBS
     state = free
     pcpus = 8
     resources_available.arch = linux
     resources_available.bigmem = True
     resources_available.mem = 16384000kb
     resources_available.ncpus = 8
     resources_assigned.mem = 4096000kb
     resources_assigned.ncpus = 3
     jobs = 17.pbs/0, 17.pbs/1,
\t18.pbs/0
     resv_enable = True
     sharing = default_shared

wn2
     Mom = wn2.cnaf.grid
     state = state-unknown,down
     queue = special
     resources_available.ncpus = 4
"""
TORQUE_TEXT_NODES = """\
wn1
     state = free
     power_state = Running
     np = 8
     properties = el8,bigmem
     ntype = cluster
     jobs = 0/17.srv, 1-2/18.srv
     status = rectime=1763740000,opsys=linux,uname=Linux wn1 5.14.0 #1 SMP x86_64,ncpus=8,\
physmem=16384000kb,availmem=12288000kb,totmem=20480000kb,loadave=1.25,state=free,varattr=
     mom_service_port = 15002
     gpus = 1

wn2
     state = down,offline
     np = 4
     properties = el9
"""
LSF_GROUPS = """\
GROUP_NAME       HOSTS
big              wn1 wn2
fast             big/ ~wn2
everything       all
"""
LSF_GROUPS_WITH_ADMINS = """\
GROUP_NAME       GROUP_ADMIN    HOSTS
big              (ada ben)      wn1 wn2
"""

GRIDENGINE_QHOST = """\
<?xml version='1.0'?>
<qhost xmlns:xsd="http://arc.liv.ac.uk/repos/darcs/sge/source/dist/util/resources/schemas/qhost/qhost.xsd">
 <host name='global'>
   <hostvalue name='arch_string'>-</hostvalue>
   <hostvalue name='num_proc'>-</hostvalue>
 </host>
 <host name='wn1'>
   <hostvalue name='arch_string'>lx-amd64</hostvalue>
   <hostvalue name='num_proc'>8</hostvalue>
   <hostvalue name='m_socket'>2</hostvalue>
   <hostvalue name='load_avg'>0.50</hostvalue>
   <hostvalue name='mem_total'>15.6G</hostvalue>
   <hostvalue name='mem_used'>1.1G</hostvalue>
   <hostvalue name='swap_total'>4.0G</hostvalue>
 </host>
 <host name='wn2'>
   <hostvalue name='arch_string'>-</hostvalue>
   <hostvalue name='num_proc'>-</hostvalue>
   <hostvalue name='mem_total'>-</hostvalue>
 </host>
</qhost>
"""
GRIDENGINE_QSTAT = """\
<?xml version='1.0'?>
<job_info  xmlns:xsd="http://arc.liv.ac.uk/repos/darcs/sge/source/dist/util/resources/schemas/qstat/qstat.xsd">
  <queue_info>
    <Queue-List>
      <name>all.q@wn1</name>
      <qtype>BI</qtype>
      <slots_used>2</slots_used>
      <slots_resv>1</slots_resv>
      <slots_total>8</slots_total>
      <load_avg>0.50000</load_avg>
      <arch>lx-amd64</arch>
    </Queue-List>
    <Queue-List>
      <name>all.q@wn2</name>
      <qtype>BI</qtype>
      <slots_used>0</slots_used>
      <slots_resv>0</slots_resv>
      <slots_total>4</slots_total>
      <state>au</state>
    </Queue-List>
  </queue_info>
  <job_info>
  </job_info>
</job_info>
"""
GRIDENGINE_QSTAT_RESOURCES = GRIDENGINE_QSTAT.replace(
    "<arch>lx-amd64</arch>",
    """<arch>lx-amd64</arch>
      <resource name="num_proc" type="hl">8</resource>
      <resource name="mem_total" type="hl">15.600G</resource>
      <resource name="h_rt" type="qf">01:30:00</resource>
      <resource name="s_rt" type="qf">infinity</resource>
      <resource name="bigmem" type="qf">1.000000</resource>""",
)

CONDOR_LONG_SLOTS = """\
Name = "slot1@wn1.cnaf.grid"
Machine = "wn1.cnaf.grid"
MyType = "Machine"
State = "Unclaimed"
Cpus = 3
Memory = 4000
Disk = 10485760
Arch = "X86_64"
OpSys = "LINUX"
OpSysName = "AlmaLinux"
OpSysVer = 904
DetectedCpus = 16
DetectedMemory = 64000
Requirements = (START)
START = TARGET.RequestCpus <= Cpus

Name = "slot1@wn2.cnaf.grid"
State = "Owner"
Cpus = 4
Memory = 8000
"""
CONDOR_LONG_SCHEDDS = """\
Name = "schedd.cnaf.grid"
MyType = "Scheduler"
TotalRunningJobs = 20
TotalIdleJobs = 7
MaxJobsRunning = 5000
"""
CONDOR_ROUTES = """\


Route 1
Name         : "Big_Slurm"
Source       : Big_Slurm
Universe     : 9
MaxJobs      : 5
MaxIdleJobs  : 50
GridResource : batch slurm
Requirements : RequestCpus >= 8
Route        : uses Pre/Post-Route Transforms
\tNAME Big_Slurm
\tUNIVERSE GRID
\tREQUIREMENTS RequestCpus >= 8
\tGridResource = "batch slurm"
\tSET default_queue "big"
\tMaxJobs = 5

Route 2
Name         : "Local_Condor"
Source       : entries:0
Universe     : 5
MaxJobs      : 100
MaxIdleJobs  : 20
GridResource :\x20
Requirements : Owner == "cms"
Route        :\x20
\tNAME Local_Condor
\tUNIVERSE VANILLA

"""
CONDOR_OLD_ROUTES = """\
Route 1
Name         : "Local_PBS"
Universe     : 9
MaxJobs      : 10000
MaxIdleJobs  : 2000
GridResource : batch pbs
Requirements : target.queue == "long"
ClassAd      : [ name = "Local_PBS"; GridResource = "batch pbs"; set_default_queue = "long"; ]
"""


def _of(text: str, *versions: str) -> dict[str, str]:
    return dict.fromkeys(versions, text)


def _made(make: Callable[[str], str], *versions: str) -> dict[str, str]:
    return {version: make(version) for version in versions}


_JSON = tuple(f"0.0.{minor}" for minor in range(37, 46))

SHAPES: dict[str, dict[str, dict[str, str]]] = {
    "slurm": {
        "scontrol show node": _made(slurm.node_lines, "14.03", "22.05", "25.11"),
        "scontrol show partition": _made(slurm.partition_lines, "14.03", "22.05", "25.11"),
        "nodes in JSON": _made(slurm.nodes_json, *_JSON),
        "partitions in JSON": _made(slurm.partitions_json, *_JSON),
        "jobs in JSON": _made(slurm.jobs_json, *_JSON),
        "sinfo --json": _made(slurm.sinfo_json, *_JSON[2:]),
        "sinfo --Node --json": _made(partial(slurm.sinfo_json, by_node=True), *_JSON[2:]),
        "nodes in JSON, as a list": _made(
            lambda version: slurm.listed(slurm.nodes_json(version), "nodes"), *_JSON
        ),
        "partitions in JSON, as a list": _made(
            lambda version: slurm.listed(slurm.partitions_json(version), "partitions"), *_JSON
        ),
        "squeue --format='Job=%i Partition=%P State=%T'": _made(slurm.job_lines, "22.05"),
    },
    "pbspro": {
        "pbsnodes -a -F json": _of(outputs.PBS_NODES, "22.05"),
        "pbsnodes -a": _of(PBS_TEXT_NODES, "22.05"),
        "qstat -Q -f -F json": _of(outputs.PBS_QUEUES, "22.05"),
        "qstat -Q -f": _of(outputs.TORQUE_QUEUES, "22.05"),
    },
    "torque": {
        "pbsnodes -x": {
            # Before version 5 each processor in use has an entry.
            **_of(outputs.TORQUE_NODES.replace("1-2/18.srv", "1/18.srv, 2/18.srv"), "2.5", "4.2"),
            **_of(outputs.TORQUE_NODES, "6.1"),
        },
        "pbsnodes -a": {
            **_of(TORQUE_TEXT_NODES.replace("1-2/18.srv", "1/18.srv, 2/18.srv"), "2.5"),
            **_of(TORQUE_TEXT_NODES, "6.1"),
        },
        "qstat -Q -f": _of(outputs.TORQUE_QUEUES, "2.5", "6.1"),
    },
    "lsf": {
        "lshosts -o … -json": _of(outputs.LSF_HOSTS, "10.1"),
        "bhosts -o … -json": _of(outputs.LSF_BATCH_HOSTS, "10.1"),
        "bqueues -o … -json": _of(outputs.LSF_QUEUES, "10.1"),
        "bmgroup -w": _of(LSF_GROUPS, "10.1"),
    },
    "htcondor": {
        "condor_status -json": _of(outputs.CONDOR_SLOTS, "23.9"),
        "condor_status -long": _of(CONDOR_LONG_SLOTS, "23.9"),
        "condor_status -schedd -json": _of(outputs.CONDOR_SCHEDDS, "23.9"),
        "condor_status -schedd -long": _of(CONDOR_LONG_SCHEDDS, "23.9"),
        "condor_ce_job_router_info -config": {"8.8": CONDOR_OLD_ROUTES, "23.9": CONDOR_ROUTES},
    },
    "sge": {
        "qhost -xml": _of(GRIDENGINE_QHOST, "8.1.9"),
        "qhost -F -q -xml": _of(outputs.GRIDENGINE_HOSTS, "8.1.9"),
        "qstat -f -xml": _of(GRIDENGINE_QSTAT, "8.1.9"),
        "qstat -F -xml": _of(GRIDENGINE_QSTAT_RESOURCES, "8.1.9"),
        "qstat -g c -xml": _of(outputs.GRIDENGINE_USE, "8.1.9"),
        "qconf -sc": _of(outputs.GRIDENGINE_COMPLEXES, "8.1.9"),
        "qconf -sq": _of(outputs.GRIDENGINE_QUEUES, "8.1.9"),
    },
}
SHAPES["htcondor-ce"] = {
    output: texts for output, texts in SHAPES["htcondor"].items() if "-schedd" in output
    or "router" in output
}  # fmt: skip
