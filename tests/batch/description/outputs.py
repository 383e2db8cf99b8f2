"""Outputs of batch systems that are not started here, made by hand in their documented shapes."""

import json

from matchmaker.classad.formats.json import marked

PBS_NODES = json.dumps(
    {
        "timestamp": 1763740000,
        "pbs_version": "22.05.11",
        "pbs_server": "pbs",
        "nodes": {
            "wn1": {
                "Mom": "wn1.cnaf.grid",
                "ntype": "PBS",
                "state": "free",
                "pcpus": 8,
                "resources_available": {
                    "arch": "linux", "bigmem": "True", "scratch": "False", "host": "wn1",
                    "mem": "16384000kb", "ncpus": 8, "ngpus": 2, "vnode": "wn1",
                },
                "resources_assigned": {"mem": "4096000kb", "ncpus": 3, "ngpus": 1},
                "jobs": ["17.pbs/0", "17.pbs/1", "18.pbs/0"],
                "resv_enable": "True",
            },
            "wn2": {
                "Mom": "wn2.cnaf.grid",
                "state": "offline,job-busy",
                "queue": "special",
                "pcpus": 4,
                "resources_available": {"arch": "linux", "mem": "8192000kb", "ncpus": 4},
                "resources_assigned": {},
            },
        },
    }
)  # fmt: skip
PBS_QUEUES = json.dumps(
    {
        "timestamp": 1763740000,
        "Queue": {
            "workq": {
                "queue_type": "Execution", "Priority": 50, "total_jobs": 12,
                "state_count": "Transit:0 Queued:9 Held:0 Waiting:0 Running:3 Exiting:0 Begun:0 ",
                "resources_max": {"walltime": "48:00:00", "cput": "24:30:00"},
                "max_run": "[o:PBS_ALL=100],[u:PBS_GENERIC=10]",
                "enabled": "True", "started": "True",
            },
            "special": {"queue_type": "Execution", "enabled": "True", "started": "False"},
            "routing": {
                "queue_type": "Route", "enabled": "True", "started": "True",
                "route_destinations": "workq,elsewhere@other",
                "state_count": "Transit:0 Queued:2 Held:0 Waiting:0 Running:0 Exiting:0 Begun:0 ",
            },
        },
    }
)  # fmt: skip

TORQUE_NODES = """<?xml version="1.0"?>
<Data><Node><name>wn1</name><state>free</state><power_state>Running</power_state><np>8</np>\
<properties>el8,bigmem</properties><ntype>cluster</ntype>\
<jobs>0/17.srv, 1-2/18.srv</jobs>\
<status>rectime=1763740000,opsys=linux,uname=Linux wn1 5.14.0 #1 SMP x86_64,ncpus=8,\
physmem=16384000kb,availmem=12288000kb,totmem=20480000kb,loadave=1.25,state=free,varattr=</status>\
<mom_service_port>15002</mom_service_port><gpus>1</gpus></Node>\
<Node><name>wn2</name><state>down,offline</state><np>4</np><properties>el9</properties></Node>\
</Data>"""
TORQUE_QUEUES = """Queue: batch
    queue_type = Execution
    total_jobs = 5
    state_count = Transit:0 Queued:2 Held:0 Waiting:0 Running:3 Exiting:0 Complete:0
    resources_max.walltime = 24:00:00
    acl_users = ada,ben,
\tcleo
    max_running = 40
    enabled = True
    started = True

Queue: big
    queue_type = Execution
    resources_default.neednodes = bigmem
    enabled = False
    started = True
"""

LSF_HOSTS = json.dumps(
    {
        "COMMAND": "lshosts",
        "HOSTS": 3,
        "RECORDS": [
            {"HOST_NAME": "wn1", "type": "X86_64", "model": "Intel_EM64T", "cpuf": "60.0",
             "ncpus": "16", "maxmem": "31.2G", "maxswp": "3.9G", "maxtmp": "100G",
             "server": "Yes", "RESOURCES": "(mg el8 !bigmem)"},
            {"HOST_NAME": "wn2", "type": "X86_64", "ncpus": "8", "maxmem": "15900M",
             "server": "Yes", "RESOURCES": "()"},
            {"HOST_NAME": "login", "type": "X86_64", "ncpus": "8", "maxmem": "15900M",
             "server": "No", "RESOURCES": "()"},
        ],
    }
)  # fmt: skip
LSF_BATCH_HOSTS = json.dumps(
    {
        "COMMAND": "bhosts",
        "HOSTS": 2,
        "RECORDS": [
            {"HOST_NAME": "wn1", "STATUS": "ok", "MAX": "16", "NJOBS": "5", "RUN": "5"},
            {"HOST_NAME": "wn2", "STATUS": "closed_Adm", "MAX": "8", "NJOBS": "0", "RUN": "0"},
        ],
    }
)
LSF_QUEUES = json.dumps(
    {
        "COMMAND": "bqueues",
        "QUEUES": 2,
        "RECORDS": [
            {"QUEUE_NAME": "normal", "PRIORITY": "30", "STATUS": "Open:Active", "MAX": "-",
             "NJOBS": "9", "PEND": "4", "RUN": "5", "SUSP": "0", "HOSTS": "all",
             "RUNLIMIT": "720.0 min of wn1", "CPULIMIT": "-"},
            {"QUEUE_NAME": "night", "PRIORITY": "10", "STATUS": "Open:Inact_Win", "MAX": "8",
             "NJOBS": "0", "PEND": "0", "RUN": "0", "HOSTS": "wn2+1 others"},
        ],
    }
)  # fmt: skip

CONDOR_SLOTS = marked(json.dumps(
    [
        {
            "Name": "slot1@wn1.cnaf.grid", "Machine": "wn1.cnaf.grid", "MyType": "Machine",
            "State": "Unclaimed", "Cpus": 3, "Memory": 4000, "Disk": 10485760, "Arch": "X86_64",
            "OpSys": "LINUX", "OpSysName": "AlmaLinux", "OpSysVer": 904,
            "DetectedCpus": 16, "DetectedMemory": 64000,
            "Requirements": "/Expr(START)/", "START": "/Expr(TARGET.RequestCpus <= Cpus)/",
        },
        {"Name": "slot1@wn2.cnaf.grid", "State": "Owner", "Cpus": 4, "Memory": 8000},
    ]
))  # fmt: skip
CONDOR_SCHEDDS = json.dumps(
    [
        {
            "Name": "schedd.cnaf.grid", "MyType": "Scheduler", "TotalRunningJobs": 20,
            "TotalIdleJobs": 7, "MaxJobsRunning": 5000,
        }
    ]
)  # fmt: skip

GRIDENGINE_HOSTS = """<?xml version='1.0'?>
<qhost xmlns:xsd="http://www.w3.org/2001/XMLSchema">
 <host name='global'>
   <hostvalue name='arch_string'>-</hostvalue>
   <hostvalue name='num_proc'>-</hostvalue>
 </host>
 <host name='wn1'>
   <hostvalue name='arch_string'>lx-amd64</hostvalue>
   <hostvalue name='num_proc'>8</hostvalue>
   <hostvalue name='load_avg'>0.50</hostvalue>
   <hostvalue name='mem_total'>15.6G</hostvalue>
   <hostvalue name='mem_used'>1.1G</hostvalue>
   <resourcevalue name='mem_free' dominance='hl'>14.500G</resourcevalue>
   <resourcevalue name='bigmem' dominance='hc'>1.000000</resourcevalue>
   <resourcevalue name='gpu' dominance='hc'>1.000000</resourcevalue>
   <resourcevalue name='num_proc' dominance='hl'>8.000000</resourcevalue>
   <queue name='all.q'>
     <queuevalue qname='all.q' name='qtype_string'>BIP</queuevalue>
     <queuevalue qname='all.q' name='slots_used'>2</queuevalue>
     <queuevalue qname='all.q' name='slots'>8</queuevalue>
     <queuevalue qname='all.q' name='slots_resv'>0</queuevalue>
     <queuevalue qname='all.q' name='state_string'></queuevalue>
   </queue>
 </host>
 <host name='wn2'>
   <hostvalue name='arch_string'>-</hostvalue>
   <hostvalue name='num_proc'>-</hostvalue>
   <queue name='all.q'>
     <queuevalue qname='all.q' name='slots_used'>0</queuevalue>
     <queuevalue qname='all.q' name='slots'>4</queuevalue>
     <queuevalue qname='all.q' name='state_string'>au</queuevalue>
   </queue>
 </host>
</qhost>
"""
GRIDENGINE_USE = """<?xml version='1.0'?>
<job_info xmlns:xsd="http://www.w3.org/2001/XMLSchema">
  <cluster_queue_summary>
    <name>all.q</name><load>0.06250</load><used>2</used><resv>0</resv><available>6</available>
    <total>12</total><temp_disabled>0</temp_disabled><manual_intervention>4</manual_intervention>
  </cluster_queue_summary>
</job_info>
"""
GRIDENGINE_QUEUES = """qname                 all.q
hostlist              @allhosts
slots                 8,[wn2=4]
pe_list               make smp \\
                      mpi
owner_list            NONE
user_lists            NONE
xuser_lists           NONE
subordinate_list      NONE
projects              NONE
xprojects             NONE
calendar              NONE
s_rt                  INFINITY
h_rt                  24:00:00
h_cpu                 INFINITY
"""

GRIDENGINE_COMPLEXES = """\
#name               shortcut   type        relop requestable consumable default  urgency
#----------------------------------------------------------------------------------------
arch                a          RESTRING    ==    YES         NO         NONE     0
bigmem              bm         BOOL        ==    FORCED      NO         0        0
gpu                 gpu        INT         <=    YES         YES        0        0
# >#< starts a comment but comments are not saved across edits --------
"""

SLURM_JSON_NEW = json.dumps(
    {
        "nodes": [
            {
                "name": "wn1", "architecture": "x86_64", "cpus": 8, "alloc_cpus": 3,
                "alloc_memory": 2000, "real_memory": 16000, "temporary_disk": 500,
                "cpu_load": {"set": True, "infinite": False, "number": 150},
                "features": ["el9", "si600"], "active_features": ["el9", "si600"],
                "gres": "gpu:a100:2(S:0-1)", "gres_used": "gpu:a100:1(IDX:0)",
                "operating_system": "Linux 5.14.0 #1 SMP", "partitions": ["long", "short"],
                "state": ["MIXED", "PLANNED"],
            },
            {"name": "wn2", "cpus": 4, "real_memory": 8000, "state": ["IDLE", "DRAIN"]},
        ],
        "partitions": [
            {
                "name": "long", "cpus": {"total": 12}, "priority": {"tier": 5},
                "partition": {"state": ["UP"]},
                "maximums": {"time": {"set": True, "infinite": False, "number": 2880}},
            },
            {
                "name": "short", "partition": {"state": ["DRAIN"]},
                "maximums": {"time": {"set": False, "infinite": True, "number": 0}},
            },
        ],
    }
)  # fmt: skip
SLURM_LINES = """NodeName=wn3 Arch=x86_64 CoresPerSocket=4 CPUAlloc=2 CPUTot=8 CPULoad=0.07 \
ActiveFeatures=el8,si300 Gres=gpu:2 NodeAddr=wn3 OS=Linux 5.10.0 #1 SMP PREEMPT a=b \
RealMemory=32000 AllocMem=1024 State=DOWN*+DRAIN TmpDisk=0 Partitions=long \
AllocTRES=cpu=2,mem=1G,gres/gpu=1 Reason=disk full NodeName=evil State=IDLE [root@2026-11-21]
NodeName=wn4
   CPUTot=2 State=IDLE
   RealMemory=1000 Partitions=long

PartitionName=long Default=YES MaxTime=2-00:00:00 State=UP TotalCPUs=10 PriorityTier=3
Job=17 Partition=long State=RUNNING
Job=18 Partition=long,short State=PENDING
nonsense
"""
